//! Clients that wait for an answer before they send the next request (a closed loop).
//!
//! Their rate depends on the latency that the law itself causes: judged by completions alone, the
//! load seems to shrink as it is slowed down, and each request bears more of the power that is
//! drawn whatever is saved. Here the rate is compared with the latency from window to window. If it
//! follows the latency, the law goes by the energy per request, which must not rise, and by the
//! rate that full speed would have.

use super::baseline::Baseline;
use super::by_source::BySource;
use super::stability::Sample;
use wattio_law::{CorePower, Limits, Observation};
use wattio_units::Watts;

/// How closely the rate follows the latency, and what a request takes.
#[derive(Clone, Debug, Default)]
pub struct ClosedLoop {
    /// The growth of the latency over full speed's and the fall of the rate under it in the window
    /// before, as logarithms.
    before: Option<Place>,
    /// Decayed sums over windows, of what changed since the window before: the fall times the
    /// growth, and the squares of both.
    fall_growth: f64,
    growth_growth: f64,
    fall_fall: f64,
    /// The windows in these sums.
    windows: f64,
    /// The least energy of a request so far, in joules, while the load is a closed loop.
    energy_j_least: BySource,
    /// Windows since the last step.
    settled: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    growth: f64,
    fall: f64,
}

/// What to do with a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// As the bounds say.
    Go,
    /// Nothing: the windows still show the setting before.
    Wait,
    /// The last step down made requests take more energy.
    Back,
}

/// Weight of the past that is kept with each window.
const MEMORY: f64 = 0.95;
/// From this part of the latency's growth on, the rate follows it: 0 is an open load, 1 a closed
/// loop.
const CLOSED: f64 = 0.5;
/// Changes from window to window that are the least to tell it by.
const WINDOWS_MIN: f64 = 5.0;
/// Standard deviations that make it sure enough.
const SURE: f64 = 3.0;
/// By so much the energy of a request may be above the least that was seen: the noise of a mean
/// over a few windows.
const ENERGY_NOISE: f64 = 0.003;
/// The least energy that was seen is forgotten by this share with each step.
const ENERGY_LEAK: f64 = 1e-4;

impl ClosedLoop {
    /// Takes in a window, which would have the baseline's rate and `base_us` at full speed.
    ///
    /// What counts is how both change from one window to the next: a load that drifts at its
    /// level, as every day's does, falls by as much as slower answers would make it, but not with
    /// them.
    pub fn learn(&mut self, window: &Sample, full_speed: &Baseline, base_us: f64) {
        let now = Place {
            growth: (window.latency_us_mean / base_us).ln(),
            fall: (full_speed.mean().rate() / window.rate()).ln(),
        };
        if !now.growth.is_finite() || !now.fall.is_finite() {
            return;
        }
        if let Some(before) = self.before.replace(now) {
            let (growth, fall) = (now.growth - before.growth, now.fall - before.fall);
            self.fall_growth = self.fall_growth * MEMORY + fall * growth;
            self.growth_growth = self.growth_growth * MEMORY + growth * growth;
            self.fall_fall = self.fall_fall * MEMORY + fall * fall;
            self.windows = self.windows * MEMORY + 1.0;
        }
    }

    /// Whether the rate follows the latency.
    pub fn is_closed(&self) -> bool {
        self.beyond(CLOSED) > SURE
    }

    /// Whether it is known not to.
    pub fn is_open(&self) -> bool {
        self.beyond(CLOSED) < -SURE
    }

    /// By how many standard deviations the part by which the rate follows the latency is above
    /// another one, by what it leaves of the falls: requests that come by themselves leave more
    /// than clients who wait do.
    fn beyond(&self, part: f64) -> f64 {
        if self.growth_growth <= 0.0 || self.windows < WINDOWS_MIN {
            return 0.0;
        }
        let found = self.fall_growth / self.growth_growth;
        let left = (self.fall_fall - found * self.fall_growth).max(0.0) / self.windows;
        (found - part) * (self.growth_growth / left).sqrt()
    }

    /// What the energy of a request says about going on, once so many windows have shown what the
    /// last step made of it. `None` for open loads, and where nobody knew what is drawn at full
    /// speed.
    pub fn advise(
        &mut self,
        lately: &Sample,
        full_speed: &Baseline,
        windows: usize,
    ) -> Option<Advice> {
        if !self.is_closed() {
            self.settled = 0;
            return None;
        }
        let at_full_speed_j = full_speed.mean().energy_of_request_j();
        if !at_full_speed_j.is_known() {
            return None;
        }
        let now_j = lately.energy_of_request_j();
        // The meter where it told of both, else the table.
        let measured = at_full_speed_j.measured.zip(now_j.measured);
        let least = match measured {
            Some(_) => &mut self.energy_j_least.measured,
            None => &mut self.energy_j_least.by_table,
        };
        let by_table = at_full_speed_j.by_table.zip(now_j.by_table);
        let Some((at_full_speed_j, now_j)) = measured.or(by_table) else {
            return Some(Advice::Wait);
        };
        self.settled += 1;
        if self.settled <= windows {
            return Some(Advice::Wait);
        }
        self.settled = 0;
        let before_j = least.unwrap_or(at_full_speed_j) * (1.0 + ENERGY_LEAK);
        let least_j = before_j.min(now_j).min(at_full_speed_j);
        *least = Some(least_j);
        Some(if now_j > least_j * (1.0 + ENERGY_NOISE) { Advice::Back } else { Advice::Go })
    }

