//! The processors of the host: which exist, and which share a core, a node or a frequency.
//!
//! Source: `/sys/devices/system/cpu` and `/sys/devices/system/node`, as in the kernel's
//! `Documentation/ABI/testing/sysfs-devices-system-cpu`. Whatever a host does not report (a virtual
//! machine has no cpufreq, a small one no nodes) is absent here.

use crate::Root;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;
use wattio_governor::Cpus;
use wattio_units::Hertz;

/// Where the kernel describes processors.
pub const CPU_FOLDER: &str = "/sys/devices/system/cpu";
/// Where the kernel describes memory nodes.
const NODE_FOLDER: &str = "/sys/devices/system/node";

/// The processors of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// All that are plugged in, on or off.
    pub present: Cpus,
    /// Those that run.
    pub online: Cpus,
    /// For each processor that runs, those of its physical core, with itself.
    siblings: BTreeMap<u32, Cpus>,
    /// The processors of each memory node.
    nodes: BTreeMap<u32, Cpus>,
    /// The sets of processors that change frequency together, by the lowest processor.
    pub policies: Vec<FrequencyPolicy>,
    /// The mode of the driver that has several: `active` (intel_pstate, amd-pstate: the processor
    /// itself chooses its frequency between the limits), `passive` (a governor of the kernel does),
    /// `guided`.
    pub driver_mode: Option<String>,
    /// The processors of each kind, where there are several; empty where all are alike.
    kinds: BTreeMap<CoreKind, Cpus>,
}

/// What kind of core a processor belongs to, on a host that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreKind {
    /// The fastest there are (P cores).
    Performance,
    /// Any slower ones (E cores).
    Efficiency,
}

impl fmt::Display for CoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Performance => "performance",
            Self::Efficiency => "efficiency",
        })
    }
}

/// Processors that change frequency together.
#[derive(Clone, Debug, PartialEq)]
pub struct FrequencyPolicy {
    /// Its folder under `/sys`.
    pub folder: String,
    /// Its processors, on or off (`related_cpus`).
    pub cpus: Cpus,
    /// The lowest frequency that the hardware has (`cpuinfo_min_freq`).
    pub hardware_min: Hertz,
    /// The highest (`cpuinfo_max_freq`), with boost where there is one.
    pub hardware_max: Hertz,
    /// The lowest frequency that may be used, as found (`scaling_min_freq`).
    pub scaling_min: Option<Hertz>,
    /// The highest frequency that may be used, as found (`scaling_max_freq`).
    pub scaling_max: Option<Hertz>,
    /// The frequencies there are, ascending; empty where any between the limits is.
    pub steps: Vec<Hertz>,
    /// What drives the hardware: `acpi-cpufreq`, `intel_pstate`.
    pub driver: Option<String>,
    /// Who chooses the frequency: `schedutil`, `userspace`.
    pub governor: Option<String>,
    /// The highest frequency without turbo (`base_frequency`, of intel_pstate).
    pub base: Option<Hertz>,
    /// Whether a knob turns it, see [`crate::knobs::limited`].
    pub is_turned: bool,
}

/// Why there is no topology.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TopologyError {
    /// No file says which processors there are.
    #[error(
        "{CPU_FOLDER}: neither \"present\" nor a folder \"cpu0\" says which processors there are; \
         is sysfs mounted?"
    )]
    NoProcessors,
    /// A list that makes no sense.
    #[error("{file}: {message}")]
    BadList {
        /// Which file.
        file: String,
        /// What was wrong with it.
        message: String,
    },
}

