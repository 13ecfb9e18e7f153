//! Computes what happened in a window from growing counters.

use std::cmp::Ordering;
use wattio_governor::{LatencySample, SourceError};
use wattio_law::{InFlight, LatencyHistogram};
use wattio_units::Seconds;

/// What a server counted since it started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// What changes whenever the server leaves out some of what it had counted, if it does that.
    pub epoch: Option<u64>,
    /// Completed requests.
    pub requests: u64,
    /// Requests in flight now, if known.
    pub under_way: Option<u64>,
    /// The sum of their latencies in microseconds. If unknown, the mean is taken from the middles
    /// of the buckets, and is only as good as they are narrow.
    pub latency_us_sum: Option<f64>,
    /// The sum of their sizes in bytes, if known.
    pub bytes_sum: Option<u64>,
    /// How many were reads, if known.
    pub reads: Option<u64>,
    /// Upper edge in microseconds, ascending, and requests above the edge before and up to this
    /// one, if known. An edge that is not listed has no requests.
    pub buckets: Option<Vec<(f64, u64)>>,
}

/// The windows between readings of one server's counters.
///
/// The first reading opens the first window and yields nothing yet, and so does the first of another
/// epoch, or after one that failed: what was served meanwhile would all count as that of one window. A
/// counter that went back within one means that the server was restarted: the window is lost,
/// and counting starts again.
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

    /// The next reading opens a window again.
    pub fn restart(&mut self) {
        self.last = None;
    }

    /// As [`Differences::window`], of a reading that may have failed.
    ///
    /// # Errors
    /// Why it failed; the next one opens a window then. Else when a counter went back.
    pub fn answer(
        &mut self,
        at: Seconds,
        totals: Result<Totals, SourceError>,
    ) -> Result<Option<LatencySample>, SourceError> {
        match totals {
            Ok(totals) => self.window(at, totals),
            Err(error) => {
                self.restart();
                Err(error)
            }
        }
    }

    /// What happened since the reading before; `None` for the first one of an epoch.
    ///
    /// # Errors
    /// When a counter went back. The next reading continues from this one.
    pub fn window(
        &mut self,
        at: Seconds,
        totals: Totals,
    ) -> Result<Option<LatencySample>, SourceError> {
        let Some(last) = self.last.replace(totals.clone()) else { return Ok(None) };
        if totals.epoch != last.epoch {
            return Ok(None);
        }
        if totals.went_back(&last) {
            return Err(SourceError::new(
                &self.source_name,
                "counters went back: it was restarted, or they were reset; counting starts again",
            ));
        }
        Ok(Some(totals.since(&last, at)))
    }
}

/// The windows of several servers as one; `None` if none of them has one.
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

impl Totals {
    fn went_back(&self, last: &Self) -> bool {
        let less = |new: Option<u64>, old: Option<u64>| new.zip(old).is_some_and(|(n, o)| n < o);
        // Sums of rounded numbers may shrink slightly without a restart.
        let sums = self.latency_us_sum.zip(last.latency_us_sum);
        self.requests < last.requests
            || sums.is_some_and(|(new, old)| new < old - 1e-9 * old.abs())
            || less(self.bytes_sum, last.bytes_sum)
            || less(self.reads, last.reads)
            || self.by_edge(last).is_some_and(|edges| edges.iter().any(|(_, n, o)| n < o))
    }

    fn since(&self, last: &Self, at: Seconds) -> LatencySample {
        let requests = self.requests.saturating_sub(last.requests);
        let mean = |sum: f64| (requests > 0).then(|| sum / requests as f64);
        let grown = |new: Option<u64>, old: Option<u64>| Some(new?.saturating_sub(old?) as f64);
        let histogram = self.by_edge(last).map(|edges| LatencyHistogram {
            buckets: edges.iter().map(|(edge, n, o)| (*edge, n.saturating_sub(*o))).collect(),
        });
        let told = self.latency_us_sum.zip(last.latency_us_sum);
        let latency_us = told.map(|(new, old)| (new - old).max(0.0)).and_then(mean);
        LatencySample {
            at,
            requests,
            // What arrived was answered or is under way.
            arrived: self.arrived().zip(last.arrived()).map(|(new, old)| new.saturating_sub(old)),
            in_flight: self.under_way.map(|requests| InFlight { requests, oldest: None }),
            latency_us_mean: latency_us
                .or_else(|| middle_us_mean(histogram.as_ref()?))
                .filter(|mean| mean.is_finite()),
            bytes_mean: grown(self.bytes_sum, last.bytes_sum).and_then(mean),
            read_share: grown(self.reads, last.reads).and_then(mean).map(|share| share.min(1.0)),
            histogram,
        }
    }

    /// Requests that arrived since the server started.
    fn arrived(&self) -> Option<u64> {
        self.under_way.map(|under_way| self.requests.saturating_add(under_way))
    }

