//! Checks of a configuration that do not depend on the host.

use super::{DaemonConfig, LEAVING_KNOBS, SafetyConfig, check_host_names, check_socket};
use crate::groups::GroupConfig;
use crate::knobs::{KnobConfig, KnobOpenError};
use crate::processes::ProcessPattern;
use crate::sources::power::MeterConfig;
use crate::sources::{BackgroundConfig, queued};
use crate::topology::CoreKind;
use std::collections::BTreeSet;
use wattio_control::{SettingError, Settings};
use wattio_governor::Cpus;
use wattio_law::Bound;
use wattio_plant::{DescriptionError, require};
use wattio_units::Seconds;

/// The parameter of a law that is its one bound where no other is named.
const PLF: &str = "plf";

impl DaemonConfig {
    pub(super) fn check(&self) -> Result<(), DescriptionError> {
        check_name(&self.name)?;
        self.check_applications()?;
        self.check_groups()?;
        for (place, knob) in self.knobs.iter().enumerate() {
            let wrong = |error: KnobOpenError| at(format!("knob[{place}]"), error.to_string());
            knob.check().map_err(wrong)?;
        }
        let whole = |knob: &&KnobConfig| knob.serves_all_groups();
        for kind in self.knobs.iter().filter(whole).map(KnobConfig::name) {
            let count = self.knobs.iter().filter(|knob| knob.name() == kind).count();
            require(
                count <= 1,
                "knob",
                format!("{kind} is configured {count} times; one serves all groups"),
            )?;
        }
        let alone = !self.knobs.is_empty() && self.knobs.iter().all(KnobConfig::follows);
        let names: Vec<_> = self.knobs.iter().map(KnobConfig::name).collect();
        let message = format!(
            "{} would never act: such a knob follows others, which save power; add cpu.frequency, \
             or one of cpu.cpuset, cpu.affinity and cpu.online",
            names.join(", ")
        );
        require(!alone, "knob", message)?;
        let both =
            LEAVING_KNOBS.iter().all(|kind| self.knobs.iter().any(|knob| knob.name() == *kind));
        let shared = |group: &&GroupConfig| group.cgroup.is_some() && group.processes.is_some();
        let groups = self.all_groups();
        for (kind, named, key) in [
            ("cpu.cpuset", groups.iter().any(|group| group.cgroup.is_some()), "cgroup"),
            ("cpu.affinity", groups.iter().any(|group| group.processes.is_some()), "processes"),
        ] {
            let is_there = self.knobs.iter().any(|knob| knob.name() == kind);
            let message = format!("{kind} has nothing to place: no [[group]] has the key {key}");
            require(named || !is_there, "knob", message)?;
        }
        if let Some(group) = groups.iter().filter(|_| both).find(shared) {
            // The kernel changes the masks of a control group's tasks together with its cores.
            let message = format!(
                "group {:?} has both cgroup and processes, and both cpu.cpuset and cpu.affinity are \
                 there: let one of them place its processes",
                group.name
            );
            return Err(DescriptionError::Value { key: "group".to_owned(), message });
        }
        if let Some(Err((key, message))) = self.power.meter.as_ref().map(MeterConfig::check) {
            let key = format!("power.meter.{key}");
            return Err(DescriptionError::Value { key, message });
        }
        self.check_background()?;
        self.power.price.check()?;
        let service = &self.service;
        service.listen.check(service.tls.as_ref(), service.token.as_deref())?;
        check_host_names(&service.host_names)?;
        check_socket(&service.socket).map_err(|message| at("service.socket", message))?;
        require(!service.state.as_os_str().is_empty(), "service.state", "is empty")?;
        self.safety.check()
    }