impl Topology {
    /// Looks at the host.
    ///
    /// # Errors
    /// [`TopologyError`] when no processor is found or a list of processors makes no sense.
    pub fn read(root: &Root) -> Result<Self, TopologyError> {
        let folders: Cpus = numbered(root, CPU_FOLDER, "cpu").collect();
        let present = list(root, &format!("{CPU_FOLDER}/present"))?.unwrap_or(folders);
        if present.is_empty() {
            return Err(TopologyError::NoProcessors);
        }
        let online = list(root, &format!("{CPU_FOLDER}/online"))?;
        let online = online.map_or_else(|| present.clone(), |online| online.and(&present));
        let mut siblings = BTreeMap::new();
        for cpu in online.iter() {
            siblings.insert(cpu, core_of(root, cpu)?.and(&present));
        }
        let mut nodes = BTreeMap::new();
        for node in numbered(root, NODE_FOLDER, "node") {
            if let Some(cpus) = list(root, &format!("{NODE_FOLDER}/node{node}/cpulist"))? {
                nodes.insert(node, cpus.and(&present));
            }
        }
        let mut policies = Vec::new();
        for number in numbered(root, &format!("{CPU_FOLDER}/cpufreq"), "policy") {
            policies.extend(FrequencyPolicy::read(root, number)?);
        }
        let status = |driver: &&str| root.read(&format!("{CPU_FOLDER}/{driver}/status")).ok();
        let driver_mode = ["intel_pstate", "amd_pstate"].iter().find_map(status);
        // The other driver's folder may stand beside the one that is in use.
        let driver_mode = driver_mode.filter(|mode| mode != "off" && mode != "disable");
        let kinds = kinds(root, &present)?;
        Ok(Self { present, online, siblings, nodes, policies, driver_mode, kinds })
    }

    /// The processors of one physical core, by any of them. One that is off counts alone: the
    /// kernel does not tell its siblings.
    #[must_use]
    pub fn siblings(&self, cpu: u32) -> Cpus {
        self.siblings.get(&cpu).cloned().unwrap_or_else(|| Cpus::from_iter([cpu]))
    }

    /// The memory node of a processor, where the host tells.
    #[must_use]
    pub fn node(&self, cpu: u32) -> Option<u32> {
        self.nodes.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(&node, _)| node)
    }

    /// The processors of each kind of core; empty where all are alike, or the host does not tell.
    pub fn kinds(&self) -> impl Iterator<Item = (CoreKind, &Cpus)> {
        self.kinds.iter().map(|(&kind, cpus)| (kind, cpus))
    }

    /// The policies that hold any of the processors.
    pub fn policies_of<'a>(&'a self, cpus: &'a Cpus) -> impl Iterator<Item = &'a FrequencyPolicy> {
        self.policies.iter().filter(|policy| !policy.cpus.and(cpus).is_empty())
    }
}

impl FrequencyPolicy {
    /// One policy; `None` if a file that it cannot do without is missing (its processors are off,
    /// or the driver does not tell).
    fn read(root: &Root, number: u32) -> Result<Option<Self>, TopologyError> {
        let folder = format!("{CPU_FOLDER}/cpufreq/policy{number}");
        let text = |file: &str| root.read(&format!("{folder}/{file}")).ok();
        let frequency = |file: &str| text(file).and_then(|text| from_khz(&text));
        let cpus = match list(root, &format!("{folder}/related_cpus"))? {
            Some(cpus) if !cpus.is_empty() => cpus,
            _ => list(root, &format!("{folder}/affected_cpus"))?.unwrap_or_default(),
        };
        let limits = (frequency("cpuinfo_min_freq"), frequency("cpuinfo_max_freq"));
        let (Some(hardware_min), Some(hardware_max)) = limits else { return Ok(None) };
        if cpus.is_empty() || hardware_min > hardware_max {
            return Ok(None);
        }
        let steps = steps(root, &folder);
        Ok(Some(Self {
            cpus,
            hardware_min,
            hardware_max,
            scaling_min: frequency("scaling_min_freq"),
            scaling_max: frequency("scaling_max_freq"),
            steps,
            driver: text("scaling_driver"),
            governor: text("scaling_governor"),
            base: frequency("base_frequency"),
            is_turned: false,
            folder,
        }))
    }

    /// The lowest frequency that this policy will be set to: the operator's own floor stands.
    #[must_use]
    pub fn lowest(&self) -> Hertz {
        self.scaling_min.unwrap_or(self.hardware_min)
    }

    /// The highest frequency that this policy will be set to: the operator's own cap stands.
    #[must_use]
    pub fn highest(&self) -> Hertz {
        self.scaling_max.unwrap_or(self.hardware_max)
    }

