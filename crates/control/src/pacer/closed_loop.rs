//! Clients that wait for their answers before they ask again.
//!
//! Their rate follows the latency that the law itself causes: by completions alone the load seems to
//! shrink as it is slowed, and each request carries more of the power that goes on whatever is
//! saved. Here the rate is held against the latency, from window to window; where it follows, what
//! counts is the energy of a request, which must not rise, and the rate that full speed would have.

use super::baseline::Baseline;
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
    energy_j_least: Option<f64>,
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
    /// last step made of it. `None` for open loads, and where nobody knows what is drawn.
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
        let at_full_speed_j = full_speed.mean().energy_of_request_j()?;
        let now_j = lately.energy_of_request_j()?;
        self.settled += 1;
        if self.settled <= windows {
            return Some(Advice::Wait);
        }
        self.settled = 0;
        let least = self.energy_j_least.unwrap_or(at_full_speed_j) * (1.0 + ENERGY_LEAK);
        let least = least.min(now_j).min(at_full_speed_j);
        self.energy_j_least = Some(least);
        Some(if now_j > least * (1.0 + ENERGY_NOISE) { Advice::Back } else { Advice::Go })
    }

    /// The load is another one.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What is drawn: as measured, or what the limits' table says of cores and drives.
pub fn power_of(seen: &Observation, limits: &Limits) -> Option<Watts> {
    if seen.power.is_some() {
        return seen.power;
    }
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
    let drives = limits.drives.map_or(Watts(0.0), |drives| drives.saves);
    cores.try_fold(drives, |sum, group| Some(sum + group?)).filter(|watts| watts.0 > 0.0)
}
