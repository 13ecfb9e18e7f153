//! Finds the control groups of each controller. Source: `/proc/mounts` and
//! `Documentation/admin-guide/cgroup-v1`, `cgroup-v2.rst`.

use crate::Root;
use wattio_governor::Cpus;

/// The file that says on which processors a group runs, by version.
pub const EFFECTIVE: [&str; 2] = ["cpuset.cpus.effective", "cpuset.effective_cpus"];

/// The mounted hierarchies of control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroups(Vec<Hierarchy>);

/// One hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    /// Where it is mounted.
    folder: String,
    /// The controllers of version 1; `None` for version 2.
    controllers: Option<Vec<String>>,
}

/// A control group's folder in the hierarchy that has a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupFolder {
    /// The folder.
    pub path: String,
    /// Whether it is version 2.
    pub unified: bool,
}

impl Cgroups {
    /// Finds where they are mounted; version 2 at `/sys/fs/cgroup` if the host does not say.
    #[must_use]
    pub fn find(root: &Root) -> Self {
        Self::parse(&root.read("/proc/mounts").unwrap_or_default())
    }

    /// Those in the text of `/proc/mounts`: lines of `device folder type options 0 0`.
    #[must_use]
    pub fn parse(mounts: &str) -> Self {
        let hierarchy = |line: &str| {
            let mut fields = line.split(' ');
            let (folder, kind, options) = (fields.nth(1)?, fields.next()?, fields.next()?);
            let controllers = match kind {
                "cgroup" => Some(options.split(',').map(str::to_owned).collect()),
                "cgroup2" => None,
                _ => return None,
            };
            Some(Hierarchy { folder: folder.replace("\\040", " "), controllers })
        };
        let found: Vec<_> = mounts.lines().filter_map(hierarchy).collect();
        let usual = Hierarchy { folder: "/sys/fs/cgroup".to_owned(), controllers: None };
        Self(if found.is_empty() { vec![usual] } else { found })
    }

    /// The folder of control group `cgroup` (`/system.slice/etcd.service`) where `controller`
    /// (`cpuset`) acts: version 1 where that is mounted, else version 2.
    #[must_use]
    pub fn folder(&self, controller: &str, cgroup: &str) -> Option<CgroupFolder> {
        let first = |hierarchy: &&Hierarchy| {
            let mut names = hierarchy.controllers.iter().flatten();
            names.any(|name| name == controller)
        };
        let version_1 = self.0.iter().find(first);
        let hierarchy = version_1.or_else(|| self.0.iter().find(|h| h.controllers.is_none()))?;
        let cgroup = cgroup.trim_matches('/');
        let path = if cgroup.is_empty() {
            hierarchy.folder.clone()
        } else {
            format!("{}/{cgroup}", hierarchy.folder)
        };
        Some(CgroupFolder { path, unified: hierarchy.controllers.is_none() })
    }
}

impl Cgroups {
    /// The control group of a process where `controller` (`cpuset`) acts, within its hierarchy.
    #[must_use]
    pub fn of_process(&self, root: &Root, controller: &str, pid: u32) -> Option<String> {
        let text = root.read(&format!("/proc/{pid}/cgroup")).ok()?;
        let unified = self.folder(controller, "/")?.unified;
        membership(&text, if unified { "" } else { controller }).map(str::to_owned)
    }

    /// The processors that a process's control group allows it, if known: those of the nearest
    /// group above it that has the controller.
    #[must_use]
    pub fn processors_of(&self, root: &Root, pid: u32) -> Option<Cpus> {
        let cgroup = self.of_process(root, "cpuset", pid)?;
        let mut cgroup = cgroup.as_str();
        loop {
            let folder = self.folder("cpuset", cgroup)?.path;
            let mut files = EFFECTIVE.iter().map(|file| root.read(&format!("{folder}/{file}")));
            if let Some(text) = files.find_map(Result::ok) {
                return text.parse().ok();
            }
            cgroup = cgroup.rsplit_once('/')?.0;
        }
    }
}

/// The path of the group in the text of `/proc/PID/cgroup` in the hierarchy of a controller, `""` for
/// version 2: lines of `number:controllers:path`.
fn membership<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

/// All control groups below a folder and itself, parents before children.
#[must_use]
pub fn below(root: &Root, folder: &str) -> Vec<String> {
    /// More groups than any host has: stops an endless walk.
    const GROUPS_MAX: usize = 100_000;
    let mut found = vec![folder.to_owned()];
    let mut at = 0;
    while let Some(here) = found.get(at).cloned() {
        at += 1;
        if found.len() < GROUPS_MAX {
            let names = root.list(&here).into_iter();
            let inner = names.map(|name| format!("{here}/{name}"));
            found.extend(inner.filter(|path| is_folder(root, path)));
        }
    }
    found
}

/// Whether a path is a folder and not a link to one.
fn is_folder(root: &Root, path: &str) -> bool {
    std::fs::symlink_metadata(root.path(path)).is_ok_and(|data| data.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    const HYBRID: &str = "\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
";

    #[test]
    fn a_controller_is_where_it_is_mounted() {
        let cgroups = Cgroups::parse(HYBRID);
        let place = |controller| {
            let found = cgroups.folder(controller, "/a.slice/b.service").unwrap();
            (found.path, found.unified)
        };
        assert_eq!(place("cpuset"), ("/sys/fs/cgroup/cpuset/a.slice/b.service".into(), false));
        assert_eq!(place("cpu"), ("/sys/fs/cgroup/cpu,cpuacct/a.slice/b.service".into(), false));
        assert_eq!(place("freezer"), ("/sys/fs/cgroup/unified/a.slice/b.service".into(), true));
    }

    #[test]
    fn a_process_has_what_the_nearest_group_with_the_controller_has() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(root.path("/sys/fs/cgroup/a/b")).unwrap();
        fs::create_dir_all(root.path("/proc/7")).unwrap();
        fs::write(root.path("/proc/7/cgroup"), "3:cpu,cpuacct:/x\n0::/a/b\n").unwrap();
        let cgroups = Cgroups::parse("");
        assert_eq!(cgroups.processors_of(&root, 7), None);
        fs::write(root.path("/sys/fs/cgroup/cpuset.cpus.effective"), "0-3").unwrap();
        assert_eq!(cgroups.processors_of(&root, 7), "0-3".parse().ok());
        fs::write(root.path("/sys/fs/cgroup/a/cpuset.cpus.effective"), "2").unwrap();
        assert_eq!(cgroups.processors_of(&root, 7), "2".parse().ok());
        assert_eq!(membership("3:cpu,cpuacct:/x\n0::/a/b", "cpuacct"), Some("/x"));
    }

    #[test]
    fn parents_come_before_children() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(root.path("/g/a/b")).unwrap();
        fs::create_dir_all(root.path("/g/c")).unwrap();
        fs::write(root.path("/g/cpuset.cpus"), "").unwrap();
        assert_eq!(below(&root, "/g"), ["/g", "/g/a", "/g/c", "/g/a/b"]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String, lines in "(cgroup2? /?[a-z\\\\]* cgroup2? [a-z,]*\n){0,4}") {
            let _ = (Cgroups::parse(&text), Cgroups::parse(&lines).folder("cpu", &text));
            let _ = (membership(&text, ""), membership(&lines, &text));
        }
    }
}
