//! The sources of a live host's observations.

use thiserror::Error;
use wattio_files::plain;
use wattio_law::{BackgroundObservation, InFlight, LatencyHistogram};
use wattio_units::{Seconds, Watts};

use crate::cpus::Cpus;

/// Why there is no sample. Whatever the reason: full speed in this window and a retry in the next,
/// until the error budget is spent.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{source_name}: {message}")]
pub struct SourceError {
    /// Which source.
    pub source_name: String,
    /// What was wrong, where, and how to fix it.
    pub message: String,
}

impl SourceError {
    /// Of this source.
    pub fn new(source_name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { source_name: source_name.into(), message: plain(message.into()) }
    }
}

/// Client requests that completed since the sample before.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencySample {
    /// When it was taken, on the governor's clock.
    pub at: Seconds,
    /// How many requests completed.
    pub requests: u64,
    /// How many arrived, if the source sees that: a burst shows there first.
    pub arrived: Option<u64>,
    /// The requests under way now, if the source sees that.
    pub in_flight: Option<InFlight>,
    /// Their mean latency in microseconds; `None` when there were none.
    pub latency_us_mean: Option<f64>,
    /// Their mean size in bytes, if the source reports it.
    pub bytes_mean: Option<f64>,
    /// The share of reads among them, if the source reports it.
    pub read_share: Option<f64>,
    /// How they spread, if the source reports it.
    pub histogram: Option<LatencyHistogram>,
}

/// A source of client latency.
///
/// A source that talks to others does so in a thread of its own: `sample` never waits.
pub trait LatencySource: Send {
    /// Its name for messages: `diskstats nvme0n1`.
    fn name(&self) -> &str;

    /// The requests since the last sample that was handed out; `None` when nothing new was
    /// measured since. A live source that saw no request answers with zero requests.
    ///
    /// # Errors
    /// [`SourceError`] when it cannot tell: counters went back (the server was restarted), the
    /// server does not answer, the text makes no sense.
    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError>;

    /// How often there is something new, if the source knows: asking more often is useless.
    fn interval(&self) -> Option<Seconds> {
        None
    }

    /// The least latency that it can tell from none, in microseconds: what is below is not known.
    fn latency_us_resolution(&self) -> f64 {
        1.0
    }

    /// A note for the operator, reported once; samples are not affected.
    fn note(&mut self) -> Option<String> {
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
    /// Tasks of clients that wait for a core now, if the source reports it.
    pub queued: Option<u64>,
    /// Whether the group waited for a drive, if the source reports it.
    pub waited_for_drives: bool,
}

/// A source of processor utilisation.
pub trait CpuSource: Send {
    /// Its name for messages.
    fn name(&self) -> &str;

    /// The use of each group's `active` cores since the last call, one entry for each group.
    ///
    /// # Errors
    /// [`SourceError`] when it cannot tell.
    fn sample(&mut self, now: Seconds, active: &[Cpus]) -> Result<Vec<GroupUse>, SourceError>;

    /// A note for the operator, reported once; samples are not affected.
    fn note(&mut self) -> Option<String> {
        None
    }
}

/// A source that tells how far background work has come.
pub trait BackgroundSource: Send {
    /// Its name for messages.
    fn name(&self) -> &str;

    /// The work since the last call, class by class; empty where there is none.
    ///
    /// # Errors
    /// [`SourceError`] when it cannot tell.
    fn sample(&mut self, now: Seconds) -> Result<Vec<BackgroundObservation>, SourceError>;
}

/// A source of power.
///
/// The law can do without: a window without a power reading is passed on without one, with no other
/// consequence. A source that talks to others does so in a thread of its own: `sample` never waits.
pub trait PowerSource: Send {
    /// Its name for messages.
    fn name(&self) -> &str;

    /// Mean power since the last call; `None` if nothing was measured over that time, as at the
    /// first look at a counter.
    ///
    /// # Errors
    /// [`SourceError`] when it cannot tell, or can tell of a longer time only.
    fn sample(&mut self, now: Seconds) -> Result<Option<Watts>, SourceError>;
}

/// A health check that must pass before power may be saved: an array that is not degraded.
pub trait Guard: Send {
    /// The problem, if there is one.
    fn problem(&mut self, now: Seconds) -> Option<String>;
}

impl LatencySample {
    /// Both samples as one, taken when the later one was.
    #[must_use]
    pub fn merge(self, later: Self) -> Self {
        let arrived = self.arrived.zip(later.arrived).map(|(a, b)| a.saturating_add(b));
        let in_flight = later.in_flight;
        if self.requests == 0 {
            return Self { arrived, ..later };
        }
        if later.requests == 0 {
            return Self { at: later.at, arrived, in_flight, ..self };
        }
        let requests = self.requests.saturating_add(later.requests);
        // By whole sums (nanoseconds, bytes, reads), so that a window merged from pieces equals an
        // undivided one.
        let sum = |mean: f64, of: u64, unit: f64| (mean * of as f64 * unit).round();
        let both = |a: Option<f64>, b: Option<f64>, unit: f64| {
            let sums = sum(a?, self.requests, unit) + sum(b?, later.requests, unit);
            Some(sums / requests as f64 / unit)
        };
        Self {
            at: later.at,
            requests,
            arrived,
            in_flight,
            latency_us_mean: both(self.latency_us_mean, later.latency_us_mean, 1e3),
            bytes_mean: both(self.bytes_mean, later.bytes_mean, 1.0),
            read_share: both(self.read_share, later.read_share, 1.0),
            histogram: self.histogram.zip(later.histogram).map(|(mut sum, later)| {
                sum.merge(&later);
                sum
            }),
        }
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
            in_flight: Some(InFlight { requests: 1, oldest: None }),
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
}
