//! What the promise over the run still allows for requests that end an idle time.
//!
//! As printed, the state Idle has no bound: the requests that end it wait for cores and drives to
//! wake. Here their likely wait is compared with what is left of the promise: the latency allowed
//! so far minus the latency spent, summed over requests.

use super::baseline::Baseline;
use super::promise::Promise;
use super::settings::PacerSettings;
use wattio_law::{GroupAction, LatencyObservation, Limits};
use wattio_units::Seconds;

/// The account, in microseconds times requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credit {
    left_us: f64,
    /// The mean at full speed, and the mean that is promised, of the last load that was known.
    known_us: Option<(f64, f64)>,
    /// Requests a second while there were any.
    rate: f64,
    has_requests: bool,
    /// Requests and the sum of their latencies from before anything was known; they ran at full
    /// speed.
    before: (f64, f64),
}

/// What an idle server may let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Cores and their frequency.
    pub cores: bool,
    /// Drives.
    pub drives: bool,
}

/// The part of what is left that one idle time may cost.
const PART: f64 = 0.5;
/// Weight of the past that is kept with each window's rate.
const MEMORY: f64 = 0.9;

impl Credit {
    /// Takes in a window, by the last load that was known.
    pub fn account(
        &mut self,
        latency: &LatencyObservation,
        full_speed: Option<(&Baseline, f64)>,
        promise: &Promise,
        dt: Seconds,
    ) {
        if let Some((full_speed, translation)) = full_speed {
            let base_us = full_speed.mean().latency_us_mean * translation;
            self.known_us =
                Some((base_us, base_us * (1.0 + promise.room(full_speed, translation))));
        }
        let Some(mean_us) = latency.latency_us_mean.filter(|_| latency.requests > 0) else {
            return;
        };
        let requests = latency.requests as f64;
        if dt.0 > 0.0 {
            let rate = requests / dt.0;
            self.rate =
                if self.has_requests { self.rate * MEMORY + rate * (1.0 - MEMORY) } else { rate };
            self.has_requests = true;
        }
        let (count, sum_us) = (self.before.0 + requests, self.before.1 + requests * mean_us);
        self.before = match self.known_us {
            Some((_, promised_us)) => {
                self.left_us += count * promised_us - sum_us;
                (0.0, 0.0)
            }
            None => (count, sum_us),
        };
    }

    /// What an idle server may let go of now, were it to rest like this.
    pub fn affords(
        &self,
        rest: &[GroupAction],
        promise: &Promise,
        limits: &Limits,
        settings: &PacerSettings,
    ) -> Rest {
        // As printed, idle has no bound; and nobody was promised anything yet who never asked.
        if !settings.coordinated || !self.has_requests {
            return Rest { cores: true, drives: true };
        }
        let left_us = if promise.is_for_windows() { 0.0 } else { self.left_us * PART };
        let cores_us = self.cores_cost_us(rest, limits, settings);
        let drives_us = limits.drives.map_or(0.0, |drives| {
            // One after the other, each by a request that waits for all of it.
            let (count, wake_s) = (f64::from(drives.count), drives.wake.0);
            (count + self.rate * wake_s * 0.5) * wake_s * 1e6
        });
        let cores = cores_us <= left_us;
        Rest { cores, drives: drives_us + if cores { cores_us } else { 0.0 } <= left_us }
    }

    /// Until it is seen that somebody asks, and cores are back, requests take as long as the rest
    /// lets them.
    fn cores_cost_us(
        &self,
        rest: &[GroupAction],
        limits: &Limits,
        settings: &PacerSettings,
    ) -> f64 {
        let base_us = self.known_us.map_or(0.0, |(base_us, _)| base_us);
        let react_s = settings.burst_window.0 * 0.5 + limits.gate_on.0;
        let requests = 1.0 + self.rate * react_s;
        let slower = rest.iter().zip(&limits.groups).map(|(rest, limits)| {
            let bound_share = limits.frequency_bound_share.unwrap_or(1.0);
            1.0 - bound_share + bound_share * (limits.frequency_max / rest.frequency)
        });
        let slower = slower.fold(1.0, f64::max);
        // A group's part of the latency is not known; all of it is the most.
        let cores = rest.iter().map(|rest| f64::from(rest.cores)).fold(f64::INFINITY, f64::min);
        let overrun = self.rate * base_us * 1e-6 * slower > 0.5 * cores;
        let waits_us = if overrun { react_s * 0.5 * 1e6 } else { 0.0 };
        requests * (base_us * (slower - 1.0) + waits_us)
    }
}

