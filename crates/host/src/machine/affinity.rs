//! `affinity:1234@5678`: on which processors the threads of a process may run.
//!
//! The number after `@` is the start of process 1234 in ticks since boot: another process that is
//! given the same number later is not touched. The value is the mask of the main thread, and of
//! the threads that differ from it: `0-3;1240@5680=0`. A thread that the value does not name gets
//! the main thread's mask: threads that are born while the process is confined inherit its narrow
//! mask, and would keep it for ever if only the threads of the beginning were restored.
//!
//! `affinity:1234/1240@5680` is one thread of the process, and its value one list.
//!
//! A mask that is just what the process's control group has is set as "all processors": the kernel
//! remembers what a thread asked for (since 6.2), and would keep it there when the group grows. Not
//! so while a processor is off: its return is no growth.
//!
//! Masks are read with `sched_getaffinity(2)`, which leaves out processors that are off.

use super::cpuset::possible;
use super::{Cgroups, Trouble, quoted};
use crate::topology::CPU_FOLDER;
use crate::{Root, processes};
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use wattio_governor::{Address, Cpus};

use crate::processes::ProcessId;

/// How often the threads are listed again to catch those that were born meanwhile.
const PASSES_MAX: usize = 16;

/// A thread, named for good: its number and its start in ticks since boot.
pub type ThreadId = (u32, u64);

/// The masks of the threads of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masks {
    /// The mask of the main thread and of all that are not named.
    pub default: Cpus,
    /// The masks of threads that differ.
    pub threads: BTreeMap<ThreadId, Cpus>,
}

impl Masks {
    /// Every mask that occurs.
    fn all(&self) -> Cpus {
        self.threads.values().fold(self.default.clone(), |all, mask| all.or(mask))
    }

    /// The masks with each one changed, and without those that became the default.
    #[must_use]
    pub fn map(&self, change: impl Fn(&Cpus) -> Cpus) -> Self {
        let default = change(&self.default);
        let threads = self.threads.iter().map(|(&thread, mask)| (thread, change(mask)));
        Self { threads: threads.filter(|(_, mask)| *mask != default).collect(), default }
    }
}

impl fmt::Display for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.default)?;
        self.threads
            .iter()
            .try_for_each(|((number, start), mask)| write!(f, ";{number}@{start}={mask}"))
    }
}

impl FromStr for Masks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(';');
        let list = |text: &str| text.parse::<Cpus>().map_err(|error| error.to_string());
        let default = list(parts.next().unwrap_or_default())?;
        let mut threads = BTreeMap::new();
        for part in parts {
            let bad = || format!("{part:?} is no thread's mask such as \"1240@5680=0-3\"");
            let (name, mask) = part.split_once('=').ok_or_else(bad)?;
            threads.insert(numbered(name).ok_or_else(bad)?, list(mask)?);
        }
        if default.is_empty() || threads.values().any(Cpus::is_empty) {
            return Err(format!("{text:?} has an empty mask: a thread must run somewhere"));
        }
        Ok(Self { default, threads })
    }
}

/// `number@start`.
fn numbered(text: &str) -> Option<ThreadId> {
    let (number, start) = text.split_once('@')?;
    Some((number.parse().ok()?, start.parse().ok()?))
}

/// Where the masks of a process or thread are.
#[must_use]
pub fn address(id: &ProcessId) -> Address {
    let thread = id.thread.map_or_else(String::new, |thread| format!("/{thread}"));
    Address::new("affinity", &format!("{}{thread}@{}", id.pid, id.start))
}

/// The process or thread that an address names.
fn parse_place(place: &str) -> Option<ProcessId> {
    let Some((pid, thread)) = place.split_once('/') else {
        let (pid, start) = numbered(place)?;
        return Some(ProcessId { pid, thread: None, start });
    };
    let (thread, start) = numbered(thread)?;
    Some(ProcessId { pid: pid.parse().ok()?, thread: Some(thread), start })
}

/// The process or thread, if it still is the one that was meant.
fn find(root: &Root, place: &str) -> Result<ProcessId, Trouble> {
    if root.folder() != std::path::Path::new("/") {
        return Err(Trouble::refused("affinity is of running processes: the root must be /"));
    }
    let id = parse_place(place).ok_or_else(|| {
        Trouble::refused(format!("{place:?} is no process such as \"1234@5678\""))
    })?;
    let stat = match id.thread {
        None => processes::process_stat(root, id.pid),
        Some(thread) => processes::thread_stat(root, id.pid, thread),
    };
    match stat {
        Some(stat) if stat.start == id.start && !stat.ended => Ok(id),
        _ => Err(Trouble::Gone),
    }
}

/// The masks as they are.
pub(super) fn read(root: &Root, place: &str) -> Result<String, Trouble> {
    let id = find(root, place)?;
    if let Some(thread) = id.thread {
        return Ok(listed(&mask_of(thread)?.ok_or(Trouble::Gone)?).to_string());
    }
    let default = mask_of(id.pid)?.ok_or(Trouble::Gone)?;
    let mut masks = Masks { default: listed(&default), threads: BTreeMap::new() };
    for thread in processes::threads(root, id.pid) {
        let Some(mask) = mask_of(thread)? else { continue };
        // Most of some hundred threads have the same: only the others are looked at closely.
        if mask != default
            && let Some(stat) = processes::thread_stat(root, id.pid, thread)
        {
            masks.threads.insert((thread, stat.start), listed(&mask));
        }
    }
    Ok(masks.to_string())
}

