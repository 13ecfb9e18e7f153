//! The target's status as the page, the metrics, the socket and the journal's summary show it.

mod metrics;

use crate::control_loop::Governing;
use crate::plant::{ClassCounters, Group, Reactors};
use crate::status::ReactorStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattio_governor::journal::EventRow;
use wattio_governor::{BoundStatus, Clock, mean_limit_us};
use wattio_host::ledger::PowerStatus;
use wattio_host::overhead::Cost;
use wattio_law::{BackgroundObservation, BoundAccount, Budget, LatencyHistogram, Octaves};
use wattio_service::Program;
use wattio_service::metrics::Family;
use wattio_units::Seconds;

/// Everything an operator may want to see. Absent means unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Version of the program.
    pub version: String,
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
    /// Reactors that are on.
    pub reactors_active: usize,
    /// All of them.
    pub reactors_total: usize,
    /// What each of them has done, as of some seconds ago.
    pub reactors: Vec<ReactorStatus>,
    /// Background work, class by class.
    pub background: Vec<ClassShown>,
    /// Power.
    pub power: PowerStatus,
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
    /// 99th percentile. Requests of a bucket count as spread evenly over it.
    pub latency_us_p99: Option<f64>,
    /// The mean latency of this load at full speed.
    pub baseline_us: Option<f64>,
    /// What the mean latency may come to; absent where no bound is on the mean.
    pub bound_us: Option<f64>,
    /// The tolerance of the first bound on the mean, if that is a share: 0.2 is 20 % above the
    /// baseline.
    pub tolerance: Option<f64>,
    /// Loss of the last window.
    pub loss_measured: Option<f64>,
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
    /// Reactors that are on.
    pub cores_active: u32,
    /// All of them.
    pub cores_total: u32,
    /// How many always stay.
    pub cores_min: u32,
    /// The limit of their cores' frequency; absent where nothing turns that.
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
    /// Steps that changed the setting.
    pub setting_changes: u64,
    /// Time in each of the law's states.
    pub state_span_s: BTreeMap<String, f64>,
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
        let groups =
            shown.groups.iter().map(|group| GroupMoment { cores_active: group.cores_active });
        Self {
            utc_ns: shown.utc_ns,
            latency: LatencyMoment {
                requests_per_s: latency.requests_per_s,
                latency_us_mean: latency.latency_us_mean,
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
        (shown.utc_ns, format!("{} reactors", shown.reactors_total), Moment::of(shown))
    }

    fn asks_status(request: &Request) -> bool {
        *request == Request::Status {}
    }
}

impl<R: Reactors> Governing<R> {
    /// Everything an operator may want to see.
    pub fn shown(&self, clock: &dyn Clock) -> Shown {
        let (driver, plant) = (&self.governed.driver, &self.governed.plant);
        let last = self.last.as_ref();
        let setting = plant.layout().setting(driver.in_force());
        let all = plant.layout().setting(&driver.limits().full_speed());
        let requests = &plant.totals().requests;
        Shown {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.named.name.clone(),
            policy: self.named.policy.clone(),
            state: driver.insight().mode.map(str::to_owned),
            reason: last.map_or("starting", |step| step.insight.reason).to_owned(),
            forced: last.and_then(|step| step.forced.clone()),
            paused: plant.is_paused,
            utc_ns: self.stepped_utc_ns,
            uptime_s: clock.now().saturating_sub(self.started).as_secs_f64(),
            latency: self.latency_shown(clock),
            bounds: BoundStatus::all_of(driver),
            groups: self.groups_shown(),
            reactors_active: setting.active().len(),
            reactors_total: all.active().len(),
            reactors: self.learned.clone(),
            background: self.background_shown(),
            power: self.ledger.status(None),
            counts: self.counts(),
            own: self.own.cost(),
            events: self.events.iter().cloned().collect(),
            latencies: (
                requests.latencies.since(&Octaves::default()),
                Seconds(requests.latency_ns as f64 * 1e-9),
            ),
        }
    }