#[cfg(test)]
mod tests {
    use super::super::baseline::Baselines;
    use super::super::by_source::BySource;
    use super::super::stability::Stability;
    use super::*;
    use crate::parameters::Settings;
    use wattio_law::{Bound, DriveSleep};

    /// What is left after so many requests at full speed before the baseline was known.
    fn credit(requests: u64) -> Credit {
        let mut credit = Credit { known_us: Some((100.0, 120.0)), ..Credit::default() };
        let window = LatencyObservation {
            requests,
            latency_us_mean: Some(100.0),
            ..LatencyObservation::quiet(Seconds(0.0))
        };
        credit.account(&window, None, &Promise::new(0.2), Seconds(1e9));
        credit
    }

    /// What a load of 1000 requests a second and this mean is like at full speed, and a window of it.
    fn full_speed(latency_us: f64) -> (Baseline, LatencyObservation) {
        let window = LatencyObservation {
            requests: 1000,
            latency_us_mean: Some(latency_us),
            ..LatencyObservation::quiet(Seconds(0.0))
        };
        let mut stability = Stability::new(1, 1);
        assert!(stability.push(&window, BySource::default(), Seconds(1.0)));
        let mut baselines = Baselines::new(1.0, Seconds(1e9));
        let level = baselines.learn(stability.last().unwrap().clone(), Vec::new());
        (baselines.known(level).unwrap().clone(), window)
    }

    /// What full speed itself exceeds an absolute limit by was forgotten, and drives slept for it. A mix
    /// that takes longer at full speed was promised a higher limit.
    #[test]
    fn what_full_speed_is_over_the_limit_by_is_not_left_for_sleep() {
        let mut promise = Promise::new(0.2);
        promise.set(&["mean 350 us run".parse().unwrap()]);
        let mut credit = Credit::default();
        for (latency_us, left_us) in [(440.0, -90.0), (160.0, 100.0)] {
            let (full_speed, window) = full_speed(latency_us);
            credit.account(&window, Some((&full_speed, 1.0)), &promise, Seconds(1.0));
            assert!((credit.left_us / 1e3 - left_us).abs() < 1e-6, "{} us", credit.left_us / 1e3);
        }
        let ((full_speed, _), (_, window)) = (full_speed(160.0), full_speed(200.0));
        credit.account(&window, Some((&full_speed, 1.25)), &promise, Seconds(1.0));
        assert!((credit.left_us / 1e3 - 250.0).abs() < 1e-6, "{} us", credit.left_us / 1e3);
    }

    fn may_sleep(credit: &Credit, count: u32) -> bool {
        let sleep = DriveSleep { count, saves: None, wake: Seconds(0.01), after: Seconds(0.0) };
        let limits = Limits { drives: Some(sleep), ..Limits::of(Vec::new()) };
        let settings = crate::policy("pacer").unwrap().resolve(&Settings::new()).unwrap();
        let settings = PacerSettings::from_resolved(&settings);
        let mut promise = Promise::new(0.2);
        promise.set(&[Bound::mean_relative(0.2)]);
        credit.affords(&[], &promise, &limits, &settings).drives
    }

    /// Every server was taken for one of eight drives: one of two seldom let them sleep, and one of
    /// 24 woke them at three times the cost that the promise had room for.
    #[test]
    fn each_drive_that_wakes_must_fit_in_what_is_left() {
        // Each request leaves 20 us, of which half may be spent; each drive costs 10 ms.
        for count in [1u32, 4, 8, 24] {
            let needed = u64::from(count) * 1000;
            assert!(may_sleep(&credit(needed + 1), count), "{count} drives");
            assert!(!may_sleep(&credit(needed - 1), count), "{count} drives");
        }
    }
}
