//! `cpu.affinity`: keeps the threads of each group's processes on the group's active cores.
//!
//! A thread that its server pinned keeps those of its own cores that are active, and may use all
//! active ones if none of its own is; one that was pinned outside the group's cores is left alone.
//! A process or thread that fits two groups belongs to the first.
//!
//! The knob searches all processes of the host when a known one has ended, again soon after that (a
//! server takes a while to come back), often while a group has none, when cores are given back or the
//! first ones are taken, and now and then: a child of a known process inherits its cores, and can wait
//! until there are more.
//! Now and then it reads the names of all processes; in between, only those of new ones.

use super::{Absent, Opened};
use crate::Root;
use crate::groups::Group;
use crate::machine::affinity::{Masks, address};
use crate::processes::{Finder, ProcessId, ProcessPattern};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use wattio_governor::{
    Address, Assignment, Cpus, Knob, Layer, MachineError, MachineView, Saved, Setting,
};

pub(super) const NAME: &str = "cpu.affinity";

/// Calls of the knob between two searches of all processes at most: a minute if it is called every 5 s. A
/// host of 128 cores has thousands of processes to look at.
const ASKED_BETWEEN_SEARCHES_MAX: u32 = 12;
/// The same while nothing is found of a group: its service may start, and until it is found, cores are
/// taken from nobody.
const ASKED_BETWEEN_SEARCHES_LACKING: u32 = 2;
/// Calls between two searches that ask processes for their names which were others before: five minutes if
/// it is called every 5 s. Hardly any takes a server's name so late.
const ASKED_BETWEEN_AFRESH_MAX: u32 = 60;

/// Keeps each group's `processes` on the group's active cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AffinityConfig {}

struct AffinityKnob {
    /// One entry for each group of cores: all its cores, and the processes that run on them.
    groups: Vec<(Cpus, Option<Finder>)>,
    /// The processes found for each group.
    members: Vec<Vec<ProcessId>>,
    /// Calls of the knob since the last search.
    asked: u32,
    /// Calls after which the next search is due.
    between: u32,
    /// Calls since all processes were asked.
    since_afresh: u32,
    /// The processes seen, with their own masks.
    seen: BTreeMap<ProcessId, Seen>,
    /// The active cores of each group at the last call.
    active: Vec<Cpus>,
}

/// A process that was seen before.
struct Seen {
    /// Its masks as its server set them.
    own: Masks,
    /// The masks it was given.
    given: Masks,
    /// What was given to its main thread, and is not its own, since it was seen.
    marks: BTreeSet<String>,
}

impl AffinityConfig {
    pub(super) fn open(&self, root: &Root, groups: &[Group]) -> Opened {
        Self::open_with(root, groups, &mut Err)
    }

    /// As `open`, but processes that are not there are only told of: they are found when their
    /// service starts.
    pub(super) fn open_at_start(
        &self,
        root: &Root,
        groups: &[Group],
        absent: &mut Vec<String>,
    ) -> Opened {
        Self::open_with(root, groups, &mut |message| {
            absent.push(message);
            Ok(())
        })
    }

    fn open_with(root: &Root, groups: &[Group], absent: &mut Absent<'_>) -> Opened {
        for group in groups {
            let Some(pattern) = &group.processes else { continue };
            if Finder::new(root, pattern.clone()).find().is_empty() {
                absent(format!(
                    "nothing that runs here is of group {:?}, {pattern}; does its service run?",
                    group.name
                ))?;
            }
        }
        let finder = |pattern: &ProcessPattern| Finder::new(root, pattern.clone());
        let named =
            groups.iter().map(|group| (group.cores(), group.processes.as_ref().map(finder)));
        let groups: Vec<_> = named.collect();
        if groups.iter().all(|(_, pattern)| pattern.is_none()) {
            return Err("no group names processes: processes = { comm = \"…\" }".to_owned());
        }
        let between = ASKED_BETWEEN_SEARCHES_MAX;
        Ok(Box::new(AffinityKnob {
            groups,
            members: Vec::new(),
            asked: between,
            between,
            since_afresh: ASKED_BETWEEN_AFRESH_MAX,
            seen: BTreeMap::new(),
            active: Vec::new(),
        }))
    }
}

