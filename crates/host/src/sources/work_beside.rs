//! What others do beside a group on its cores, while it has all of them.
//!
//! Affinities and cpusets would move a group's own processes only: of the cores that these would leave,
//! what others do there would stay. How much that is, nobody can measure before they leave: it is what
//! the cores did less what the group's own processes did (an estimate, taken to be spread evenly).

use super::cores::{Cores, Reading};
use super::proc_stat;
use crate::Root;
use crate::groups::Group;
use crate::kept_files::KeptFiles;
use crate::machine::Cgroups;
use crate::processes::{Finder, ProcessId, TICK, process_stat, thread_stat};
use std::collections::BTreeMap;
use wattio_governor::{Cpus, SourceError};
use wattio_units::Seconds;

/// Processor time comes in ticks, so that a single window tells little: what was before counts less by the
/// factor e after this time.
const MEMORY: Seconds = Seconds(10.0);
/// Calls between two searches of all processes.
const ASKED_BETWEEN_SEARCHES: u32 = 20;

/// Reads how busy others are.
#[derive(Debug)]
pub struct WorkBeside {
    root: Root,
    files: KeptFiles,
    cores: Cores,
    groups: Vec<Watched>,
}

/// One group.
#[derive(Debug)]
struct Watched {
    cores: Cpus,
    cgroup: Option<OfCgroup>,
    processes: Option<OfProcesses>,
    /// Core-seconds of others, and the time they took, of late.
    others_s: f64,
    span_s: f64,
}

/// Whose processes the knobs would move.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Those of groups' control groups.
    pub cgroups: bool,
    /// Those that fit groups' patterns.
    pub processes: bool,
}

impl WorkBeside {
    /// Beside groups, of which so many processes would be moved.
    #[must_use]
    pub fn new(groups: &[Group], moved: Moved, root: &Root) -> Self {
        let hierarchies = Cgroups::find(root);
        let watched = |group: &Group| Watched {
            cores: group.cores(),
            cgroup: group
                .cgroup
                .as_ref()
                .filter(|_| moved.cgroups)
                .and_then(|cgroup| OfCgroup::find(&hierarchies, cgroup)),
            processes: group
                .processes
                .as_ref()
                .filter(|_| moved.processes)
                .map(|pattern| OfProcesses::new(Finder::new(root, pattern.clone()))),
            others_s: 0.0,
            span_s: 0.0,
        };
        Self {
            root: root.clone(),
            files: KeptFiles::new(root),
            cores: Cores::default(),
            groups: groups.iter().map(watched).collect(),
        }
    }

    /// How many cores' worth of work others do of late on all cores of each group; `dt` is the time since
    /// the last call.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn busy(&mut self, dt: Seconds) -> Result<Vec<f64>, SourceError> {
        let reading = self.read()?;
        let cores: Vec<Cpus> = self.groups.iter().map(|group| group.cores.clone()).collect();
        let all = self.cores.busy(reading, &cores);
        let kept = (-dt.0 / MEMORY.0).exp();
        let other = |(group, all): (&mut Watched, f64)| {
            let own_s = group.own_s(&self.root);
            group.others_s = group.others_s * kept + all * dt.0 - own_s;
            group.span_s = group.span_s * kept + dt.0;
            (group.others_s / group.span_s.max(1e-9)).clamp(0.0, group.cores.len() as f64)
        };
        Ok(self.groups.iter_mut().zip(all).map(other).collect())
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        proc_stat::read(&mut self.files)
            .map_err(|message| SourceError::new("work beside groups", message))
    }
}

impl Watched {
    /// Processor time of the group's own processes since the last call; nothing at the first.
    fn own_s(&mut self, root: &Root) -> f64 {
        let cgroup = self.cgroup.as_mut().map_or(0.0, |own| own.since(root));
        cgroup + self.processes.as_mut().map_or(0.0, |own| own.since(root))
    }
}

/// The processor time of a control group.
#[derive(Debug)]
struct OfCgroup {
    folder: String,
    is_unified: bool,
    last: Option<f64>,
}

impl OfCgroup {
    fn find(hierarchies: &Cgroups, cgroup: &str) -> Option<Self> {
        let found = hierarchies.folder("cpuacct", cgroup)?;
        Some(Self { folder: found.path, is_unified: found.unified, last: None })
    }

    fn since(&mut self, root: &Root) -> f64 {
        let now = self.total(root);
        let before = std::mem::replace(&mut self.last, now);
        self.last.zip(before).map_or(0.0, |(now, before)| (now - before).max(0.0))
    }

    /// Seconds since it began; `None` while it is not there.
    fn total(&self, root: &Root) -> Option<f64> {
        if !self.is_unified {
            let text = root.read(&format!("{}/cpuacct.usage", self.folder)).ok()?;
            return text.parse().ok().map(|ns: f64| ns / 1e9);
        }
        let text = root.read(&format!("{}/cpu.stat", self.folder)).ok()?;
        let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        usage.parse().ok().map(|us: f64| us / 1e6)
    }
}

