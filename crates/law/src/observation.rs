//! What a law sees of one window.

use crate::histogram::LatencyHistogram;
use std::sync::Arc;
use wattio_units::{Hertz, Seconds, Watts};

/// Everything a law sees of the window that just ended. Values that a source does not know are
/// absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// What clients experienced; `None` when the source is silent or its sample too old. A live
    /// source that counted no request is `Some` with `requests` zero.
    pub latency: Option<LatencyObservation>,
    /// One entry for each core group, in the order of the server description.
    pub groups: Vec<GroupObservation>,
    /// The work that no client waits for, class by class; empty where the server does not tell.
    pub background: Vec<BackgroundObservation>,
    /// Mean power over the window, of whatever the law can change.
    pub power: Option<Watts>,
    /// Whether the window was closed early because the law's alarm went off.
    pub alarm: bool,
}

/// Client requests in a window.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyObservation {
    /// How many requests completed.
    pub requests: u64,
    /// Their mean latency in microseconds; `None` when there were none.
    pub latency_us_mean: Option<f64>,
    /// The distribution of their latencies.
    pub histogram: Option<LatencyHistogram>,
    /// Their mean size in bytes.
    pub bytes_mean: Option<f64>,
    /// The share of reads among them.
    pub read_share: Option<f64>,
    /// How many requests arrived.
    pub arrived: Option<u64>,
    /// The requests that were under way when the window ended.
    pub in_flight: Option<InFlight>,
    /// How long ago the sample was taken.
    pub age: Seconds,
}

/// Requests that have arrived and are not answered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InFlight {
    /// How many there are.
    pub requests: u64,
    /// How long the oldest one has been waiting; `None` if there is none or it is unknown.
    pub oldest: Option<Seconds>,
}

/// One core group over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupObservation {
    /// Cores that were asked for at the end of the window.
    pub cores: u32,
    /// Their frequency at the end of the window.
    pub frequency: Hertz,
    /// Share of the cores' time spent in tasks of clients, 0 to 1. A core that polls an empty
    /// queue is not in a task, whatever the kernel says.
    pub utilisation_clients: f64,
    /// Share of the cores' time spent in background tasks, 0 to 1.
    pub utilisation_background: f64,
    /// Tasks of clients that waited for a core when the window ended.
    pub queued: Option<u64>,
    /// Whether tasks of this group waited for a drive during the window (for laws that boost).
    pub waited_for_drives: bool,
}

/// One class of background work over a window, in core-seconds at the highest frequency.
#[derive(Clone, Debug, PartialEq)]
pub struct BackgroundObservation {
    /// Its name: `scrub`.
    pub class: Arc<str>,
    /// Work done.
    pub done_core_s: f64,
    /// Work that became due.
    pub due_core_s: f64,
    /// Work that is due and not done.
    pub backlog_core_s: f64,
    /// How pressing it is: 0 may wait for as long as the law's delay bound says, 1 must not wait.
    pub urgency: Option<f64>,
}

/// A mean latency above this (eleven days) was not measured.
const LATENCY_US_MAX: f64 = 1e12;

impl LatencyObservation {
    /// Nothing completed, nothing else known.
    #[must_use]
    pub fn quiet(age: Seconds) -> Self {
        Self {
            requests: 0,
            latency_us_mean: None,
            histogram: None,
            bytes_mean: None,
            read_share: None,
            arrived: None,
            in_flight: None,
            age,
        }
    }

    /// Whether the sample is usable: it counted no request, or has a plausible mean latency. Any
    /// other sample counts as missing.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let possible = |mean_us: f64| mean_us > 0.0 && mean_us <= LATENCY_US_MAX;
        self.requests == 0 || self.latency_us_mean.is_some_and(possible)
    }

    /// What clients offered in the window: arrivals where they are known, else completions.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.arrived.unwrap_or(self.requests)
    }

    /// Whether requests are under way.
    #[must_use]
    pub fn has_in_flight(&self) -> bool {
        self.in_flight.is_some_and(|in_flight| in_flight.requests > 0)
    }

    /// Whether requests are under way and not one was answered: a server that stalls, or one whose
    /// requests take longer than a window.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.requests == 0 && self.has_in_flight()
    }
}

impl GroupObservation {
    /// Share of the cores' time spent in any task.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.utilisation_clients + self.utilisation_background
    }
}

impl BackgroundObservation {
    /// Whether every amount is plausible.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let possible = |core_s: f64| core_s.is_finite() && core_s >= 0.0;
        [self.done_core_s, self.due_core_s, self.backlog_core_s].into_iter().all(possible)
    }
}
