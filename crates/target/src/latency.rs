//! The latency of requests.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Times by kind of request.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Reads.
    pub reads: Latency,
    /// Writes.
    pub writes: Latency,
    /// All others.
    pub others: Latency,
}

/// Times of requests, in nanoseconds with two digits; absent if there can be no histogram of that
/// shape, which there can.
#[derive(Clone, Debug)]
pub struct Latency(Option<Histogram<u64>>);

/// What is told of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// How many.
    pub count: u64,
    /// Their mean, absent if there are none.
    pub latency_us_mean: Option<f64>,
    /// The 99th percentile.
    pub latency_us_p99: Option<f64>,
    /// The longest.
    pub latency_us_max: Option<f64>,
}

/// What takes longer counts as that.
const LONGEST: Duration = Duration::from_secs(3600);

impl Default for Latency {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 2).ok())
    }
}

impl Latency {
    /// Counts a request in.
    pub fn record(&mut self, took: Duration) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(took.as_nanos().min(LONGEST.as_nanos()) as u64);
        }
    }

    /// What they were like.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let Some(histogram) = self.0.as_ref().filter(|histogram| !histogram.is_empty()) else {
            return LatencySummary::default();
        };
        let us = |ns: u64| Some(ns as f64 / 1e3);
        LatencySummary {
            count: histogram.len(),
            latency_us_mean: Some(histogram.mean() / 1e3),
            latency_us_p99: us(histogram.value_at_quantile(0.99)),
            latency_us_max: us(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_microseconds_and_none_are_absent() {
        let mut latency = Latency::default();
        assert_eq!(latency.summary(), LatencySummary::default());
        (1..=100).for_each(|ms| latency.record(Duration::from_millis(ms)));
        let told = latency.summary();
        let near = |told: Option<f64>, us: f64| (told.unwrap() / us - 1.0).abs() < 0.01;
        assert_eq!(told.count, 100);
        assert!(near(told.latency_us_mean, 50_500.0), "{told:?}");
        assert!(near(told.latency_us_p99, 99_000.0), "{told:?}");
        latency.record(Duration::MAX);
        assert!(near(latency.summary().latency_us_max, 3.6e9), "{:?}", latency.summary());
    }
}