/// The processor time of the processes or threads that fit a pattern.
#[derive(Debug)]
struct OfProcesses {
    finder: Finder,
    /// Calls since the last search.
    asked: u32,
    /// Those found, each with its ticks so far.
    found: BTreeMap<ProcessId, u64>,
}

impl OfProcesses {
    fn new(finder: Finder) -> Self {
        Self { finder, asked: ASKED_BETWEEN_SEARCHES, found: BTreeMap::new() }
    }

    fn since(&mut self, root: &Root) -> f64 {
        let ticks_of = |id: &ProcessId| {
            let stat = match id.thread {
                Some(thread) => thread_stat(root, id.pid, thread),
                None => process_stat(root, id.pid),
            };
            stat.filter(|stat| stat.start == id.start).map(|stat| stat.ticks)
        };
        let mut ticks = 0;
        self.found.retain(|id, last| {
            let Some(now) = ticks_of(id) else { return false };
            ticks += now.saturating_sub(std::mem::replace(last, now));
            true
        });
        self.asked += 1;
        if self.asked > ASKED_BETWEEN_SEARCHES {
            self.asked = 0;
            for id in self.finder.find() {
                if let Some(now) = ticks_of(&id) {
                    self.found.entry(id).or_insert(now);
                }
            }
        }
        (TICK * ticks as f64).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::ProcessPattern;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn root(&self) -> Root {
            Root::new(self.0.path())
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root().path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        /// Ticks of four cores, each busy for so many of `all`.
        fn cores(&self, all: u64, busy: [u64; 4]) {
            let line = |(core, busy): (usize, u64)| {
                format!("cpu{core} {busy} 0 0 {} 0 0 0 0 0 0\n", all - busy)
            };
            let text: String = busy.into_iter().enumerate().map(line).collect();
            self.write("/proc/stat", &text);
        }

        fn process(&self, pid: u32, comm: &str, ticks: u64) {
            let stat = format!(
                "{pid} ({comm}) S 1 1 1 0 -1 4194560 1 0 0 0 {ticks} 0 0 0 20 0 1 0 99 1000 2 3"
            );
            self.write(&format!("/proc/{pid}/stat"), &stat);
            self.write(&format!("/proc/{pid}/comm"), comm);
        }
    }

    fn group(cgroup: Option<&str>, comm: Option<&str>) -> Group {
        Group {
            name: "all".to_owned(),
            order: vec![0, 1, 2, 3],
            cores_min: 1,
            cgroup: cgroup.map(str::to_owned),
            processes: comm.map(|comm| ProcessPattern::Comm(comm.to_owned())),
        }
    }

    const ALL: Moved = Moved { cgroups: true, processes: true };

    /// Of three cores' worth of work in ten seconds one is the server's.
    fn played(host: &Host, group: Group, moved: Moved, own: impl Fn(u64)) -> f64 {
        let mut beside = WorkBeside::new(&[group], moved, &host.root());
        host.cores(1, [0; 4]);
        own(0);
        assert_eq!(beside.busy(Seconds(0.5)).unwrap(), [0.0]);
        let mut found = 0.0;
        for at in 1..=40 {
            host.cores(1 + 50 * at, [50 * at, 50 * at, 25 * at, 25 * at]);
            own(50 * at);
            found = beside.busy(Seconds(0.5)).unwrap()[0];
        }
        found
    }

    #[test]
    fn what_is_not_the_groups_own_is_others() {
        let host = Host::new();
        let own = |ticks| host.process(7, "etcd", ticks);
        let found = played(&host, group(None, Some("etcd*")), ALL, own);
        assert!((found - 2.0).abs() < 0.15, "{found}");
        let none = Moved { processes: false, ..ALL };
        let all = played(&host, group(None, Some("etcd*")), none, own);
        assert!((all - 3.0).abs() < 0.2, "nobody would be moved: {all}");
    }

    #[test]
    fn a_control_group_tells_its_own_time() {
        let v1 = Host::new();
        v1.write("/proc/mounts", "cgroup /sys/fs/cgroup/cpuacct cgroup rw,cpu,cpuacct 0 0\n");
        let own = |ticks: u64| {
            v1.write(
                "/sys/fs/cgroup/cpuacct/s.slice/cpuacct.usage",
                &(ticks * 10_000_000).to_string(),
            );
        };
        let found = played(&v1, group(Some("/s.slice"), None), ALL, own);
        assert!((found - 2.0).abs() < 0.15, "{found}");
        let v2 = Host::new();
        let own = |ticks: u64| {
            let text = format!("usage_usec {}\nuser_usec 1\nsystem_usec 2\n", ticks * 10_000);
            v2.write("/sys/fs/cgroup/s.slice/cpu.stat", &text);
        };
        let found = played(&v2, group(Some("/s.slice"), None), ALL, own);
        assert!((found - 2.0).abs() < 0.15, "{found}");
    }

    #[test]
    fn a_server_that_works_elsewhere_too_leaves_nothing_to_others() {
        let host = Host::new();
        let found = played(&host, group(None, Some("etcd")), ALL, |ticks| {
            host.process(7, "etcd", 9 * ticks);
        });
        assert_eq!(found, 0.0);
    }
}
