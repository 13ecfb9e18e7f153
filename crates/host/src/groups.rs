//! Groups of cores: which cores serve which service, and in which order they are turned off.

use crate::processes::ProcessPattern;
use crate::sources::queued;
use crate::topology::{CoreKind, Topology};
use serde::Deserialize;
use thiserror::Error;
use wattio_governor::Cpus;
use wattio_units::Hertz;

/// A group as configured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// The group's name, such as `network` or `storage`. Allowed: any text; unique.
    pub name: String,
    /// The group's cores, as a list in the kernel's format. Allowed: cores that are online, such as
    /// `"0-7"` or `"0,2,8-11"`; each core in one group only.
    pub cores: String,
    /// On a host with several kinds of cores: which kind of these `cores` belongs to the group.
    /// Groups of different kinds may name the same `cores`. Default: all of them; the law assumes
    /// that they are alike. Allowed: `"performance"`, `"efficiency"`.
    #[serde(default)]
    pub kind: Option<CoreKind>,
    /// How many cores always stay on. Default: `1`. Allowed: 1 to the number of cores in the group.
    #[serde(default = "cores_min_default")]
    pub cores_min: u32,
    /// The control group that runs on them, for the knob `cpu.cpuset`. Allowed: its path within the
    /// hierarchy, such as `"/system.slice/etcd.service"`.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// The processes or threads that run on these cores, for the knob `cpu.affinity`. Do not name
    /// processes of a control group that `cpu.cpuset` moves: the kernel changes their masks
    /// together with the group. Allowed: `{ comm = "etcd*" }` for processes by name, `{ thread =
    /// "tp_osd_tp*" }` for threads by name, `{ cgroup = "/system.slice/minio*" }` for processes by
    /// control group; `*` matches any text.
    #[serde(default)]
    pub processes: Option<ProcessPattern>,
    /// The metric in which the server reports how many client tasks wait for one of these cores.
    #[serde(default)]
    pub queue: Option<queued::Config>,
}

fn cores_min_default() -> u32 {
    1
}

/// A group whose cores were found on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its cores in the order of staying: the first are turned off last.
    pub order: Vec<u32>,
    /// How many always stay on.
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

/// The frequencies that the cores of a group can be set to, all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Speeds {
    /// The lowest one.
    pub lowest: Hertz,
    /// The highest one.
    pub highest: Hertz,
    /// Those between, ascending, with both ends; empty where any is, or cores differ.
    pub steps: Vec<Hertz>,
}

impl Group {
    /// The frequencies that its cores can be set to; `None` where the host does not tell.
    #[must_use]
    pub fn speeds(&self, topology: &Topology) -> Option<Speeds> {
        let cores = self.cores();
        let policies: Vec<_> = topology.policies_of(&cores).collect();
        let first = policies.first()?;
        let highest = policies.iter().map(|policy| policy.highest().0).fold(0.0, f64::max);
        let lowest = policies.iter().map(|policy| policy.lowest().0).fold(0.0, f64::max);
        let alike = policies.windows(2).all(|pair| pair[0].steps == pair[1].steps);
        let within = |step: &&Hertz| alike && (lowest..=highest).contains(&step.0);
        let steps = first.steps.iter().filter(within).copied().collect();
        Some(Speeds { lowest: Hertz(lowest), highest: Hertz(highest), steps })
    }

    /// All its cores.
    #[must_use]
    pub fn cores(&self) -> Cpus {
        self.order.iter().copied().collect()
    }

    /// Whether it has cores of several kinds, which the law takes to be alike.
    #[must_use]
    pub fn mixes_kinds(&self, topology: &Topology) -> bool {
        let cores = self.cores();
        topology.kinds().filter(|(_, cpus)| cpus.meets(&cores)).count() > 1
    }
}

/// The processors of two applications that are threads of a physical core of which each has some:
/// what one does slows the other, and neither law sees it.
#[must_use]
pub fn split_between(one: &[Group], other: &[Group], topology: &Topology) -> Cpus {
    let cores = |groups: &[Group]| {
        groups.iter().fold(Cpus::default(), |cores, group| cores.or(&group.cores()))
    };
    let (one, other) = (cores(one), cores(other));
    let beside = |own: &Cpus, others: &Cpus| -> Cpus {
        own.iter().filter(|&cpu| topology.siblings(cpu).meets(others)).collect()
    };
    beside(&one, &other).or(&beside(&other, &one))
}

