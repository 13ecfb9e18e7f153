//! The JSON description of a run, as `wattio.simulation` writes it.

use crate::error::Fault;
use serde::Deserialize;
use std::path::PathBuf;
use wattio_control::Settings;
use wattio_law::{Bound, Limit, Statistic};
use wattio_plant::Server;
use wattio_sim::{Load, Pattern, Phase, Run, RunSettings, Senders};
use wattio_trace::{Excerpt, Reading, Scaled, open_as};

/// A run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub server: String,
    pub policy: PolicySpec,
    #[serde(default)]
    pub bounds: Vec<Bound>,
    pub load: LoadSpec,
    pub warmup_s: f64,
    pub duration_s: Option<f64>,
    pub window_s: f64,
    pub seed: u64,
}

/// A policy and its settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    pub name: String,
    #[serde(default)]
    pub settings: Settings,
}

/// A load.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum LoadSpec {
    Phases {
        mode: Mode,
        clients: u32,
        phases: Vec<Phase>,
    },
    Trace {
        path: PathBuf,
        #[serde(default)]
        start_s: f64,
        rate_scale: f64,
        time_scale: f64,
        #[serde(default)]
        format: Option<String>,
        #[serde(default)]
        columns: Option<String>,
    },
}

/// Who sends.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Clients,
    Open,
}

impl LoadSpec {
    /// Makes the load; opens the trace. The trace is thinned or multiplied by the run's seed.
    pub fn load(&self, seed: u64) -> Result<Load, Fault> {
        Ok(match self {
            Self::Phases { mode, clients, phases } => {
                let senders = match mode {
                    Mode::Clients => Senders::Clients(*clients),
                    Mode::Open => Senders::Open,
                };
                Load::Phases { senders, phases: phases.clone() }
            }
            Self::Trace { path, start_s, rate_scale, time_scale, format, columns } => {
                let reading = Reading::new(format.as_deref(), columns.as_deref())?;
                let reader =
                    open_as(path, &reading).map_err(|error| Fault::in_file(path, &error))?;
                let scaled =
                    Scaled::new(Excerpt::new(reader, *start_s)?, *rate_scale, *time_scale, seed)?;
                Load::Trace(Box::new(scaled))
            }
        })
    }
}

impl Spec {
    pub fn from_json(text: &str) -> Result<Self, Fault> {
        serde_json::from_str(text).map_err(|error| Fault::new(format!("run: {error}")))
    }

    pub fn settings(&self) -> RunSettings {
        RunSettings {
            warmup_s: self.warmup_s,
            duration_s: self.duration_s,
            window_s: self.window_s,
            seed: self.seed,
        }
    }

    pub fn run(&self) -> Result<Run, Fault> {
        let server = Server::from_toml(&self.server)?;
        let limits = wattio_sim::limits(&server);
        let law = wattio_control::build(&self.policy.name, &self.policy.settings, &limits)?;
        let load = self.load.load(self.seed)?;
        Ok(Run::with_bounds(&server, law, &self.bounds, load, self.settings())?)
    }
}

/// A bound as users write it, taken apart, as JSON.
pub fn bound_json(text: &str) -> Result<String, Fault> {
    let bound: Bound = text.parse()?;
    let quantile = match bound.statistic {
        Statistic::Mean => None,
        Statistic::Quantile(quantile) => Some(quantile),
    };
    let limit_us = match bound.limit {
        Limit::Relative(_) => None,
        Limit::Absolute(limit) => Some(limit.0 * 1e6),
    };
    Ok(serde_json::to_string(&serde_json::json!({
        "text": bound.to_string(),
        "statistic": bound.statistic.to_string(),
        "quantile": quantile,
        "share": bound.share(),
        "limit_us": limit_us,
        "scope": bound.scope,
    }))?)
}

/// The highest rate that closed-loop clients reach at full speed, in I/Os per second.
pub fn saturated_iops(server: &str, pattern: &str, clients: u32, seed: u64) -> Result<f64, Fault> {
    let server = Server::from_toml(server)?;
    let pattern: Pattern =
        serde_json::from_str(pattern).map_err(|error| Fault::new(format!("pattern: {error}")))?;
    let limits = wattio_sim::limits(&server);
    let law = wattio_control::build("native", &Settings::new(), &limits)?;
    let phases = vec![Phase { span_s: 1.0, iops: None, pattern }];
    let load = Load::Phases { senders: Senders::Clients(clients), phases };
    let settings = RunSettings { warmup_s: 0.5, duration_s: None, window_s: 0.5, seed };
    let mut run = Run::new(&server, law, load, settings)?;
    run.finish()?;
    Ok(run.summary().iops_mean)
}