impl AffinityKnob {
    /// Finds the processes and threads of each group, each in one group only.
    fn search(&mut self) {
        let mut taken: BTreeSet<ProcessId> = BTreeSet::new();
        self.members.clear();
        let afresh = self.since_afresh >= ASKED_BETWEEN_AFRESH_MAX;
        let search = if afresh { Finder::find_afresh } else { Finder::find };
        for (_, finder) in &mut self.groups {
            let found = finder.as_mut().map_or_else(Vec::new, search);
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
        if afresh {
            self.since_afresh = 0;
        }
    }

    /// Whether nothing was found of a group that names processes.
    fn is_lacking(&self) -> bool {
        let mut groups = self.groups.iter().zip(&self.members);
        groups.any(|((_, finder), found)| finder.is_some() && found.is_empty())
    }

    /// What would be the masks of members that were not seen before and were born to one that was.
    fn heirs(&self, machine: &mut dyn MachineView) -> BTreeMap<Address, String> {
        if self.members.iter().flatten().all(|id| self.seen.contains_key(id)) {
            return BTreeMap::new();
        }
        let seen = self.seen.iter().map(|(id, seen)| Saved {
            address: address(id),
            value: seen.own.to_string(),
            knob: NAME.to_owned(),
            marks: seen.marks.clone(),
        });
        let heirs = machine.heirs(&seen.collect::<Vec<_>>());
        heirs.into_iter().map(|heir| (heir.address, heir.value)).collect()
    }

    /// The masks of the members; `None` if one of them ended.
    fn confine(
        &mut self,
        setting: &Setting,
        machine: &mut dyn MachineView,
    ) -> Result<Option<Vec<Assignment>>, MachineError> {
        let mut assignments = Vec::new();
        let heirs = self.heirs(machine);
        let groups = self.groups.iter().zip(&setting.groups).zip(&self.members);
        for (((cores, _), group), ids) in groups {
            for id in ids {
                let address = address(id);
                let now = match machine.read(&address) {
                    Err(MachineError::Gone { .. }) => return Ok(None),
                    now => now?,
                };
                let Ok(now) = now.parse::<Masks>() else { continue };
                let seen = self.seen.entry(id.clone()).or_insert_with(|| {
                    let own = heirs.get(&address).and_then(|own| own.parse().ok());
                    let own = own.unwrap_or_else(|| now.clone());
                    Seen { own, given: now.clone(), marks: BTreeSet::new() }
                });
                seen.learn(&now);
                seen.give(seen.own.map(|own| confined(own, cores, &group.active)));
                assignments.push(Assignment::new(address, seen.given.to_string()));
            }
        }
        Ok(Some(assignments))
    }
}

impl Seen {
    fn give(&mut self, given: Masks) {
        if given.default != self.own.default {
            self.marks.insert(given.default.to_string());
        }
        self.given = given;
    }

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
        let active: Vec<_> = setting.groups.iter().map(|group| group.active.clone()).collect();
        let pairs = self.groups.iter().zip(self.active.iter().zip(&active));
        let due = pairs.into_iter().any(|((all, _), (before, now))| {
            let wider = !now.without(before).is_empty();
            wider || (before != now && before == all)
        });
        self.active = active;
        if due || self.asked >= self.between {
            self.search();
            let most = if self.is_lacking() {
                ASKED_BETWEEN_SEARCHES_LACKING
            } else {
                ASKED_BETWEEN_SEARCHES_MAX
            };
            self.between = (2 * self.between).min(most);
        }
        self.asked += 1;
        self.since_afresh += 1;
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
    use crate::{LinuxMachine, processes};
    use std::io::{BufRead, Write};
    use std::process::{Child, Command, Stdio};
    use wattio_governor::{FileStore, GroupSetting, RestorableWriter};
    use wattio_law::DriveAction;
    use wattio_units::Hertz;

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

    /// A shell that starts another one, both under a name that nobody else has, when it is told to.
    struct Family {
        parent: Child,
        name: String,
        born: u32,
        _folder: tempfile::TempDir,
    }

