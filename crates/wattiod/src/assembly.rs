//! Builds the parts of a governor on this host from a configuration.

use crate::application::{self, ApplicationParts, Beside, GroupInfo};
use crate::daemon::{Daemon, Mode};
use thiserror::Error;
use wattio_governor::{
    Actuator, BackgroundSource, BreakerSettings, Clock, CoreGroup, CpuSource, Follower, Governor,
    GovernorSettings, Guard, Knob, LatencySource, Parts, PowerSource, Requester, RestorableWriter,
    Severity,
};
use wattio_host::config::{
    Application, CORE_KNOBS, DaemonConfig, LEAVING_KNOBS, PolicyConfig, SafetyConfig,
};
use wattio_host::groups::{self, Group};
use wattio_host::guards::{FileCheck, MdArrays, PowerLimits};
use wattio_host::knobs::{KnobConfig, KnobOpenError, drive_sleep, limited, turbo};
use wattio_host::ledger::{self, Ledger, with_power};
use wattio_host::shadow::{Compared, Shadow, SharedFitter};
use wattio_host::sources::CpuConfig;
use wattio_host::sources::coarse::without_coarse;
use wattio_host::sources::cores_left::CoresLeft;
use wattio_host::sources::power::MeterConfig;
use wattio_host::sources::queued;
use wattio_host::sources::work_beside::{Moved, WorkBeside};
use wattio_host::stopwatch;
use wattio_host::{Root, Topology};
use wattio_law::{DriveSleep, DriverSettings, GroupLimits, Law, Limits};
use wattio_plant::PowerModel;
use wattio_service::log::counted;
use wattio_units::{Hertz, Seconds};

/// Stands for an unknown frequency that no knob changes; never shown.
const NOMINAL: Hertz = Hertz(1e9);

/// Why a configuration does not fit this host: bad input.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct BadInput(String);

impl BadInput {
    /// The key, and what is wrong with it.
    pub fn new(what: impl std::fmt::Display) -> Self {
        Self(what.to_string())
    }
}

/// A configuration, and the file it came from.
#[derive(Clone, Debug)]
pub struct Source {
    /// As read.
    pub config: DaemonConfig,
    /// The text of the file.
    pub text: String,
    /// Its path, for messages and for paths relative to it.
    pub path: std::path::PathBuf,
}

/// What a new daemon needs besides its configuration.
pub struct Environment<'a> {
    /// Where the host's files lie.
    pub root: &'a Root,
    /// The clock.
    pub clock: &'a dyn Clock,
}

/// Puts a daemon together. With `writer` it acts; without, it observes.
///
/// # Errors
/// [`BadInput`] names the key and what this host has. The writer is dropped then, which restores.
pub fn assemble(
    source: &Source,
    writer: Option<RestorableWriter>,
    around: Environment<'_>,
) -> Result<Daemon, BadInput> {
    let config = &source.config;
    let mode = if writer.is_some() { Mode::Run } else { Mode::Observe };
    let host = HostParts::find(source, mode, around.root)?;
    let mut opened = Vec::new();
    for (application, groups) in host.applications(config) {
        let is_first = opened.is_empty();
        let open = Opened::of(application, is_first, groups, config, &host, &around);
        opened.push(open.map_err(|error| of_application(&application, error))?);
    }
    let mut warnings = split_cores(config, &host.groups, &host.topology);
    // After the sources: one of background work takes the limits it finds for those of the operator.
    let actuator = match writer {
        None => None,
        Some(writer) => {
            let (topology, groups) = (&host.topology, &host.groups);
            let knobs = open_knobs(config, |knob| {
                let mut absent = Vec::new();
                let opened = knob.open_at_start(around.root, topology, groups, &mut absent);
                let name = knob.name();
                let later =
                    |message| format!("{name}: {message} It is looked for every few seconds");
                warnings.extend(absent.into_iter().map(later));
                opened
            })?;
            Some(Actuator { knobs, writer })
        }
    };
    let groups: Vec<&[CoreGroup]> = opened.iter().map(|opened| opened.groups.as_slice()).collect();
    let domains = host.topology.policies.iter().map(|policy| policy.cpus.clone()).collect();
    let machines = Requester::of(actuator, &groups, domains);
    let is_shared = opened.len() > 1;
    let all = opened.into_iter().zip(machines);
    let mut all = all.map(|(opened, machine)| opened.governed(config, machine, is_shared, &around));
    let first = all.next().ok_or_else(|| BadInput::new("latency: is missing"))?;
    let mut daemon = Daemon::new(first, all.collect());
    for message in warnings {
        daemon.tell(Severity::Warning, message, around.clock.utc_ns());
    }
    Ok(daemon)
}