    /// Each edge that either has, ascending, with the requests of both.
    fn by_edge(&self, last: &Self) -> Option<Vec<(f64, u64, u64)>> {
        let mut new = self.buckets.as_ref()?.iter().peekable();
        let mut old = last.buckets.as_ref()?.iter().peekable();
        let mut edges = Vec::with_capacity(new.len().max(old.len()));
        loop {
            let order = match (new.peek(), old.peek()) {
                (None, None) => return Some(edges),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(new), Some(old)) => new.0.total_cmp(&old.0),
            };
            let mine = if order.is_le() { new.next() } else { None };
            let theirs = if order.is_ge() { old.next() } else { None };
            let count = |bucket: Option<&(f64, u64)>| bucket.map_or(0, |bucket| bucket.1);
            if let Some((edge, _)) = mine.or(theirs) {
                edges.push((*edge, count(mine), count(theirs)));
            }
        }
    }
}

/// The mean of a histogram whose requests all lie in the middles of their buckets, or at the lower
/// edge of one without an upper edge; `None` without requests.
fn middle_us_mean(histogram: &LatencyHistogram) -> Option<f64> {
    let (mut below, mut requests, mut sum) = (0.0, 0.0, 0.0);
    for &(edge, count) in &histogram.buckets {
        let middle = if edge.is_finite() { (below + edge) / 2.0 } else { below };
        requests += count as f64;
        sum += middle * count as f64;
        below = edge;
    }
    (requests > 0.0).then(|| sum / requests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn totals(requests: u64, latency_us_sum: f64) -> Totals {
        Totals {
            epoch: None,
            requests,
            under_way: Some(5),
            latency_us_sum: Some(latency_us_sum),
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
        assert_eq!((window.arrived, window.latency_us_mean), (Some(4), Some(200.0)));
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

    /// The requests of an hour's outage were those of one window.
    #[test]
    fn a_reading_that_failed_is_followed_by_a_new_window() {
        let mut differences = Differences::new("test");
        differences.window(Seconds(1.0), totals(10, 1_000.0)).unwrap();
        let failed = SourceError::new("test", "no answer");
        assert_eq!(differences.answer(Seconds(2.0), Err(failed.clone())), Err(failed));
        assert_eq!(differences.answer(Seconds(3600.0), Ok(totals(9_010, 901_000.0))), Ok(None));
        let window = differences.answer(Seconds(3601.0), Ok(totals(9_012, 901_300.0)));
        let window = window.unwrap().unwrap();
        assert_eq!((window.requests, window.latency_us_mean), (2, Some(150.0)));
    }

    #[test]
    fn edges_that_come_later_had_no_requests() {
        let buckets = |buckets: &[(f64, u64)]| Totals {
            requests: buckets.iter().map(|bucket| bucket.1).sum(),
            buckets: Some(buckets.to_vec()),
            ..Totals::default()
        };
        let mut differences = Differences::new("test");
        differences.window(Seconds(1.0), buckets(&[(1_000.0, 4)])).unwrap();
        let later = buckets(&[(500.0, 3), (1_000.0, 5), (f64::INFINITY, 0)]);
        let window = differences.window(Seconds(2.0), later.clone()).unwrap().unwrap();
        let grown = vec![(500.0, 3), (1_000.0, 1), (f64::INFINITY, 0)];
        assert_eq!(window.histogram, Some(LatencyHistogram { buckets: grown }));
        // No sum is told: three at 250 us and one at 750 us.
        assert_eq!((window.requests, window.latency_us_mean), (4, Some(375.0)));
        let all_beyond = Totals { buckets: Some(vec![(f64::INFINITY, 8)]), ..later };
        assert!(differences.window(Seconds(3.0), all_beyond).is_err());
    }

    proptest! {
        #[test]
        fn windows_add_up_to_the_counters(steps in proptest::collection::vec((0u64..1000, 0.0..1e6f64), 1..50)) {
            let mut differences = Differences::new("test");
            let mut all = Totals { latency_us_sum: Some(0.0), ..Totals::default() };
            differences.window(Seconds(0.0), all.clone()).unwrap();
            let (mut requests, mut sum_us) = (0, 0.0);
            for (at, (more, us)) in steps.into_iter().enumerate() {
                all.requests += more;
                let before_us = all.latency_us_sum.unwrap();
                all.latency_us_sum = Some(before_us + us * more as f64);
                let window = differences.window(Seconds(at as f64), all.clone()).unwrap().unwrap();
                requests += window.requests;
                sum_us += window.latency_us_mean.unwrap_or(0.0) * window.requests as f64;
            }
            prop_assert_eq!(requests, all.requests);
            let all_us = all.latency_us_sum.unwrap();
            prop_assert!((sum_us - all_us).abs() <= 1e-6 * all_us.max(1.0));
        }
    }
}