    /// The lowest frequency there is that is no slower than asked for, within
    /// [`FrequencyPolicy::lowest`] and [`FrequencyPolicy::highest`].
    ///
    /// The kernel rounds a cap down to a step, so that a cap between two steps would run slower
    /// than asked for.
    #[must_use]
    pub fn resolve(&self, asked: Hertz) -> Hertz {
        let (lowest, highest) = (self.lowest().0, self.highest().0);
        // No number fails towards full speed, as everywhere.
        let within = if asked.0.is_nan() { highest } else { asked.0.max(lowest).min(highest) };
        let reached = |step: &&Hertz| step.0 >= within * (1.0 - 1e-9) && step.0 <= highest;
        let otherwise = if self.steps.is_empty() { within } else { highest };
        self.steps.iter().find(reached).copied().unwrap_or(Hertz(otherwise))
    }
}

/// A frequency in kilohertz as cpufreq writes it, such as `2400000`.
#[must_use]
pub fn from_khz(text: &str) -> Option<Hertz> {
    let khz: u64 = text.trim().parse().ok()?;
    // No clock beats 1 THz; zero is what drivers say that do not know.
    (1..=1_000_000_000).contains(&khz).then_some(Hertz(khz as f64 * 1e3))
}

/// A frequency as cpufreq writes it.
#[must_use]
pub fn khz(frequency: Hertz) -> String {
    format!("{:.0}", frequency.0 / 1e3)
}

/// The frequencies that a policy lists, ascending, without what is no number.
pub(crate) fn steps(root: &Root, policy: &str) -> Vec<Hertz> {
    let files = ["scaling_available_frequencies", "scaling_boost_frequencies"];
    let texts = files.map(|file| root.read(&format!("{policy}/{file}")).unwrap_or_default());
    frequencies(&texts.join(" "))
}

fn frequencies(text: &str) -> Vec<Hertz> {
    let mut steps: Vec<_> = text.split_whitespace().filter_map(from_khz).collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    steps.dedup();
    steps
}

/// The processors of each kind, where there are several: by the counters that each has of its own
/// (Intel), else by how much work they do (`cpu_capacity`, of ARM and newer kernels).
fn kinds(root: &Root, present: &Cpus) -> Result<BTreeMap<CoreKind, Cpus>, TopologyError> {
    let counters = |name: &str| list(root, &format!("/sys/devices/{name}/cpus"));
    let mut kinds = BTreeMap::new();
    if let (Some(core), Some(atom)) = (counters("cpu_core")?, counters("cpu_atom")?) {
        kinds.insert(CoreKind::Performance, core.and(present));
        kinds.insert(CoreKind::Efficiency, atom.and(present));
    } else {
        let capacity = |cpu: u32| -> Option<(u32, u32)> {
            let text = root.read(&format!("{CPU_FOLDER}/cpu{cpu}/cpu_capacity")).ok()?;
            Some((cpu, text.parse().ok()?))
        };
        let capacities: Vec<_> = present.iter().filter_map(capacity).collect();
        let highest = capacities.iter().map(|(_, capacity)| *capacity).max();
        for (cpu, capacity) in capacities {
            let is_highest = Some(capacity) == highest;
            let kind = if is_highest { CoreKind::Performance } else { CoreKind::Efficiency };
            kinds.entry(kind).or_insert_with(Cpus::default).insert(cpu);
        }
    }
    kinds.retain(|_, cpus| !cpus.is_empty());
    Ok(if kinds.len() > 1 { kinds } else { BTreeMap::new() })
}

/// The processors of the physical core of `cpu`.
fn core_of(root: &Root, cpu: u32) -> Result<Cpus, TopologyError> {
    for file in ["core_cpus_list", "thread_siblings_list"] {
        if let Some(cpus) = list(root, &format!("{CPU_FOLDER}/cpu{cpu}/topology/{file}"))?
            && cpus.contains(cpu)
        {
            return Ok(cpus);
        }
    }
    Ok(Cpus::from_iter([cpu]))
}

