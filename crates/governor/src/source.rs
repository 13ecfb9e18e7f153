//! Where a live host's observations come from.

use thiserror::Error;
use wattio_law::BackgroundObservation;
use wattio_units::Seconds;

use crate::cpus::Cpus;

/// Why there is no sample. Whatever it is: full speed in this window, another try in the next, and
/// the error budget ends the trying.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{source_name}: {message}")]
pub struct SourceError {
    /// Which source.
    pub source_name: String,
    /// What was wrong, where, and what would do.
    pub message: String,
}

impl SourceError {
    /// Of this source.
    pub fn new(source_name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { source_name: source_name.into(), message: message.into() }
    }
}

/// Client requests that completed since the sample before.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencySample {
    /// When it was taken, on the governor's clock.
    pub at: Seconds,
    /// How many requests completed.
    pub requests: u64,
    /// How many arrived, where the source sees that: a burst shows there first.
    pub arrived: Option<u64>,
    /// Their mean latency in microseconds; `None` when there were none.
    pub latency_us_mean: Option<f64>,
    /// Their mean size in bytes, where the source tells it.
    pub bytes_mean: Option<f64>,
    /// The share of reads among them, where the source tells it.
    pub read_share: Option<f64>,
    /// How they spread, where the source tells it.
    pub histogram: Option<LatencyHistogram>,
}

/// Requests by latency: ascending upper edges in microseconds with the requests in each bucket.
/// The last edge may be infinite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyHistogram {
    /// Upper edge in microseconds, requests above the edge before and up to this one.
    pub buckets: Vec<(f64, u64)>,
}

/// A source of client latency.
///
/// A source that talks to others does so in a thread of its own: `sample` never waits.
pub trait LatencySource: Send {
    /// What it is, for messages: `diskstats nvme0n1`.
    fn name(&self) -> &str;

    /// The requests since the last sample that was handed out; `None` when nothing new was
    /// measured since. A live source that saw no request answers with zero requests.
    ///
    /// # Errors
    /// [`SourceError`] when it cannot tell: counters went back (the server was restarted), the
    /// server does not answer, the text makes no sense.
    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError>;

    /// How often there is something new, where the source knows: asking more often is in vain.
    fn interval(&self) -> Option<Seconds> {
        None
    }
}

/// What the active cores of one group did since the sample before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupUse {
    /// Share of the active cores' time spent in tasks of clients, 0 to 1.
    pub utilisation_clients: f64,
    /// Share spent in background tasks (reniced ones, to the kernel), 0 to 1.
    pub utilisation_background: f64,
    /// Whether the group waited for a drive, where the source tells it.
    pub waited_for_drives: bool,
}

/// A source of processor utilisation.
pub trait CpuSource: Send {
    /// What it is, for messages.
    fn name(&self) -> &str;

    /// The use of each group's `active` cores since the last call, one entry for each group.
    ///
    /// # Errors
    /// [`SourceError`] when it cannot tell.
    fn sample(&mut self, now: Seconds, active: &[Cpus]) -> Result<Vec<GroupUse>, SourceError>;
}

/// A source that tells how far background work has come.
pub trait BackgroundSource: Send {
    /// What it is, for messages.
    fn name(&self) -> &str;

    /// The work since the last call; `None` where there is none.
    ///
    /// # Errors
    /// [`SourceError`] when it cannot tell.
    fn sample(&mut self, now: Seconds) -> Result<Option<BackgroundObservation>, SourceError>;
}

/// Something that must be well before power may be saved: an array that is not degraded.
pub trait Guard: Send {
    /// What is wrong, where something is.
    fn trouble(&mut self, now: Seconds) -> Option<String>;
}

impl LatencySample {
    /// Both samples as one, taken when the later one was.
    #[must_use]
    pub fn merge(self, later: Self) -> Self {
        let arrived = self.arrived.zip(later.arrived).map(|(a, b)| a.saturating_add(b));
        if self.requests == 0 {
            return Self { arrived, ..later };
        }
        if later.requests == 0 {
            return Self { at: later.at, arrived, ..self };
        }
        let requests = self.requests.saturating_add(later.requests);
        let share = later.requests as f64 / requests as f64;
        let blend = |a: Option<f64>, b: Option<f64>| Some(a? + (b? - a?) * share);
        Self {
            at: later.at,
            requests,
            arrived,
            latency_us_mean: blend(self.latency_us_mean, later.latency_us_mean),
            bytes_mean: blend(self.bytes_mean, later.bytes_mean),
            read_share: blend(self.read_share, later.read_share),
            histogram: match (self.histogram, later.histogram) {
                (Some(a), Some(b)) => a.merge(&b),
                _ => None,
            },
        }
    }
}

impl LatencyHistogram {
    /// Both as one, where they have the same edges.
    fn merge(mut self, other: &Self) -> Option<Self> {
        let edges =
            |h: &Self| h.buckets.iter().map(|bucket| bucket.0.to_bits()).collect::<Vec<_>>();
        if edges(&self) != edges(other) {
            return None;
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            mine.1 = mine.1.saturating_add(theirs.1);
        }
        Some(self)
    }

    /// The upper edge of the bucket in which the quantile lies, in microseconds; `None` without
    /// requests or where that bucket has no upper edge.
    #[must_use]
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        let total: u64 = self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.1));
        if total == 0 {
            return None;
        }
        let rank = (quantile.clamp(0.0, 1.0) * total as f64).ceil().max(1.0);
        let mut below = 0u64;
        let reached = self.buckets.iter().find(|bucket| {
            below = below.saturating_add(bucket.1);
            below as f64 >= rank
        });
        reached.map(|bucket| bucket.0).filter(|edge| edge.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: f64, requests: u64, latency_us: f64) -> LatencySample {
        LatencySample {
            at: Seconds(at),
            requests,
            arrived: Some(requests + 1),
            latency_us_mean: (requests > 0).then_some(latency_us),
            bytes_mean: None,
            read_share: None,
            histogram: Some(LatencyHistogram {
                buckets: vec![(100.0, requests), (f64::INFINITY, 1)],
            }),
        }
    }

    #[test]
    fn merged_samples_weigh_by_requests() {
        let both = sample(1.0, 10, 100.0).merge(sample(2.0, 30, 200.0));
        assert_eq!((both.at, both.requests, both.latency_us_mean), (Seconds(2.0), 40, Some(175.0)));
        assert_eq!(both.arrived, Some(42));
        assert_eq!(both.histogram.unwrap().buckets, [(100.0, 40), (f64::INFINITY, 2)]);
        let quiet = sample(1.0, 10, 100.0).merge(sample(2.0, 0, 0.0));
        assert_eq!((quiet.at, quiet.latency_us_mean), (Seconds(2.0), Some(100.0)));
    }

    #[test]
    fn a_quantile_beyond_the_last_edge_is_not_known() {
        let histogram = sample(1.0, 99, 1.0).histogram.unwrap();
        assert_eq!(histogram.quantile_us(0.99), Some(100.0));
        assert_eq!(histogram.quantile_us(1.0), None);
        assert_eq!(LatencyHistogram::default().quantile_us(0.5), None);
    }
}