    fn latency_shown(&self, clock: &dyn Clock) -> LatencyShown {
        let last = self.last.as_ref();
        let sample = last.and_then(|step| step.sample.as_ref());
        let insight = last.map(|step| step.insight).unwrap_or_default();
        let in_flight = self.governed.plant.totals().in_flight(clock.now());
        let histogram = sample.and_then(|sample| sample.histogram.as_ref());
        LatencyShown {
            source: "the socket".to_owned(),
            requests_per_s: last.zip(sample).map(|(step, s)| s.requests as f64 / step.dt.0),
            latency_us_mean: sample.and_then(|sample| sample.latency_us_mean),
            latency_us_p99: histogram.and_then(|histogram| histogram.quantile_us(0.99)),
            baseline_us: insight.baseline_us,
            bound_us: mean_limit_us(&self.governed.driver),
            tolerance: self.governed.driver.mean_tolerance(),
            loss_measured: insight.loss,
            in_flight: in_flight.requests,
            in_flight_oldest_s: in_flight.oldest.map(|oldest| oldest.0),
        }
    }

    fn groups_shown(&self) -> Vec<GroupShown> {
        let driver = &self.governed.driver;
        let limits = driver.limits().groups.iter().zip(&driver.in_force().groups);
        let groups = self.governed.plant.layout().groups().iter().zip(limits).enumerate();
        let group = |(at, (group, (limits, held))): (
            usize,
            (&Group, (&wattio_law::GroupLimits, &wattio_law::GroupAction)),
        )| {
            let seen = self.last.as_ref().and_then(|step| step.truth.groups.get(at));
            let turns = limits.frequency_min < limits.frequency_max;
            let turned = |hertz: f64| turns.then_some(hertz);
            GroupShown {
                name: group.name.to_owned(),
                cores_active: held.cores,
                cores_total: limits.cores_max,
                cores_min: limits.cores_min,
                frequency_hz: turned(held.frequency.0),
                frequency_max_hz: turned(limits.frequency_max.0),
                utilisation_clients: seen.map_or(0.0, |seen| seen.utilisation_clients),
                utilisation_background: seen.map_or(0.0, |seen| seen.utilisation_background),
            }
        };
        groups.map(group).collect()
    }

    fn background_shown(&self) -> Vec<ClassShown> {
        let Some(last) = &self.last else { return Vec::new() };
        let told = last.truth.background.iter().zip(&self.governed.plant.totals().background);
        let class = |(at, (seen, total)): (usize, (&BackgroundObservation, &ClassCounters))| {
            let budget = match last.action.background_of(at).budget {
                Budget::AsDue => None,
                Budget::CoreSecondsPerSecond(rate) => Some(rate),
            };
            ClassShown {
                name: seen.class.to_string(),
                backlog_core_s_estimated: seen.backlog_core_s,
                urgency: seen.urgency.unwrap_or(0.0),
                budget_core_s_per_s: budget,
                done_core_s: total.done_ns as f64 * 1e-9,
                slices: total.slices,
                slice_us_max: (total.slices > 0).then_some(total.slice_ns_max as f64 * 1e-3),
            }
        };
        told.enumerate().map(class).collect()
    }

    fn counts(&self) -> Counts {
        let driver = &self.governed.driver;
        let (law, bound) = (driver.account(), driver.account().bounds.first());
        let modes = driver.law().modes().iter().map(|&mode| (mode, Seconds(0.0)));
        let spans = modes.chain(law.span_by_mode.iter().copied());
        Counts {
            windows: law.windows,
            windows_forced: law.windows_forced,
            windows_bounded: bound.map_or(0, |bound| bound.windows),
            violations: bound.map_or(0, |bound| bound.windows_over),
            loss_mean: law.on_mean().and_then(BoundAccount::loss),
            bounded_latency_us_sum: law.on_mean().map_or(0.0, |mean| mean.compared_us_sum),
            bounded_full_speed_us_sum: law.on_mean().map_or(0.0, |mean| mean.full_speed_us_sum),
            requests: law.requests,
            reactors_on_s: self.reactors_on_s,
            setting_changes: law.knob_changes,
            state_span_s: spans.map(|(mode, span)| (mode.to_owned(), span.0)).collect(),
        }
    }
}
