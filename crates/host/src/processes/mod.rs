//! The processes and threads of the host. Source: `/proc`, as in `proc(5)`.

mod finder;
mod pattern;
pub mod pollers;
mod stat;

pub use finder::Finder;
pub use pattern::{ProcessPattern, matches};
pub use stat::{Stat, parse as parse_stat};

use crate::Root;
use std::os::unix::fs::DirEntryExt;
use wattio_governor::Cpus;
use wattio_units::Seconds;

/// The unit of times in `/proc`, on all machines.
pub const TICK: Seconds = Seconds(0.01);

/// A process or one of its threads, identified for good.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId {
    /// Number of the process.
    pub pid: u32,
    /// The thread's number, where only one thread is meant.
    pub thread: Option<u32>,
    /// When the process, or the thread where one is named, started, in ticks since boot.
    pub start: u64,
}

/// The numbers of all processes.
#[must_use]
pub fn pids(root: &Root) -> Vec<u32> {
    numbers(root, "/proc")
}

/// The numbers of a process's threads; none when it ended.
#[must_use]
pub fn threads(root: &Root, pid: u32) -> Vec<u32> {
    numbers(root, &format!("/proc/{pid}/task"))
}

/// A process's name (`comm`, at most 15 bytes); `None` when it ended.
#[must_use]
pub fn name(root: &Root, pid: u32) -> Option<String> {
    root.read(&format!("/proc/{pid}/comm")).ok()
}

/// The words that a process was started with; none where it ended or belongs to the kernel.
#[must_use]
pub fn arguments(root: &Root, pid: u32) -> Vec<String> {
    texts(root, &format!("/proc/{pid}/cmdline"))
}

/// The environment that a process was started with, `NAME=VALUE`; none where it may not be read.
#[must_use]
pub fn variables(root: &Root, pid: u32) -> Vec<String> {
    texts(root, &format!("/proc/{pid}/environ"))
}

/// The texts of a file, each of which ends with a zero byte.
fn texts(root: &Root, path: &str) -> Vec<String> {
    let text = root.read(path).unwrap_or_default();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// What the kernel says of a process; `None` when it ended.
#[must_use]
pub fn process_stat(root: &Root, pid: u32) -> Option<Stat> {
    stat::parse(&root.read(&format!("/proc/{pid}/stat")).ok()?)
}

/// What the kernel says of a thread; `None` when it ended.
#[must_use]
pub fn thread_stat(root: &Root, pid: u32, thread: u32) -> Option<Stat> {
    stat::parse(&root.read(&format!("/proc/{pid}/task/{thread}/stat")).ok()?)
}

/// The processors that a thread may run on, whether they are on or off; `None` when it ended.
#[must_use]
pub fn allowed(root: &Root, pid: u32, thread: u32) -> Option<Cpus> {
    let text = root.read(&format!("/proc/{pid}/task/{thread}/status")).ok()?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.parse().ok()
}

/// All of these that match a pattern and that the kernel allows to move, by number.
fn find_among(root: &Root, pids: &[u32], pattern: &ProcessPattern) -> Vec<ProcessId> {
    let pids = pids.iter().copied();
    let whole = |pid, stat: Stat| {
        (!stat.fixed && !stat.ended).then_some(ProcessId { pid, thread: None, start: stat.start })
    };
    match pattern {
        ProcessPattern::Comm(name) => pids
            .filter(|pid| is_named(root, &format!("/proc/{pid}"), name))
            .filter_map(|pid| whole(pid, process_stat(root, pid)?))
            .collect(),
        ProcessPattern::Cgroup(name) => pids
            .filter(|pid| in_cgroup(root, *pid, name))
            .filter_map(|pid| whole(pid, process_stat(root, pid)?))
            .collect(),
        ProcessPattern::Thread(name) => {
            pids.flat_map(|pid| threads_named(root, pid, name)).collect()
        }
    }
}

/// The threads of one process that bear a name.
fn threads_named(root: &Root, pid: u32, name: &str) -> Vec<ProcessId> {
    let named = |thread: &u32| is_named(root, &format!("/proc/{pid}/task/{thread}"), name);
    let movable = |thread| {
        let stat = thread_stat(root, pid, thread)?;
        (!stat.fixed && !stat.ended).then_some(ProcessId {
            pid,
            thread: Some(thread),
            start: stat.start,
        })
    };
    threads(root, pid).into_iter().filter(named).filter_map(movable).collect()
}

/// Whether the process or thread of a folder has a matching name. `stat` has it too, but takes the
/// kernel several times as long.
fn is_named(root: &Root, folder: &str, name: &str) -> bool {
    root.read(&format!("{folder}/comm")).is_ok_and(|comm| matches(name, &comm))
}

/// Whether a process is in a control group that fits, in any hierarchy.
fn in_cgroup(root: &Root, pid: u32, name: &str) -> bool {
    let text = root.read(&format!("/proc/{pid}/cgroup")).unwrap_or_default();
    cgroups(&text).any(|path| matches(name, path))
}

/// The paths in a `/proc/PID/cgroup`: lines of `number:controllers:path`.
pub fn cgroups(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2))
}

