//! The target's status as the page, the metrics, the socket and the journal's summary show it.

mod metrics;
mod view;

use crate::status::ReactorStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattio_governor::BoundStatus;
use wattio_governor::journal::EventRow;
use wattio_host::ledger::PowerStatus;
use wattio_host::overhead::Cost;
use wattio_host::shadow::{ComparedStatus, Mode, ShadowStatus};
use wattio_host::verdict::Verdict;
use wattio_law::LatencyHistogram;
use wattio_service::Program;
use wattio_service::metrics::Family;
use wattio_units::Seconds;

/// Everything an operator may want to see. Absent means unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Version of the program.
    pub version: String,
    /// `observe` (stays at full speed whatever the law asks for) or `run`.
    #[serde(default)]
    pub mode: String,
    /// Name of the configuration.
    pub name: String,
    /// The law.
    pub policy: String,
    /// Its state.
    pub state: Option<String>,
    /// Reason for the last step's decision.
    pub reason: String,
    /// Why full speed is forced, if it is.
    pub forced: Option<String>,
    /// Whether an operator paused it.
    pub paused: bool,
    /// Nanoseconds since 1970 in UTC of the last step.
    pub utc_ns: u64,
    /// Time since the start.
    pub uptime_s: f64,
    /// What clients experience.
    pub latency: LatencyShown,
    /// Each bound that is kept, in the order of the configuration.
    #[serde(default)]
    pub bounds: Vec<BoundStatus>,
    /// The groups of reactors.
    pub groups: Vec<GroupShown>,
    /// Reactors that are on; in shadow mode those that would be.
    pub reactors_active: usize,
    /// All of them.
    pub reactors_total: usize,
    /// What each of them has done, as of some seconds ago.
    pub reactors: Vec<ReactorStatus>,
    /// Background work, class by class.
    pub background: Vec<ClassShown>,
    /// Released background work over what becomes due: 0 is paused, 1 keeps up.
    #[serde(default)]
    pub background_pace: f64,
    /// Power.
    pub power: PowerStatus,
    /// In shadow mode, the model that the law's loop is closed over.
    #[serde(default)]
    pub shadow: Option<ShadowStatus>,
    /// In shadow mode, the other law that was asked for beside.
    #[serde(default)]
    pub compared: Option<ComparedStatus>,
    /// Counts since the start.
    pub counts: Counts,
    /// What the program itself costs, its reactors included.
    pub own: Cost,
    /// The last events, the newest last.
    pub events: Vec<EventRow>,
    /// How latencies spread since the start, and their sum: for metrics.
    #[serde(skip)]
    pub latencies: (LatencyHistogram, Seconds),
}

/// What clients experience, from the socket to the socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyShown {
    /// Where it is measured.
    pub source: String,
    /// Answered requests per second over the last window.
    pub requests_per_s: Option<f64>,
    /// Mean over the last window.
    pub latency_us_mean: Option<f64>,
    /// What the law is shown of it: in shadow mode the mean that the setting it asked for would give
    /// (an estimate), else the measured one.
    #[serde(default)]
    pub latency_us_seen: Option<f64>,
    /// 99th percentile. Requests of a bucket count as spread evenly over it.
    pub latency_us_p99: Option<f64>,
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
    /// Loss that the fitted model predicts for the setting in force, or in shadow mode for the one that
    /// would be (an estimate).
    #[serde(default)]
    pub loss_predicted: Option<f64>,
    /// Requests under way.
    pub in_flight: u64,
    /// How long the oldest of them waits.
    pub in_flight_oldest_s: Option<f64>,
}

/// A group of reactors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupShown {
    /// Its name.
    pub name: String,
    /// Reactors that are on; in shadow mode those that would be.
    pub cores_active: u32,
    /// All of them.
    pub cores_total: u32,
    /// How many always stay.
    pub cores_min: u32,
    /// The limit of their cores' frequency, in shadow mode the one that would be; absent where nothing turns that.
    pub frequency_hz: Option<f64>,
    /// The highest frequency.
    pub frequency_max_hz: Option<f64>,
    /// Share of the time of those that are on in tasks of clients.
    pub utilisation_clients: f64,
    /// Share in background tasks.
    pub utilisation_background: f64,
}

/// A class of background work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassShown {
    /// Its name.
    pub name: String,
    /// Work that is due and not done (an estimate, by what a block took so far).
    pub backlog_core_s_estimated: f64,
    /// How pressing it is, 0 to 1.
    pub urgency: f64,
    /// Core-seconds in a second that it may take; absent: as it becomes due.
    pub budget_core_s_per_s: Option<f64>,
    /// Processor time spent on it since the start.
    pub done_core_s: f64,
    /// The slices that this was done in.
    #[serde(default)]
    pub slices: u64,
    /// What the longest of them took; absent: there was none.
    #[serde(default)]
    pub slice_us_max: Option<f64>,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Windows in all.
    pub windows: u64,
    /// Windows without a usable latency.
    #[serde(default)]
    pub windows_missing: u64,
    /// Windows after which full speed was forced.
    pub windows_forced: u64,
    /// Windows in which the first bound was in force, with requests and a known limit.
    pub windows_bounded: u64,
    /// Of these, windows above the bound.
    pub violations: u64,
    /// Loss of the mean latency, over all requests of windows with a known bound on it.
    pub loss_mean: Option<f64>,
    /// Sum of the latencies of those requests of which it is known what they would have taken at full
    /// speed, so that the loss of any stretch can be told.
    pub bounded_latency_us_sum: f64,
    /// Sum of what they would have taken at full speed.
    pub bounded_full_speed_us_sum: f64,
    /// Requests that were answered.
    pub requests: u64,
    /// Time that reactors were on, added up over them.
    pub reactors_on_s: f64,
    /// Steps that changed the setting; in shadow mode those that would have.
    pub setting_changes: u64,
    /// Time in each of the law's states.
    pub state_span_s: BTreeMap<String, f64>,
}

