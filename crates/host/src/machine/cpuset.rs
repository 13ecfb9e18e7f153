//! `cpuset:…/cpuset.cpus`: the processors of a control group.
//!
//! - Version 2: the empty list means "those of the parent". The kernel does not take it back where
//!   there are tasks (ENOSPC, as on Linux 6.1 and 6.18); all processors that there can ever be mean
//!   the same to it, are written instead, and count as the same. The file keeps what was asked
//!   for; `cpuset.cpus.effective` says what is in force.
//! - Version 1 (`cpuset.effective_cpus` lies beside): the empty list means that no task can run,
//!   and the kernel does not take it where there are tasks. Here a core that goes offline is
//!   struck from the file for good.

use super::{Trouble, file};
use crate::Root;
use crate::topology::CPU_FOLDER;
use wattio_governor::Cpus;

/// The name of the file.
pub const FILE: &str = "cpuset.cpus";

/// The processors that the group asks for.
pub(super) fn read(root: &Root, path: &str) -> Result<String, Trouble> {
    check(path)?;
    file::read(root, path)
}

/// Gives the group other processors.
pub(super) fn write(root: &Root, path: &str, value: &str) -> Result<(), Trouble> {
    check(path)?;
    let cpus: Cpus = value.parse().map_err(|error| Trouble::refused(format!("{error}")))?;
    let folder = path.trim_end_matches(FILE);
    if cpus.is_empty() {
        if is_version_1(root, path) {
            return Err(Trouble::refused("version 1 control groups with tasks take no empty list"));
        }
        let all = possible(root).map(|all| all.to_string()).unwrap_or_default();
        return file::write(root, path, value).or_else(|_| file::write(root, path, &all));
    }
    file::write(root, path, value).map_err(|trouble| explained(trouble, value))?;
    in_force(root, folder, &cpus)
}

/// Whether the group is one of version 1.
fn is_version_1(root: &Root, path: &str) -> bool {
    root.exists(&format!("{}cpuset.effective_cpus", path.trim_end_matches(FILE)))
}

/// All processors that there can ever be.
pub(super) fn possible(root: &Root) -> Option<Cpus> {
    root.read(&format!("{CPU_FOLDER}/possible")).ok()?.parse().ok()
}

/// Whether a group of version 2 runs where it was told to: the kernel takes any list, and uses the
/// parent's where the parent has none of it.
fn in_force(root: &Root, folder: &str, cpus: &Cpus) -> Result<(), Trouble> {
    let Ok(text) = root.read(&format!("{folder}cpuset.cpus.effective")) else { return Ok(()) };
    let effective: Cpus = text
        .parse()
        .map_err(|error| Trouble::refused(format!("cpuset.cpus.effective: {error}")))?;
    if !effective.and(cpus).is_empty() {
        return Ok(());
    }
    Err(Trouble::refused(format!(
        "took {cpus} but runs on {effective}: the parent's set, or what is online, has none of them"
    )))
}

/// Says what the kernel's errors mean here.
fn explained(trouble: Trouble, value: &str) -> Trouble {
    match trouble {
        Trouble::Gone => Trouble::Gone,
        // A child of a version 1 group is wider.
        Trouble::Busy(message) => Trouble::Busy(format!(
            "{message}: a control group below it still has more than {value}"
        )),
        Trouble::Refused(message) => Trouble::refused(format!(
            "{message}: the list must lie within the parent's, and be online"
        )),
    }
}

/// Whether two lists mean the same.
pub(super) fn same(root: &Root, path: &str, one: &str, other: &str) -> bool {
    let (Ok(one), Ok(other)) = (one.parse::<Cpus>(), other.parse::<Cpus>()) else { return false };
    let inherits = |none: &Cpus, all: &Cpus| {
        none.is_empty()
            && !is_version_1(root, path)
            && possible(root).is_some_and(|possible| possible.without(all).is_empty())
    };
    one == other || inherits(&one, &other) || inherits(&other, &one)
}

/// The command that puts a list back.
pub(super) fn mend(root: &Root, path: &str, value: &str) -> String {
    let all = possible(root).filter(|_| value.is_empty()).map(|all| all.to_string());
    file::mend(path, all.as_deref().unwrap_or(value))
}

/// Refuses paths that name no such file.
fn check(path: &str) -> Result<(), Trouble> {
    if path.starts_with("/sys/fs/cgroup/") && path.ends_with("/cpuset.cpus") {
        return Ok(());
    }
    Err(Trouble::refused("is no /sys/fs/cgroup/…/cpuset.cpus"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn group(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(root.path("/sys/fs/cgroup/a")).unwrap();
        for (name, text) in files {
            fs::write(root.path(&format!("/sys/fs/cgroup/a/{name}")), text).unwrap();
        }
        (folder, root)
    }

    const PATH: &str = "/sys/fs/cgroup/a/cpuset.cpus";

    #[test]
    fn the_empty_list_is_a_value_in_version_2_only() {
        let (_folder, root) = group(&[(FILE, "\n"), ("cpuset.cpus.effective", "0-3\n")]);
        assert_eq!(read(&root, PATH).unwrap(), "");
        write(&root, PATH, "0-1").unwrap();
        write(&root, PATH, "").unwrap();
        assert_eq!(read(&root, PATH).unwrap(), "");
        let (_folder, root) = group(&[(FILE, "0-3"), ("cpuset.effective_cpus", "0-3")]);
        assert!(matches!(write(&root, PATH, ""), Err(Trouble::Refused(..))));
        assert_eq!(read(&root, PATH).unwrap(), "0-3");
    }

    #[test]
    fn a_set_that_the_parent_does_not_have_is_not_in_force() {
        let (_folder, root) = group(&[(FILE, ""), ("cpuset.cpus.effective", "0-3")]);
        let Err(Trouble::Refused(message)) = write(&root, PATH, "8-9") else { panic!() };
        assert!(message.contains("runs on 0-3"), "{message}");
    }

    #[test]
    fn all_that_there_can_be_is_as_good_as_the_parents() {
        let (_folder, root) = group(&[(FILE, "")]);
        let same = |one, other| super::same(&root, PATH, one, other);
        assert!(same("0-1", "1,0") && same("", "\n") && !same("", "0") && !same("x", "x"));
        assert!(!same("", "0-3"), "nothing says what there can be");
        fs::create_dir_all(root.path(CPU_FOLDER)).unwrap();
        fs::write(root.path(&format!("{CPU_FOLDER}/possible")), "0-3\n").unwrap();
        assert!(same("", "0-3") && same("0-3", "") && !same("", "0-2"));
        assert_eq!(mend(&root, PATH, ""), "echo 0-3 > /sys/fs/cgroup/a/cpuset.cpus");
        let (_folder, root) = group(&[(FILE, ""), ("cpuset.effective_cpus", "")]);
        assert!(!super::same(&root, PATH, "", "0-3"), "no task can run there");
    }
}
