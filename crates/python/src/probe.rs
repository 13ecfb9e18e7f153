//! A law by itself, and the recorded steps of one in a run, as JSON.

use crate::error::Fault;
use serde::{Deserialize, Serialize};
use wattio_control::Settings;
use wattio_law::{
    Action, BackgroundObservation, Bound, Budget, DriveAction, Glimpse, GroupObservation, InFlight,
    LatencyHistogram, LatencyObservation, Law, Observation, Stepped,
};
use wattio_plant::Server;
use wattio_sim::Run;
use wattio_units::{Hertz, Seconds, Watts};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ObservationJson {
    latency: Option<LatencyJson>,
    groups: Vec<GroupJson>,
    #[serde(default)]
    background: Vec<BackgroundJson>,
    #[serde(default)]
    power_w: Option<f64>,
    #[serde(default)]
    alarm: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyJson {
    requests: u64,
    latency_us_mean: Option<f64>,
    bytes_mean: Option<f64>,
    read_share: Option<f64>,
    #[serde(default)]
    arrived: Option<u64>,
    #[serde(default)]
    in_flight: Option<u64>,
    #[serde(default)]
    oldest_s: Option<f64>,
    /// Upper edges in microseconds with the requests in each bucket; null: no upper edge.
    #[serde(default)]
    histogram: Option<Vec<(Option<f64>, u64)>>,
    age_s: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupJson {
    cores: u32,
    frequency_hz: f64,
    utilisation_clients: f64,
    utilisation_background: f64,
    #[serde(default)]
    queued: Option<u64>,
    waited_for_drives: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackgroundJson {
    class: String,
    done_core_s: f64,
    due_core_s: f64,
    backlog_core_s: f64,
    #[serde(default)]
    urgency: Option<f64>,
}

#[derive(Serialize)]
struct ActionJson {
    groups: Vec<GroupActionJson>,
    drives: &'static str,
    /// Core-seconds a second for each class; absent: as it becomes due.
    background_core_s_per_s: Vec<Option<f64>>,
}

#[derive(Serialize)]
struct GroupActionJson {
    cores: u32,
    frequency_hz: f64,
}

#[derive(Serialize)]
struct AnswerJson {
    action: ActionJson,
    state: Option<&'static str>,
    /// The fewest arrivals within a span that alarm the law until the next step; absent where none
    /// do.
    alarm_requests: Option<u64>,
}

#[derive(Serialize)]
struct StepJson {
    dt_s: f64,
    observation: ObservationJson,
    action: ActionJson,
    state: Option<&'static str>,
}

/// A law and nothing around it.
pub struct Probe(std::sync::Mutex<Box<dyn Law>>);

impl Probe {
    pub fn new(server: &str, name: &str, settings: &str) -> Result<Self, Fault> {
        let limits = wattio_sim::limits(&Server::from_toml(server)?);
        let settings: Settings = serde_json::from_str(settings)?;
        Ok(Self(wattio_control::build(name, &settings, &limits)?.into()))
    }

    /// Bounds as users write them, instead of what the settings say.
    pub fn set_bounds(&mut self, bounds: &[String]) -> Result<(), Fault> {
        let bounds: Vec<Bound> =
            bounds.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).set_bounds(&bounds);
        Ok(())
    }

    pub fn step(&mut self, observation: &str, dt_s: f64) -> Result<String, Fault> {
        let seen: ObservationJson = serde_json::from_str(observation)?;
        let mut law = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let action = law.step(&seen.into(), Seconds(dt_s));
        Ok(serde_json::to_string(&AnswerJson {
            action: (&action).into(),
            state: law.insight().mode,
            alarm_requests: alarm_requests(law.as_ref()),
        })?)
    }
}

/// The fewest arrivals within a span that alarm a law; `None` where it does not watch, or no number
/// does: at full speed there is nothing to give back.
fn alarm_requests(law: &dyn Law) -> Option<u64> {
    let span = law.watch()?.span;
    let alarms = |requests| {
        law.is_alarming(&Glimpse { span, arrived: Some(requests), ..Glimpse::default() })
    };
    let (mut calm, mut alarming) = (0, u64::MAX);
    if !alarms(alarming) {
        return None;
    }
    while alarming - calm > 1 {
        let between = calm + (alarming - calm) / 2;
        if alarms(between) { alarming = between } else { calm = between }
    }
    Some(alarming)
}

/// The recorded steps of a run.
pub fn steps_json(run: &Run) -> Result<String, Fault> {
    let step = |step: &Stepped| StepJson {
        dt_s: step.dt.0,
        observation: (&step.seen).into(),
        action: (&step.action).into(),
        state: step.insight.mode,
    };
    Ok(serde_json::to_string(&run.steps().iter().map(step).collect::<Vec<_>>())?)
}

fn histogram(buckets: Vec<(Option<f64>, u64)>) -> LatencyHistogram {
    let edge = |(us, requests): (Option<f64>, u64)| (us.unwrap_or(f64::INFINITY), requests);
    LatencyHistogram { buckets: buckets.into_iter().map(edge).collect() }
}

fn buckets(histogram: &LatencyHistogram) -> Vec<(Option<f64>, u64)> {
    let edge = |&(us, requests): &(f64, u64)| (us.is_finite().then_some(us), requests);
    histogram.buckets.iter().map(edge).collect()
}

impl From<ObservationJson> for Observation {
    fn from(seen: ObservationJson) -> Self {
        Self {
            latency: seen.latency.map(|latency| LatencyObservation {
                requests: latency.requests,
                latency_us_mean: latency.latency_us_mean,
                bytes_mean: latency.bytes_mean,
                read_share: latency.read_share,
                arrived: latency.arrived,
                in_flight: latency
                    .in_flight
                    .map(|requests| InFlight { requests, oldest: latency.oldest_s.map(Seconds) }),
                histogram: latency.histogram.map(histogram),
                age: Seconds(latency.age_s),
            }),
            power: seen.power_w.map(Watts),
            groups: seen
                .groups
                .iter()
                .map(|group| GroupObservation {
                    cores: group.cores,
                    frequency: Hertz(group.frequency_hz),
                    utilisation_clients: group.utilisation_clients,
                    utilisation_background: group.utilisation_background,
                    queued: group.queued,
                    waited_for_drives: group.waited_for_drives,
                })
                .collect(),
            background: seen
                .background
                .into_iter()
                .map(|class| BackgroundObservation {
                    class: class.class.into(),
                    done_core_s: class.done_core_s,
                    due_core_s: class.due_core_s,
                    backlog_core_s: class.backlog_core_s,
                    urgency: class.urgency,
                })
                .collect(),
            alarm: seen.alarm,
        }
    }
}

impl From<&Observation> for ObservationJson {
    fn from(seen: &Observation) -> Self {
        Self {
            latency: seen.latency.as_ref().map(|latency| LatencyJson {
                requests: latency.requests,
                latency_us_mean: latency.latency_us_mean,
                bytes_mean: latency.bytes_mean,
                read_share: latency.read_share,
                arrived: latency.arrived,
                in_flight: latency.in_flight.map(|in_flight| in_flight.requests),
                oldest_s: latency.in_flight.and_then(|in_flight| in_flight.oldest).map(|s| s.0),
                histogram: latency.histogram.as_ref().map(buckets),
                age_s: latency.age.0,
            }),
            power_w: seen.power.map(|power| power.0),
            groups: seen
                .groups
                .iter()
                .map(|group| GroupJson {
                    cores: group.cores,
                    frequency_hz: group.frequency.0,
                    utilisation_clients: group.utilisation_clients,
                    utilisation_background: group.utilisation_background,
                    queued: group.queued,
                    waited_for_drives: group.waited_for_drives,
                })
                .collect(),
            background: seen
                .background
                .iter()
                .map(|class| BackgroundJson {
                    class: class.class.to_string(),
                    done_core_s: class.done_core_s,
                    due_core_s: class.due_core_s,
                    backlog_core_s: class.backlog_core_s,
                    urgency: class.urgency,
                })
                .collect(),
            alarm: seen.alarm,
        }
    }
}

impl From<&Action> for ActionJson {
    fn from(action: &Action) -> Self {
        let group = |group: &wattio_law::GroupAction| GroupActionJson {
            cores: group.cores,
            frequency_hz: group.frequency.0,
        };
        let budget = |class: &wattio_law::BackgroundAction| match class.budget {
            Budget::AsDue => None,
            Budget::CoreSecondsPerSecond(rate) => Some(rate),
        };
        Self {
            groups: action.groups.iter().map(group).collect(),
            drives: match action.drives {
                DriveAction::Own => "own",
                DriveAction::Awake => "awake",
                DriveAction::Asleep => "asleep",
            },
            background_core_s_per_s: action.background.iter().map(budget).collect(),
        }
    }
}