    /// Either the host is one application, or each has a name and all that it needs.
    fn check_applications(&self) -> Result<(), DescriptionError> {
        if self.applications.is_empty() {
            let message =
                "is missing: a [latency] table, or an [[application]] for each of several";
            require(self.latency.is_some(), "latency", message)?;
        } else {
            let twice = [
                ("latency", self.latency.is_some()),
                ("background", self.background.is_some()),
                ("group", !self.groups.is_empty()),
            ];
            for (key, is_there) in twice {
                let message = "cannot stand beside [[application]]: move it into the application \
                               that it belongs to";
                require(!is_there, key, message)?;
            }
        }
        let applications = self.applications();
        let mut names = BTreeSet::new();
        for (place, application) in applications.iter().enumerate() {
            let key = |key: &str| application.key(place, key);
            if let Some(name) = application.name {
                check_name_of(key("name"), name)?;
                require(
                    names.insert(name),
                    key("name"),
                    format!("{name:?} is the name of an earlier application"),
                )?;
            }
            let message = "is missing: at least one [[group]] of cores";
            require(!application.groups.is_empty(), key("group"), message)?;
            if let Err((wrong, message)) = application.latency.check() {
                return Err(at(key(&format!("latency.{wrong}")), message));
            }
            if let Err((wrong, message)) = application.cpu.check() {
                return Err(at(key(&format!("cpu.{wrong}")), message));
            }
            let policy = application.policy;
            if let Some(name) = &policy.compare
                && let Err(error) = wattio_control::policy(name)
            {
                return Err(at(key("policy.compare"), error.to_string()));
            }
            checked_policy(&policy.name, &policy.settings)
                .and_then(|()| checked_bounds(&policy.bounds, &policy.settings))
                .map_err(|(wrong, message)| at(key(&wrong), message))?;
        }
        let paced = applications.iter().filter(|application| application.background.is_some());
        let message =
            "only one application can have it: what paces background work paces all of it";
        require(paced.count() <= 1, "background", message)
    }

    /// The source and the knob must name the same arrays, as the law paces what the source reports.
    fn check_background(&self) -> Result<(), DescriptionError> {
        let applications = self.applications();
        let source = applications.iter().find_map(|application| application.background);
        let Some(BackgroundConfig::Md(source)) = source else { return Ok(()) };
        let told: BTreeSet<_> = source.devices.iter().collect();
        let md = |knob: &KnobConfig| match knob {
            KnobConfig::Background(knob) => knob.md.clone(),
            _ => Vec::new(),
        };
        let turned: Vec<_> = self.knobs.iter().flat_map(md).collect();
        let same = told == turned.iter().collect();
        let message = format!(
            "are {:?}, and the knob background slows md = {turned:?}: name the same arrays in both",
            source.devices
        );
        // Shadow mode needs no knob.
        require(self.knobs.is_empty() || same, "background.devices", message)
    }

    /// Checks of the groups' cores that do not need the host.
    fn check_groups(&self) -> Result<(), DescriptionError> {
        let mut taken: Vec<(Cpus, Option<CoreKind>)> = Vec::new();
        let mut names = BTreeSet::new();
        let applications = self.applications();
        let groups = applications.iter().enumerate().flat_map(|(place, application)| {
            let groups = application.groups.iter().enumerate();
            groups.map(move |(at, group)| (application.key(place, &format!("group[{at}]")), group))
        });
        for (place, group) in groups {
            let key = |name: &str| format!("{place}.{name}");
            let message = format!("{:?} is the name of an earlier group", group.name);
            require(names.insert(group.name.as_str()), key("name"), message)?;
            let cores = group.cores.parse::<Cpus>();
            let cores = cores.map_err(|error| at(key("cores"), error.to_string()))?;
            require(!cores.is_empty(), key("cores"), "is empty")?;
            // Of the same cores, groups of different kinds have different ones.
            let apart = |kind| matches!((kind, group.kind), (Some(a), Some(b)) if a != b);
            let others = taken.iter().filter(|(_, kind)| !apart(*kind));
            let twice = others.fold(Cpus::default(), |all, (other, _)| all.or(&other.and(&cores)));
            require(
                twice.is_empty(),
                key("cores"),
                format!("{twice} already belong to another group"),
            )?;
            let count = cores.len();
            let few = (1..=count).contains(&(group.cores_min as usize));
            let message = format!("is {}; allowed is 1 to the group's {count}", group.cores_min);
            require(few, key("cores_min"), message)?;
            taken.push((cores, group.kind));
            if let Some(Err((wrong, message))) = group.processes.as_ref().map(ProcessPattern::check)
            {
                return Err(at(key(&format!("processes.{wrong}")), message));
            }
            if let Some(Err((wrong, message))) = group.queue.as_ref().map(queued::Config::check) {
                return Err(at(key(&format!("queue.{wrong}")), message));
            }
        }
        Ok(())
    }
}

