//! A statistical law in the style of Rubik (H. Kasture and others, Rubik: fast analytical power
//! management for latency-critical systems, MICRO 2015): it sets the lowest frequency at which the
//! requests in the queue still finish in time, given the distribution of the work of a request.
//!
//! Our reading: the paper acts at each arrival and departure; this law acts every few milliseconds,
//! on the lengths of the queues. The spread of the work of a request is a setting, because sources
//! report only its mean. Sums of work are assumed to be normally distributed. The time that a
//! request spends outside the cores is the latency at full speed minus the work itself.

use super::objective::Objective;
use crate::parameters::{Settings, number};
use wattio_law::{
    Action, Bound, DriveAction, GroupAction, GroupLimits, Insight, Law, Limits, Observation,
    Statistic,
};
use wattio_units::{Hertz, Seconds};

/// Its settings; units, ranges and sources stand in `parameters/rubik.toml`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "each is documented in parameters/rubik.toml")]
pub struct RubikSettings {
    pub plf: f64,
    pub period: Seconds,
    pub learning: Seconds,
    pub memory: Seconds,
    pub work_variation: f64,
    pub frequency_bound_share: f64,
}

impl RubikSettings {
    pub(crate) fn from_resolved(settings: &Settings) -> Self {
        let number = |name| number(settings, name);
        Self {
            plf: number("plf"),
            period: Seconds(number("period")),
            learning: Seconds(number("learning")),
            memory: Seconds(number("memory")),
            work_variation: number("work_variation"),
            frequency_bound_share: number("frequency_bound_share"),
        }
    }
}

impl RubikSettings {
    /// The share of a group's task that scales with `1/f`: as told, or assumed.
    fn share_of(&self, limits: &GroupLimits) -> f64 {
        limits.frequency_bound_share.unwrap_or(self.frequency_bound_share)
    }
}

/// The law and its state.
#[derive(Clone, Debug)]
pub struct Rubik {
    settings: RubikSettings,
    limits: Limits,
    objective: Objective,
    /// Exponential sums: core-seconds at the highest frequency of each group, and requests.
    work_core_s: Vec<f64>,
    requests: f64,
    reason: &'static str,
}

impl Rubik {
    /// For a server of these limits.
    #[must_use]
    pub fn new(settings: RubikSettings, limits: Limits) -> Self {
        let objective = Objective::new(Bound::mean_relative(settings.plf), settings.learning);
        let work_core_s = vec![0.0; limits.groups.len()];
        Self { settings, limits, objective, work_core_s, requests: 0.0, reason: "" }
    }

    fn learn_work(&mut self, seen: &Observation, requests: u64, dt: Seconds) {
        let kept = (-dt.0 / self.settings.memory.0).exp();
        self.requests = self.requests * kept + requests as f64;
        let pairs = self.work_core_s.iter_mut().zip(&seen.groups).zip(&self.limits.groups);
        for ((work, group), limits) in pairs {
            let share = self.settings.share_of(limits);
            let stretch = 1.0 - share + share * (limits.frequency_max / group.frequency);
            let busy = group.utilisation_clients * f64::from(group.cores) * dt.0 / stretch;
            *work = *work * kept + if busy.is_finite() { busy.max(0.0) } else { 0.0 };
        }
    }

    /// How much longer than at full speed tasks may take, so that what is queued ends in time;
    /// `None` where that is not known.
    fn stretch_max(&self, seen: &Observation) -> Option<f64> {
        let limit_us = self.objective.limit_us()?;
        let full_us =
            self.objective.full_speed_us().unwrap_or(limit_us / (1.0 + self.settings.plf));
        if self.requests < 1.0 {
            return None;
        }
        let z = match self.objective.bound().statistic {
            Statistic::Mean => 0.0,
            Statistic::Quantile(q) => normal_quantile(q),
        };
        let (mut own_us, mut ahead_us, mut variance) = (0.0, 0.0, 0.0);
        for (&work, group) in self.work_core_s.iter().zip(&seen.groups) {
            let each_us = work / self.requests * 1e6;
            let queued = group.queued.unwrap_or(0) as f64 / f64::from(group.cores.max(1));
            own_us += each_us;
            ahead_us += each_us * queued;
            variance += (each_us * self.settings.work_variation).powi(2) * (1.0 + queued);
        }
        let outside_us = (full_us - own_us).max(0.0);
        let needed_us = own_us + ahead_us + z * variance.sqrt();
        (needed_us > 0.0).then(|| (limit_us - outside_us) / needed_us)
    }

    fn action(&self, stretch: f64) -> Action {
        let group = |limits: &GroupLimits| {
            let share = self.settings.share_of(limits);
            // stretch = 1 - c + c f_max / f, solved for f.
            let relative = share / (stretch - 1.0 + share).max(1e-9);
            let frequency = Hertz(limits.frequency_max.0 * relative.clamp(0.0, 1.0));
            let frequency = if stretch <= 1.0 { limits.frequency_max } else { frequency };
            limits.clamp(GroupAction { cores: limits.cores_max, frequency })
        };
        let groups = self.limits.groups.iter().map(group).collect();
        Action { groups, drives: DriveAction::Own, background: Vec::new() }
    }
}

/// The quantile of the standard normal distribution, to 0.005 (C. Hastings, Approximations for
/// digital computers, 1955, sheet 67).
fn normal_quantile(share: f64) -> f64 {
    let tail = share.min(1.0 - share).max(1e-12);
    let t = (-2.0 * tail.ln()).sqrt();
    let z = t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + 0.04481 * t));
    if share >= 0.5 { z } else { -z }
}

impl Law for Rubik {
    fn step(&mut self, seen: &Observation, dt: Seconds) -> Action {
        let latency = seen.latency.as_ref().filter(|latency| latency.is_plausible());
        let Some(latency) = latency else {
            self.reason = "no latency to go by";
            return self.limits.full_speed();
        };
        self.learn_work(seen, latency.requests, dt);
        if self.objective.is_learning() {
            self.objective.learn(latency, dt);
            self.reason = "learning the latency at full speed";
            return self.limits.full_speed();
        }
        self.reason = "the slowest at which what is queued ends in time";
        self.stretch_max(seen).map_or_else(|| self.limits.full_speed(), |s| self.action(s))
    }

    fn period(&self) -> Seconds {
        self.settings.period
    }

    fn insight(&self) -> Insight {
        self.objective.insight(self.reason)
    }

    fn full_speed_us(&self, statistic: Statistic) -> Option<f64> {
        self.objective.full_speed_of(statistic)
    }

    fn bounds(&self) -> Vec<Bound> {
        vec![self.objective.bound()]
    }

    fn set_bounds(&mut self, bounds: &[Bound]) {
        self.objective.aim_at(bounds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_quantile_is_that_of_the_tables() {
        for (share, z) in [(0.5, 0.0), (0.95, 1.6449), (0.99, 2.3263), (0.05, -1.6449)] {
            assert!((normal_quantile(share) - z).abs() < 0.005, "{share}");
        }
    }
}
