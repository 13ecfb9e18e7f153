//! A repeated search for processes that match a pattern.

use super::{ProcessId, ProcessPattern, find_among, numbered};
use crate::Root;
use std::collections::HashMap;

/// Searches for the processes of one pattern.
///
/// Asking each of three thousand processes for its name takes twenty milliseconds, listing them four.
/// So a search passes over those that are known to be others. A process is told from a later one with
/// its number by the number of its folder's inode, which the kernel gives out anew.
#[derive(Clone, Debug)]
pub struct Finder {
    root: Root,
    pattern: ProcessPattern,
    /// Those that did not match when all were asked, with their inodes.
    others: HashMap<u32, u64>,
}

impl Finder {
    /// None is known yet.
    #[must_use]
    pub fn new(root: &Root, pattern: ProcessPattern) -> Self {
        Self { root: root.clone(), pattern, others: HashMap::new() }
    }

    /// All that match and that the kernel allows to move, by number, but for processes that were
    /// others when all were asked and have taken a matching name since.
    pub fn find(&mut self) -> Vec<ProcessId> {
        let known = |(pid, inode): &(u32, u64)| self.others.get(pid) == Some(inode);
        let all = numbered(&self.root, "/proc");
        let asked: Vec<_> = all.into_iter().filter(|one| !known(one)).map(|(pid, _)| pid).collect();
        find_among(&self.root, &asked, &self.pattern)
    }

    /// Asks all of them.
    pub fn find_afresh(&mut self) -> Vec<ProcessId> {
        let mut all = numbered(&self.root, "/proc");
        let pids: Vec<_> = all.iter().map(|(pid, _)| *pid).collect();
        let found = find_among(&self.root, &pids, &self.pattern);
        // Threads come in processes that have been there for long.
        if matches!(self.pattern, ProcessPattern::Thread(_)) {
            all.clear();
        }
        self.others = all.into_iter().collect();
        for id in &found {
            self.others.remove(&id.pid);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn root(&self) -> Root {
            Root::new(self.0.path())
        }

        /// A process in place of one that had its number.
        fn start(&self, pid: u32, name: &str) {
            let made = self.0.path().join("made");
            let task = made.join(format!("task/{pid}"));
            fs::create_dir_all(&task).unwrap();
            let stat = format!("{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {pid} 0 0");
            for folder in [&made, &task] {
                fs::write(folder.join("stat"), &stat).unwrap();
                fs::write(folder.join("comm"), name).unwrap();
            }
            fs::write(made.join("cgroup"), format!("0::/system.slice/{name}.service")).unwrap();
            let place = self.root().path(&format!("/proc/{pid}"));
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            // The old one is there until the new one has its inode.
            let gone = self.0.path().join("gone");
            let _ = fs::rename(&place, &gone);
            fs::rename(&made, &place).unwrap();
            let _ = fs::remove_dir_all(&gone);
        }

        fn rename(&self, pid: u32, name: &str) {
            for file in ["comm".to_owned(), format!("task/{pid}/comm")] {
                fs::write(self.root().path(&format!("/proc/{pid}/{file}")), name).unwrap();
            }
        }
    }

    fn pids(found: &[ProcessId]) -> Vec<u32> {
        found.iter().map(|id| id.pid).collect()
    }

    /// Each search asked thousands of processes for names that they had told before.
    #[test]
    fn those_that_are_known_to_be_others_are_not_asked_again() {
        for pattern in [
            ProcessPattern::Comm("etcd".into()),
            ProcessPattern::Cgroup("/system.slice/etcd*".into()),
        ] {
            let host = Host::new();
            for (pid, name) in [(1, "init"), (2, "etcd"), (3, "sh")] {
                host.start(pid, name);
            }
            let mut finder = Finder::new(&host.root(), pattern);
            assert_eq!(pids(&finder.find_afresh()), [2]);
            assert_eq!(pids(&finder.find()), [2]);
            host.start(3, "etcd");
            host.start(4, "sh");
            assert_eq!(pids(&finder.find()), [2, 3], "another one has the number");
            host.start(4, "etcd");
            assert_eq!(pids(&finder.find()), [2, 3, 4], "new since all were asked");
        }
    }

    #[test]
    fn a_name_that_is_taken_later_is_seen_when_all_are_asked() {
        let host = Host::new();
        host.start(1, "sh");
        let mut finder = Finder::new(&host.root(), ProcessPattern::Comm("etcd".into()));
        assert_eq!(finder.find_afresh(), []);
        host.start(2, "sh");
        host.rename(1, "etcd");
        assert_eq!(finder.find(), [], "it was asked before");
        host.rename(2, "etcd");
        assert_eq!(pids(&finder.find()), [2], "it was not there when all were asked");
        assert_eq!(pids(&finder.find_afresh()), [1, 2]);
    }

    #[test]
    fn a_thread_may_begin_in_any_process() {
        let host = Host::new();
        host.start(1, "sh");
        let mut finder = Finder::new(&host.root(), ProcessPattern::Thread("wal".into()));
        assert_eq!(finder.find_afresh(), []);
        host.rename(1, "wal");
        assert_eq!(pids(&finder.find()), [1]);
    }
}