    /// The load is another one.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What is drawn, in watts: as measured, and what the limits' table says of cores and drives.
pub fn power_of(seen: &Observation, limits: &Limits) -> BySource {
    let measured = seen.power.map(|power| power.0);
    BySource { measured, by_table: power_by_table(seen, limits).map(|power| power.0) }
}

fn power_by_table(seen: &Observation, limits: &Limits) -> Option<Watts> {
    let groups = seen.groups.iter().zip(&limits.groups);
    let mut cores = groups.map(|(group, limits)| {
        if limits.power.is_empty() {
            return None;
        }
        let CorePower { running, idle, .. } = super::order::draws(&limits.power, group.frequency);
        let busy = group.utilisation().clamp(0.0, 1.0);
        Some((idle + (running - idle) * busy) * f64::from(group.cores))
    });
    // Drives draw at least what they would save asleep; what else draws is not known.
    let drives = limits.drives.and_then(|drives| drives.saves).unwrap_or(Watts(0.0));
    cores.try_fold(drives, |sum, group| Some(sum + group?)).filter(|watts| watts.0 > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::baseline::{Baselines, Level};
    use super::super::stability::Stability;
    use super::*;
    use wattio_law::LatencyObservation;
    use wattio_units::Seconds;

    const WINDOWS: usize = 2;

    /// Windows that the law saw, of clients that wait: what they draw, and how much later they are.
    fn seen(stability: &mut Stability, power_w: BySource, latency_us: f64) -> Sample {
        let latency = LatencyObservation {
            requests: (1e6 / latency_us) as u64,
            latency_us_mean: Some(latency_us),
            ..LatencyObservation::quiet(Seconds(0.0))
        };
        assert!(stability.push(&latency, power_w, Seconds(0.5)));
        stability.last().unwrap().clone()
    }

    fn told(measured: impl Into<Option<f64>>, by_table: impl Into<Option<f64>>) -> BySource {
        BySource { measured: measured.into(), by_table: by_table.into() }
    }

    /// Full speed drew `full`; what is advised once windows that drew `then` are looked at.
    fn advised(full: BySource, then: &[BySource]) -> Vec<Option<Advice>> {
        let mut stability = Stability::new(WINDOWS, 1);
        let mut baselines = Baselines::new(0.5, Seconds(1e9));
        let mut learned = || seen(&mut stability, full, 100.0);
        let windows = vec![learned(), learned()];
        let level: Level = baselines.learn(Sample::of(&windows).unwrap(), windows);
        let full_speed = baselines.known(level).unwrap();
        let mut closed_loop = ClosedLoop::default();
        // Latency that changes, and the rate with it, tells that clients wait.
        let mut advise = |(&power_w, latency_us): (&BySource, f64)| {
            let sample = seen(&mut stability, power_w, latency_us);
            closed_loop.learn(&sample, full_speed, 100.0);
            let lately = stability.over_all_windows().unwrap();
            closed_loop.advise(lately, full_speed, WINDOWS)
        };
        then.iter().zip([107.0, 113.0].into_iter().cycle()).map(&mut advise).collect()
    }

    /// A meter tells of the whole server, the table of its cores. In a window that the meter missed
    /// the table's word took its place: requests seemed to take a tenth of the energy, and ever
    /// after each step seemed to cost more.
    #[test]
    fn what_a_meter_missed_is_not_made_up_by_the_table() {
        let (full, less, missed) = (told(200.0, 20.0), told(170.0, 17.0), told(None, 17.0));
        let windows: Vec<_> = (0..60).map(|at| if at == 21 { missed } else { less }).collect();
        let advice = advised(full, &windows);
        assert!(advice.contains(&Some(Advice::Go)));
        assert!(!advice.contains(&Some(Advice::Back)), "{advice:?}");
    }

    #[test]
    fn a_step_that_takes_more_energy_is_seen_by_either() {
        let more = [(told(200.0, None), told(195.0, None)), (told(None, 20.0), told(None, 19.5))];
        for (full, later) in more {
            assert!(advised(full, &[later; 9]).contains(&Some(Advice::Back)));
        }
        // The meter failed for good after full speed was learned.
        let waits = advised(told(200.0, None), &[told(None, None); 9]);
        assert!(waits.iter().flatten().all(|&advice| advice == Advice::Wait), "{waits:?}");
        assert!(waits.contains(&Some(Advice::Wait)));
        assert_eq!(advised(told(None, None), &[told(50.0, 5.0); 9]), [None; 9], "nobody knew");
    }
}
