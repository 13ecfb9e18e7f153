//! The oracle for Python: a plan, and the run that follows it.

use crate::error::Fault;
use crate::spec::{LoadSpec, Spec};
use serde::{Deserialize, Serialize};
use wattio_plant::Server;
use wattio_sim::Run;
use wattio_sim::oracle::{
    OracleBound, OracleSettings, Plan, SegmentSource, Statistic, without_switching_costs,
};

/// What the oracle may do.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    plf: f64,
    statistic: StatisticName,
    floor: f64,
    slice_s: f64,
    trial_s: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StatisticName {
    Mean,
    P99,
}

/// One segment of the plan, as Python gets it.
#[derive(Debug, Serialize)]
struct SegmentReport {
    start_s: f64,
    span_s: f64,
    cores: Vec<u32>,
    frequency_hz: f64,
    power_w_mean: f64,
    power_w_native: f64,
    latency_ratio: Option<f64>,
    simulated: u32,
}

/// Plans and prepares the run; `None` when the caller stopped it.
pub fn plan(
    spec: &str,
    options: &str,
    watch: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<(Run, Vec<String>, String)>, Fault> {
    let spec = Spec::from_json(spec)?;
    let options: Options =
        serde_json::from_str(options).map_err(|error| Fault::new(format!("oracle: {error}")))?;
    check(&options)?;
    let server = Server::from_toml(&spec.server)?;
    let statistic = match options.statistic {
        StatisticName::Mean => Statistic::Mean,
        StatisticName::P99 => Statistic::P99,
    };
    let settings = OracleSettings {
        bound: OracleBound { plf: options.plf, statistic },
        floor: options.floor,
        trial_s: options.trial_s,
        seed: spec.seed,
    };
    // Phases are lengthened by the warm-up; a trace begins with it.
    let (lead_s, span_s) = match spec.load {
        LoadSpec::Phases { .. } => (spec.warmup_s, spec.duration_s),
        LoadSpec::Trace { .. } => (0.0, spec.duration_s.map(|span| span + spec.warmup_s)),
    };
    let mut source = SegmentSource::new(spec.load.load(spec.seed)?, options.slice_s, span_s)?;
    let Some(plan) = Plan::find(&server, &mut source, &settings, watch)? else { return Ok(None) };
    let free = without_switching_costs(&server);
    let law = plan.law(lead_s, wattio_sim::limits(&free).full_speed());
    let run = Run::new(&free, Box::new(law), spec.load.load(spec.seed)?, spec.settings())?;
    let groups = server.groups.into_iter().map(|group| group.name).collect();
    Ok(Some((run, groups, serde_json::to_string(&report(&plan))?)))
}

fn report(plan: &Plan) -> Vec<SegmentReport> {
    let mut start_s = 0.0;
    let segment = |segment: &wattio_sim::oracle::SegmentPlan| {
        let report = SegmentReport {
            start_s,
            span_s: segment.span_s,
            cores: segment.best.action.groups.iter().map(|group| group.cores).collect(),
            frequency_hz: segment.best.action.groups.first().map_or(0.0, |g| g.frequency.0),
            power_w_mean: segment.best.power_w,
            power_w_native: segment.native_power_w,
            latency_ratio: segment.best.latency_ratio,
            simulated: segment.simulated,
        };
        start_s += segment.span_s;
        report
    };
    plan.segments.iter().map(segment).collect()
}

fn check(options: &Options) -> Result<(), Fault> {
    let within = |name: &str, value: f64, low: f64, high: f64| {
        if (low..=high).contains(&value) {
            Ok(())
        } else {
            Err(Fault::new(format!("oracle: {name} = {value}; allowed is {low} to {high}")))
        }
    };
    within("plf", options.plf, 0.0, 10.0)?;
    within("floor", options.floor, 0.0, 1.0)?;
    within("slice_s", options.slice_s, 0.1, 1e7)?;
    within("trial_s", options.trial_s, 0.05, 1e5)
}
