//! `cpu.affinity`: keeps the threads of each group's processes on the group's active cores.
//!
//! A thread that its server pinned keeps those of its own cores that are active, and may use all
//! active ones if none of its own is; one that was pinned outside the group's cores is left alone.
//! A process or thread that fits two groups belongs to the first.
//!
//! All processes of the host are searched when one that was known ended, soon after that, as a server
//! takes a while to come back, and now and then: one that is born to a known one inherits its cores
//! and can wait.

use super::Opened;
use crate::Root;
use crate::groups::Group;
use crate::machine::affinity::{Masks, address};
use crate::processes::{self, ProcessId, ProcessPattern};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use wattio_governor::{Assignment, Cpus, Knob, Layer, MachineError, MachineView, Setting};

pub(super) const NAME: &str = "cpu.affinity";

/// Calls of the knob between two searches at most: a minute if it is called every 5 s. A host of 128
/// cores has thousands of processes to look at.
const ASKED_BETWEEN_SEARCHES_MAX: u32 = 12;

/// Keeps each group's `processes` on the group's active cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AffinityConfig {}

struct AffinityKnob {
    root: Root,
    /// One entry for each group of cores: all its cores, and the processes that run on them.
    groups: Vec<(Cpus, Option<ProcessPattern>)>,
    /// The processes found for each group.
    members: Vec<Vec<ProcessId>>,
    /// Calls of the knob since the last search.
    asked: u32,
    /// Calls after which the next search is due.
    between: u32,
    /// The processes seen, with their own masks.
    seen: BTreeMap<ProcessId, Seen>,
}

/// A process that was seen before.
struct Seen {
    /// Its masks as its server set them.
    own: Masks,
    /// The masks it was given.
    given: Masks,
}

impl AffinityConfig {
    pub(super) fn open(&self, root: &Root, groups: &[Group]) -> Opened {
        let named = groups.iter().map(|group| (group.cores(), group.processes.clone()));
        let groups: Vec<_> = named.collect();
        if groups.iter().all(|(_, pattern)| pattern.is_none()) {
            return Err("no group names processes: processes = { comm = \"…\" }".to_owned());
        }
        let between = ASKED_BETWEEN_SEARCHES_MAX;
        let (root, members, seen) = (root.clone(), Vec::new(), BTreeMap::new());
        Ok(Box::new(AffinityKnob { root, groups, members, asked: between, between, seen }))
    }
}

impl AffinityKnob {
    /// Finds the processes and threads of each group, each in one group only.
    fn search(&mut self) {
        let mut taken: BTreeSet<ProcessId> = BTreeSet::new();
        self.members.clear();
        for (_, pattern) in &self.groups {
            let found = pattern.as_ref().map_or_else(Vec::new, |p| processes::find(&self.root, p));
            let free = |id: &ProcessId| {
                !taken.iter().any(|other| {
                    let whole = other.thread.is_none() || id.thread.is_none();
                    other.pid == id.pid && (whole || other.thread == id.thread)
                })
            };
            let found: Vec<_> = found.into_iter().filter(free).collect();
            taken.extend(found.iter().cloned());
            self.members.push(found);
        }
        self.seen.retain(|id, _| taken.contains(id));
        self.asked = 0;
    }

    /// The masks of the members; `None` if one of them ended.
    fn confine(
        &mut self,
        setting: &Setting,
        machine: &mut dyn MachineView,
    ) -> Result<Option<Vec<Assignment>>, MachineError> {
        let mut assignments = Vec::new();
        let groups = self.groups.iter().zip(&setting.groups).zip(&self.members);
        for (((cores, _), group), ids) in groups {
            for id in ids {
                let address = address(id);
                let now = match machine.read(&address) {
                    Err(MachineError::Gone { .. }) => return Ok(None),
                    now => now?,
                };
                let Ok(now) = now.parse::<Masks>() else { continue };
                let seen = self.seen.entry(id.clone());
                let seen = seen.or_insert_with(|| Seen { own: now.clone(), given: now.clone() });
                seen.learn(&now);
                seen.given = seen.own.map(|own| confined(own, cores, &group.active));
                assignments.push(Assignment::new(address, seen.given.to_string()));
            }
        }
        Ok(Some(assignments))
    }
}

impl Seen {
    /// Takes note of threads that pinned themselves since.
    fn learn(&mut self, now: &Masks) {
        for (thread, mask) in &now.threads {
            let given = self.given.threads.get(thread).unwrap_or(&self.given.default);
            if mask != given && !self.own.threads.contains_key(thread) {
                self.own.threads.insert(*thread, mask.clone());
            }
        }
    }
}

/// Where a thread may run: on its own cores as far as they are active.
fn confined(own: &Cpus, cores: &Cpus, active: &Cpus) -> Cpus {
    if own.and(cores).is_empty() {
        return own.clone();
    }
    let inside = own.and(active);
    if inside.is_empty() { active.clone() } else { inside }
}

impl Knob for AffinityKnob {
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
        machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        /// At most this many processes end between a search and its use.
        const SEARCHES_MAX: u32 = 3;
        if self.asked >= self.between {
            self.search();
            self.between = (2 * self.between).min(ASKED_BETWEEN_SEARCHES_MAX);
        }
        self.asked += 1;
        for _ in 0..SEARCHES_MAX {
            if let Some(assignments) = self.confine(setting, machine)? {
                return Ok(assignments);
            }
            self.search();
            (self.asked, self.between) = (1, 1);
        }
        Ok(self.confine(setting, machine)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> Cpus {
        text.parse().unwrap()
    }

    #[test]
    fn a_pinned_thread_keeps_its_cores_as_far_as_they_are_active() {
        let confined = |own, active| confined(&cpus(own), &cpus("0-3"), &cpus(active)).to_string();
        assert_eq!(confined("0-15", "0-1"), "0-1");
        assert_eq!(confined("1", "0-1"), "1");
        assert_eq!(confined("3", "0-1"), "0-1", "its only core leaves");
        assert_eq!(confined("8", "0-1"), "8", "no core of the group");
    }

    #[test]
    fn a_thread_that_pins_itself_meanwhile_is_learned_and_one_that_inherits_is_not() {
        let masks = |text: &str| text.parse::<Masks>().unwrap();
        let mut seen = Seen { own: masks("0-3;5@1=3"), given: masks("0-1") };
        seen.learn(&masks("0-1;5@1=0-1;6@2=1"));
        assert_eq!(seen.own, masks("0-3;5@1=3;6@2=1"));
    }
}
