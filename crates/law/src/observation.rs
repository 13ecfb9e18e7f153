//! What a law sees of one window.

use wattio_units::{Hertz, Seconds};

/// Everything a law sees of the window that just ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// What clients experienced; `None` when the source is silent or its sample too old. A live
    /// source that counted no request is `Some` with `requests` zero.
    pub latency: Option<LatencyObservation>,
    /// One entry for each core group, in the order of the server description.
    pub groups: Vec<GroupObservation>,
    /// The work that no client waits for; `None` where the server does not tell.
    pub background: Option<BackgroundObservation>,
    /// Whether the window was closed early because the law's alarm went off.
    pub alarm: bool,
}

/// Client requests completed in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyObservation {
    /// How many requests completed.
    pub requests: u64,
    /// Their mean latency in microseconds; `None` when there were none.
    pub latency_us_mean: Option<f64>,
    /// Their mean size in bytes, where the source tells it.
    pub bytes_mean: Option<f64>,
    /// The share of reads among them, where the source tells it.
    pub read_share: Option<f64>,
    /// How long ago the sample was taken.
    pub age: Seconds,
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
    /// Whether tasks of this group waited for a drive during the window (for laws that boost).
    pub waited_for_drives: bool,
}

/// A mean latency above this (eleven days) was not measured.
const LATENCY_US_MAX: f64 = 1e12;

impl LatencyObservation {
    /// Whether the sample says how clients fare: it counted no request, or has a mean latency that
    /// can be one. A sample that does not is as good as missing.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let possible = |mean_us: f64| mean_us > 0.0 && mean_us <= LATENCY_US_MAX;
        self.requests == 0 || self.latency_us_mean.is_some_and(possible)
    }
}

impl GroupObservation {
    /// Share of the cores' time spent in any task.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.utilisation_clients + self.utilisation_background
    }
}

/// Background work over a window, in core-seconds at the highest frequency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundObservation {
    /// Work done.
    pub done_core_s: f64,
    /// Work that became due.
    pub offered_core_s: f64,
    /// Work that is due and not done.
    pub backlog_core_s: f64,
}