impl Shown {
    /// What the law has saved so far and how it kept its bounds, or in shadow mode would have.
    #[must_use]
    pub fn verdict(&self) -> String {
        let told = Verdict {
            is_shadow: self.mode == Mode::Observe.name(),
            policy: &self.policy,
            uptime_s: self.uptime_s,
            power: &self.power,
            bounds: &self.bounds,
            setting_changes: self.counts.setting_changes,
            loss_mean: self.counts.loss_mean,
            shadow: self.shadow.as_ref(),
            compared: self.compared.as_ref(),
        };
        told.text()
    }
}

/// What may be asked over the socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How it stands.
    Status {},
    /// The same, with what reactors and volumes say of themselves now.
    Inspect {},
    /// Another latency tolerance, from the next step on.
    SetTolerance {
        /// 0.1 is 10 % above the latency at full speed.
        tolerance: f64,
    },
    /// Full speed until resumed.
    Pause {},
    /// Ends a pause.
    Resume {},
    /// Read everything now.
    Scrub {
        /// Of one export; of all if it is absent.
        export: Option<String>,
    },
}

/// An answer.
pub type Answer = wattio_service::Answer<Shown>;

/// What charts show, under the names that it has in the status.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    utc_ns: u64,
    latency: LatencyMoment,
    reactors_active: usize,
    power: PowerMoment,
    groups: Vec<GroupMoment>,
    background: Vec<ClassMoment>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct LatencyMoment {
    requests_per_s: Option<f64>,
    latency_us_mean: Option<f64>,
    latency_us_seen: Option<f64>,
    baseline_us: Option<f64>,
    bound_us: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct PowerMoment {
    measured_w: Option<f64>,
    estimated_w: Option<f64>,
    estimated_full_speed_w: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct GroupMoment {
    cores_active: u32,
    frequency_hz: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ClassMoment {
    backlog_core_s_estimated: f64,
}

impl Moment {
    fn of(shown: &Shown) -> Self {
        let latency = &shown.latency;
        let class = |class: &ClassShown| class.backlog_core_s_estimated;
        let classes = shown.background.iter().map(class);
        let group = |group: &GroupShown| GroupMoment {
            cores_active: group.cores_active,
            frequency_hz: group.frequency_hz,
        };
        let groups = shown.groups.iter().map(group);
        Self {
            utc_ns: shown.utc_ns,
            latency: LatencyMoment {
                requests_per_s: latency.requests_per_s,
                latency_us_mean: latency.latency_us_mean,
                latency_us_seen: latency.latency_us_seen,
                baseline_us: latency.baseline_us,
                bound_us: latency.bound_us,
            },
            reactors_active: shown.reactors_active,
            power: PowerMoment {
                measured_w: shown.power.measured_w,
                estimated_w: shown.power.estimated_w,
                estimated_full_speed_w: shown.power.estimated_full_speed_w,
            },
            groups: groups.collect(),
            background: classes
                .map(|backlog_core_s_estimated| ClassMoment { backlog_core_s_estimated })
                .collect(),
        }
    }
}

/// The program, as page, metrics and socket show it.
#[derive(Debug)]
pub enum WattioTarget {}

impl Program for WattioTarget {
    const NAME: &'static str = "wattio-target";
    const VIEW: &'static str = include_str!("../../page/view.js");
    const HAS_ITS_OWN_USER: bool = true;
    const ALLOWED: &'static str = r#"allowed is one JSON object a line: {"op":"status"}, {"op":"inspect"}, {"op":"set_tolerance","tolerance":0.1}, {"op":"pause"}, {"op":"resume"}, or {"op":"scrub"} with or without "export":"NAME""#;
    type Status = Shown;
    type Moment = Moment;
    type Request = Request;

    fn metrics(shown: &Shown) -> Vec<Family<'_>> {
        metrics::families(shown)
    }

    fn moment(shown: &Shown) -> (u64, String, Moment) {
        // In another mode the same chart shows something else.
        let kind = format!("{} {} reactors", shown.mode, shown.reactors_total);
        (shown.utc_ns, kind, Moment::of(shown))
    }

    fn asks_status(request: &Request) -> bool {
        *request == Request::Status {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shadow mode ended without a word of what it had found.
    #[test]
    fn what_the_law_came_to_is_told_as_wattiod_tells_it() {
        let bound = BoundStatus {
            bound: "mean 20% run".into(),
            statistic: "mean".into(),
            windows: 900,
            windows_over: 3,
            kept: Some(true),
            ..BoundStatus::default()
        };
        let power = PowerStatus {
            estimated_span_s: Some(7325.0),
            estimated_j: Some(29_300.0),
            estimated_full_speed_j: Some(36_625.0),
            ..PowerStatus::default()
        };
        let shown = Shown {
            mode: "observe".into(),
            policy: "pacer".into(),
            uptime_s: 7325.0,
            bounds: vec![bound],
            power,
            counts: Counts { setting_changes: 41, loss_mean: Some(0.066), ..Counts::default() },
            ..Shown::default()
        };
        let told = "over 2 h 2 min would have saved 1.0 W on average, 20.0 % of 5.0 W (estimate)\n\
                    would have broken the bound in 3 of 900 windows with a known bound\n\
                    would have changed the setting 41 times\n\
                    mean latency +6.6 % against full speed in those windows (estimate)";
        assert_eq!(shown.verdict(), told);
        let text = Shown { mode: "run".into(), ..shown }.verdict();
        assert!(text.contains("saved 1.0 W") && !text.contains("would"), "{text}");
    }
}
