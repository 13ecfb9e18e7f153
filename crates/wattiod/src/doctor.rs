//! What this host offers: sources, knobs, meters; what is missing, and how to get it.

use crate::assembly::{Source, fixed_groups, split_cores};
use crate::log::printable_line;
use crate::shown::check_page;
use crate::status_text::latency_time;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use wattio_governor::SourceError;
use wattio_host::config::DaemonConfig;
use wattio_host::knobs::{self, power_cap};
use wattio_host::ledger::power_model;
use wattio_host::lock::{Holder, Lock};
use wattio_host::processes::pollers::Threads;
use wattio_host::sources::LatencyConfig;
use wattio_host::sources::power::MeterConfig;
use wattio_host::stopwatch;
use wattio_host::{Root, Topology, facts, groups, power, takeover};
use wattio_service::log::counted;
use wattio_units::Seconds;

/// How long to wait for a source.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked for.
    pub what: String,
    /// Whether it is there and can be used.
    pub ok: bool,
    /// What was found, or what is missing and how to get it.
    pub text: String,
}

impl Finding {
    pub(crate) fn new(what: &str, ok: bool, text: impl Into<String>) -> Self {
        Self { what: what.to_owned(), ok, text: text.into() }
    }

    /// The finding as one line that is fit for a terminal.
    #[must_use]
    pub fn line(&self) -> String {
        let mark = if self.ok { "ok" } else { "no" };
        printable_line(&format!("{mark}  {}: {}", self.what, self.text))
    }

    /// The same while a daemon acts: what is wrong with cores and knobs that it holds may be its
    /// doing.
    fn beside(self, acting: &Acting) -> Self {
        if self.ok || !acting.may_have_set(&self.what) {
            return self;
        }
        let holder = acting.holder;
        let text =
            format!("in use by the daemon that acts ({holder}), which may be why: {}", self.text);
        Self { ok: true, text, ..self }
    }

    fn of<T, E: std::fmt::Display>(what: &str, result: Result<T, E>, found: &str) -> Self {
        match result {
            Ok(_) => Self::new(what, true, found),
            Err(error) => Self::new(what, false, error.to_string()),
        }
    }
}

/// A daemon that acts, and what it has set.
struct Acting {
    holder: Holder,
    /// The knobs that hold something, if it may be read.
    held: Option<BTreeSet<String>>,
}

impl Acting {
    fn holds(&self, knob: &str) -> bool {
        self.held.as_ref().is_none_or(|held| held.contains(knob))
    }

    /// Whether what is wrong with a part of the configuration may be its doing.
    fn may_have_set(&self, what: &str) -> bool {
        // Cores that are off are in no group, and neither have files nor can be given to anybody.
        let cores_off = self.holds("cpu.online");
        match what.split_once("]] ") {
            Some(("[[group", _)) => cores_off || self.holds("cpu.frequency"),
            // They look at nothing that they write themselves.
            Some(("[[knob", "cpu.cpuset" | "cpu.affinity")) => cores_off,
            Some(("[[knob", knob)) => cores_off || self.holds(knob),
            _ => what == "[[group]]" && cores_off,
        }
    }
}

/// Examines the host; with a configuration, also whether each of its parts can be used.
///
/// While a daemon acts, cores and knobs are as it has set them: what is wrong with those that it
/// holds may be its doing, and is not held against the configuration.
#[must_use]
pub fn examine(root: &Root, source: Option<&Source>) -> Vec<Finding> {
    let topology = Topology::read(root);
    let acting = Lock::host_holder(root);
    let mut findings: Vec<_> = acting.into_iter().map(acts).collect();
    findings.push(processors(&topology));
    if let Ok(topology) = &topology {
        findings.push(frequency(topology));
        findings.extend(two_valued(root, topology));
    }
    findings.push(cpusets(root));
    findings.push(devices(root));
    findings.push(tracing(root));
    findings.extend(meters(root));
    findings.extend(limits(root));
    if let (Some(source), Ok(topology)) = (source, &topology) {
        let path = source.path.display().to_string();
        findings.push(Finding::new("configuration", true, path));
        let mut asked = parts(&source.config, &source.path, root, topology);
        let fixed = fixed_groups(source, root).unwrap_or_default();
        asked
            .extend(fixed.iter().map(|text| Finding::new("[[group]] nothing to set", false, text)));
        let acting = acting.map(|holder| {
            let held = takeover::knobs_held(&source.config.service.state).ok();
            Acting { holder, held }
        });
        findings.extend(asked.into_iter().map(|finding| match &acting {
            Some(acting) => finding.beside(acting),
            None => finding,
        }));
    }
    findings
}

