//! The event-driven server: requests go through their steps, and cores and drives serve them.

mod job;
mod service;

pub use job::{Answered, Totals};

use crate::background::BackgroundWork;
use crate::drive::DriveArray;
use crate::event::Event;
use crate::group::CoreGroup;
use crate::load::LoadError;
use crate::program::Program;
use crate::queue::{EventQueue, Nanoseconds};
use crate::sender::Sender;
use hdrhistogram::Histogram;
use job::{Job, Services, Spread};
use std::collections::VecDeque;
use wattio_law::Octaves;
use wattio_law::{Action, BackgroundPriority, Budget, InFlight, Limits};
use wattio_plant::{Server, Wake};
use wattio_units::Seconds;

/// A server under a load.
pub struct Engine {
    pub now: Nanoseconds,
    pub groups: Vec<CoreGroup>,
    pub drives: DriveArray,
    pub background: Vec<BackgroundWork>,
    pub totals: Totals,
    /// Latencies in nanoseconds since the caller last cleared it.
    pub latencies: Histogram<u32>,
    /// Latencies since the law last looked.
    pub spread: Octaves,
    /// Every request that was answered, where somebody asked for it.
    pub answers: Option<Vec<Answered>>,
    queue: EventQueue<Event>,
    server: Server,
    program: Program,
    sender: Sender,
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    in_system: crate::group::BusyClock,
    services: Services,
    core_spread: Spread,
    drive_spread: Spread,
    slice_ns: f64,
    wake: Option<Wake>,
    network_ns: u64,
    background_first: bool,
    stop_epoch: u32,
    /// Arrivals in their order, with their slots, from the oldest one that is not answered on.
    arrived: VecDeque<(Nanoseconds, u32)>,
}

/// How often the drives' energy is added up: their load is a mean over this time.
const SETTLE_DRIVES_NS: u64 = 100_000_000;
/// Latencies up to 1000 s are told apart; longer ones count as that.
const LATENCY_NS_MAX: u64 = 1_000_000_000_000;

impl Engine {
    pub fn new(server: &Server, limits: &Limits, mut sender: Sender, seed: u64) -> Self {
        let slice_ns = server.background.as_ref().map_or(1.0, |work| work.slice.0 * 1e9);
        let limit_s = server.background.as_ref().map_or(0.0, |work| work.backlog_limit.0);
        let exists = f64::from(u8::from(server.background.is_some()));
        let mut queue = EventQueue::new();
        sender.begin(&mut queue);
        let mut engine = Self {
            now: 0,
            groups: limits.groups.iter().map(|l| CoreGroup::new(l, &server.cores)).collect(),
            drives: DriveArray::new(server.drives.as_ref()),
            background: server
                .groups
                .iter()
                .map(|group| {
                    BackgroundWork::new(group.background_cores * exists, slice_ns, limit_s)
                })
                .collect(),
            totals: Totals::default(),
            latencies: new_histogram(),
            spread: Octaves::default(),
            answers: None,
            queue,
            program: Program::compile(server),
            sender,
            jobs: Vec::with_capacity(4096),
            free_jobs: Vec::with_capacity(4096),
            in_system: crate::group::BusyClock::default(),
            // Services draw from a stream of their own, so that twins see the same arrivals.
            services: Services::new(seed ^ 0x5e71_1ce5),
            core_spread: Spread { variation: server.cores.time_variation },
            drive_spread: Spread {
                variation: server.drives.as_ref().map_or(0.0, |drives| drives.time_variation),
            },
            slice_ns,
            wake: server.cores.wake,
            network_ns: (server.network.0 * 1e9).round() as u64,
            background_first: false,
            stop_epoch: 0,
            arrived: VecDeque::with_capacity(4096),
            server: server.clone(),
        };
        for (at, work) in engine.background.iter().enumerate() {
            if work.exists() {
                let group = u8::try_from(at).unwrap_or_default();
                engine.queue.schedule(slice_ns as u64, Event::BackgroundDue { group });
            }
        }
        if engine.drives.count() > 0 {
            engine.queue.schedule(SETTLE_DRIVES_NS, Event::SettleDrives);
        }
        engine
    }

