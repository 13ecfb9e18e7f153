//! A law beside hand-made observations whose cores follow its answers: for what must be seen over
//! weeks, or within one window.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its law has failed")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use wattio_control::{Settings, Value, build};
use wattio_law::{
    Action, BackgroundObservation, GroupAction, GroupLimits, GroupObservation, InFlight,
    LatencyObservation, Law, Limits, Observation,
};
use wattio_units::{Hertz, Seconds};

pub const WINDOW: Seconds = Seconds(0.5);
const CORES: u32 = 16;

/// A law on a server of one group of 16 cores.
pub struct Bench {
    pub law: Box<dyn Law>,
    pub limits: Limits,
    pub held: Action,
    /// Done, due and backlog of the window that just ended.
    pub background: Option<(f64, f64, f64)>,
    /// Cores' worth of clients' work.
    pub clients: f64,
    /// Requests in a window.
    pub requests: u64,
}

pub fn group() -> GroupLimits {
    GroupLimits {
        cores_min: 2,
        cores_max: CORES,
        frequency_min: Hertz(0.8e9),
        frequency_max: Hertz(2.6e9),
        frequency_steps: vec![],
        idle_cores_sleep: false,
        power: vec![],
        frequency_bound_share: None,
    }
}

impl Bench {
    pub fn new(settings: &[(String, Value)]) -> Self {
        Self::on(settings, Limits::of(vec![group()]))
    }

    pub fn on(settings: &[(String, Value)], limits: Limits) -> Self {
        Self::with("pacer", settings, limits)
    }

    /// Another law, on a server of these limits.
    pub fn with(policy: &str, settings: &[(String, Value)], limits: Limits) -> Self {
        let law = build(policy, &Settings::from_iter(settings.iter().cloned()), &limits).unwrap();
        let held = limits.full_speed();
        Self { law, held, limits, background: None, clients: 1.0, requests: 1000 }
    }

    /// Steps the law; its answer is in force in the next window.
    pub fn step(&mut self, seen: Observation) -> Action {
        self.held = self.law.step(&seen, WINDOW);
        self.held.clone()
    }

    pub fn mode(&self) -> &'static str {
        self.law.insight().mode.unwrap()
    }

    pub fn least(&self) -> Vec<GroupAction> {
        self.limits.groups.iter().map(GroupLimits::least).collect()
    }

    /// A window of a steady load at 100 us.
    pub fn steady(&self) -> Observation {
        self.steady_at(100.0)
    }

    /// A window of a steady load.
    pub fn steady_at(&self, latency_us: f64) -> Observation {
        self.window(self.requests, Some(latency_us), InFlight::default(), self.clients)
    }

    /// A window without requests.
    pub fn quiet(&self) -> Observation {
        self.window(0, None, InFlight::default(), 0.0)
    }

    /// A window with `clients` cores' worth of their work.
    pub fn window(
        &self,
        requests: u64,
        latency_us_mean: Option<f64>,
        in_flight: InFlight,
        clients: f64,
    ) -> Observation {
        let latency = LatencyObservation {
            requests,
            latency_us_mean,
            in_flight: Some(in_flight),
            ..LatencyObservation::quiet(Seconds(0.0))
        };
        let (done_core_s, due_core_s, backlog_core_s) = self.background.unwrap_or_default();
        let background = BackgroundObservation {
            class: "scrub".into(),
            done_core_s,
            due_core_s,
            backlog_core_s,
            urgency: None,
        };
        let parts = self.held.groups.len() as f64;
        let group = |held: &GroupAction| {
            let share = |cores: f64| (cores / parts / f64::from(held.cores)).min(1.0);
            let utilisation_clients = share(clients);
            GroupObservation {
                cores: held.cores,
                frequency: held.frequency,
                utilisation_clients,
                utilisation_background: share(done_core_s / WINDOW.0)
                    .min(1.0 - utilisation_clients),
                queued: None,
                waited_for_drives: false,
            }
        };
        Observation {
            latency: Some(latency),
            groups: self.held.groups.iter().map(group).collect(),
            background: self.background.map(|_| background).into_iter().collect(),
            power: None,
            alarm: false,
        }
    }
}
