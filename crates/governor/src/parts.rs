//! The parts of a governor, and what it returns.

use crate::arbiter::Requester;
use crate::breaker::BreakerSettings;
use crate::event::Event;
use crate::priority::Follower;
use crate::source::{
    BackgroundSource, CpuSource, Guard, LatencySample, LatencySource, PowerSource,
};
use std::time::Duration;
use wattio_law::{Action, Bound, DriverSettings, GroupLimits, Insight, Law, Observation};
use wattio_units::{Hertz, Seconds};

/// A group of cores that serves one stage of the storage server.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreGroup {
    /// Its name.
    pub name: String,
    /// Its cores; the last one leaves first.
    pub cores: Vec<u32>,
    /// How few of them may stay and how slow they may be.
    pub limits: GroupLimits,
    /// The highest frequency while power is saved, if that is lower than at full speed whatever the
    /// law asks for: a knob turns turbo off then.
    pub saving_max: Option<Hertz>,
}

/// How the governor behaves around the law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GovernorSettings {
    /// Staleness, dwell and rate.
    pub driver: DriverSettings,
    /// When to give up saving for a while.
    pub breaker: BreakerSettings,
    /// How often knobs are asked again when the setting did not change (processes come and go).
    pub refresh: Seconds,
    /// How many held places are looked at in each window for changes by others.
    pub inspected: usize,
}

impl Default for GovernorSettings {
    fn default() -> Self {
        Self {
            driver: DriverSettings::default(),
            breaker: BreakerSettings::default(),
            refresh: Seconds(5.0),
            inspected: 4,
        }
    }
}

/// Shadow mode closes the law's loop over a model: the law sees what the model predicts instead of
/// what was measured.
pub trait ShadowModel: Send {
    /// What the law should see of a window that was measured as `truth`, if the law's `held` action
    /// had been in force.
    fn see(&mut self, truth: &Observation, held: &Action, dt: Seconds) -> Observation;
}

/// What a governor is made of.
pub struct Parts {
    /// The law.
    pub law: Box<dyn Law>,
    /// The bounds to keep; if empty, those of the law's own settings.
    pub bounds: Vec<Bound>,
    /// The groups of cores.
    pub groups: Vec<CoreGroup>,
    /// Where client latency comes from.
    pub latency: Box<dyn LatencySource>,
    /// Where utilisation comes from.
    pub cpu: Box<dyn CpuSource>,
    /// Where the progress of background work comes from.
    pub background: Option<Box<dyn BackgroundSource>>,
    /// Where power comes from; `None` if nobody measures it.
    pub power: Option<Box<dyn PowerSource>>,
    /// Whether others are on the same meter, so that it tells the law nothing of what it did.
    pub power_is_shared: bool,
    /// What must be healthy before power may be saved.
    pub guards: Vec<Box<dyn Guard>>,
    /// The knobs of the machine that only follow the law and of which those that save most for
    /// what they cost are to go first; empty where it is as configured.
    pub followers: Vec<Follower>,
    /// What its settings go to.
    pub machine: Requester,
    /// What the law sees instead of the measurement.
    pub shadow_model: Option<Box<dyn ShadowModel>>,
    /// How the governor behaves around the law.
    pub settings: GovernorSettings,
}

/// One step of the law, and what came of it.
#[derive(Clone, Debug)]
pub struct Stepped {
    /// Length of the window.
    pub dt: Seconds,
    /// The sample as it came, with its histogram.
    pub sample: Option<LatencySample>,
    /// What was measured.
    pub truth: Observation,
    /// What the law saw: the measurement, unless there is a shadow model.
    pub seen: Observation,
    /// What is in force now; in shadow mode, what was asked for.
    pub action: Action,
    /// How much background work may run, as a share of what becomes due.
    pub background_share: f64,
    /// What the law tells of the step.
    pub insight: Insight,
    /// Why full speed was forced, if it was.
    pub forced: Option<String>,
}

impl Stepped {
    /// The law's reason, and what forced full speed, if anything did.
    #[must_use]
    pub fn why(&self) -> String {
        let reason = self.insight.reason;
        self.forced.as_ref().map_or_else(|| reason.to_owned(), |why| format!("{reason}: {why}"))
    }
}

/// What one tick did.
#[derive(Debug, Default)]
pub struct Tick {
    /// When the next one is due.
    pub next: Duration,
    /// The step of the law, where a window ended.
    pub stepped: Option<Stepped>,
    /// What happened.
    pub events: Vec<Event>,
}