/// What to say of physical cores that applications share; `groups` are those of all applications, in
/// their order.
pub(crate) fn split_cores(
    config: &DaemonConfig,
    groups: &[Group],
    topology: &Topology,
) -> Vec<String> {
    let mut earlier: Vec<(&str, &[Group])> = Vec::new();
    let (mut left, mut found) = (groups, Vec::new());
    for application in config.applications() {
        let (own, rest) = left.split_at(application.groups.len().min(left.len()));
        left = rest;
        let name = application.name.unwrap_or_default();
        for (other, others) in &earlier {
            let cpus = groups::split_between(others, own, topology);
            if !cpus.is_empty() {
                found.push(format!(
                    "applications {other} and {name} share physical cores (processors {cpus}), so each \
                     slows the other and neither law sees it: give whole cores to one"
                ));
            }
        }
        earlier.push((name, own));
    }
    found
}

/// Whether a daemon of this configuration fits the host as it is now. Nothing is taken over or
/// started, so one that runs can go on where it does not.
///
/// # Errors
/// [`BadInput`] names the key and what this host has.
pub fn check_fits(source: &Source, mode: Mode, root: &Root) -> Result<(), BadInput> {
    let config = &source.config;
    let host = HostParts::find(source, mode, root)?;
    if mode == Mode::Run {
        open_knobs(config, |knob| knob.open(root, &host.topology, &host.groups))?;
    }
    let mut period = None;
    for (application, groups) in host.applications(config) {
        let own = check_sources(&application, groups, &host, root);
        let own = own.map_err(|error| of_application(&application, error))?;
        period = period.or(Some(own));
    }
    let meter = config.power.meter.as_ref().filter(|meter| meter.opens_twice());
    if let Some((meter, period)) = meter.zip(period) {
        open_meter(meter, root, period)?;
    }
    Ok(())
}

/// Opens the sources of an application that can be opened twice; its law's period.
fn check_sources(
    application: &Application<'_>,
    groups: &[CoreGroup],
    host: &HostParts,
    root: &Root,
) -> Result<Seconds, BadInput> {
    let period = build_law(application.policy, &host.limits(groups))?.period();
    if application.latency.opens_twice() {
        open_latency(application, root, period)?;
    }
    if application.cpu.opens_twice() {
        open_cpu(application, root, period)?;
    }
    open_background(application, root)?;
    Ok(period)
}

/// What is wrong with one of several applications names it.
fn of_application(application: &Application<'_>, error: BadInput) -> BadInput {
    match application.name {
        Some(name) => BadInput(format!("application {name}: {error}")),
        None => error,
    }
}

fn build_law(policy: &PolicyConfig, limits: &Limits) -> Result<Box<dyn Law>, BadInput> {
    wattio_control::build(&policy.name, &policy.settings, limits)
        .map_err(|error| BadInput::new(format!("policy: {error}")))
}

fn open_latency(
    application: &Application<'_>,
    root: &Root,
    period: Seconds,
) -> Result<Box<dyn LatencySource>, BadInput> {
    let opened = application.latency.open(root, period);
    opened.map_err(|error| BadInput::new(format!("latency: {error}")))
}

fn open_cpu(
    application: &Application<'_>,
    root: &Root,
    period: Seconds,
) -> Result<Box<dyn CpuSource>, BadInput> {
    let opened = application.cpu.open(root, period);
    opened.map_err(|error| BadInput::new(format!("cpu: {error}")))
}

fn open_background(
    application: &Application<'_>,
    root: &Root,
) -> Result<Option<Box<dyn BackgroundSource>>, BadInput> {
    let opened = application.background.map(|config| config.open(root)).transpose();
    opened.map_err(|error| BadInput::new(format!("background: {error}")))
}

fn open_meter(
    meter: &MeterConfig,
    root: &Root,
    period: Seconds,
) -> Result<Box<dyn PowerSource>, BadInput> {
    let opened = meter.open(root, period, stopwatch());
    opened.map_err(|error| BadInput::new(format!("power.meter, {error}")))
}

/// What the applications of a host have in common.
struct HostParts {
    mode: Mode,
    topology: Topology,
    /// Of all applications, in their order; so are the next.
    groups: Vec<Group>,
    core_groups: Vec<CoreGroup>,
    drives: Option<DriveSleep>,
    model: Option<PowerModel>,
}

