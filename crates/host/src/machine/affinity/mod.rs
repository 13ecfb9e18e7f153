//! `affinity:1234@5678`: the processors on which the threads of a process may run.
//!
//! The number after `@` is the start time of process 1234 in ticks since boot, so a later process
//! with the same number is not touched. The value is the mask of the main thread, and of the
//! threads that differ from it: `0-3;1240@5680=0`. A thread that the value does not name gets the
//! main thread's mask: threads that start while the process is confined inherit its narrow mask,
//! and would keep it for ever if only the original threads were restored.
//!
//! `affinity:1234/1240@5680` is one thread of the process, and its value one list.
//!
//! A mask that equals the cores of the process's control group is set as "all processors", because
//! the kernel (since 6.2) remembers the mask that was requested, and would keep the thread on it
//! when the group grows. This does not apply while a processor is off, because its return does not
//! make the group grow.
//!
//! The values that were written leave marks in the snapshot: the masks that threads have from us
//! and not from anybody else. Restoring goes thread by thread: a thread with such a mask gets its
//! old one, and a thread that somebody set to another mask keeps that. So the two cases can be
//! distinguished: a daemon that was killed with half of the threads restored, and a server that
//! pinned half of them.
//!
//! A child of a confined process inherits its mask, too. It is recognised by its parents, as long
//! as they live: a mask that carries their mark is not its own.
//!
//! Masks are read with `sched_getaffinity(2)`, which leaves out processors that are off.

mod masks;
mod tasks;

pub use masks::{Masks, ThreadId};

use super::error::AccessError;
use super::shell::quoted;
use crate::processes::ProcessId;
use crate::{Root, processes};
use masks::numbered;
use std::collections::{BTreeMap, BTreeSet};
use tasks::{LinuxTasks, Tasks, listed};
use wattio_governor::{Address, Cpus, Saved};

/// How often the threads are listed again to catch new ones.
const PASSES_MAX: usize = 16;

/// How many generations a mask is followed.
const PARENTS_MAX: usize = 64;

/// A process or thread, and its masks.
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

/// The process or thread, if it is still the one that was meant.
fn find(root: &Root, place: &str) -> Result<ProcessId, AccessError> {
    if root.folder() != std::path::Path::new("/") {
        return Err(AccessError::refused("affinity needs running processes: the root must be /"));
    }
    let id = parse_place(place).ok_or_else(|| {
        AccessError::refused(format!("{place:?} is not a process such as \"1234@5678\""))
    })?;
    let stat = match id.thread {
        None => processes::process_stat(root, id.pid),
        Some(thread) => processes::thread_stat(root, id.pid, thread),
    };
    match stat {
        Some(stat) if stat.start == id.start && !stat.ended => Ok(id),
        _ => Err(AccessError::Gone),
    }
}

/// Whether the process or thread ended.
pub(super) fn is_gone(root: &Root, place: &str) -> bool {
    find(root, place) == Err(AccessError::Gone)
}

/// The masks as they are.
pub(super) fn read(root: &Root, place: &str) -> Result<String, AccessError> {
    let masks = masks_of(&LinuxTasks(root), &find(root, place)?)?;
    Ok(masks.to_string())
}

/// Gives the threads other masks. Threads that ended meanwhile are passed over.
pub(super) fn write(root: &Root, place: &str, value: &str) -> Result<(), AccessError> {
    let id = find(root, place)?;
    give(&LinuxTasks(root), &id, value.parse().map_err(AccessError::refused)?)
}

/// The value that puts back what is ours of the masks that were found, see
/// [`wattio_governor::MachineView::put_back`].
pub(super) fn put_back(
    root: &Root,
    place: &str,
    original: &str,
    marks: &BTreeSet<String>,
    found: &str,
) -> String {
    match parse_place(place) {
        Some(id) => back(&LinuxTasks(root), &id, original, marks, found),
        None => original.to_owned(),
    }
}

/// The masks of a process's threads, or of one.
fn masks_of(tasks: &impl Tasks, id: &ProcessId) -> Result<Masks, AccessError> {
    let first = tasks.mask_of(id.thread.unwrap_or(id.pid))?.ok_or(AccessError::Gone)?;
    let mut masks = Masks { default: listed(&first), threads: BTreeMap::new() };
    if id.thread.is_some() {
        return Ok(masks);
    }
    for thread in tasks.threads(id.pid) {
        let Some(mask) = tasks.mask_of(thread)? else { continue };
        // Most of several hundred threads have the same one: only the others are looked at closely.
        if mask != first
            && let Some(start) = tasks.start_of(id.pid, thread)
        {
            masks.threads.insert((thread, start), listed(&mask));
        }
    }
    Ok(masks)
}

fn give(tasks: &impl Tasks, id: &ProcessId, masks: Masks) -> Result<(), AccessError> {
    let masks = freed(tasks, id.pid, masks);
    if let Some(thread) = id.thread {
        return if tasks.confine(thread, &masks.default)? {
            Ok(())
        } else {
            Err(AccessError::Gone)
        };
    }
    let named: BTreeMap<u32, (u64, &Cpus)> =
        masks.threads.iter().map(|(&(number, start), mask)| (number, (start, mask))).collect();
    let mut done = BTreeSet::new();
    let mut first_error = None;
    for _ in 0..PASSES_MAX {
        let fresh: Vec<u32> =
            tasks.threads(id.pid).into_iter().filter(|t| !done.contains(t)).collect();
        if fresh.is_empty() {
            break;
        }
        for thread in fresh {
            let own = named
                .get(&thread)
                .filter(|(start, _)| tasks.start_of(id.pid, thread) == Some(*start));
            let mask = own.map_or(&masks.default, |(_, mask)| mask);
            // One thread that cannot be moved must not keep the others from being restored.
            if let Err(problem) = tasks.confine(thread, mask) {
                first_error.get_or_insert(problem);
            }
            done.insert(thread);
        }
    }
    if done.is_empty() { Err(AccessError::Gone) } else { first_error.map_or(Ok(()), Err) }
}