/// Who has set what is found.
fn acts(holder: Holder) -> Finding {
    let text = format!(
        "{holder} acts on this host: cores and knobs are as it has set them; `wattiod pause` puts \
         them back for a closer look"
    );
    Finding::new("daemon", true, text)
}

fn processors(topology: &Result<Topology, wattio_host::topology::TopologyError>) -> Finding {
    match topology {
        Ok(topology) => {
            let mut text = format!("{} online of {}", topology.online, topology.present);
            for (kind, cpus) in topology.kinds() {
                text += &format!("; {kind} {cpus}");
            }
            Finding::new("processors", true, text)
        }
        Err(error) => Finding::new("processors", false, error.to_string()),
    }
}

fn frequency(topology: &Topology) -> Finding {
    let Some(policy) = topology.policies.first() else {
        let text = "no cpufreq: the kernel has no driver for the frequency (a virtual machine's has \
                    none; on hardware the firmware's power profile must leave it to the system)";
        return Finding::new("knob cpu.frequency", false, text);
    };
    let policies = match topology.policies.len() {
        1 => "1 policy".to_owned(),
        count => format!("{count} policies"),
    };
    let text = format!(
        "{}, {:.2} to {:.2} GHz, driver {}{}, governor {}{}",
        policies,
        policy.lowest().0 / 1e9,
        policy.highest().0 / 1e9,
        policy.driver.as_deref().unwrap_or("unknown"),
        topology.driver_mode.as_ref().map(|mode| format!(" ({mode})")).unwrap_or_default(),
        policy.governor.as_deref().unwrap_or("unknown"),
        meant(topology, policy.governor.as_deref())
    );
    Finding::new("knob cpu.frequency", policy.lowest() < policy.highest(), text)
}

/// What a governor's name does not say: in the active mode two of them mean something else.
fn meant(topology: &Topology, governor: Option<&str>) -> &'static str {
    match (topology.driver_mode.as_deref(), governor) {
        (Some("active"), Some("performance")) => {
            ", which in this mode always runs at the upper limit: the knob lowers that"
        }
        (Some("active"), Some("powersave")) => {
            ", which in this mode follows the load up to the upper limit"
        }
        _ => "",
    }
}

/// The knobs with two values, one while saving and one at full speed.
fn two_valued(root: &Root, topology: &Topology) -> Vec<Finding> {
    let finding = |(name, opened): (&str, Result<(), String>)| {
        Finding::of(&format!("knob {name}"), opened, "can be turned")
    };
    knobs::offered(root, topology).into_iter().map(finding).collect()
}

/// Whether somebody limits what the processors draw.
fn limits(root: &Root) -> Vec<Finding> {
    let told = |name: &str, now: Option<_>, path: &str| {
        Some(Finding::new(
            "power limit",
            true,
            format!("{name} may draw {} for long ({path})", now?),
        ))
    };
    let packages = power_cap::package_limits(root).into_iter();
    let packages = packages.filter_map(|l| told(&l.name, l.now(root), &l.path));
    let chips = power_cap::chip_limits(root).into_iter();
    let chip = |l: power_cap::ChipLimit| {
        let name = format!("{} (hwmon = \"{}\")", l.name, l.chip);
        told(&name, l.now(root), &l.path)
    };
    packages.chain(chips.filter_map(chip)).collect()
}

fn cpusets(root: &Root) -> Finding {
    let v2 = root.read("/sys/fs/cgroup/cgroup.controllers");
    let found = match v2 {
        Ok(controllers) if controllers.split(' ').any(|name| name == "cpuset") => {
            Some("control groups, version 2")
        }
        _ if root.exists("/sys/fs/cgroup/cpuset/cpuset.cpus") => Some("control groups, version 1"),
        _ => None,
    };
    let missing = "no cpuset controller: with systemd, set AllowedCPUs= in the service once, or \
                   enable cpuset in cgroup.subtree_control; cpu.affinity works without";
    Finding::new("knob cpu.cpuset", found.is_some(), found.unwrap_or(missing))
}

/// The block devices of the host that may be worth watching. A path to a drive (NVMe's own multipath)
/// is hidden: its requests are counted of the drive, too.
pub(crate) fn block_devices(root: &Root) -> Vec<String> {
    let unreal = ["loop", "ram", "zram", "sr", "fd"];
    let hidden = |name: &String| {
        root.read(&format!("/sys/block/{name}/hidden")).is_ok_and(|hidden| hidden == "1")
    };
    let real =
        |name: &String| !unreal.iter().any(|prefix| name.starts_with(prefix)) && !hidden(name);
    root.list("/sys/block").into_iter().filter(real).collect()
}

