//! One core group: the tasks that run and wait, and its power.

use crate::queue::Nanoseconds;
use std::collections::VecDeque;
use wattio_law::{GroupAction, GroupLimits};
use wattio_plant::Cores;

/// A clock of busy time: the sum over tasks of end minus start, exact in wrapping integers.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusyClock {
    sum: u64,
    running: u64,
}

impl BusyClock {
    #[inline]
    pub fn start(&mut self, now: Nanoseconds) {
        self.sum = self.sum.wrapping_sub(now);
        self.running += 1;
    }

    #[inline]
    pub fn end(&mut self, now: Nanoseconds) {
        self.sum = self.sum.wrapping_add(now);
        self.running -= 1;
    }

    /// Nanoseconds of busy time until `now`.
    #[inline]
    pub fn read(&self, now: Nanoseconds) -> u64 {
        self.sum.wrapping_add(self.running.wrapping_mul(now))
    }
}

/// What a change of the number of cores leaves to be done later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gating {
    /// Cores come up after the gating time.
    pub on: bool,
    /// Cores stop drawing power after the gating time.
    pub off: bool,
}

/// The cores of a group are alike and share one queue; a task, once started, runs to its end.
///
/// Differences from a real server: queued tasks belong to the group and not to a core, so that
/// handing them over costs time ([`Cores::migrate`]) but moves nothing; a task that runs when the
/// frequency changes ends at the old frequency.
#[derive(Debug)]
pub struct CoreGroup {
    /// Cores that may start tasks.
    pub usable: u32,
    /// Cores that the law asked for.
    target: u32,
    /// Counts changes of the target: what was to be done later for an earlier one is void.
    pub epoch: u16,
    leavers_are_off: bool,
    /// Cores that draw power.
    powered: u32,
    /// Tasks that came back from a drive.
    pub returns_from_drives: u64,
    /// Cores with a task.
    pub busy: u32,
    /// When a core last ran out of tasks.
    pub freed_at: Nanoseconds,
    pub queue: VecDeque<u32>,
    pub setting: GroupAction,
    /// Time of a task over its time at the highest frequency.
    pub stretch: f64,
    /// No task begins before this time.
    pub stalled_until: Nanoseconds,
    pub clients: BusyClock,
    pub background: BusyClock,
    powered_clock: BusyClock,
    settled: Settled,
    power_idle_w: f64,
    power_running_w: f64,
    /// Energy since the start of the run, in joules, up to the last settling.
    pub energy_j: f64,
    /// Integral of the frequency over powered core time, in Hz ns.
    pub frequency_time: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Settled {
    powered_ns: u64,
    busy_ns: u64,
}

impl CoreGroup {
    pub fn new(limits: &GroupLimits, cores: &Cores) -> Self {
        let full = limits.full();
        let mut group = Self {
            usable: full.cores,
            target: full.cores,
            epoch: 0,
            leavers_are_off: false,
            powered: 0,
            returns_from_drives: 0,
            busy: 0,
            freed_at: Nanoseconds::MAX,
            queue: VecDeque::with_capacity(1024),
            setting: full,
            stretch: 1.0,
            stalled_until: 0,
            clients: BusyClock::default(),
            background: BusyClock::default(),
            powered_clock: BusyClock::default(),
            settled: Settled::default(),
            power_idle_w: 0.0,
            power_running_w: 0.0,
            energy_j: 0.0,
            frequency_time: 0.0,
        };
        group.set_powered(full.cores, 0);
        group.set_power(cores);
        group
    }

    /// Whether another task may begin.
    #[inline]
    pub fn has_free_core(&self) -> bool {
        self.busy < self.usable
    }

    /// Puts a setting into force at `now`.
    pub fn apply(&mut self, setting: GroupAction, cores: &Cores, now: Nanoseconds) -> Gating {
        if setting.frequency != self.setting.frequency {
            self.settle(now);
            self.setting.frequency = setting.frequency;
            self.stretch = cores.stretch(setting.frequency);
            self.set_power(cores);
            self.stall(now, cores.frequency_change.0);
        }
        if setting.cores == self.target {
            return Gating::default();
        }
        self.setting.cores = setting.cores;
        self.target = setting.cores;
        self.epoch = self.epoch.wrapping_add(1);
        self.leavers_are_off = false;
        if self.usable > self.target {
            let leaving = self.usable - self.target;
            let handed_over = self.queue.len() as f64 * f64::from(leaving) / f64::from(self.usable);
            self.stall(now, cores.migrate.0 * handed_over.ceil());
            self.usable = self.target;
        }
        let gating = Gating { on: self.usable < self.target, off: self.powered > self.target };
        self.set_powered(self.powered.max(self.target), now);
        gating
    }

    /// Cores come up.
    pub fn cores_on(&mut self) {
        self.usable = self.target;
    }

    /// Cores are off, but for those that still have a task.
    pub fn cores_off(&mut self, now: Nanoseconds) {
        self.leavers_are_off = true;
        self.set_powered(self.target.max(self.busy), now);
    }

    /// A leaving core has ended its task.
    #[inline]
    pub fn core_left(&mut self, now: Nanoseconds) {
        self.busy -= 1;
        if self.leavers_are_off {
            self.set_powered(self.target.max(self.busy), now);
        }
    }

    /// Core time powered until `now`, in nanoseconds.
    pub fn powered_ns(&self, now: Nanoseconds) -> u64 {
        self.powered_clock.read(now)
    }

    /// Adds up energy until `now`: exact, because between two settlings the power of an idle and
    /// of a running core is constant.
    pub fn settle(&mut self, now: Nanoseconds) {
        let powered_ns = self.powered_clock.read(now);
        let busy_ns = self.clients.read(now).wrapping_add(self.background.read(now));
        let powered = powered_ns.wrapping_sub(self.settled.powered_ns) as f64;
        let busy = busy_ns.wrapping_sub(self.settled.busy_ns) as f64;
        let running_extra = self.power_running_w - self.power_idle_w;
        self.energy_j += (powered * self.power_idle_w + busy * running_extra) * 1e-9;
        self.frequency_time += powered * self.setting.frequency.0;
        self.settled = Settled { powered_ns, busy_ns };
    }

    fn set_power(&mut self, cores: &Cores) {
        self.power_idle_w = cores.power_idle(self.setting.frequency).0;
        self.power_running_w = cores.power_running(self.setting.frequency).0;
    }

    fn set_powered(&mut self, count: u32, now: Nanoseconds) {
        while self.powered < count {
            self.powered_clock.start(now);
            self.powered += 1;
        }
        while self.powered > count {
            self.powered_clock.end(now);
            self.powered -= 1;
        }
    }

    fn stall(&mut self, now: Nanoseconds, seconds: f64) {
        let until = now + (seconds * 1e9).round() as u64;
        self.stalled_until = self.stalled_until.max(until);
    }
}
