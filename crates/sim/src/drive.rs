//! The drives: requests in flight, sleep, energy.

use crate::group::BusyClock;
use crate::queue::Nanoseconds;
use std::collections::VecDeque;
use wattio_law::DriveAction;
use wattio_plant::Drives;

/// All drives. A drive's load is its mean number of requests in flight over the time between two
/// settlings in which it was awake; its power is that of the load while awake and that of its state
/// while asleep. Sleep needs no events: a drive's states follow from how long it has been idle.
#[derive(Debug)]
pub struct DriveArray {
    drives: Vec<Drive>,
    parallel: u32,
    full_load_parallel: f64,
    hold_ns: u64,
    model: Option<Drives>,
    /// The states that drives enter now.
    states: Vec<State>,
    /// The states that they enter by themselves.
    own: Vec<State>,
    action: DriveAction,
    next_held: usize,
    settled_at: Nanoseconds,
    /// Energy since the start of the run, in joules, up to the last settling.
    pub energy_j: f64,
}

#[derive(Clone, Copy, Debug)]
struct State {
    after_ns: u64,
    power_w: f64,
    wake_ns: u64,
}

#[derive(Debug, Default)]
struct Drive {
    in_flight: u32,
    queue: VecDeque<u32>,
    busy: BusyClock,
    /// From this time on the drive is idle, unless a request comes or is in flight.
    idle_since: Nanoseconds,
    /// Until this time it wakes up and works on nothing.
    awake_at: Nanoseconds,
    /// Sleep was added up until this time.
    slept_until: Nanoseconds,
    busy_settled_ns: u64,
    slept_ns: u64,
    slept_j: f64,
}

impl DriveArray {
    pub fn new(model: Option<&Drives>) -> Self {
        let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
        let states = model.map_or(vec![], |model| {
            let state = |s: &wattio_plant::SleepState| State {
                after_ns: nanoseconds(s.after.0),
                power_w: s.power.0,
                wake_ns: nanoseconds(s.wake.0),
            };
            model.sleep.iter().map(state).collect()
        });
        let count = model.map_or(0, |model| model.count as usize);
        Self {
            drives: (0..count).map(|_| Drive::default()).collect(),
            parallel: model.map_or(1, |model| model.parallel),
            full_load_parallel: model.map_or(1.0, |model| model.full_load_parallel),
            hold_ns: model.map_or(0, |model| nanoseconds(model.background_hold.0)),
            model: model.cloned(),
            own: states.clone(),
            states,
            action: DriveAction::Own,
            next_held: 0,
            settled_at: 0,
            energy_j: 0.0,
        }
    }

    pub fn count(&self) -> usize {
        self.drives.len()
    }

    /// Changes what drives without a request do from `now` on. A drive that is told to stay awake
    /// is awake at once: its wake-up falls into a time without a request.
    pub fn set(&mut self, action: DriveAction, now: Nanoseconds) {
        if action == self.action {
            return;
        }
        for slot in self.drives.iter_mut().filter(|slot| slot.in_flight == 0) {
            if now > slot.idle_since {
                slot.sleep_until(now, &self.states);
            }
        }
        self.action = action;
        self.states = match action {
            DriveAction::Own => self.own.clone(),
            DriveAction::Awake => Vec::new(),
            DriveAction::Asleep => self
                .own
                .last()
                .map(|&deepest| State { after_ns: 0, ..deepest })
                .into_iter()
                .collect(),
        };
    }

    /// Takes a request: `Some(wait)` when it begins at once, after that wake-up time; `None` when
    /// it queues.
    #[inline]
    pub fn accept(&mut self, drive: usize, job: u32, now: Nanoseconds) -> Option<u64> {
        let slot = &mut self.drives[drive];
        if slot.in_flight >= self.parallel {
            slot.queue.push_back(job);
            return None;
        }
        if slot.in_flight == 0 && now > slot.idle_since {
            let idle_ns = now - slot.idle_since;
            let entered = self.states.iter().rev().find(|state| idle_ns > state.after_ns);
            slot.awake_at = now + entered.map_or(0, |state| state.wake_ns);
            slot.sleep_until(now, &self.states);
        }
        slot.in_flight += 1;
        slot.busy.start(now);
        Some(slot.awake_at.saturating_sub(now))
    }

    /// A request ends; returns the one that begins in its place.
    #[inline]
    pub fn finish(&mut self, drive: usize, now: Nanoseconds) -> Option<u32> {
        let slot = &mut self.drives[drive];
        let next = slot.queue.pop_front();
        if next.is_none() {
            slot.in_flight -= 1;
            slot.busy.end(now);
            if slot.in_flight == 0 {
                slot.idle_since = slot.idle_since.max(now);
                slot.slept_until = slot.slept_until.max(now);
            }
        }
        next
    }

    /// Background work touches the next drive and keeps it awake for a while.
    #[inline]
    pub fn hold_next(&mut self, now: Nanoseconds) {
        let count = self.drives.len();
        let Some(slot) = self.drives.get_mut(self.next_held) else { return };
        self.next_held = if self.next_held + 1 == count { 0 } else { self.next_held + 1 };
        if slot.in_flight == 0 && now > slot.idle_since {
            slot.sleep_until(now, &self.states);
        }
        slot.idle_since = slot.idle_since.max(now + self.hold_ns);
    }