fn devices(root: &Root) -> Finding {
    let names = block_devices(root);
    if names.is_empty() {
        return Finding::new("source diskstats", false, "no block device in /sys/block");
    }
    let names = names.join(", ");
    let text = format!("devices {names}; shows device time only, not how long clients wait");
    Finding::new("source diskstats", true, text)
}

fn tracing(root: &Root) -> Finding {
    let there = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .into_iter()
        .find(|folder| root.exists(&format!("{folder}/events/block")));
    let missing = "no block tracepoints: as root, mount -t tracefs tracefs /sys/kernel/tracing";
    Finding::new("source tracepoint", there.is_some(), there.unwrap_or(missing))
}

fn meters(root: &Root) -> Vec<Finding> {
    let found = power::Meters::find(root);
    if found.is_empty() {
        let text = "none that the kernel knows: no RAPL, no hwmon power sensor; power.model gives \
                    estimates";
        return vec![Finding::new("power meter", false, text)];
    }
    found
        .into_iter()
        .map(|meter| {
            let ok = meter.problem.is_none();
            let text = meter.problem.unwrap_or(meter.what);
            Finding::new("power meter", ok, format!("{}: {text}", meter.name))
        })
        .collect()
}

/// Threads that polled between two looks, `span` apart: proc-stat sees their cores as fully used.
#[must_use]
pub fn pollers(earlier: &Threads, later: &Threads, span: Seconds) -> Finding {
    let found = later.pollers(earlier, span);
    let names: Vec<_> =
        found.iter().take(8).map(|p| format!("{} ({})", p.comm, p.thread)).collect();
    if names.is_empty() {
        return Finding::new("threads that poll", true, "none: [cpu] kind = \"proc-stat\" will do");
    }
    let text = format!(
        "{} (or compute without pause): if they are the server's, the kernel sees its cores as fully used: take \
         utilisation from the server itself, [cpu] kind = \"exec\" or \"spdk\"",
        names.join(", ")
    );
    Finding::new("threads that poll", false, text)
}

fn parts(config: &DaemonConfig, beside: &Path, root: &Root, topology: &Topology) -> Vec<Finding> {
    let groups = groups::resolve(&config.all_groups(), topology);
    let mut findings = vec![Finding::of("[[group]]", groups.as_ref(), "their cores are there")];
    let period = Seconds(0.5);
    for application in config.applications() {
        let of = |part: &str| match application.name {
            Some(name) => format!("[[application]] {name}, {part}"),
            None => format!("[{part}]"),
        };
        let heard = latency(application.latency, root, period);
        findings.push(Finding { what: of("latency"), ..heard });
        findings.push(Finding::of(&of("cpu"), application.cpu.open(root, period), "opens"));
        if let Some(background) = application.background {
            findings.push(Finding::of(&of("background"), background.open(root), "opens"));
        }
    }
    if let Ok(groups) = &groups {
        findings.extend(groups.iter().filter(|group| group.mixes_kinds(topology)).map(mixed));
        let split = split_cores(config, groups, topology);
        findings.extend(split.iter().map(|text| Finding::new("physical cores", false, text)));
        findings.extend(config.knobs.iter().map(|knob| {
            let what = format!("[[knob]] {}", knob.name());
            Finding::of(&what, knob.open(root, topology, groups).map(|_| ()), "can be turned")
        }));
    }
    if let Some(name) = &config.power.model {
        let model = power_model(name, beside).map(|_| ());
        findings.push(Finding::of("[power] model", model, "can be read"));
    }
    if let Some(meter) = &config.power.meter {
        findings.push(self::meter(meter, root, period));
    }
    let service = &config.service;
    if service.tls.is_some() || service.token.is_some() {
        findings.push(Finding::of("[service]", check_page(service), "tls and token can be used"));
    }
    if let Some(group) = &service.socket_group {
        findings.push(Finding::of("[service] socket_group", facts::group_id(group), "is there"));
    }
    findings
}

/// A group of several kinds of cores; it works, and is worth a word.
fn mixed(group: &groups::Group) -> Finding {
    let text = format!(
        "group {:?} has cores of several kinds, which the law takes to be alike: make one of each, with \
         kind = \"performance\" and kind = \"efficiency\"",
        group.name
    );
    Finding::new("kinds of cores", false, text)
}