/// The masks, with "all processors" for what the process's control group has.
fn freed(tasks: &impl Tasks, pid: u32, masks: Masks) -> Masks {
    let Some(all) = tasks.freely() else { return masks };
    let group = tasks.everything(pid);
    let free = |mask: Cpus| if group.as_ref() == Some(&mask) { all.clone() } else { mask };
    Masks {
        default: free(masks.default),
        threads: masks.threads.into_iter().map(|(thread, mask)| (thread, free(mask))).collect(),
    }
}

fn back(
    tasks: &impl Tasks,
    id: &ProcessId,
    original: &str,
    marks: &BTreeSet<String>,
    found: &str,
) -> String {
    let (Ok(old), Ok(now)) = (original.parse::<Masks>(), found.parse::<Masks>()) else {
        return original.to_owned();
    };
    if marks.is_empty() {
        // Nothing was written here: any difference is a side effect, or somebody else's.
        return if now.agrees(&old) { found.to_owned() } else { original.to_owned() };
    }
    let everything = tasks.everything(id.pid);
    let ours = written(marks, everything.as_ref());
    let lives = |&(thread, start): &ThreadId| tasks.start_of(id.pid, thread) == Some(start);
    let target = now.put_back(&old, |mask| ours.contains(mask), everything.as_ref(), lives);
    target.to_string()
}

/// What the marks look like where a process may run on `everything`: a mask reads as its part that is
/// in the group and online.
fn written(marks: &BTreeSet<String>, everything: Option<&Cpus>) -> BTreeSet<Cpus> {
    let written = marks.iter().filter_map(|mark| mark.parse::<Cpus>().ok());
    let seen = |mask: Cpus| {
        let narrowed = everything.map(|everything| mask.and(everything));
        [Some(mask), narrowed.filter(|mask| !mask.is_empty())]
    };
    written.flat_map(seen).flatten().collect()
}

/// The processes with a mask that they inherited from one of these, see
/// [`wattio_governor::MachineView::heirs`].
pub(super) fn heirs(root: &Root, of: &[Saved]) -> Vec<Saved> {
    let confined =
        of.iter().filter(|saved| saved.address.scheme() == "affinity" && !saved.marks.is_empty());
    let known: BTreeMap<ProcessId, &Saved> = confined
        .filter_map(|saved| Some((parse_place(saved.address.rest())?, saved)))
        .filter(|(id, _)| id.thread.is_none())
        .collect();
    if known.is_empty() {
        return Vec::new();
    }
    let pids = processes::pids(root);
    let born: BTreeMap<u32, processes::Stat> = pids
        .into_iter()
        .filter_map(|pid| Some((pid, processes::process_stat(root, pid)?)))
        .collect();
    let whole = |pid| Some(ProcessId { pid, thread: None, start: born.get(&pid)?.start });
    let parent = |id: &ProcessId| whole(born.get(&id.pid)?.parent);
    let tasks = LinuxTasks(root);
    let inherited = |id: &ProcessId| {
        let parents = std::iter::successors(parent(id), parent).take(PARENTS_MAX);
        let saved = parents.filter_map(|id| known.get(&id)).next()?;
        let mask = listed(&tasks.mask_of(id.pid).ok()??);
        let ours = written(&saved.marks, tasks.everything(id.pid).as_ref());
        let own: Masks = saved.value.parse().ok()?;
        (ours.contains(&mask) && mask != own.default).then(|| Saved {
            address: address(id),
            value: own.default.to_string(),
            ..(*saved).clone()
        })
    };
    let all = born.iter().filter(|(_, stat)| !stat.ended && !stat.fixed && !stat.kernel);
    let fresh = all.filter_map(|(&pid, _)| whole(pid)).filter(|id| !known.contains_key(id));
    fresh.filter_map(|id| inherited(&id)).collect()
}

/// The marks that tell a written value from the one before, see
/// [`wattio_governor::MachineView::marks`].
pub(super) fn marks(original: &str, value: &str) -> BTreeSet<String> {
    let (Ok(original), Ok(value)) = (original.parse::<Masks>(), value.parse::<Masks>()) else {
        return BTreeSet::new();
    };
    value.marks(&original).iter().map(ToString::to_string).collect()
}

/// Whether two values mean the same, see [`Masks::agrees`].
pub(super) fn same(one: &str, other: &str) -> bool {
    match (one.parse::<Masks>(), other.parse::<Masks>()) {
        (Ok(one), Ok(other)) => one.agrees(&other),
        _ => one == other,
    }
}

/// All processors in a value.
pub(super) fn processors(value: &str) -> Option<Cpus> {
    value.parse::<Masks>().ok().map(|masks| masks.all())
}

/// The command that puts the masks back.
pub(super) fn restore_command(place: &str, value: &str) -> String {
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
mod tests;