/// The list of processors in a file; `None` if there is no such file.
fn list(root: &Root, file: &str) -> Result<Option<Cpus>, TopologyError> {
    let Ok(text) = root.read(file) else { return Ok(None) };
    // cpufreq separates by blanks.
    let text = text.split_whitespace().collect::<Vec<_>>().join(",");
    let bad = |error| TopologyError::BadList { file: file.to_owned(), message: format!("{error}") };
    text.parse().map(Some).map_err(bad)
}

/// The numbers behind `prefix` in the names of a folder, ascending.
fn numbered(root: &Root, folder: &str, prefix: &str) -> impl Iterator<Item = u32> {
    let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
    let mut numbers: Vec<u32> = root.list(folder).iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a folder says of the kinds of its four processors.
    fn kinds_of(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for (path, text) in files.iter().chain(&[("system/cpu/present", "0-3")]) {
            let path = root.path(&format!("/sys/devices/{path}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let topology = Topology::read(&root).unwrap();
        let kinds = topology.kinds().map(|(kind, cpus)| format!("{kind} {cpus}"));
        kinds.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn kinds_of_cores_are_told_by_their_counters_or_by_their_capacity() {
        let intel = [("cpu_core/cpus", "0-1"), ("cpu_atom/cpus", "2-3")];
        assert_eq!(kinds_of(&intel), "performance 0-1, efficiency 2-3");
        assert_eq!(kinds_of(&[("cpu_core/cpus", "0-3"), ("cpu_atom/cpus", "")]), "");
        let capacity = |of: [&str; 4]| {
            let files = ["cpu0", "cpu1", "cpu2", "cpu3"];
            let path = |cpu: &str| format!("system/cpu/{cpu}/cpu_capacity");
            let paths: Vec<_> = files.iter().map(|cpu| path(cpu)).collect();
            let files: Vec<_> = paths.iter().map(String::as_str).zip(of).collect();
            kinds_of(&files)
        };
        assert_eq!(capacity(["414", "414", "1024", "760"]), "performance 2, efficiency 0-1,3");
        assert_eq!(capacity(["1024"; 4]), "", "all alike");
        assert_eq!(kinds_of(&[]), "");
    }

    #[test]
    fn frequencies_of_a_driver_are_read_in_any_order() {
        let steps = frequencies("2400000 1600000 x 800000 0 2400000\n");
        assert_eq!(steps, [Hertz(0.8e9), Hertz(1.6e9), Hertz(2.4e9)]);
    }

    fn policy(steps: &[f64]) -> FrequencyPolicy {
        FrequencyPolicy {
            folder: String::new(),
            cpus: Cpus::from_iter([0]),
            hardware_min: Hertz(0.8e9),
            hardware_max: Hertz(3.0e9),
            scaling_min: Some(Hertz(1.0e9)),
            scaling_max: Some(Hertz(2.5e9)),
            steps: steps.iter().map(|&step| Hertz(step)).collect(),
            driver: None,
            governor: None,
            base: None,
            is_turned: false,
        }
    }

    #[test]
    fn a_frequency_is_rounded_up_to_a_step_within_what_the_operator_allows() {
        let policy = policy(&[0.8e9, 1.6e9, 2.4e9, 3.0e9]);
        for (asked, resolved) in
            [(0.1e9, 1.6e9), (1.6e9, 1.6e9), (1.7e9, 2.4e9), (2.45e9, 2.5e9), (9e9, 2.5e9)]
        {
            assert_eq!(policy.resolve(Hertz(asked)), Hertz(resolved), "{asked}");
        }
        assert_eq!(policy.resolve(Hertz(f64::NAN)), Hertz(2.5e9));
    }

    proptest! {
        #[test]
        fn every_frequency_resolves_within_the_limits(asked: f64) {
            for policy in [policy(&[]), policy(&[0.8e9, 1.6e9, 2.4e9])] {
                let resolved = policy.resolve(Hertz(asked));
                prop_assert!((1.0e9..=2.5e9).contains(&resolved.0), "{resolved}");
            }
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = (from_khz(&text), frequencies(&text));
        }
    }
}