/// The names of a folder that are numbers, ascending.
fn numbers(root: &Root, folder: &str) -> Vec<u32> {
    numbered(root, folder).into_iter().map(|(number, _)| number).collect()
}

/// The same with the numbers of their inodes.
fn numbered(root: &Root, folder: &str) -> Vec<(u32, u64)> {
    let entries = std::fs::read_dir(root.path(folder)).into_iter().flatten().flatten();
    let number =
        |entry: std::fs::DirEntry| Some((entry.file_name().to_str()?.parse().ok()?, entry.ino()));
    let mut numbered: Vec<_> = entries.filter_map(number).collect();
    numbered.sort_unstable();
    numbered
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn host() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let line = |pid: u32, name: &str, flags: u64, start: u64| {
            format!("{pid} ({name}) S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0")
        };
        for (pid, name, flags, cgroup) in [
            (10, "etcd", 0, "0::/system.slice/etcd.service"),
            (20, "ksoftirqd/0", 0x0420_0000, "0::/"),
            (30, "nfsd", 0x0020_0000, "3:cpuset:/\n0::/"),
        ] {
            let place = root.path(&format!("/proc/{pid}/task/{pid}"));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("stat"), line(pid, name, flags, 7)).unwrap();
            fs::write(root.path(&format!("/proc/{pid}/stat")), line(pid, name, flags, 7)).unwrap();
            fs::write(place.join("comm"), format!("{name}\n")).unwrap();
            fs::write(root.path(&format!("/proc/{pid}/comm")), name).unwrap();
            fs::write(root.path(&format!("/proc/{pid}/cgroup")), cgroup).unwrap();
        }
        let place = root.path("/proc/10/task/11");
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("stat"), line(11, "wal", 0, 9)).unwrap();
        fs::write(place.join("comm"), "wal\n").unwrap();
        fs::create_dir_all(root.path("/proc/self")).unwrap();
        (folder, root)
    }

    #[test]
    fn processes_are_found_by_name_group_and_thread() {
        let (_folder, root) = host();
        let whole = |pid| ProcessId { pid, thread: None, start: 7 };
        let find = |pattern: &ProcessPattern| find_among(&root, &pids(&root), pattern);
        assert_eq!(find(&ProcessPattern::Comm("*d".into())), [whole(10), whole(30)]);
        let slice = ProcessPattern::Cgroup("/system.slice/*".into());
        assert_eq!(find(&slice), [whole(10)]);
        let wal = ProcessId { pid: 10, thread: Some(11), start: 9 };
        assert_eq!(find(&ProcessPattern::Thread("wal".into())), [wal]);
    }

    #[test]
    fn what_the_kernel_keeps_in_place_is_not_found() {
        let (_folder, root) = host();
        let pattern = ProcessPattern::Comm("ksoftirqd*".into());
        assert_eq!(find_among(&root, &pids(&root), &pattern), []);
    }
}
