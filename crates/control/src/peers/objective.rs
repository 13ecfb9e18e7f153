//! The latency that a law for tail latency aims at.

use wattio_law::{Bound, Insight, LatencyObservation, Statistic};
use wattio_units::Seconds;

/// A bound with its limit, learned at full speed where it is relative.
#[derive(Clone, Debug)]
pub struct Objective {
    bound: Bound,
    learning: Seconds,
    learned: Seconds,
    /// Sum over the requests seen while learning of the statistic, and of the requests.
    sum_us: f64,
    requests: f64,
}

impl Objective {
    /// Learns for so long, over windows that had requests.
    pub fn new(bound: Bound, learning: Seconds) -> Self {
        Self { bound, learning, learned: Seconds(0.0), sum_us: 0.0, requests: 0.0 }
    }

    /// The first of other bounds; what full speed is like is learned anew.
    pub fn aim_at(&mut self, bounds: &[Bound]) {
        if let Some(&bound) = bounds.first().filter(|&&bound| bound != self.bound) {
            *self = Self::new(bound, self.learning);
        }
    }

    /// What a law that aims at it can tell.
    pub fn insight(&self, reason: &'static str) -> Insight {
        Insight {
            reason,
            baseline_us: self.full_speed_of(Statistic::Mean),
            bound_us: self.limit_us().filter(|_| self.bound.statistic == Statistic::Mean),
            bound_in_force: !self.is_learning(),
            is_learning: self.is_learning(),
            ..Insight::default()
        }
    }

    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Whether full speed is still being learned.
    pub fn is_learning(&self) -> bool {
        self.bound.share().is_some() && (self.learned < self.learning || self.requests == 0.0)
    }

    /// Takes in a window at full speed.
    pub fn learn(&mut self, seen: &LatencyObservation, dt: Seconds) {
        let Some(value_us) = self.value_us(seen) else { return };
        self.learned = self.learned + dt;
        self.sum_us += value_us * seen.requests as f64;
        self.requests += seen.requests as f64;
    }

    /// The statistic of a window in microseconds; the mean stands in for a quantile that the
    /// source does not tell.
    pub fn value_us(&self, seen: &LatencyObservation) -> Option<f64> {
        let quantile = match self.bound.statistic {
            Statistic::Mean => None,
            Statistic::Quantile(q) => seen.histogram.as_ref().and_then(|h| h.quantile_us(q)),
        };
        quantile.or(seen.latency_us_mean).filter(|_| seen.requests > 0 && seen.is_plausible())
    }

    /// The statistic at full speed, once it is learned.
    pub fn full_speed_us(&self) -> Option<f64> {
        (!self.is_learning() && self.requests > 0.0).then(|| self.sum_us / self.requests)
    }

    /// The same of a statistic that may be another one, of which nothing is known then.
    pub fn full_speed_of(&self, statistic: Statistic) -> Option<f64> {
        self.full_speed_us().filter(|_| statistic == self.bound.statistic)
    }

    /// The limit, once it is known.
    pub fn limit_us(&self) -> Option<f64> {
        self.bound.limit_us(self.full_speed_us())
    }
}