/// Finds the groups' cores on the host.
///
/// The order of staying: node by node, within a node physical core by physical core, so that whole
/// cores are turned off, and whole nodes (and with them packages) become idle as early as possible.
/// The lowest core stays longest, as the kernel cannot do without processor 0.
///
/// # Errors
/// [`GroupError`] if a list is malformed, names cores that do not exist or are off, is empty or
/// overlaps with another group, a name is used twice, or fewer cores are there than should stay.
pub fn resolve(configs: &[GroupConfig], topology: &Topology) -> Result<Vec<Group>, GroupError> {
    let mut groups: Vec<Group> = Vec::new();
    for config in configs {
        let error = |key, message| GroupError { group: config.name.clone(), key, message };
        if config.name.is_empty() || groups.iter().any(|group| group.name == config.name) {
            return Err(error("name", "each group needs a name of its own".to_owned()));
        }
        let cores = cores(&config.cores, topology).map_err(|message| error("cores", message))?;
        let cores =
            of_kind(cores, config.kind, topology).map_err(|message| error("kind", message))?;
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

/// The cores in a list, which must all exist and be on.
fn cores(list: &str, topology: &Topology) -> Result<Cpus, String> {
    let cores: Cpus = list.parse().map_err(|error| format!("{error}"))?;
    if cores.is_empty() {
        return Err(format!("the list is empty; this host has {}", topology.online));
    }
    let missing = cores.without(&topology.present);
    if !missing.is_empty() {
        return Err(format!("{missing} do not exist; this host has {}", topology.present));
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

/// Those of a kind, of which there must be some.
fn of_kind(cores: Cpus, kind: Option<CoreKind>, topology: &Topology) -> Result<Cpus, String> {
    let Some(kind) = kind else { return Ok(cores) };
    let of_this = topology.kinds().find(|(found, _)| *found == kind).map(|(_, cpus)| cpus);
    let Some(of_this) = of_this else {
        return Err(format!("{kind:?}: the cores of this host are all alike, or it does not tell"));
    };
    let own = cores.and(of_this);
    if own.is_empty() {
        return Err(format!("none of {cores} is of the kind {kind}; {of_this} are"));
    }
    Ok(own)
}

/// Whether a text is the path of a control group below the root of its hierarchy.
pub(crate) fn check_cgroup(cgroup: &str) -> Result<(), String> {
    let inner = cgroup.strip_prefix('/').unwrap_or_default().trim_end_matches('/');
    let odd = inner.split('/').any(|part| part.is_empty() || part == "." || part == "..");
    if odd || cgroup.starts_with("/sys/") {
        return Err(format!(
            "{cgroup:?} is not the path of a control group within its hierarchy, such as \
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
mod tests {
    use super::*;
    use crate::Root;
    use std::fs;

    /// Eight processors: node 0 has 0,1 and 4,5, node 1 has 2,3 and 6,7; cpu N and N + 4 share a core.
    /// Processor 8 is off.
    fn topology() -> Topology {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let write = |path: String, text: &str| {
            let path = root.path(&path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("/sys/devices/system/cpu/present".into(), "0-8\n");
        write("/sys/devices/system/cpu/online".into(), "0-7\n");
        for cpu in 0..8 {
            let list = format!("{},{}", cpu % 4, cpu % 4 + 4);
            write(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), &list);
        }
        write("/sys/devices/system/node/node0/cpulist".into(), "0-1,4-5");
        write("/sys/devices/system/node/node1/cpulist".into(), "2-3,6-7");
        write("/sys/devices/cpu_core/cpus".into(), "0-1,4-5");
        write("/sys/devices/cpu_atom/cpus".into(), "2-3,6-7");
        Topology::read(&root).unwrap()
    }

    fn group(name: &str, cores: &str) -> GroupConfig {
        GroupConfig {
            name: name.to_owned(),
            cores: cores.to_owned(),
            kind: None,
            cores_min: 1,
            cgroup: None,
            processes: None,
            queue: None,
        }
    }

    #[test]
    fn whole_cores_and_whole_nodes_leave_together() {
        let groups = resolve(&[group("all", "0-7")], &topology()).unwrap();
        assert_eq!(groups[0].order, [0, 4, 1, 5, 2, 6, 3, 7]);
    }

    #[test]
    fn kinds_of_cores_are_groups_of_their_own() {
        let kind = |kind, name| GroupConfig { kind: Some(kind), ..group(name, "0-7") };
        let both = [kind(CoreKind::Performance, "p"), kind(CoreKind::Efficiency, "e")];
        let topology = topology();
        let groups = resolve(&both, &topology).unwrap();
        assert_eq!(groups[0].order, [0, 4, 1, 5]);
        assert_eq!(groups[1].order, [2, 6, 3, 7]);
        assert!(!groups[1].mixes_kinds(&topology));
        assert!(resolve(&[group("all", "0-7")], &topology).unwrap()[0].mixes_kinds(&topology));
        let few = GroupConfig { cores: "0-1".into(), ..kind(CoreKind::Efficiency, "e") };
        let message = resolve(&[few], &topology).unwrap_err().to_string();
        assert!(
            message.contains("kind: none of 0-1 is of the kind efficiency; 2-3,6-7"),
            "{message}"
        );
        let message = resolve(&[GroupConfig { cores_min: 5, ..both[1].clone() }], &topology);
        assert!(message.unwrap_err().to_string().contains("the group's 4"));
    }

    #[test]
    fn cores_whose_threads_two_applications_have_are_found() {
        let topology = topology();
        let groups = |cores: &str| resolve(&[group("a", cores)], &topology).unwrap();
        let split = |one: &str, other: &str| {
            split_between(&groups(one), &groups(other), &topology).to_string()
        };
        assert_eq!(split("0-1", "3-5"), "0-1,4-5");
        assert_eq!(split("0-3", "4-7"), "0-7");
        assert_eq!(split("0,4", "1,5"), "", "whole cores");
    }

    #[test]
    fn what_cannot_be_a_group_is_refused_with_what_there_is() {
        let refused = |groups: &[GroupConfig], says: &str| {
            let message = resolve(groups, &topology()).unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        };
        refused(&[group("a", "0-9")], "9 do not exist; this host has 0-8");
        refused(&[group("a", "7-8")], "8 are off");
        refused(&[group("a", "")], "this host has 0-7");
        refused(&[group("a", "x")], "group \"a\", cores");
        refused(&[group("a", "0-3"), group("b", "3-5")], "3 belong to group \"a\"");
        refused(&[group("a", "0"), group("a", "1")], "a name of its own");
        refused(
            &[GroupConfig { cores_min: 3, ..group("a", "0-1") }],
            "between 1 and the group's 2",
        );
        refused(&[GroupConfig { cores_min: 0, ..group("a", "0-1") }], "between 1 and");
        for path in ["etcd", "/", "/a/../b", "/sys/fs/cgroup/a", "", "/a//b"] {
            let config = GroupConfig { cgroup: Some(path.to_owned()), ..group("a", "0") };
            refused(&[config], "not the path of a control group");
        }
    }
}