impl HostParts {
    fn find(source: &Source, mode: Mode, root: &Root) -> Result<Self, BadInput> {
        let config = &source.config;
        let topology = Topology::read(root).map_err(BadInput::new)?;
        let topology = limited(topology, &config.knobs);
        let groups = groups::resolve(&config.all_groups(), &topology).map_err(BadInput::new)?;
        let controllable = Controllable::of(&config.knobs, mode);
        let model = config.power.model.as_deref();
        let model = model.map(|name| ledger::power_model(name, &source.path)).transpose();
        let model = model.map_err(BadInput::new)?;
        let turns_turbo = config.knobs.iter().any(|knob| matches!(knob, KnobConfig::Turbo(_)));
        let turns_turbo = turns_turbo && turbo::switch(root).is_none_or(|switch| switch.is_on);
        let polls = config.applications().into_iter().flat_map(|application| {
            application.groups.iter().map(move |_| application.policy.idle_cores_poll)
        });
        let core_group = |(group, polls): (&Group, bool)| CoreGroup {
            name: group.name.clone(),
            cores: group.order.clone(),
            limits: with_power(controllable.limits(group, &topology, !polls), model.as_ref()),
            saving_max: turns_turbo.then(|| turbo::base(group, &topology)).flatten(),
        };
        let core_groups = groups.iter().zip(polls).map(core_group).collect();
        let drives = drive_sleep(&config.knobs, root);
        // Shadow mode needs no knobs that work on this host.
        let drives =
            if mode == Mode::Run { drives.map_err(BadInput::new)? } else { drives.ok().flatten() };
        Ok(Self { mode, topology, groups, core_groups, drives, model })
    }

    /// The applications, each with its groups of cores.
    fn applications<'a, 'h>(
        &'h self,
        config: &'a DaemonConfig,
    ) -> impl Iterator<Item = (Application<'a>, &'h [CoreGroup])> {
        let mut left = self.core_groups.as_slice();
        config.applications().into_iter().map(move |application| {
            let (groups, rest) = left.split_at(application.groups.len());
            left = rest;
            (application, groups)
        })
    }

    /// The groups of an application as they were found.
    fn groups_of(&self, groups: &[CoreGroup]) -> Vec<Group> {
        let is_one = |found: &&Group| groups.iter().any(|group| group.cores == found.order);
        self.groups.iter().filter(is_one).cloned().collect()
    }

    fn limits(&self, groups: &[CoreGroup]) -> Limits {
        let limits = groups.iter().map(|group| group.limits.clone()).collect();
        Limits { drives: self.drives, ..Limits::of(limits) }
    }
}

/// An application whose sources are open.
struct Opened<'a> {
    application: Application<'a>,
    mode: Mode,
    law: Box<dyn Law>,
    limits: Limits,
    groups: Vec<CoreGroup>,
    latency: Box<dyn LatencySource>,
    cpu: Box<dyn CpuSource>,
    background: Option<Box<dyn BackgroundSource>>,
    power: Option<Box<dyn PowerSource>>,
    guards: Vec<Box<dyn Guard>>,
    fitter: SharedFitter,
    ledger: Ledger,
    beside: Beside,
    compared: Option<Compared>,
}

