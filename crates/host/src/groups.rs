//! Groups of cores: which cores work for which service, and in which order they leave.

use crate::processes::ProcessPattern;
use crate::sources::queued;
use crate::topology::Topology;
use serde::Deserialize;
use thiserror::Error;
use wattio_governor::Cpus;

/// One group as an operator writes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// What it is called: `network`, `storage`.
    pub name: String,
    /// Its cores, as the kernel writes lists: `"0-7"`.
    pub cores: String,
    /// How many always stay, by default 1.
    #[serde(default = "cores_min_default")]
    pub cores_min: u32,
    /// The control group that runs on them, for the knob `cpu.cpuset`: its path within the
    /// hierarchy, such as `"/system.slice/etcd.service"`.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// The processes or threads that run on them, for the knob `cpu.affinity`. Not those in a
    /// control group that the knob `cpu.cpuset` moves: the kernel changes their masks with it.
    #[serde(default)]
    pub processes: Option<ProcessPattern>,
    /// Where the server tells how many client tasks wait for one of these cores.
    #[serde(default)]
    pub queue: Option<queued::Config>,
}

fn cores_min_default() -> u32 {
    1
}

/// A group whose cores were found on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// Its cores in the order of staying: the first leave last.
    pub order: Vec<u32>,
    /// How many always stay.
    pub cores_min: u32,
    /// The control group that runs on them.
    pub cgroup: Option<String>,
    /// The processes or threads that run on them.
    pub processes: Option<ProcessPattern>,
}

/// Why groups cannot be formed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("group {group:?}, {key}: {message}")]
pub struct GroupError {
    group: String,
    key: &'static str,
    message: String,
}

impl Group {
    /// All its cores.
    #[must_use]
    pub fn cores(&self) -> Cpus {
        self.order.iter().copied().collect()
    }
}

/// Finds the groups' cores on the host.
///
/// The order of staying: node by node, within a node physical core by physical core, so that whole
/// cores leave, and whole nodes (and with them packages) fall idle as early as can be. The lowest
/// core stays longest; the kernel takes no other for processor 0.
///
/// # Errors
/// [`GroupError`] where a list is none, names cores that are not there or off, is empty or overlaps
/// with another group, a name is used twice, or fewer cores are there than shall stay.
pub fn resolve(configs: &[GroupConfig], topology: &Topology) -> Result<Vec<Group>, GroupError> {
    let mut groups: Vec<Group> = Vec::new();
    for config in configs {
        let error = |key, message| GroupError { group: config.name.clone(), key, message };
        if config.name.is_empty() || groups.iter().any(|group| group.name == config.name) {
            return Err(error("name", "each group needs a name of its own".to_owned()));
        }
        let cores = cores(&config.cores, topology).map_err(|message| error("cores", message))?;
        for other in &groups {
            let shared = cores.and(&other.cores());
            if !shared.is_empty() {
                let message = format!("{shared} belong to group {:?} already", other.name);
                return Err(error("cores", message));
            }
        }
        let count = cores.len();
        if config.cores_min == 0 || usize::try_from(config.cores_min).is_ok_and(|min| min > count) {
            let message = format!("{} is not between 1 and the group's {count}", config.cores_min);
            return Err(error("cores_min", message));
        }
        if let Some(cgroup) = &config.cgroup {
            check_cgroup(cgroup).map_err(|message| error("cgroup", message))?;
        }
        groups.push(Group {
            name: config.name.clone(),
            order: staying_order(&cores, topology),
            cores_min: config.cores_min,
            cgroup: config.cgroup.clone(),
            processes: config.processes.clone(),
        });
    }
    Ok(groups)
}

/// The cores in a list, all there and on.
fn cores(list: &str, topology: &Topology) -> Result<Cpus, String> {
    let cores: Cpus = list.parse().map_err(|error| format!("{error}"))?;
    if cores.is_empty() {
        return Err(format!("the list is empty; this host has {}", topology.online));
    }
    let missing = cores.without(&topology.present);
    if !missing.is_empty() {
        return Err(format!("{missing} are not there; this host has {}", topology.present));
    }
    let off = cores.without(&topology.online);
    if !off.is_empty() {
        return Err(format!(
            "{off} are off; bring them on (echo 1 > /sys/devices/system/cpu/cpuN/online) or leave \
             them out"
        ));
    }
    Ok(cores)
}

/// Whether a text is the path of a control group below the root of its hierarchy.
pub(crate) fn check_cgroup(cgroup: &str) -> Result<(), String> {
    let inner = cgroup.strip_prefix('/').unwrap_or_default().trim_end_matches('/');
    let odd = inner.split('/').any(|part| part.is_empty() || part == "." || part == "..");
    if odd || cgroup.starts_with("/sys/") {
        return Err(format!(
            "{cgroup:?} is no path of a control group within its hierarchy, such as \
             \"/system.slice/etcd.service\""
        ));
    }
    Ok(())
}

/// The cores in the order of staying.
fn staying_order(cores: &Cpus, topology: &Topology) -> Vec<u32> {
    let mut order: Vec<u32> = cores.iter().collect();
    let first = |cpus: &Cpus, otherwise| cpus.iter().next().unwrap_or(otherwise);
    order.sort_by_cached_key(|&cpu| (topology.node(cpu), first(&topology.siblings(cpu), cpu), cpu));
    order
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
