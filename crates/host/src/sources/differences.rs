//! From counters that only grow to what happened in a window.

use wattio_governor::{LatencyHistogram, LatencySample, SourceError};
use wattio_units::Seconds;

/// What a server counted since it started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Completed requests.
    pub requests: u64,
    /// The sum of their latencies in microseconds.
    pub latency_us_sum: f64,
    /// The sum of their sizes in bytes, where it is told.
    pub bytes_sum: Option<u64>,
    /// How many were reads, where it is told.
    pub reads: Option<u64>,
    /// Upper edge in microseconds, ascending, and requests above the edge before and up to this
    /// one, where they are told.
    pub buckets: Option<Vec<(f64, u64)>>,
}

/// The windows between readings of one server's counters.
///
/// The first reading opens the first window and says nothing yet. A counter that went back means
/// that the server was restarted: the window is lost, and counting starts again.
#[derive(Debug)]
pub struct Differences {
    source_name: String,
    last: Option<Totals>,
}

impl Differences {
    /// Before the first reading; the name is the source's, for messages.
    #[must_use]
    pub fn new(source_name: impl Into<String>) -> Self {
        Self { source_name: source_name.into(), last: None }
    }

    /// What happened since the reading before; `None` for the first one.
    ///
    /// # Errors
    /// When a counter went back. The next reading continues from this one.
    pub fn window(
        &mut self,
        at: Seconds,
        totals: Totals,
    ) -> Result<Option<LatencySample>, SourceError> {
        let Some(last) = self.last.replace(totals.clone()) else { return Ok(None) };
        if totals.went_back(&last) {
            return Err(SourceError::retry(
                &self.source_name,
                "counters went back: it was restarted; counting starts again",
            ));
        }
        Ok(Some(totals.since(&last, at)))
    }
}