    /// Adds up energy until `now`.
    pub fn settle(&mut self, now: Nanoseconds) {
        let Some(model) = &self.model else { return };
        let span_ns = now - self.settled_at;
        if span_ns == 0 {
            return;
        }
        for slot in &mut self.drives {
            if slot.in_flight == 0 && now > slot.idle_since {
                slot.sleep_until(now, &self.states);
            }
            let busy_ns = slot.busy.read(now);
            let awake_ns = span_ns.saturating_sub(slot.slept_ns);
            let load = busy_ns.wrapping_sub(slot.busy_settled_ns) as f64 / awake_ns.max(1) as f64;
            let power_w = model.power_awake(load / self.full_load_parallel).0;
            self.energy_j += awake_ns as f64 * 1e-9 * power_w + slot.slept_j;
            slot.busy_settled_ns = busy_ns;
            slot.slept_ns = 0;
            slot.slept_j = 0.0;
        }
        self.settled_at = now;
    }
}

impl Drive {
    /// Adds up the sleep between the last adding-up and `now`, of a drive that has been idle since
    /// `idle_since`. State i lasts from its own `after` to the next one's.
    fn sleep_until(&mut self, now: Nanoseconds, states: &[State]) {
        let from = self.slept_until.max(self.idle_since);
        for (at, state) in states.iter().enumerate() {
            let begin = self.idle_since + state.after_ns;
            let end = states.get(at + 1).map_or(u64::MAX, |next| self.idle_since + next.after_ns);
            let slept_ns = now.min(end).saturating_sub(from.max(begin));
            self.slept_ns += slept_ns;
            self.slept_j += slept_ns as f64 * 1e-9 * state.power_w;
        }
        self.slept_until = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_plant::{DORADO6000, Server, SleepState};
    use wattio_units::Seconds;

    fn array() -> DriveArray {
        let server = Server::from_toml(DORADO6000).unwrap();
        DriveArray::new(server.drives.as_ref())
    }

    #[test]
    fn an_idle_drive_passes_through_the_states_of_table_1() {
        let mut array = array();
        array.settle(1_000_000_000);
        // 1 us ready at 8.5 W, 199 us in Idle-0 at 6.8 W, the rest in Idle-1 at 5.9 W.
        let expected = 24.0 * (1e-6 * 8.5 + 199e-6 * 6.8 + (1.0 - 200e-6) * 5.9);
        assert!((array.energy_j - expected).abs() < 1e-9, "{}", array.energy_j);
    }

    #[test]
    fn settling_often_or_once_gives_the_same_energy() {
        let energy = |settlings: u64| {
            let mut array = array();
            for step in 1..=settlings {
                let now = 1_000_000 * step / settlings;
                if settlings == 1 || now == 500_000 {
                    array.hold_next(500_000);
                }
                array.settle(now);
            }
            array.energy_j
        };
        // Without a request, for the load of a drive is by definition a mean between settlings.
        assert!((energy(1) - energy(1000)).abs() < 1e-12, "{} {}", energy(1), energy(1000));
    }

    /// The load of an awake drive was a mean over its sleep, too, and paid for outside of that only: the
    /// same requests cost less on a drive that slept more.
    #[test]
    fn the_same_requests_cost_the_same_where_sleep_saves_nothing() {
        let mut model = Server::from_toml(DORADO6000).unwrap().drives.unwrap();
        model.load.retain(|point| point.share == 0.0 || point.share == 1.0);
        let mut energy = |sleep: Vec<SleepState>| {
            model.sleep = sleep;
            let mut array = DriveArray::new(Some(&model));
            for step in 1..=200 {
                let now = step * 1_000_000;
                if step % 10 == 0 {
                    assert_eq!(array.accept(0, 1, now), Some(0));
                    assert_eq!(array.finish(0, now + 700_000), None);
                }
                if step % 100 == 0 {
                    array.settle(now + 900_000);
                }
            }
            array.energy_j
        };
        let power = Server::from_toml(DORADO6000).unwrap().drives.unwrap().power_awake(0.0);
        let state = SleepState { after: Seconds(1e-3), power, wake: Seconds(0.0) };
        let (awake_j, asleep_j) = (energy(vec![]), energy(vec![state]));
        assert!((awake_j - asleep_j).abs() < 1e-9, "{awake_j} {asleep_j}");
    }

    #[test]
    fn drives_that_are_told_to_sleep_or_to_stay_awake_draw_as_told_from_then_on() {
        let mut array = array();
        array.set(DriveAction::Awake, 0);
        array.settle(1_000_000_000);
        assert!((array.energy_j - 24.0 * 8.5).abs() < 1e-9, "{}", array.energy_j);
        assert_eq!(array.accept(0, 1, 1_000_000_000), Some(0));
        assert_eq!(array.finish(0, 1_000_000_000), None);
        array.set(DriveAction::Asleep, 1_000_000_000);
        array.settle(2_000_000_000);
        let expected = 24.0 * (8.5 + 5.9);
        assert!((array.energy_j - expected).abs() < 1e-9, "{}", array.energy_j);
        assert_eq!(array.accept(1, 1, 2_000_000_001), Some(200_000));
    }

    #[test]
    fn a_sleeping_drive_makes_requests_wait_until_it_is_awake() {
        let mut array = array();
        assert_eq!(array.accept(0, 1, 500), Some(0));
        assert_eq!(array.accept(1, 1, 5_000), Some(1_000));
        assert_eq!(array.accept(2, 1, 500_000), Some(200_000));
        // Whoever comes while it wakes up waits for the rest of that.
        assert_eq!(array.accept(2, 2, 550_000), Some(150_000));
    }
}
