//! A feedback law of PEGASUS' kind (D. Lo and others, Towards energy proportionality for
//! large-scale latency-critical workloads, ISCA 2014): power follows how far the measured latency
//! is from its objective. Our reading: power caps are frequencies between the lowest and the
//! highest; steps and thresholds are settings.

use super::objective::Objective;
use crate::parameters::{Settings, number};
use crate::uncovered::keep_cores_busy;
use wattio_law::{
    Action, Bound, DriveAction, GroupAction, Insight, LatencyObservation, Law, Limits, Observation,
    Statistic,
};
use wattio_units::Seconds;

/// Its settings; units, ranges and sources stand in `parameters/pegasus.toml`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "each is documented in parameters/pegasus.toml")]
pub struct PegasusSettings {
    pub plf: f64,
    pub period: Seconds,
    pub learning: Seconds,
    pub memory: Seconds,
    pub bail_out: f64,
    pub bail_out_span: Seconds,
    pub keep_above: f64,
    pub fast_below: f64,
    pub step_up: f64,
    pub step_down: f64,
    pub step_down_fast: f64,
    pub others_share_max: f64,
    pub others_utilisation_max: f64,
}

impl PegasusSettings {
    pub(crate) fn from_resolved(settings: &Settings) -> Self {
        let number = |name| number(settings, name);
        let seconds = |name| Seconds(number(name));
        Self {
            plf: number("plf"),
            period: seconds("period"),
            learning: seconds("learning"),
            memory: seconds("memory"),
            bail_out: number("bail_out"),
            bail_out_span: seconds("bail_out_span"),
            keep_above: number("keep_above"),
            fast_below: number("fast_below"),
            step_up: number("step_up"),
            step_down: number("step_down"),
            step_down_fast: number("step_down_fast"),
            others_share_max: number("others_share_max"),
            others_utilisation_max: number("others_utilisation_max"),
        }
    }
}

const BAILED_OUT: &str = "far above the objective: full speed for a while";

/// The law and its state.
#[derive(Clone, Debug)]
pub struct Pegasus {
    settings: PegasusSettings,
    limits: Limits,
    objective: Objective,
    /// Exponential mean of the statistic, in microseconds.
    measured_us: Option<f64>,
    /// From the lowest frequency, 0, to the highest, 1.
    share: f64,
    /// Full speed for so long, whatever is measured.
    bailed_out: Seconds,
    reason: &'static str,
}

impl Pegasus {
    /// For a server of these limits.
    #[must_use]
    pub fn new(settings: PegasusSettings, limits: Limits) -> Self {
        let objective = Objective::new(Bound::mean_relative(settings.plf), settings.learning);
        let (measured_us, bailed_out) = (None, Seconds(0.0));
        Self { settings, limits, objective, measured_us, share: 1.0, bailed_out, reason: "" }
    }

    /// Takes a window into the mean; gives the mean, or `None` where the window says nothing.
    fn measure(&mut self, seen: &LatencyObservation, dt: Seconds) -> Option<f64> {
        let value_us = self.objective.value_us(seen)?;
        let weight = 1.0 - (-dt.0 / self.settings.memory.0).exp();
        let before_us = self.measured_us.unwrap_or(value_us);
        self.measured_us = Some(before_us + (value_us - before_us) * weight);
        self.measured_us
    }

    /// One step of the feedback.
    fn steer(&mut self, measured_us: f64) {
        let Some(limit_us) = self.objective.limit_us() else { return };
        let ratio = measured_us / limit_us;
        let s = &self.settings;
        (self.share, self.reason) = if ratio > s.bail_out {
            self.bailed_out = s.bail_out_span;
            (1.0, BAILED_OUT)
        } else if ratio > 1.0 {
            (self.share + s.step_up, "above the objective: faster")
        } else if ratio > s.keep_above {
            (self.share, "near the objective")
        } else if ratio > s.fast_below {
            (self.share - s.step_down, "below the objective: slower")
        } else {
            (self.share - s.step_down_fast, "far below the objective: slower")
        };
        self.share = self.share.clamp(0.0, 1.0);
    }

    fn action(&self) -> Action {
        let group = |limits: &wattio_law::GroupLimits| {
            let span = limits.frequency_max - limits.frequency_min;
            let frequency = limits.frequency_min + span * self.share;
            limits.clamp(GroupAction { cores: limits.cores_max, frequency })
        };
        let groups = self.limits.groups.iter().map(group).collect();
        Action { groups, drives: DriveAction::Own, background: Vec::new() }
    }
}

impl Law for Pegasus {
    fn step(&mut self, seen: &Observation, dt: Seconds) -> Action {
        self.bailed_out = Seconds((self.bailed_out - dt).0.max(0.0));
        let Some(latency) = seen.latency.as_ref().filter(|l| l.is_plausible() && !l.is_stalled())
        else {
            self.share = 1.0;
            self.reason = "no latency to go by";
            return self.limits.full_speed();
        };
        let (share, utilisation) =
            (self.settings.others_share_max, self.settings.others_utilisation_max);
        if latency.offered() == 0 && keep_cores_busy(seen, &self.limits, share, utilisation) {
            self.share = 1.0;
            self.reason = "no request is seen, yet tasks of clients keep cores busy";
            return self.limits.full_speed();
        }
        let measured_us = self.measure(latency, dt);
        if self.objective.is_learning() {
            self.objective.learn(latency, dt);
            self.reason = "learning the latency at full speed";
            return self.limits.full_speed();
        }
        if self.bailed_out.0 > 0.0 {
            (self.share, self.reason) = (1.0, BAILED_OUT);
        } else if let Some(measured_us) = measured_us {
            self.steer(measured_us);
        }
        self.action()
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