/// The windows of several servers as one; `None` where none of them has one.
///
/// # Errors
/// The first of theirs. All windows are made before, so that none of them lasts longer than the
/// others.
pub fn sum_windows(
    windows: impl IntoIterator<Item = Result<Option<LatencySample>, SourceError>>,
) -> Result<Option<LatencySample>, SourceError> {
    let (mut sum, mut first_error) = (None::<LatencySample>, None);
    for window in windows {
        match window {
            Ok(Some(window)) => {
                sum = Some(match sum {
                    Some(sum) => sum.merge(window),
                    None => window,
                });
            }
            Ok(None) => {}
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(sum), Err)
}

/// The buckets of both where they have the same edges.
type BucketPairs<'a> = Vec<((f64, u64), (f64, u64))>;

impl Totals {
    fn went_back(&self, last: &Self) -> bool {
        let less = |new: Option<u64>, old: Option<u64>| matches!((new, old), (Some(new), Some(old)) if new < old);
        // Sums of rounded numbers may shrink by a hair without a restart.
        let hair = 1e-9 * last.latency_us_sum.abs();
        self.requests < last.requests
            || self.latency_us_sum < last.latency_us_sum - hair
            || less(self.bytes_sum, last.bytes_sum)
            || less(self.reads, last.reads)
            || self.bucket_pairs(last).is_some_and(|pairs| pairs.iter().any(|(n, o)| n.1 < o.1))
    }

    fn since(&self, last: &Self, at: Seconds) -> LatencySample {
        let requests = self.requests.saturating_sub(last.requests);
        let mean = |sum: f64| (requests > 0).then(|| sum / requests as f64);
        let grown = |new: Option<u64>, old: Option<u64>| Some(new?.saturating_sub(old?) as f64);
        let latency_us = (self.latency_us_sum - last.latency_us_sum).max(0.0);
        LatencySample {
            at,
            requests,
            latency_us_mean: mean(latency_us).filter(|mean| mean.is_finite()),
            bytes_mean: grown(self.bytes_sum, last.bytes_sum).and_then(mean),
            read_share: grown(self.reads, last.reads).and_then(mean).map(|share| share.min(1.0)),
            histogram: self.bucket_pairs(last).map(|pairs| LatencyHistogram {
                buckets: pairs.iter().map(|(n, o)| (n.0, n.1.saturating_sub(o.1))).collect(),
            }),
        }
    }

    fn bucket_pairs(&self, last: &Self) -> Option<BucketPairs<'_>> {
        let (new, old) = (self.buckets.as_ref()?, last.buckets.as_ref()?);
        let same_edges = new.len() == old.len()
            && new.iter().zip(old).all(|(new, old)| new.0.to_bits() == old.0.to_bits());
        same_edges.then(|| new.iter().copied().zip(old.iter().copied()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn totals(requests: u64, latency_us_sum: f64) -> Totals {
        Totals {
            requests,
            latency_us_sum,
            bytes_sum: Some(requests * 4096),
            reads: Some(requests / 2),
            buckets: Some(vec![(100.0, requests), (f64::INFINITY, 1)]),
        }
    }

    #[test]
    fn a_window_is_what_grew_between_two_readings() {
        let mut differences = Differences::new("test");
        assert_eq!(differences.window(Seconds(1.0), totals(10, 1_000.0)), Ok(None));
        let window = differences.window(Seconds(2.0), totals(14, 1_800.0)).unwrap().unwrap();
        assert_eq!((window.at, window.requests), (Seconds(2.0), 4));
        assert_eq!(window.latency_us_mean, Some(200.0));
        assert_eq!((window.bytes_mean, window.read_share), (Some(4096.0), Some(0.5)));
        assert_eq!(window.histogram.unwrap().buckets, [(100.0, 4), (f64::INFINITY, 0)]);
        let quiet = differences.window(Seconds(3.0), totals(14, 1_800.0)).unwrap().unwrap();
        assert_eq!((quiet.requests, quiet.latency_us_mean, quiet.bytes_mean), (0, None, None));
    }

    #[test]
    fn a_restart_is_said_once_and_counting_goes_on() {
        let mut differences = Differences::new("test");
        differences.window(Seconds(1.0), totals(10, 1_000.0)).unwrap();
        let error = differences.window(Seconds(2.0), totals(3, 300.0)).unwrap_err();
        assert!(error.to_string().contains("was restarted"), "{error}");
        let window = differences.window(Seconds(3.0), totals(5, 500.0)).unwrap().unwrap();
        assert_eq!((window.requests, window.latency_us_mean), (2, Some(100.0)));
    }

    #[test]
    fn other_edges_cost_the_histogram_only() {
        let mut differences = Differences::new("test");
        differences.window(Seconds(1.0), totals(10, 1_000.0)).unwrap();
        let other = Totals { buckets: Some(vec![(1.0, 2)]), ..totals(12, 1_200.0) };
        let window = differences.window(Seconds(2.0), other).unwrap().unwrap();
        assert_eq!((window.requests, window.histogram), (2, None));
    }

    proptest! {
        #[test]
        fn windows_add_up_to_the_counters(steps in proptest::collection::vec((0u64..1000, 0.0..1e6f64), 1..50)) {
            let mut differences = Differences::new("test");
            let mut all = Totals::default();
            differences.window(Seconds(0.0), all.clone()).unwrap();
            let (mut requests, mut sum_us) = (0, 0.0);
            for (at, (more, us)) in steps.into_iter().enumerate() {
                all.requests += more;
                all.latency_us_sum += us * more as f64;
                let window = differences.window(Seconds(at as f64), all.clone()).unwrap().unwrap();
                requests += window.requests;
                sum_us += window.latency_us_mean.unwrap_or(0.0) * window.requests as f64;
            }
            prop_assert_eq!(requests, all.requests);
            prop_assert!((sum_us - all.latency_us_sum).abs() <= 1e-6 * all.latency_us_sum.max(1.0));
        }
    }
}
