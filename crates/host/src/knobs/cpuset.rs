//! `cpu.cpuset`: keeps each group's control group on the group's active cores.
//!
//! With version 2 one file is written. Version 1 does not let a control group have fewer cores than
//! one below it, so that those below are narrowed with it, before it and each to its own cores
//! where it has any of the active ones; a control group that is born below while the group is
//! narrow stays as it was born.

use super::Opened;
use crate::Root;
use crate::groups::Group;
use crate::machine::cgroups::{Cgroups, EFFECTIVE, below};
use crate::machine::cpuset::FILE;
use serde::Deserialize;
use std::collections::BTreeMap;
use wattio_governor::{Address, Assignment, Cpus, Knob, Layer, Machine, MachineError, Setting};

pub(super) const NAME: &str = "cpu.cpuset";

/// Keeps each group's `cgroup` on the group's active cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpusetConfig {}

/// The control groups of all groups of cores.
struct CpusetKnob {
    root: Root,
    /// One entry for each group of cores.
    sets: Vec<Option<Set>>,
}

/// The control group of one group of cores.
struct Set {
    folder: String,
    unified: bool,
    /// The cores of control groups below when they were first seen.
    below: BTreeMap<String, Cpus>,
    /// What was asked for last.
    last: Option<Cpus>,
}

impl CpusetConfig {
    pub(super) fn open(&self, root: &Root, groups: &[Group]) -> Opened {
        let cgroups = Cgroups::find(root);
        let mut sets = Vec::new();
        for group in groups {
            let set = match &group.cgroup {
                Some(cgroup) => Some(Set::open(root, &cgroups, group, cgroup)?),
                None => None,
            };
            sets.push(set);
        }
        if sets.iter().all(Option::is_none) {
            return Err("no group names a control group: cgroup = \"/system.slice/…\"".to_owned());
        }
        Ok(Box::new(CpusetKnob { root: root.clone(), sets }))
    }
}

impl Set {
    fn open(root: &Root, cgroups: &Cgroups, group: &Group, cgroup: &str) -> Result<Self, String> {
        let found = cgroups.folder("cpuset", cgroup);
        let found = found.ok_or("no hierarchy of control groups is mounted")?;
        let folder = found.path.trim_end_matches('/').to_owned();
        if !root.exists(&folder) {
            return Err(format!("{folder} is not there; does the service of {cgroup} run?"));
        }
        let parent = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
        let own = root.read(&format!("{folder}/{FILE}")).map_err(|error| {
            format!(
                "{folder}/{FILE}: {error}; switch the controller on with \
                 \"echo +cpuset > {parent}/cgroup.subtree_control\", or with AllowedCPUs= in the \
                 service's unit"
            )
        })?;
        if own.is_empty() && !found.unified {
            return Err(format!(
                "{folder}/{FILE} is empty and could not be put back; give it cores first"
            ));
        }
        check_parent(root, parent, &group.cores())?;
        Ok(Self { folder, unified: found.unified, below: BTreeMap::new(), last: None })
    }

    fn assignments(&mut self, root: &Root, active: &Cpus) -> Vec<Assignment> {
        let one = |folder: &str, cpus: &Cpus| {
            let address = Address::new("cpuset", &format!("{folder}/{FILE}"));
            Assignment::new(address, cpus.to_string())
        };
        let mut assignments = vec![one(&self.folder, active)];
        if !self.unified {
            for folder in below(root, &self.folder).into_iter().skip(1) {
                let Ok(text) = root.read(&format!("{folder}/{FILE}")) else { continue };
                let now: Cpus = text.parse().unwrap_or_default();
                let own = self.below.entry(folder.clone()).or_insert(now);
                // An empty one has no tasks, and takes no empty list again.
                if own.is_empty() {
                    continue;
                }
                let inside = own.and(active);
                let inside = if inside.is_empty() { active } else { &inside };
                assignments.push(one(&folder, inside));
            }
            let wider = self.last.as_ref().is_some_and(|last| last.without(active).is_empty());
            if !wider {
                assignments.reverse();
            }
        }
        self.last = Some(active.clone());
        assignments
    }
}

/// Whether the parent lets a control group have the cores.
fn check_parent(root: &Root, parent: &str, cores: &Cpus) -> Result<(), String> {
    let text = EFFECTIVE.iter().find_map(|file| root.read(&format!("{parent}/{file}")).ok());
    let Some(has) = text.and_then(|text| text.parse::<Cpus>().ok()) else { return Ok(()) };
    let beyond = cores.without(&has);
    if beyond.is_empty() {
        return Ok(());
    }
    Err(format!("{parent} has {has} and cannot give {beyond}; leave them out of the group's cores"))
}

impl Knob for CpusetKnob {
    fn name(&self) -> &str {
        NAME
    }

    fn layer(&self) -> Layer {
        Layer::Placement
    }

    fn assignments(
        &mut self,
        setting: &Setting,
        _machine: &mut dyn Machine,
    ) -> Result<Vec<Assignment>, MachineError> {
        let mut assignments = Vec::new();
        for (set, group) in self.sets.iter_mut().zip(&setting.groups) {
            if let Some(set) = set.as_mut().filter(|_| !group.active.is_empty()) {
                assignments.extend(set.assignments(&self.root, &group.active));
            }
        }
        Ok(assignments)
    }
}
