//! `cpu.cpuset`: keeps each group's control group on the group's active cores.
//!
//! With version 2, one file is written. Version 1 does not allow a control group to have fewer
//! cores than one below it. So the groups below are narrowed first, each to its own cores if any of
//! those are active. A control group that is created below while the group is narrow keeps the
//! cores that it was created with.
//!
//! A service that restarts gets a new control group; the knob looks for it now and then.

use super::{Absent, Opened};
use crate::Root;
use crate::groups::Group;
use crate::machine::cgroups::{Cgroups, EFFECTIVE, below};
use crate::machine::cpuset::{self, FILE};
use serde::Deserialize;
use std::collections::BTreeMap;
use wattio_governor::{Address, Assignment, Cpus, Knob, Layer, MachineError, MachineView, Setting};

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
    below: BTreeMap<Address, Cpus>,
}

impl CpusetConfig {
    pub(super) fn open(&self, root: &Root, groups: &[Group]) -> Opened {
        self.open_with(root, groups, &mut Err)
    }

    /// As `open`, but a control group that is not there is only told of: it is found when its
    /// service starts.
    pub(super) fn open_at_start(
        &self,
        root: &Root,
        groups: &[Group],
        absent: &mut Vec<String>,
    ) -> Opened {
        self.open_with(root, groups, &mut |message| {
            absent.push(message);
            Ok(())
        })
    }

    fn open_with(&self, root: &Root, groups: &[Group], absent: &mut Absent<'_>) -> Opened {
        let cgroups = Cgroups::find(root);
        let mut sets = Vec::new();
        for group in groups {
            let set = match &group.cgroup {
                Some(cgroup) => Some(Set::open(root, &cgroups, group, cgroup, absent)?),
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
    fn open(
        root: &Root,
        cgroups: &Cgroups,
        group: &Group,
        cgroup: &str,
        absent: &mut Absent<'_>,
    ) -> Result<Self, String> {
        let found = cgroups.folder("cpuset", cgroup);
        let found = found.ok_or("no hierarchy of control groups is mounted")?;
        let folder = found.path.trim_end_matches('/').to_owned();
        let parent = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
        if root.exists(&folder) {
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
        } else {
            absent(format!("{folder} is not there; does the service of {cgroup} run?"))?;
        }
        check_parent(root, parent, &group.cores())?;
        Ok(Self { folder, unified: found.unified, below: BTreeMap::new() })
    }

    fn assignments(&mut self, root: &Root, active: &Cpus) -> Vec<Assignment> {
        // The service may just be restarting.
        let Some(address) = cpuset::address(root, &self.folder) else { return Vec::new() };
        let mut assignments = vec![Assignment::new(address, active.to_string())];
        if self.unified {
            return assignments;
        }
        let has = |folder: &str| -> Option<Cpus> {
            Some(root.read(&format!("{folder}/{FILE}")).ok()?.parse().unwrap_or_default())
        };
        // An empty one has no tasks, and does not accept an empty list again.
        let Some(now) = has(&self.folder).filter(|now| !now.is_empty()) else { return Vec::new() };
        let mut below_before = std::mem::take(&mut self.below);
        for folder in below(root, &self.folder).into_iter().skip(1) {
            let Some(address) = cpuset::address(root, &folder) else { continue };
            let own = below_before.remove(&address).or_else(|| has(&folder));
            let Some(own) = own.filter(|own| !own.is_empty()) else { continue };
            let inside = own.and(active);
            let inside = if inside.is_empty() { active } else { &inside };
            assignments.push(Assignment::new(address.clone(), inside.to_string()));
            self.below.insert(address, own);
        }
        let widens = now.without(active).is_empty();
        if !widens {
            assignments.reverse();
        }
        assignments
    }
}

/// Checks that the parent allows a control group these cores.
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

    fn looks_again(&self) -> bool {
        true
    }

    fn assignments(
        &mut self,
        setting: &Setting,
        _machine: &mut dyn MachineView,
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
