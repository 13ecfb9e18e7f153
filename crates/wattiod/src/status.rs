//! The daemon's status: one object for `status --json`, the page and the metrics.

pub use crate::alternation::AlternationStatus;
pub use wattio_governor::{BoundStatus, FollowerStatus};
pub use wattio_host::ledger::PowerStatus;
pub use wattio_host::shadow::{ComparedStatus, ShadowStatus};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything an operator may want to see. Absent means unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// `observe` (acts on nothing) or `run`.
    pub mode: String,
    /// The law.
    pub policy: String,
    /// Its state: `unstable`, `stable`, `idle`.
    pub state: Option<String>,
    /// Reason for the last step's decision.
    pub reason: String,
    /// Why full speed is forced, if it is.
    pub forced: Option<String>,
    /// Whether an operator paused it.
    pub paused: bool,
    /// Name of the configuration, as in its file.
    pub name: String,
    /// Name of the application, where the daemon governs several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Nanoseconds since 1970 in UTC of the last step.
    pub utc_ns: u64,
    /// Time since the start.
    pub uptime_s: f64,
    /// What clients experience.
    pub latency: LatencyStatus,
    /// Each bound that is kept, in the order of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<BoundStatus>,
    /// The groups of cores.
    pub groups: Vec<GroupStatus>,
    /// Released background work over what becomes due: 0 is paused, 1 keeps up.
    pub background_pace: f64,
    /// Power drawn and saved.
    pub power: PowerStatus,
    /// In shadow mode, the model that the law's loop is closed over.
    pub shadow: Option<ShadowStatus>,
    /// In shadow mode, the other law that was asked for beside.
    #[serde(default)]
    pub compared: Option<ComparedStatus>,
    /// What governing by turns with full speed has shown, where that was asked for.
    #[serde(default)]
    pub alternation: Option<AlternationStatus>,
    /// The knobs that only follow the law, where their order is measured: best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<FollowerStatus>,
    /// Counts since the start.
    pub counts: Counts,
    /// The daemon's own cost.
    pub own: OverheadStatus,
    /// The last events, the newest last; of all applications with the first.
    pub events: Vec<EventStatus>,
    /// Of each further application. The host's meter, and what a model says of the host's rest, are
    /// told with the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Status>,
}

impl Status {
    /// Of each application, this one first.
    pub fn applications(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }
}

/// What clients experience.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyStatus {
    /// The source.
    pub source: String,
    /// The least latency that the source can tell from none, where that is more than a microsecond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us_resolution: Option<f64>,
    /// Completed requests per second over the last window.
    pub requests_per_s: Option<f64>,
    /// Mean over the last window that had requests.
    pub latency_us_mean: Option<f64>,
    /// What the law is shown of it: in shadow mode the mean that the setting it asked for would
    /// give (an estimate), else the measured one.
    #[serde(default)]
    pub latency_us_seen: Option<f64>,
    /// 99th percentile, if the source reports it. The requests of a bucket count as spread evenly
    /// over it; absent where it lies in the first one and may be anything below that one's edge.
    pub latency_us_p99: Option<f64>,
    /// How old the newest sample is.
    pub sample_age_s: f64,
    /// The mean latency of this load at full speed.
    pub baseline_us: Option<f64>,
    /// The first bound, as in a configuration.
    #[serde(default)]
    pub bound: Option<String>,
    /// What the mean latency may come to; absent where no bound is on the mean.
    pub bound_us: Option<f64>,
    /// The tolerance of the first bound on the mean, if that is a share: 0.2 is 20 % above the
    /// baseline.
    pub tolerance: Option<f64>,
    /// Measured loss of the last window: 0.1 is 10 % above the baseline.
    pub loss_measured: Option<f64>,
    /// Loss that the fitted model predicts for the setting in force (an estimate).
    pub loss_predicted: Option<f64>,
}

/// A group of cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Its name.
    pub name: String,
    /// Active cores; in shadow mode, those that would be active.
    pub cores_active: u32,
    /// All its cores.
    pub cores_total: u32,
    /// How many always stay active.
    pub cores_min: u32,
    /// Frequency limit in force; in shadow mode the one that would be. Absent where no knob turns
    /// it.
    pub frequency_hz: Option<f64>,
    /// The highest frequency.
    pub frequency_max_hz: Option<f64>,
    /// Measured share of the working cores' time in tasks of clients.
    pub utilisation_clients: f64,
    /// Measured share in background tasks.
    pub utilisation_background: f64,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Windows in all.
    pub windows: u64,
    /// Windows without a usable latency.
    pub windows_missing: u64,
    /// Windows after which full speed was forced.
    pub windows_forced: u64,
    /// Windows in which the first bound was in force, with requests and a known limit.
    pub windows_bounded: u64,
    /// Of these, windows above the bound.
    pub violations: u64,
    /// Loss of the mean latency, over all requests of windows with a known bound on it; absent where
    /// no bound is on the mean.
    pub loss_mean: Option<f64>,
    /// Client requests.
    pub requests: u64,
    /// Values written.
    pub knob_writes: u64,
    /// Values that could not be read, saved or written.
    pub knob_failures: u64,
    /// Steps that changed the setting; in shadow mode those that would have.
    pub setting_changes: u64,
    /// Places left to somebody else.
    pub foreign_changes: u64,
    /// Samples that sources failed to deliver.
    pub source_errors: u64,
    /// Windows without a reading of the configured meter.
    #[serde(default)]
    pub windows_unmeasured: u64,
    /// Returns from saving to full speed, but for those of a pause or of alternation.
    pub flaps: u64,
    /// How often the circuit breaker opened.
    pub breaker_trips: u64,
    /// Time in each of the law's states; empty if it has none.
    pub state_span_s: BTreeMap<String, f64>,
}

/// The daemon's own cost.
pub type OverheadStatus = wattio_host::overhead::Cost;

/// An event.
pub type EventStatus = wattio_governor::journal::EventRow;