    impl Family {
        fn start() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let name = format!("heir{}", std::process::id());
            let shell = folder.path().join(&name);
            std::os::unix::fs::symlink("/bin/sh", &shell).unwrap();
            // A shell's background has no standard input.
            let script = "echo; exec 3<&0; read _; \"$0\" -c 'read _ <&3; :' & echo $!; read _";
            let (input, output) = (Stdio::piped(), Stdio::piped());
            let mut parent = Command::new(&shell);
            parent.arg("-c").arg(script).arg(&shell).stdin(input).stdout(output);
            let parent = parent.spawn().unwrap();
            let mut started = Self { parent, name, born: 0, _folder: folder };
            started.line();
            started
        }

        /// What it says next; it says nothing before it is asked.
        fn line(&mut self) -> String {
            let mut line = String::new();
            let output = self.parent.stdout.as_mut().unwrap();
            std::io::BufReader::new(output).read_line(&mut line).unwrap();
            line
        }

        fn bear(&mut self) {
            writeln!(self.parent.stdin.as_mut().unwrap()).unwrap();
            self.born = self.line().trim().parse().unwrap();
        }

        /// Where both may run.
        fn masks(&self) -> [Cpus; 2] {
            [self.parent.id(), self.born]
                .map(|pid| processes::allowed(&Root::default(), pid, pid).unwrap())
        }
    }

    impl Drop for Family {
        fn drop(&mut self) {
            // Both read from it, and end with it.
            drop(self.parent.stdin.take());
            let _ = self.parent.wait();
        }
    }

    /// It kept the few processors of its parent for ever: with all active, after a stop, and after
    /// a kill, where all that is left is the snapshot.
    #[test]
    fn what_is_born_to_a_confined_process_gets_its_parents_processors() {
        let me = std::process::id();
        let all = processes::allowed(&Root::default(), me, me).unwrap();
        let few = Cpus::from_iter(all.iter().take(1));
        if all == few {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let machine = Box::new(LinuxMachine::new(Root::default(), &[]).unwrap());
            let store = Box::new(FileStore::new(folder.path().join("snapshot.json")));
            RestorableWriter::open(machine, store, "boot").unwrap().0
        };
        for end in ["full speed", "stop", "kill"] {
            let mut family = Family::start();
            let group = Group {
                order: all.iter().collect(),
                processes: Some(ProcessPattern::Comm(family.name.clone())),
                ..Group::default()
            };
            let mut knob = AffinityConfig {}.open(&Root::default(), &[group]).unwrap();
            let mut writer = open();
            let mut set = |writer: &mut RestorableWriter, active: &Cpus| {
                let assignments = knob.assignments(&setting(active), writer.look()).unwrap();
                assert_eq!(writer.apply(NAME, &assignments).notes, []);
            };
            set(&mut writer, &few);
            family.bear();
            assert_eq!(family.masks(), [few.clone(), few.clone()], "{end}");
            match end {
                "full speed" => set(&mut writer, &all),
                "stop" => drop(writer.restore().unwrap()),
                _ => {
                    std::mem::forget(writer);
                    writer = open();
                }
            }
            assert_eq!(family.masks(), [all.clone(), all.clone()], "{end}");
            assert_eq!(writer.restore().unwrap().left, []);
            assert_eq!(family.masks(), [all.clone(), all.clone()], "{end}");
        }
    }

    fn setting(active: &Cpus) -> Setting {
        Setting {
            groups: vec![GroupSetting { active: active.clone(), frequency: Hertz(1e9) }],
            drives: DriveAction::default(),
            background: Vec::new(),
            background_share: 1.0,
            full_speed: false,
            at_full: Cpus::default(),
            held_back: Vec::new(),
        }
    }

    #[test]
    fn a_thread_that_pins_itself_meanwhile_is_learned_and_one_that_inherits_is_not() {
        let masks = |text: &str| text.parse::<Masks>().unwrap();
        let (own, given) = (masks("0-3;5@1=3"), masks("0-1"));
        let mut seen = Seen { own, given, marks: BTreeSet::new() };
        seen.learn(&masks("0-1;5@1=0-1;6@2=1"));
        assert_eq!(seen.own, masks("0-3;5@1=3;6@2=1"));
    }
}
