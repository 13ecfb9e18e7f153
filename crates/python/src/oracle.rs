//! The oracle for Python: a plan, and the run that follows it.

use crate::error::Fault;
use crate::spec::Spec;
use serde::{Deserialize, Serialize};
use wattio_control::{Settings, build, policies};
use wattio_law::{Action, Bound, Budget, DriveAction};
use wattio_plant::Server;
use wattio_sim::Run;
use wattio_sim::oracle::{Fared, MakeLaw, OracleSettings, Plan, Rival, Segment};

/// Policies that are no rivals: the reference itself, and one that does nothing unless it is set.
const NO_RIVALS: [&str; 2] = ["native", "fixed"];

/// What the oracle may do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    bounds: Vec<Bound>,
    floor: f64,
    slice_s: f64,
    trial_s: f64,
    background_delay_s: Option<f64>,
}

/// The plan, as Python gets it.
#[derive(Debug, Serialize)]
struct PlanReport {
    slot_s: f64,
    tolerance_share: f64,
    winner: Option<String>,
    simulated: u32,
    rivals: Vec<RivalReport>,
    segments: Vec<SegmentReport>,
}

/// How a policy fared, as it is or with free switching.
#[derive(Debug, Serialize)]
struct RivalReport {
    policy: String,
    switching_is_free: bool,
    saving_share: f64,
    latency_ratio: Option<f64>,
    background_ratio: Option<f64>,
    kept: bool,
}

/// One segment of the plan, as Python gets it.
#[derive(Debug, Serialize)]
struct SegmentReport {
    start_s: f64,
    span_s: f64,
    cores: Vec<u32>,
    frequency_hz: Vec<f64>,
    /// Cores' worth; absent: as it becomes due.
    background_budget: Option<f64>,
    drives: &'static str,
    power_w_mean: f64,
    power_w_native: f64,
    latency_ratio: Option<f64>,
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
    let settings = OracleSettings {
        floor: options.floor,
        slot_s: options.slice_s,
        trial_s: options.trial_s,
        background_delay_s: options.background_delay_s,
        ..OracleSettings::new(options.bounds, spec.settings())
    };
    let rivals = rivals(&server);
    let load = || spec.load.load(spec.seed);
    let Some(plan) = Plan::find(&server, &load, &settings, &rivals, watch)? else {
        return Ok(None);
    };
    let run = plan.run(&server, load()?, &settings, &rivals)?;
    let groups = server.groups.into_iter().map(|group| group.name).collect();
    Ok(Some((run, groups, serde_json::to_string(&report(plan))?)))
}

/// Every policy with its defaults.
fn rivals(server: &Server) -> Vec<Rival> {
    let limits = wattio_sim::limits(server);
    let rival = |name: &'static str| {
        let settings = Settings::new();
        // A policy that cannot do without settings is no rival.
        build(name, &settings, &limits).ok()?;
        let limits = limits.clone();
        let make: MakeLaw = Box::new(move || {
            build(name, &settings, &limits)
                .unwrap_or_else(|error| unreachable!("{name} was built before: {error}"))
        });
        Some(Rival { name: name.to_owned(), make })
    };
    let names = policies().into_iter().map(|policy| policy.name);
    names.filter(|name| !NO_RIVALS.contains(name)).filter_map(rival).collect()
}

fn report(plan: Plan) -> PlanReport {
    let native_w = plan.native.power_w;
    let rival = |name: String, is_free: bool, fared: Fared| RivalReport {
        policy: name,
        switching_is_free: is_free,
        saving_share: 1.0 - fared.power_w / native_w,
        latency_ratio: fared.latency_ratio,
        background_ratio: fared.background_ratio,
        kept: fared.is_kept,
    };
    PlanReport {
        slot_s: plan.slot_s,
        tolerance_share: plan.tolerance,
        winner: plan.winner,
        simulated: plan.simulated,
        rivals: plan.rivals.into_iter().map(|r| rival(r.name, r.is_free, r.fared)).collect(),
        segments: plan.segments.iter().map(segment).collect(),
    }
}

fn segment(segment: &Segment) -> SegmentReport {
    let Action { groups, drives, .. } = &segment.action;
    SegmentReport {
        start_s: segment.start_s,
        span_s: segment.span_s,
        cores: groups.iter().map(|group| group.cores).collect(),
        frequency_hz: groups.iter().map(|group| group.frequency.0).collect(),
        background_budget: match segment.action.background_of(0).budget {
            Budget::AsDue => None,
            Budget::CoreSecondsPerSecond(cores) => Some(cores),
        },
        drives: match drives {
            DriveAction::Own => "own",
            DriveAction::Awake => "awake",
            DriveAction::Asleep => "asleep",
        },
        power_w_mean: segment.power_w,
        power_w_native: segment.native_power_w,
        latency_ratio: segment.latency_ratio,
    }
}

fn check(options: &Options) -> Result<(), Fault> {
    let within = |name: &str, value: f64, low: f64, high: f64| {
        if (low..=high).contains(&value) {
            Ok(())
        } else {
            Err(Fault::new(format!("oracle: {name} = {value}; allowed is {low} to {high}")))
        }
    };
    within("background_floor", options.floor, 0.0, 1.0)?;
    within("slice_s", options.slice_s, 0.1, 1e7)?;
    within("trial_s", options.trial_s, 0.05, 1e5)?;
    within("background_delay_s", options.background_delay_s.unwrap_or(0.0), 0.0, 1e7)
}
