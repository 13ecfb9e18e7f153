//! A law by itself, and the recorded steps of one in a run, as JSON.

use crate::error::Fault;
use serde::{Deserialize, Serialize};
use wattio_control::Settings;
use wattio_law::{
    Action, BackgroundObservation, GroupObservation, LatencyObservation, Law, Observation,
    OperatingState,
};
use wattio_plant::Server;
use wattio_sim::{Run, Step};
use wattio_units::{Hertz, Seconds};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ObservationJson {
    latency: Option<LatencyJson>,
    groups: Vec<GroupJson>,
    background: Option<BackgroundJson>,
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
    age_s: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupJson {
    cores: u32,
    frequency_hz: f64,
    utilisation_clients: f64,
    utilisation_background: f64,
    waited_for_drives: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackgroundJson {
    done_core_s: f64,
    offered_core_s: f64,
    backlog_core_s: f64,
}

#[derive(Serialize)]
struct ActionJson {
    groups: Vec<GroupActionJson>,
    pace: f64,
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

    pub fn step(&mut self, observation: &str, dt_s: f64) -> Result<String, Fault> {
        let seen: ObservationJson = serde_json::from_str(observation)?;
        let mut law = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let action = law.step(&seen.into(), Seconds(dt_s));
        Ok(serde_json::to_string(&AnswerJson {
            action: (&action).into(),
            state: law.state().map(OperatingState::name),
            alarm_requests: law.alarm_requests(),
        })?)
    }
}

/// The recorded steps of a run.
pub fn steps_json(run: &Run) -> Result<String, Fault> {
    let step = |step: &Step| StepJson {
        dt_s: step.dt.0,
        observation: (&step.observation).into(),
        action: (&step.action).into(),
        state: step.state.map(OperatingState::name),
    };
    Ok(serde_json::to_string(&run.steps().iter().map(step).collect::<Vec<_>>())?)
}

impl From<ObservationJson> for Observation {
    fn from(seen: ObservationJson) -> Self {
        Self {
            latency: seen.latency.map(|latency| LatencyObservation {
                requests: latency.requests,
                latency_us_mean: latency.latency_us_mean,
                bytes_mean: latency.bytes_mean,
                read_share: latency.read_share,
                age: Seconds(latency.age_s),
            }),
            groups: seen
                .groups
                .iter()
                .map(|group| GroupObservation {
                    cores: group.cores,
                    frequency: Hertz(group.frequency_hz),
                    utilisation_clients: group.utilisation_clients,
                    utilisation_background: group.utilisation_background,
                    waited_for_drives: group.waited_for_drives,
                })
                .collect(),
            background: seen.background.map(|background| BackgroundObservation {
                done_core_s: background.done_core_s,
                offered_core_s: background.offered_core_s,
                backlog_core_s: background.backlog_core_s,
            }),
            alarm: seen.alarm,
        }
    }
}

impl From<&Observation> for ObservationJson {
    fn from(seen: &Observation) -> Self {
        Self {
            latency: seen.latency.map(|latency| LatencyJson {
                requests: latency.requests,
                latency_us_mean: latency.latency_us_mean,
                bytes_mean: latency.bytes_mean,
                read_share: latency.read_share,
                age_s: latency.age.0,
            }),
            groups: seen
                .groups
                .iter()
                .map(|group| GroupJson {
                    cores: group.cores,
                    frequency_hz: group.frequency.0,
                    utilisation_clients: group.utilisation_clients,
                    utilisation_background: group.utilisation_background,
                    waited_for_drives: group.waited_for_drives,
                })
                .collect(),
            background: seen.background.map(|background| BackgroundJson {
                done_core_s: background.done_core_s,
                offered_core_s: background.offered_core_s,
                backlog_core_s: background.backlog_core_s,
            }),
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
        Self { groups: action.groups.iter().map(group).collect(), pace: action.background.pace }
    }
}
