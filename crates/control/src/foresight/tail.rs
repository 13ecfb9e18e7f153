//! The latency tail of the run: of all its requests as they were, and as they would be at full
//! speed.
//!
//! The quantile of a run is not the mean of its windows' quantiles, so windows are merged. The
//! windows at full speed are a sample: each represents the requests since the previous one, so that
//! both sums describe the same load. A quantile of few such windows is lowered by a margin for the
//! error of the sample.

use wattio_law::LatencyHistogram;

/// Requests by latency, each window with a weight.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    /// Ascending upper edges in microseconds, and the requests up to them.
    buckets: Vec<(f64, f64)>,
    requests: f64,
    /// The same with squared weights: how many requests the sample is worth.
    squares: f64,
}

/// No source has more edges; one that changes them without end starts anew.
const EDGES_MAX: usize = 4096;

impl Tail {
    /// Adds a window's requests, each for `weight` of them.
    pub fn add(&mut self, window: &LatencyHistogram, weight: f64) {
        let parts = window.buckets.iter().map(|&(edge, requests)| (edge, requests as f64 * weight));
        if self.buckets.len() + window.buckets.len() > EDGES_MAX {
            *self = Self::default();
        }
        self.buckets.extend(parts.filter(|(edge, _)| !edge.is_nan()));
        self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.buckets.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
        let requests = window.requests() as f64;
        self.requests += requests * weight;
        self.squares += requests * weight * weight;
    }

    /// What was added so far counts for less.
    pub fn forget(&mut self, keep: f64) {
        self.buckets.iter_mut().for_each(|bucket| bucket.1 *= keep);
        self.requests *= keep;
        self.squares *= keep * keep;
    }

    pub fn requests(&self) -> f64 {
        self.requests
    }

    /// Requests above a limit, by straight lines within buckets.
    pub fn above(&self, limit_us: f64) -> f64 {
        let (mut from, mut above) = (0.0, 0.0);
        for &(to, requests) in &self.buckets {
            if from >= limit_us {
                above += requests;
            } else if to > limit_us && to.is_finite() {
                above += requests * (to - limit_us) / (to - from);
            }
            from = to;
        }
        above
    }

    /// The quantile in microseconds, lower by as many standard deviations of its rank as asked;
    /// `None` without requests, or where it lies in a bucket without an end.
    pub fn quantile_us(&self, quantile: f64, deviations: f64) -> Option<f64> {
        if self.requests <= 0.0 || self.squares <= 0.0 {
            return None;
        }
        let (share, worth) = (1.0 - quantile, self.requests * self.requests / self.squares);
        let off = deviations * (share * quantile / worth).sqrt();
        let mut above = (share + off).min(1.0) * self.requests;
        let mut froms = self.buckets.iter().rev().skip(1).map(|bucket| bucket.0);
        for &(to, requests) in self.buckets.iter().rev() {
            let from = froms.next().unwrap_or(0.0);
            if requests >= above {
                let us = to - (to - from) * above / requests.max(f64::MIN_POSITIVE);
                return us.is_finite().then_some(us);
            }
            above -= requests;
        }
        None
    }
}

/// All requests, and those at full speed.
#[derive(Clone, Debug, Default)]
pub struct Tails {
    pub all: Tail,
    pub full: Tail,
    /// Requests since the last window at full speed.
    since: f64,
}

impl Tails {
    /// Takes in a window, of which `keep` of the past is kept.
    pub fn learn(&mut self, window: &LatencyHistogram, at_full_speed: bool, keep: f64) {
        self.all.forget(keep);
        self.full.forget(keep);
        self.all.add(window, 1.0);
        let requests = window.requests() as f64;
        self.since += requests;
        if at_full_speed && requests > 0.0 {
            self.full.add(window, self.since / requests);
            self.since = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(buckets: &[(f64, u64)]) -> LatencyHistogram {
        LatencyHistogram { buckets: buckets.to_vec() }
    }

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let mut tail = Tail::default();
        assert_eq!(tail.quantile_us(0.95, 0.0), None);
        tail.add(&seen(&[(100.0, 90), (200.0, 10)]), 1.0);
        assert!((tail.quantile_us(0.95, 0.0).unwrap() - 150.0).abs() < 1e-9);
        assert!((tail.above(150.0) - 5.0).abs() < 1e-9);
        assert!(tail.quantile_us(0.95, 1.0).unwrap() < 130.0);
        tail.add(&seen(&[(f64::INFINITY, 100)]), 1.0);
        assert_eq!(tail.quantile_us(0.95, 0.0), None);
    }

    /// A mean of the windows' quantiles was taken for the run's: a first window with a long tail made
    /// it twice as high.
    #[test]
    fn windows_count_by_the_requests_that_they_stand_for() {
        let (odd, usual) = (seen(&[(1000.0, 0), (2000.0, 100)]), seen(&[(100.0, 0), (200.0, 100)]));
        let mut tails = Tails::default();
        tails.learn(&odd, true, 1.0);
        for window in 0..300 {
            tails.learn(&usual, window % 100 == 99, 1.0);
        }
        assert_eq!((tails.all.requests(), tails.full.requests()), (30_100.0, 30_100.0));
        assert!(tails.full.quantile_us(0.99, 0.0).unwrap() < 200.0);
        // Four windows of a hundred are a small sample, and say so.
        assert!(tails.full.quantile_us(0.99, 1.0) < tails.full.quantile_us(0.99, 0.0));
    }
}