impl<'a> Opened<'a> {
    /// The first one has the host's meter and the rest of its power.
    fn of(
        application: Application<'a>,
        is_first: bool,
        groups: &[CoreGroup],
        config: &DaemonConfig,
        host: &HostParts,
        around: &Environment<'_>,
    ) -> Result<Self, BadInput> {
        let root = around.root;
        let policy = application.policy;
        let limits = host.limits(groups);
        let law = build_law(policy, &limits)?;
        let period = law.period();
        let latency = open_latency(&application, root, period)?;
        let cpu = open_cpu(&application, root, period)?;
        let queues: Vec<_> = application.groups.iter().map(|group| group.queue.clone()).collect();
        let cpu = queued::beside(cpu, &queues, period, stopwatch());
        let cpu = cpu.map_err(|error| BadInput::new(format!("group: {error}")))?;
        let background = open_background(&application, root)?;
        let meter = config.power.meter.as_ref().filter(|_| is_first);
        let power = meter.map(|meter| open_meter(meter, root, period)).transpose()?;
        let frequencies_max: Vec<_> =
            limits.groups.iter().map(|group| group.frequency_max).collect();
        let model = host.model.clone();
        let model = if is_first { model } else { model.map(PowerModel::without_rest) };
        let error_max = config.safety.model_error_max;
        let fitter = SharedFitter::new(error_max, model.as_ref(), frequencies_max.clone());
        let compared = match &policy.compare {
            Some(name) if host.mode == Mode::Observe => {
                let now = around.clock.now();
                let driver = settings(&config.safety).driver;
                let (limits, fitter) = (limits.clone(), fitter.clone());
                let other = Compared::new(name, limits, &policy.bounds, driver, fitter, now);
                Some(other.map_err(|error| BadInput::new(format!("policy.compare: {error}")))?)
            }
            _ => None,
        };
        let meter_name = power.as_ref().map(|power| power.name().to_owned());
        let beside = match model {
            Some(_) => {
                let is_counted = matches!(application.cpu, CpuConfig::ProcStat(_));
                beside(&config.knobs, host.mode, &host.groups_of(groups), is_counted, root)
            }
            None => Beside::Nobody,
        };
        Ok(Self {
            application,
            mode: host.mode,
            law,
            limits,
            groups: groups.to_vec(),
            latency,
            cpu,
            background,
            power,
            guards: guards(config, root),
            fitter,
            ledger: Ledger::new(model, meter_name, frequencies_max).priced(config.power.price),
            beside,
            compared,
        })
    }

    /// Governs from now on.
    fn governed(
        self,
        config: &DaemonConfig,
        machine: Requester,
        is_shared: bool,
        around: &Environment<'_>,
    ) -> application::Application {
        let policy = self.application.policy;
        let infos = self.groups.iter().map(|group| GroupInfo {
            name: group.name.clone(),
            limits: group.limits.clone(),
            turns_frequency: group.limits.frequency_min < group.limits.frequency_max,
        });
        let fixed: Vec<_> = self.groups.iter().filter_map(fixed).collect();
        let is_fixed = fixed.len() == self.groups.len() && self.limits.drives.is_none();
        let nothing_to_set = is_fixed.then(|| fixed.join("; "));
        let infos: Vec<GroupInfo> = infos.collect();
        let latency_name = self.latency.name().to_owned();
        let latency_us_resolution = self.latency.latency_us_resolution();
        let shadow_model = (self.mode == Mode::Observe)
            .then(|| Shadow { fitter: self.fitter.clone(), full: self.limits.full_speed() });
        let parts = Parts {
            law: self.law,
            bounds: policy.bounds.clone(),
            groups: self.groups,
            latency: without_coarse(self.latency, &policy.bounds),
            cpu: self.cpu,
            background: self.background,
            power: self.power,
            power_is_shared: is_shared,
            followers: followers(config, is_shared),
            guards: self.guards,
            machine,
            shadow_model: shadow_model
                .map(|shadow| Box::new(shadow) as Box<dyn wattio_governor::ShadowModel>),
            settings: settings(&config.safety),
        };
        let parts = ApplicationParts {
            mode: self.mode,
            host: config.name.clone(),
            name: self.application.name.map(str::to_owned),
            policy: policy.name.clone(),
            latency: latency_name,
            latency_us_resolution,
            nothing_to_set,
            groups: infos,
            governor: Governor::new(parts, around.clock.now()),
            fitter: self.fitter,
            ledger: self.ledger,
            beside: self.beside,
            compared: self.compared,
            journal: None,
        };
        let mut application = application::Application::new(parts, around.clock);
        for group in fixed {
            application.tell(Severity::Warning, group, around.clock.utc_ns());
        }
        if !self.application.latency.may_tell_percentiles() {
            application.warn_of_quantiles(application::NO_PERCENTILES, around.clock);
        }
        application
    }
}

/// Who may be busy on cores that these groups leave, or would, without being theirs: only where they are
/// left to others, and not taken off.
fn beside(
    knobs: &[KnobConfig],
    mode: Mode,
    groups: &[Group],
    is_counted: bool,
    root: &Root,
) -> Beside {
    let has = |name: &str| knobs.iter().any(|knob| knob.name() == name);
    if !LEAVING_KNOBS.iter().any(|name| has(name)) {
        return Beside::Nobody;
    }
    match mode {
        Mode::Run => {
            let cores = groups.iter().map(|group| group.order.clone()).collect();
            Beside::Left { cores: CoresLeft::new(cores, root), is_counted }
        }
        Mode::Observe if has("cpu.online") => Beside::Nobody,
        Mode::Observe => {
            let moved = Moved { cgroups: has("cpu.cpuset"), processes: has("cpu.affinity") };
            Beside::Before(WorkBeside::new(groups, moved, root))
        }
    }
}