fn at(key: impl Into<String>, message: impl Into<String>) -> DescriptionError {
    DescriptionError::Value { key: key.into(), message: message.into() }
}

/// Checks the key `name`.
///
/// # Errors
/// [`DescriptionError`] with what is allowed.
pub fn check_name(name: &str) -> Result<(), DescriptionError> {
    check_name_of("name", name)
}

fn check_name_of(key: impl Into<String>, name: &str) -> Result<(), DescriptionError> {
    let simple = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain = name.chars().all(simple) && !name.starts_with('.');
    require(
        !name.is_empty() && name.len() <= 64 && plain,
        key,
        "must be up to 64 letters, digits, '-', '_' or '.': folders are named after it",
    )
}

/// Checks a law's name, its hyperparameters and its bounds: the keys `policy.name`,
/// `policy.settings` and `policy.bounds`.
///
/// # Errors
/// [`DescriptionError`] with the key, what was wrong and what is allowed.
pub fn check_policy(
    name: &str,
    settings: &Settings,
    bounds: &[Bound],
) -> Result<(), DescriptionError> {
    let checked = checked_policy(name, settings).and_then(|()| checked_bounds(bounds, settings));
    checked.map_err(|(key, message)| at(key, message))
}

/// Each bound has an account of its own, told by its text; with any, the law's `plf` is none.
fn checked_bounds(bounds: &[Bound], settings: &Settings) -> Result<(), (String, String)> {
    for (place, bound) in bounds.iter().enumerate() {
        if bounds[..place].contains(bound) {
            let message = format!("has \"{bound}\" twice");
            return Err(("policy.bounds".to_owned(), message));
        }
    }
    if bounds.is_empty() || !settings.contains_key(PLF) {
        return Ok(());
    }
    let message = "says nothing beside policy.bounds: leave it out, or make it one of them, such as \
                   \"mean 20% run\"";
    Err((format!("policy.settings.{PLF}"), message.to_owned()))
}

/// The same, with the key apart.
fn checked_policy(name: &str, settings: &Settings) -> Result<(), (String, String)> {
    let resolved = wattio_control::policy(name).and_then(|policy| policy.resolve(settings));
    resolved.map(|_| ()).map_err(|error| {
        let key = match &error {
            SettingError::Policy { .. } => "policy.name".to_owned(),
            SettingError::Name { name, .. } | SettingError::Value { name, .. } => {
                format!("policy.settings.{name}")
            }
        };
        (key, error.to_string())
    })
}

impl SafetyConfig {
    fn check(&self) -> Result<(), DescriptionError> {
        let day = Seconds(86_400.0);
        for (key, value, least, most) in [
            ("dwell", self.dwell, Seconds(0.0), Seconds(3600.0)),
            ("span", self.span, Seconds(1.0), day),
            ("cool_down", self.cool_down, Seconds(1.0), day),
            ("cool_down_max", self.cool_down_max, self.cool_down, day * 7.0),
        ] {
            let message = format!("is {value}; allowed is {least} to {most}");
            require((least..=most).contains(&value), format!("safety.{key}"), message)?;
        }
        for (key, value, least, most) in [
            ("stale_after_windows", self.stale_after_windows, 1.0, 60.0),
            ("model_error_max", self.model_error_max, 0.0, 1.0),
        ] {
            let message = format!("is {value}; allowed is {least} to {most}");
            require((least..=most).contains(&value), format!("safety.{key}"), message)?;
        }
        for (place, check) in self.checks.iter().enumerate() {
            let message = format!("{:?} is not an absolute path", check.file);
            let key = format!("safety.check[{place}].file");
            require(check.file.starts_with('/'), key, message)?;
        }
        require(self.cores_off_max >= 1, "safety.cores_off_max", "must be at least 1")
    }
}