/// Gives the threads other masks. Threads that ended meanwhile are passed over.
pub(super) fn write(root: &Root, place: &str, value: &str) -> Result<(), Trouble> {
    let id = find(root, place)?;
    let masks: Masks = value.parse().map_err(Trouble::refused)?;
    let masks = freed(root, id.pid, masks);
    if let Some(thread) = id.thread {
        return if confine(thread, &masks.default)? { Ok(()) } else { Err(Trouble::Gone) };
    }
    let named: BTreeMap<u32, (u64, &Cpus)> =
        masks.threads.iter().map(|(&(number, start), mask)| (number, (start, mask))).collect();
    let mut done = BTreeSet::new();
    let mut first_error = None;
    for _ in 0..PASSES_MAX {
        let fresh: Vec<u32> =
            processes::threads(root, id.pid).into_iter().filter(|t| !done.contains(t)).collect();
        if fresh.is_empty() {
            break;
        }
        for thread in fresh {
            let own = named.get(&thread).filter(|(start, _)| {
                processes::thread_stat(root, id.pid, thread).is_some_and(|s| s.start == *start)
            });
            let mask = own.map_or(&masks.default, |(_, mask)| mask);
            // One thread that cannot be moved shall not keep the others from being restored.
            if let Err(trouble) = confine(thread, mask) {
                first_error.get_or_insert(trouble);
            }
            done.insert(thread);
        }
    }
    if done.is_empty() { Err(Trouble::Gone) } else { first_error.map_or(Ok(()), Err) }
}

/// The masks, with "all processors" for what the process's control group has.
fn freed(root: &Root, pid: u32, masks: Masks) -> Masks {
    let list = |name: &str| root.read(&format!("{CPU_FOLDER}/{name}")).ok();
    let (Some(all), true) = (possible(root), list("online") == list("present")) else {
        return masks;
    };
    let group = Cgroups::find(root).processors_of(root, pid);
    let free = |mask: Cpus| if group.as_ref() == Some(&mask) { all.clone() } else { mask };
    Masks {
        default: free(masks.default),
        threads: masks.threads.into_iter().map(|(thread, mask)| (thread, free(mask))).collect(),
    }
}

/// The mask of one thread; `None` when it ended.
fn mask_of(thread: u32) -> Result<Option<CpuSet>, Trouble> {
    let Some(pid) = to_pid(thread) else { return Ok(None) };
    match sched_getaffinity(Some(pid)) {
        Ok(set) => Ok(Some(set)),
        Err(Errno::SRCH) => Ok(None),
        Err(error) => Err(Trouble::of_system(&error.into(), &format!("mask of {thread}"))),
    }
}

/// The processors in a mask.
fn listed(mask: &CpuSet) -> Cpus {
    let numbers = (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu));
    numbers.filter_map(|cpu| u32::try_from(cpu).ok()).collect()
}

/// Sets the mask of one thread; `false` when it ended.
fn confine(thread: u32, mask: &Cpus) -> Result<bool, Trouble> {
    let Some(pid) = to_pid(thread) else { return Ok(false) };
    let mut set = CpuSet::new();
    for cpu in mask.iter() {
        let cpu = usize::try_from(cpu).unwrap_or(usize::MAX);
        if cpu >= CpuSet::MAX_CPU {
            return Err(Trouble::refused(format!(
                "masks end at processor {}",
                CpuSet::MAX_CPU - 1
            )));
        }
        set.set(cpu);
    }
    match sched_setaffinity(Some(pid), &set) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(Errno::INVAL) => Err(Trouble::refused(format!(
            "thread {thread} cannot run on {mask}: none of them is online and in its cpuset, or \
             the kernel keeps the thread where it is"
        ))),
        Err(error) => Err(Trouble::of_system(&error.into(), &format!("thread {thread}"))),
    }
}

fn to_pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// Whether two values mean the same.
///
/// A thread that only one of them names came, went or pinned itself meanwhile; it may have any
/// mask within those that the other allows. All else must agree.
pub(super) fn same(one: &str, other: &str) -> bool {
    let (Ok(one), Ok(other)) = (one.parse::<Masks>(), other.parse::<Masks>()) else {
        return one == other;
    };
    let agree = |a: &Masks, b: &Masks| {
        let allowed = b.all();
        a.threads.iter().all(|(thread, mask)| match b.threads.get(thread) {
            Some(theirs) => theirs == mask,
            None => mask.without(&allowed).is_empty(),
        })
    };
    one.default == other.default && agree(&one, &other) && agree(&other, &one)
}

/// The command that puts the masks back.
pub(super) fn mend(place: &str, value: &str) -> String {
    let (Some(id), Ok(masks)) = (parse_place(place), value.parse::<Masks>()) else {
        return format!("# put {} back for process {place}", quoted(value));
    };
    if let Some(thread) = id.thread {
        return format!("taskset -pc {} {thread}", masks.default);
    }
    let first = format!("taskset -apc {} {}", masks.default, id.pid);
    let others =
        masks.threads.iter().map(|((number, _), mask)| format!("taskset -pc {mask} {number}"));
    std::iter::once(first).chain(others).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[path = "affinity_tests.rs"]
mod tests;