/// Says so where nothing of a group can be set.
fn fixed(group: &CoreGroup) -> Option<String> {
    let limits = &group.limits;
    let is_fixed =
        limits.cores_min == limits.cores_max && limits.frequency_min >= limits.frequency_max;
    let cores = counted(limits.cores_max.into(), "core");
    is_fixed.then(|| {
        format!(
            "group {:?} has nothing to set: {cores} of which none may leave, and no knob that turns the \
             frequency here",
            group.name
        )
    })
}

/// The groups of a configuration of which nothing can be set on this host.
pub(crate) fn fixed_groups(source: &Source, root: &Root) -> Result<Vec<String>, BadInput> {
    let host = HostParts::find(source, Mode::Observe, root)?;
    Ok(host.core_groups.iter().filter_map(fixed).collect())
}

/// What the configured knobs can turn.
#[derive(Clone, Copy, Debug)]
struct Controllable {
    cores: bool,
    frequency: bool,
}

impl Controllable {
    /// Shadow mode without any knob asks what all of them would save.
    fn of(knobs: &[KnobConfig], mode: Mode) -> Self {
        let any = |names: &[&str]| knobs.iter().any(|knob| names.contains(&knob.name()));
        let all = knobs.is_empty() && mode == Mode::Observe;
        Self { cores: all || any(&CORE_KNOBS), frequency: all || any(&["cpu.frequency"]) }
    }

    fn limits(self, group: &Group, topology: &Topology, idle_cores_sleep: bool) -> GroupLimits {
        let cores_max = u32::try_from(group.order.len()).unwrap_or(u32::MAX);
        let speeds = group.speeds(topology);
        let maximum = speeds.as_ref().map_or(NOMINAL, |speeds| speeds.highest);
        let turned = speeds.filter(|speeds| self.frequency && speeds.lowest < speeds.highest);
        GroupLimits {
            cores_min: if self.cores { group.cores_min } else { cores_max },
            cores_max,
            frequency_min: turned.as_ref().map_or(maximum, |speeds| speeds.lowest),
            frequency_max: maximum,
            frequency_steps: turned.map(|speeds| speeds.steps).unwrap_or_default(),
            idle_cores_sleep,
            power: Vec::new(),
            frequency_bound_share: None,
        }
    }
}

fn open_knobs(
    config: &DaemonConfig,
    mut open: impl FnMut(&KnobConfig) -> Result<Box<dyn Knob>, KnobOpenError>,
) -> Result<Vec<Box<dyn Knob>>, BadInput> {
    if config.knobs.is_empty() {
        return Err(BadInput::new(
            "knob: there is none, so there is nothing to turn; add a [[knob]], or use observe",
        ));
    }
    config.knobs.iter().map(|knob| open(knob).map_err(BadInput::new)).collect()
}

/// The knobs whose order is measured: one application's, as the meter is the host's.
fn followers(config: &DaemonConfig, is_shared: bool) -> Vec<Follower> {
    let is_measured = config.power.try_knobs && config.power.meter.is_some() && !is_shared;
    let knobs = config.knobs.iter().filter(|_| is_measured);
    knobs.filter_map(KnobConfig::follower).collect()
}

fn guards(config: &DaemonConfig, root: &Root) -> Vec<Box<dyn Guard>> {
    let safety = &config.safety;
    let mut guards: Vec<Box<dyn Guard>> = Vec::new();
    if safety.md_arrays {
        guards.push(Box::new(MdArrays::new(root)));
    }
    if safety.power_limits {
        let own = config.knobs.iter().find_map(|knob| match knob {
            KnobConfig::PowerCap(cap) => Some(cap.limit),
            _ => None,
        });
        guards.push(Box::new(PowerLimits::new(root, own)));
    }
    for check in &safety.checks {
        guards.push(Box::new(FileCheck::new(root, check)));
    }
    guards
}

fn settings(safety: &SafetyConfig) -> GovernorSettings {
    GovernorSettings {
        driver: DriverSettings {
            dwell: safety.dwell,
            stale_after_windows: safety.stale_after_windows,
            cores_off_max: safety.cores_off_max,
        },
        breaker: BreakerSettings {
            flaps_max: safety.flaps_max,
            errors_max: safety.errors_max,
            span: safety.span,
            cool_down: safety.cool_down,
            cool_down_max: safety.cool_down_max,
        },
        ..GovernorSettings::default()
    }
}
