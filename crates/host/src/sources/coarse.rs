//! Percentiles that a source's histogram cannot tell apart.
//!
//! A server whose quickest bucket ends at 100 ms tells of requests that take 1 ms as of ones that take
//! 90 ms. Were its percentiles taken from within that bucket, they would never grow, and a bound on
//! their growth would seem to be kept whatever happens.

use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_law::{Bound, LatencyHistogram, Limit, Statistic};
use wattio_units::Seconds;

/// Requests that are looked back at, about.
const REQUESTS: u64 = 100_000;
/// More edges than any server has: one that draws them anew each time begins anew here, too.
const BUCKETS_MAX: usize = 4096;

/// A source without its histograms while a bounded percentile lies in the first bucket.
struct Coarse {
    inner: Box<dyn LatencySource>,
    /// The percentiles whose growth is bounded.
    quantiles: Vec<f64>,
    /// How latencies spread of late.
    lately: LatencyHistogram,
}

/// A source for these bounds: as it is where none of them limits how a percentile grows.
#[must_use]
pub fn without_coarse(inner: Box<dyn LatencySource>, bounds: &[Bound]) -> Box<dyn LatencySource> {
    let grows = |bound: &Bound| match (bound.statistic, bound.limit) {
        (Statistic::Quantile(quantile), Limit::Relative(_)) => Some(quantile),
        _ => None,
    };
    let quantiles: Vec<f64> = bounds.iter().filter_map(grows).collect();
    if quantiles.is_empty() {
        return inner;
    }
    Box::new(Coarse { inner, quantiles, lately: LatencyHistogram::default() })
}

impl Coarse {
    fn is_told(&mut self, histogram: &LatencyHistogram) -> bool {
        self.lately.merge(histogram);
        if self.lately.buckets.len() > BUCKETS_MAX {
            self.lately = histogram.clone();
        }
        if self.lately.requests() > REQUESTS {
            self.lately.buckets.iter_mut().for_each(|bucket| bucket.1 /= 2);
        }
        self.quantiles.iter().all(|&quantile| !self.lately.is_in_first_bucket(quantile))
    }
}

impl LatencySource for Coarse {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        let mut sample = self.inner.sample(now)?;
        if let Some(sample) = &mut sample
            && let Some(histogram) = &sample.histogram
            && histogram.requests() > 0
            && !self.is_told(histogram)
        {
            sample.histogram = None;
        }
        Ok(sample)
    }

    fn interval(&self) -> Option<Seconds> {
        self.inner.interval()
    }

    fn latency_us_resolution(&self) -> f64 {
        self.inner.latency_us_resolution()
    }

    fn note(&mut self) -> Option<String> {
        self.inner.note()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out one histogram after the other.
    struct Played(Vec<LatencyHistogram>);

    impl LatencySource for Played {
        fn name(&self) -> &'static str {
            "played"
        }

        fn sample(&mut self, at: Seconds) -> Result<Option<LatencySample>, SourceError> {
            let histogram = self.0.pop();
            Ok(histogram.map(|histogram| LatencySample {
                at,
                requests: histogram.requests(),
                arrived: None,
                in_flight: None,
                latency_us_mean: Some(200.0),
                bytes_mean: None,
                read_share: None,
                histogram: Some(histogram),
            }))
        }
    }

    /// Which samples of such histograms still have theirs.
    fn told(bound: &str, mut histograms: Vec<[u64; 2]>) -> Vec<bool> {
        histograms.reverse();
        let edges = |[quick, slow]: [u64; 2]| LatencyHistogram {
            buckets: vec![(100e3, quick), (200e3, slow)],
        };
        let count = histograms.len();
        let played = Played(histograms.into_iter().map(edges).collect());
        let mut source = without_coarse(Box::new(played), &[bound.parse().unwrap()]);
        let mut sample = || source.sample(Seconds(0.0)).unwrap().unwrap().histogram.is_some();
        (0..count).map(|_| sample()).collect()
    }

    /// Ninety-nine of a hundred requests took less than 100 ms, and their p99 was 99 ms, always.
    #[test]
    fn a_percentile_in_the_first_bucket_is_not_told_where_its_growth_is_bounded() {
        assert_eq!(told("p99 20% run", vec![[100, 0]; 2]), [false; 2]);
        assert_eq!(told("p99 20% window", vec![[90, 10]]), [true]);
        assert_eq!(told("p50 20% run", vec![[90, 10]]), [false]);
        // Below 200 ms it is for certain, and a mean needs no buckets.
        assert_eq!(told("p99 200 ms run", vec![[100, 0]]), [true]);
        assert_eq!(told("mean 20% run", vec![[100, 0]]), [true]);
    }

    /// A quiet moment of a server whose p99 its buckets tell is no reason.
    #[test]
    fn what_counts_is_how_latencies_spread_of_late() {
        let all =
            told("p99 20% run", vec![[90, 10], [10, 0], [80_000, 0], [0, 0], [80_000, 9_000]]);
        assert_eq!(all, [true, true, false, true, true]);
    }
}