/// Whether the power source opens and soon has a reading.
fn meter(config: &MeterConfig, root: &Root, period: Seconds) -> Finding {
    const WHAT: &str = "[power] meter";
    let mut source = match config.open(root, period, stopwatch()) {
        Ok(source) => source,
        Err(error) => return Finding::new(WHAT, false, error.to_string()),
    };
    let every = Duration::try_from_secs_f64(period.0).unwrap_or(ANSWERS_WITHIN);
    match answer_of(every, |now| source.sample(now)) {
        Ok(Some(power)) => Finding::new(WHAT, true, format!("answers: {power}")),
        Ok(None) => Finding::new(WHAT, false, "opens, but shows no power for three seconds"),
        Err(error) => Finding::new(WHAT, false, error.to_string()),
    }
}

/// A source's first answer, polled until it comes or a time limit is over.
fn answer_of<T>(
    every: Duration,
    mut ask: impl FnMut(Seconds) -> Result<Option<T>, SourceError>,
) -> Result<Option<T>, SourceError> {
    let began = Instant::now();
    let mut said = Ok(None);
    while began.elapsed() < ANSWERS_WITHIN && matches!(said, Ok(None)) {
        std::thread::sleep(every);
        said = ask(Seconds(began.elapsed().as_secs_f64()));
    }
    said
}

/// Whether the latency source opens and soon answers.
pub(crate) fn latency(config: &LatencyConfig, root: &Root, period: Seconds) -> Finding {
    const WHAT: &str = "[latency]";
    let mut source = match config.open(root, period) {
        Ok(source) => source,
        Err(error) => return Finding::new(WHAT, false, error.to_string()),
    };
    match answer_of(ANSWERS_WITHIN / 30, |now| source.sample(now)) {
        Ok(Some(sample)) => {
            let resolution_us = Some(source.latency_us_resolution());
            let mean = |us| format!(", mean {}", latency_time(us, resolution_us));
            let mean = sample.latency_us_mean.map(mean).unwrap_or_default();
            let text = format!("answers: {}{mean}", counted(sample.requests, "request"));
            Finding::new(WHAT, true, text)
        }
        Ok(None) => Finding::new(WHAT, false, "opens, but says nothing for three seconds"),
        Err(error) => Finding::new(WHAT, false, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_the_driver_is_told_with_what_its_governor_means() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for (path, text) in [
            ("online", "0"),
            ("present", "0"),
            ("intel_pstate/status", "active"),
            ("intel_pstate/no_turbo", "0"),
            ("cpufreq/policy0/related_cpus", "0"),
            ("cpufreq/policy0/cpuinfo_min_freq", "800000"),
            ("cpufreq/policy0/cpuinfo_max_freq", "3500000"),
            ("cpufreq/policy0/scaling_driver", "intel_pstate"),
            ("cpufreq/policy0/scaling_governor", "powersave"),
        ] {
            let path = root.path(&format!("/sys/devices/system/cpu/{path}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let findings = examine(&root, None);
        let told = |what: &str| findings.iter().find(|finding| finding.what == what).unwrap();
        let frequency = &told("knob cpu.frequency").text;
        let says = "driver intel_pstate (active), governor powersave, which in this mode follows";
        assert!(frequency.contains(says), "{frequency}");
        assert!(told("knob cpu.turbo").ok && !told("knob cpu.epp").ok, "{findings:?}");
        assert!(told("knob power.cap").text.contains("no RAPL"));
    }

    #[test]
    fn caps_of_a_chip_are_listed_by_the_name_that_the_knob_takes() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for (path, text) in [
            ("devices/system/cpu/present", "0"),
            ("class/hwmon/hwmon2/name", "amd_hsmp_hwmon"),
            ("class/hwmon/hwmon2/power1_cap", "225000000"),
            ("class/hwmon/hwmon2/power1_cap_max", "240000000"),
        ] {
            let path = root.path(&format!("/sys/{path}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let findings = examine(&root, None);
        let told = |what: &str| findings.iter().find(|finding| finding.what == what).unwrap();
        assert!(told("knob power.cap").ok, "{findings:?}");
        let listed = "amd_hsmp_hwmon/power1 (hwmon = \"amd_hsmp_hwmon\") may draw 225 W";
        assert!(told("power limit").text.starts_with(listed), "{findings:?}");
    }

    #[test]
    fn an_empty_host_is_told_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let findings = examine(&Root::new(folder.path()), None);
        assert!(findings.iter().all(|finding| !finding.ok), "{findings:?}");
        assert!(findings.iter().any(|finding| finding.text.contains("mount -t tracefs")));
    }
}
