//! `cpu.online`: takes inactive cores offline.
//!
//! Only whole physical cores go offline (all its threads inactive), never processor 0, never the
//! last one that serves a queue of a block device, and never the last one of a version 1 control
//! group: its tasks would be moved out of it for good. A core of such a group whose set may not be
//! written stays, too: the set would lose it for good. Interrupts that a core serves are moved by
//! the kernel. What it changes by that and does not change back is saved before: see
//! `endangered.rs`.

use super::{Opened, endangered};
use crate::Root;
use crate::groups::Group;
use crate::topology::{CPU_FOLDER, Topology};
use serde::Deserialize;
use wattio_governor::{
    Address, Assignment, Cpus, Knob, Layer, MachineError, MachineView, Setting, Target,
};

pub(super) const NAME: &str = "cpu.online";

/// Takes inactive cores offline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnlineConfig {
    /// Must be `true`, because taking a core offline and back stops the whole machine for tens of
    /// milliseconds, and leaves more to restore than any other knob. It saves little if idle cores
    /// sleep. Allowed: `true`.
    pub accept_hotplug: bool,
}

struct OnlineKnob {
    root: Root,
    /// Processors that may go offline, by physical core; the last of the list goes first.
    units: Vec<Cpus>,
    /// The processors offline for a set of active ones, so that the host is not searched again while
    /// they are off. What runs may need others by the time that they are to leave again.
    decided: Option<(Cpus, Cpus)>,
}

impl OnlineConfig {
    /// See [`super::KnobConfig::check`].
    pub(super) fn check(&self) -> Result<(), String> {
        let message = "takes cores of the running machine offline; set accept_hotplug = true for \
                       that, or use cpu.cpuset, which does not need it";
        if self.accept_hotplug { Ok(()) } else { Err(message.to_owned()) }
    }

    pub(super) fn open(&self, root: &Root, topology: &Topology, groups: &[Group]) -> Opened {
        self.check()?;
        let mut units: Vec<Cpus> = Vec::new();
        let grouped = groups.iter().fold(Cpus::default(), |all, group| all.or(&group.cores()));
        for cpu in groups.iter().flat_map(|group| &group.order) {
            let unit = topology.siblings(*cpu).and(&topology.online);
            let may_leave = |cpu| cpu != 0 && root.exists(&file(cpu));
            let whole = unit.without(&grouped).is_empty() && unit.iter().all(may_leave);
            if whole && !units.contains(&unit) {
                units.push(unit);
            }
        }
        if units.is_empty() {
            return Err(format!(
                "none of cores {grouped} can go offline: processor 0 stays, \
                 {CPU_FOLDER}/cpuN/online must be there, and both threads of a core must be in \
                 groups"
            ));
        }
        Ok(Box::new(OnlineKnob { root: root.clone(), units, decided: None }))
    }
}

/// The file that says whether a core is online.
fn file(cpu: u32) -> String {
    format!("{CPU_FOLDER}/cpu{cpu}/online")
}

impl OnlineKnob {
    /// The processors that go offline when only `active` ones are to work.
    fn leaving(&self, active: &Cpus, online: &Cpus) -> Cpus {
        let mut needs = queues(&self.root);
        let sets = endangered::sets(&self.root);
        needs.extend(endangered::fixed_sets(&self.root, &sets));
        needs.extend(sets.into_iter().map(|(_, cpus)| cpus));
        needs.extend(endangered::fixed_interrupts(&self.root));
        // All others will be online, including those that were offline before.
        let there = self.units.iter().fold(online.clone(), |there, unit| there.or(unit));
        let mut leaving = Cpus::default();
        for unit in self.units.iter().rev().filter(|unit| unit.and(active).is_empty()) {
            let more = leaving.or(unit);
            let on = there.without(&more);
            if needs.iter().all(|need| need.and(unit).is_empty() || !need.and(&on).is_empty()) {
                leaving = more;
            }
        }
        leaving
    }
}

/// The processors that serve each queue of each block device.
fn queues(root: &Root) -> Vec<Cpus> {
    let mut found = Vec::new();
    for device in root.list("/sys/block") {
        let folder = format!("/sys/block/{device}/mq");
        for queue in root.list(&folder) {
            let text = root.read(&format!("{folder}/{queue}/cpu_list")).unwrap_or_default();
            found.extend(text.parse::<Cpus>().ok().filter(|cpus| !cpus.is_empty()));
        }
    }
    found.sort();
    found.dedup();
    found
}

impl Knob for OnlineKnob {
    fn name(&self) -> &str {
        NAME
    }

    fn layer(&self) -> Layer {
        Layer::Presence
    }

    fn assignments(
        &mut self,
        setting: &Setting,
        machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let read = machine.read(&Address::new("file", &format!("{CPU_FOLDER}/online")))?;
        let online: Cpus = read.parse().unwrap_or_default();
        let active = setting.groups.iter().fold(Cpus::default(), |all, g| all.or(&g.active));
        let leaving = match &self.decided {
            _ if setting.full_speed => {
                self.decided = None;
                Cpus::default()
            }
            Some((then, leaving)) if *then == active && !leaving.meets(&online) => leaving.clone(),
            _ => {
                let leaving = self.leaving(&active, &online);
                self.decided = Some((active, leaving.clone()));
                leaving
            }
        };
        let mut assignments = Vec::new();
        for cpu in self.units.iter().rev().flat_map(Cpus::iter) {
            let address = Address::new("file", &file(cpu));
            if !leaving.contains(cpu) {
                assignments.push(Assignment::original(address));
                continue;
            }
            let goes = online.contains(cpu);
            let endangers =
                if goes { endangered::by_leaving(&self.root, cpu, &online) } else { Vec::new() };
            assignments.push(Assignment { address, target: Target::Set("0".into()), endangers });
        }
        Ok(assignments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// It went, and the set lost it for good.
    #[test]
    fn a_core_of_a_set_that_cannot_be_put_back_stays() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let group = "/sys/fs/cgroup/cpuset/a";
        fs::create_dir_all(root.path(group)).unwrap();
        fs::create_dir_all(root.path("/proc")).unwrap();
        let mount = "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n";
        fs::write(root.path("/proc/mounts"), mount).unwrap();
        let cpus = |text: &str| text.parse::<Cpus>().unwrap();
        let online = Root::default().read("/sys/devices/system/cpu/online").unwrap();
        let (online, active) = (cpus(&online), cpus("0"));
        let units: Vec<Cpus> =
            online.without(&active).iter().map(|cpu| cpus(&cpu.to_string())).collect();
        let knob = OnlineKnob { root: root.clone(), units, decided: None };

        let set = root.path(&format!("{group}/cpuset.cpus"));
        fs::write(&set, online.to_string()).unwrap();
        assert_eq!(knob.leaving(&active, &online), online.without(&active), "it can be written");
        // A file of the kernel that not even root may write to.
        fs::remove_file(&set).unwrap();
        std::os::unix::fs::symlink("/sys/devices/system/cpu/online", &set).unwrap();
        assert_eq!(knob.leaving(&active, &online), Cpus::default());
    }
}
