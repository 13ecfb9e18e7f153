//! Batches of fluid servers for Python.

use crate::error::Fault;
use crate::spec::PolicySpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;
use wattio_fluid::{
    FluidRun, FluidServer, FluidSettings, Load, Mix, Part, RunSettings, Totals, each,
};
use wattio_law::{Bound, Driver, DriverSettings, Statistic};
use wattio_plant::Server;

/// A batch: servers under one policy, each under a load of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Server descriptions by the names that members call them.
    servers: BTreeMap<String, String>,
    policy: PolicySpec,
    bounds: Vec<Bound>,
    noise: bool,
    skip: bool,
    /// How many at a time; absent: as many as there are cores.
    threads: Option<NonZeroUsize>,
    members: Vec<Member>,
}

/// One server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    server: String,
    seed: u64,
    /// Absent: an open load.
    clients: Option<u32>,
    dispersion: f64,
    /// Seconds, requests a second, share of reads, share of random ones, mean bytes.
    parts: Vec<(f64, f64, f64, f64, f64)>,
    /// How long it is run in seconds; the parts are repeated until then.
    span_s: f64,
}

#[derive(Debug, Serialize)]
struct Answer {
    members: Vec<Totals>,
}

/// The most parts of one member.
const PARTS_MAX: usize = 20_000_000;

impl Member {
    /// The parts, over and over until the span is full.
    fn parts(&self) -> Result<Vec<Part>, Fault> {
        let once_s: f64 = self.parts.iter().map(|part| part.0).sum();
        let times = (self.span_s / once_s).ceil();
        let fits = times >= 1.0 && times * self.parts.len() as f64 <= PARTS_MAX as f64;
        if !fits {
            let message = format!(
                "parts: {} of {once_s} s in all for a span of {} s; allowed is 1 to {PARTS_MAX} parts",
                self.parts.len(),
                self.span_s
            );
            return Err(Fault::new(message));
        }
        let part = |&(span_s, rate, read_share, random_share, bytes_mean): &(f64, _, _, _, _)| {
            Part { span_s, rate, mix: Mix { read_share, random_share, bytes_mean } }
        };
        Ok((0..times as usize).flat_map(|_| self.parts.iter().map(part)).collect())
    }

    fn run(
        &self,
        batch: &Batch,
        servers: &BTreeMap<&str, Server>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Totals, Fault> {
        let server = servers
            .get(self.server.as_str())
            .ok_or_else(|| Fault::new(format!("there is no server {:?}", self.server)))?;
        let limits = wattio_sim::limits(server);
        let law = wattio_control::build(&batch.policy.name, &batch.policy.settings, &limits)?;
        let load = Load::new(server, &self.parts()?, self.dispersion)?;
        let is_quantile = |bound: &Bound| matches!(bound.statistic, Statistic::Quantile(_));
        let driver =
            Driver::new(law, limits, &batch.bounds, DriverSettings::default(), Duration::ZERO);
        let tails = driver.law().bounds().iter().chain(&batch.bounds).any(is_quantile);
        let settings =
            FluidSettings { seed: self.seed, noise: batch.noise, tails, clients: self.clients };
        let plant = FluidServer::new(server.clone(), load, settings);
        let run = RunSettings { warmup_s: 0.0, end_s: self.span_s, skip: batch.skip };
        let mut run = FluidRun::new(plant, driver, run);
        run.finish(goes_on);
        Ok(run.totals())
    }
}

/// Runs a batch; `None` when `watch`, which is told the share done, said to stop.
pub fn run(text: &str, watch: &mut dyn FnMut(f64) -> bool) -> Result<Option<String>, Fault> {
    let batch: Batch =
        serde_json::from_str(text).map_err(|error| Fault::new(format!("fleet: {error}")))?;
    let servers = batch
        .servers
        .iter()
        .map(|(name, text)| Ok((name.as_str(), Server::from_toml(text)?)))
        .collect::<Result<BTreeMap<_, _>, Fault>>()?;
    let count = batch.members.len();
    let one = |at: usize, goes_on: &dyn Fn() -> bool| {
        let of = |error: Fault| Fault::new(format!("members[{at}]: {error}"));
        batch.members[at].run(&batch, &servers, goes_on).map_err(of)
    };
    let mut told = |done: usize| watch(done as f64 / count as f64);
    let Some(totals) = each(count, batch.threads, one, &mut told) else { return Ok(None) };
    let members = totals.into_iter().collect::<Result<Vec<_>, Fault>>()?;
    Ok(Some(serde_json::to_string(&Answer { members })?))
}