    /// Runs until `until`.
    ///
    /// # Errors
    /// When the trace turns out to be damaged.
    pub fn run(&mut self, until: Nanoseconds) -> Result<(), LoadError> {
        if until <= self.now {
            return Ok(());
        }
        self.stop_epoch = self.stop_epoch.wrapping_add(1);
        let epoch = self.stop_epoch;
        self.queue.schedule(until, Event::Stop { epoch });
        while let Some(event) = self.queue.next() {
            self.now = event.at;
            self.totals.events += 1;
            match event.what {
                Event::CoreAwake { group, job } => self.core_awake(group, job),
                Event::CoreDone { group, job } => self.core_done(group, job),
                Event::DriveDone { job } => self.drive_done(job),
                Event::Arrival { epoch } => self.arrival(epoch)?,
                Event::BackgroundDone { group } => self.background_done(group),
                Event::Persisted { job } => {
                    self.answer(job);
                    self.next_step(job);
                }
                Event::Resend => {
                    let arrival = self.sender.draw_resend();
                    self.enter(arrival);
                }
                Event::BackgroundDue { group } => {
                    self.fill_with_background(usize::from(group));
                    let next = self.now + self.slice_ns as u64;
                    self.queue.schedule(next, Event::BackgroundDue { group });
                }
                Event::NextPhase => self.sender.next_phase(self.now, &mut self.queue),
                Event::CoresOn { group, epoch } => self.cores_on(group, epoch),
                Event::CoresOff { group, epoch } => {
                    let slot = &mut self.groups[usize::from(group)];
                    if slot.epoch == epoch {
                        slot.cores_off(self.now);
                    }
                }
                Event::SettleDrives => {
                    self.drives.settle(self.now);
                    self.queue.schedule(self.now + SETTLE_DRIVES_NS, Event::SettleDrives);
                }
                Event::Stop { epoch } if epoch == self.stop_epoch => break,
                Event::Stop { .. } => {}
            }
        }
        Ok(())
    }

    /// Puts an action into force.
    pub fn apply(&mut self, action: &Action) {
        let cores = &self.server.cores;
        for (at, &setting) in action.groups.iter().enumerate() {
            let group = u8::try_from(at).unwrap_or_default();
            let gating = self.groups[at].apply(setting, cores, self.now);
            let epoch = self.groups[at].epoch;
            if gating.off {
                let at = self.now + (cores.gate_off.0 * 1e9) as u64;
                self.queue.schedule(at, Event::CoresOff { group, epoch });
            }
            if gating.on {
                let at = self.now + (cores.gate_on.0 * 1e9) as u64;
                self.queue.schedule(at, Event::CoresOn { group, epoch });
            }
        }
        self.drives.set(action.drives, self.now);
        let class = action.background_of(0);
        self.background_first = class.priority == BackgroundPriority::High;
        let cores_due: f64 = self.background.iter().map(BackgroundWork::cores_due).sum();
        for work in self.background.iter_mut().filter(|work| work.exists()) {
            let cores = match class.budget {
                Budget::AsDue => None,
                // Each group gets the part of the budget that it has of the work.
                Budget::CoreSecondsPerSecond(cores) => Some(cores * work.cores_due() / cores_due),
            };
            work.set_budget(cores, self.now);
        }
    }

    /// Whether there is any work that no client waits for.
    pub fn has_background(&self) -> bool {
        self.background.iter().any(BackgroundWork::exists)
    }

    /// Measures the longest delay of background work from now on.
    pub fn forget_delays(&mut self) {
        self.background.iter_mut().for_each(BackgroundWork::forget_delay);
    }

    /// The requests that have arrived and are not answered.
    pub fn in_flight(&mut self) -> InFlight {
        self.forget_answered();
        let oldest = self.arrived.front().map(|&(started, _)| self.now - started);
        InFlight {
            requests: self.totals.arrivals - self.totals.answered,
            oldest: oldest.map(|age_ns| Seconds(age_ns as f64 * 1e-9)),
        }
    }

    /// Adds up the cores' energy and the background work until now.
    pub fn settle(&mut self) {
        for group in &mut self.groups {
            group.settle(self.now);
        }
        for work in &mut self.background {
            work.update(self.now);
        }
        self.totals.in_system_ns = self.in_system.read(self.now);
    }

    /// Adds up the drives' energy until now. Their load is a mean between two settlings, so that
    /// laws with short windows must not cause any.
    pub fn settle_drives(&mut self) {
        self.drives.settle(self.now);
    }

    /// The share of the load's input that was read, for loads that have an end.
    pub fn load_share_read(&self) -> Option<f64> {
        self.sender.share_read()
    }

    /// When the last request of a trace arrived, once it has.
    pub fn exhausted_at(&self) -> Option<Nanoseconds> {
        self.sender.exhausted_at()
    }
}

/// A histogram of latencies in nanoseconds, true to three digits.
pub fn new_histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).unwrap_or_else(|_| unreachable_bounds())
}

fn unreachable_bounds() -> Histogram<u32> {
    unreachable!("the bounds of the histogram are constants that its library accepts")
}
