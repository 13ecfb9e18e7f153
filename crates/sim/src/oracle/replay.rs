//! The law that follows a timeline.

use super::measure::Timeline;
use wattio_law::{Action, Law, Observation};
use wattio_units::Seconds;

/// Says at each of its times what is in force from then on.
pub struct Replay {
    timeline: Timeline,
    /// The entry that comes next.
    next: usize,
    now_ns: u64,
    full_speed: Action,
}

/// Steps at full speed come as the native policy takes them, half a second apart: a run depends on
/// when it is looked at, and this one stands for that policy.
const TWIN_NS: u64 = 500_000_000;
/// A step is at least this far from the next.
const STEP_NS_MIN: u64 = 1_000_000;

impl Replay {
    pub fn new(timeline: Timeline, full_speed: Action) -> Self {
        let next = usize::from(timeline.first().is_some_and(|&(at, _)| at == 0));
        Self { timeline, next, now_ns: 0, full_speed }
    }
}

impl Law for Replay {
    fn step(&mut self, _: &Observation, dt: Seconds) -> Action {
        self.now_ns += (dt.0 * 1e9).round() as u64;
        while self.timeline.get(self.next).is_some_and(|&(at, _)| at <= self.now_ns) {
            self.next += 1;
        }
        let said = self.next.checked_sub(1).map(|at| &self.timeline[at].1);
        said.unwrap_or(&self.full_speed).clone()
    }

    fn period(&self) -> Seconds {
        let next_ns = self.timeline.get(self.next).map(|&(at, _)| at.saturating_sub(self.now_ns));
        // The driver takes steps that come much later than expected for a jump of time, and the
        // last entry has no next one.
        let span_ns = match next_ns {
            _ if self.now_ns == 0 && self.next == 1 => STEP_NS_MIN,
            Some(span_ns) => span_ns.max(STEP_NS_MIN),
            None => TWIN_NS,
        };
        Seconds(span_ns as f64 * 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use wattio_law::{Driver, DriverSettings, GroupLimits, Limits, Scripted};
    use wattio_units::Hertz;

    #[test]
    fn every_entry_comes_into_force_at_its_time() {
        let limits = Limits::of(vec![GroupLimits {
            cores_min: 1,
            cores_max: 8,
            frequency_min: Hertz(1e9),
            frequency_max: Hertz(1e9),
            frequency_steps: vec![],
            idle_cores_sleep: false,
            power: vec![],
            frequency_bound_share: None,
        }]);
        let full_speed = limits.full_speed();
        let cores = |count| {
            let mut action = full_speed.clone();
            action.groups[0].cores = count;
            action
        };
        let timeline: Timeline =
            vec![(500_000_000, cores(3)), (512_345_678, cores(2)), (60_000_000_001, cores(5))];
        let law = Replay::new(timeline.clone(), full_speed.clone());
        let settings = DriverSettings::default();
        let mut driver = Driver::new(law, limits, &[], settings, Duration::ZERO);
        let mut plant = Scripted::new([]);
        let mut came = Vec::new();
        while came.len() < 3 {
            let before = driver.in_force().clone();
            let look = driver.next_look(&plant);
            driver.advance(&mut plant, look).unwrap();
            if *driver.in_force() != before {
                came.push((look.as_nanos() as u64, driver.in_force().clone()));
            }
        }
        assert_eq!(came, timeline);
    }
}
