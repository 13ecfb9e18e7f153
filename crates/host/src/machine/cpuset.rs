//! `cpuset:…/cpuset.cpus@INODE`: the processors of a control group.
//!
//! The inode is that of the group's folder, as of every file of a control group: see
//! [`super::cgroup_file`].
//!
//! - Version 2: the empty list means "those of the parent". The kernel refuses to set it again if
//!   the group has tasks (ENOSPC, as on Linux 6.1 and 6.18). The list of all possible processors
//!   has the same effect, so it is written instead, and counts as equal. The file keeps what was
//!   written; `cpuset.cpus.effective` shows what is in force.
//! - Version 1 (recognised by `cpuset.effective_cpus` in the same folder): the empty list means
//!   that no task can run, and the kernel refuses it if the group has tasks. A core that goes
//!   offline is removed from the file for good.

use super::cgroup_file::{self, check_inode, inode, put};
use super::{AccessError, file};
use crate::Root;
use crate::kept_files::KeptFiles;
use crate::topology::CPU_FOLDER;
use std::collections::BTreeSet;
use wattio_governor::{Address, Cpus};

/// The name of the file.
pub const FILE: &str = "cpuset.cpus";

/// The address of a control group's processors; `None` if there is no such group.
pub(crate) fn address(root: &Root, folder: &str) -> Option<Address> {
    let inode = inode(root, folder)?;
    Some(Address::new("cpuset", &format!("{folder}/{FILE}@{inode}")))
}

/// The path of a place, and the inode of its folder. Without an inode, whatever group has the path
/// is meant.
fn split(place: &str) -> (&str, Option<u64>) {
    let parts = cgroup_file::split(place);
    if parts.0.ends_with(FILE) { parts } else { (place, None) }
}

/// The processors that the group asks for.
pub(super) fn read(root: &Root, files: &mut KeptFiles, place: &str) -> Result<String, AccessError> {
    let (path, inode) = split(place);
    check(path)?;
    let value = file::read(files, path)?;
    check_inode(root, path, inode)?;
    Ok(value)
}

/// Whether the group was removed.
pub(super) fn is_gone(root: &Root, place: &str) -> bool {
    let (path, inode) = split(place);
    let another = || check_inode(root, path, inode).is_err();
    check(path).is_ok() && (root.lacks(path) || another())
}

/// Gives the group other processors.
pub(super) fn write(root: &Root, place: &str, value: &str) -> Result<(), AccessError> {
    let (path, inode) = split(place);
    check(path)?;
    let put = |text: &str| put(root, path, inode, text);
    let cpus: Cpus = value.parse().map_err(|error| AccessError::refused(format!("{error}")))?;
    let folder = path.trim_end_matches(FILE);
    if cpus.is_empty() {
        if is_version_1(root, path) {
            return Err(AccessError::refused(
                "version 1 control groups with tasks cannot have an empty list",
            ));
        }
        let all = possible(root).map(|all| all.to_string()).unwrap_or_default();
        // "\n" stands for the empty value.
        return put("\n").or_else(|_| put(&all));
    }
    if let Err(problem) = put(value) {
        // As much of it as the parent has, rather than the old value: whoever narrowed the parent
        // meant to leave no less. It still is not what was asked for.
        if let Some(rest) = within_parent(root, folder, &cpus) {
            let _ = put(&rest.to_string());
        }
        return Err(explained(problem, value));
    }
    in_force(root, folder, &cpus)
}

/// The part of a list that the parent of a version 1 group has, if that is less, and not nothing.
fn within_parent(root: &Root, folder: &str, cpus: &Cpus) -> Option<Cpus> {
    let (parent, _) = folder.trim_end_matches('/').rsplit_once('/')?;
    let path = format!("{parent}/{FILE}");
    let has: Cpus = root.read(&path).ok().filter(|_| is_version_1(root, &path))?.parse().ok()?;
    let rest = cpus.and(&has);
    (!rest.is_empty() && rest != *cpus).then_some(rest)
}

/// Whether the group is one of version 1.
fn is_version_1(root: &Root, path: &str) -> bool {
    root.exists(&format!("{}cpuset.effective_cpus", path.trim_end_matches(FILE)))
}

/// All processors that there can ever be.
pub(super) fn possible(root: &Root) -> Option<Cpus> {
    root.read(&format!("{CPU_FOLDER}/possible")).ok()?.parse().ok()
}

/// Whether a group of version 2 runs where it should: the kernel takes any list, and uses the
/// parent's where the parent has none of it.
fn in_force(root: &Root, folder: &str, cpus: &Cpus) -> Result<(), AccessError> {
    let Ok(text) = root.read(&format!("{folder}cpuset.cpus.effective")) else { return Ok(()) };
    let effective: Cpus = text
        .parse()
        .map_err(|error| AccessError::refused(format!("cpuset.cpus.effective: {error}")))?;
    if !effective.and(cpus).is_empty() {
        return Ok(());
    }
    Err(AccessError::refused(format!(
        "took {cpus} but runs on {effective}: the parent's set, or what is online, has none of them"
    )))
}

/// Explains the kernel's errors.
fn explained(problem: AccessError, value: &str) -> AccessError {
    match problem {
        AccessError::Gone => AccessError::Gone,
        // A child of a version 1 group is wider.
        AccessError::Busy(message) => AccessError::Busy(format!(
            "{message}: a control group below it still has more than {value}"
        )),
        AccessError::Refused(message) => AccessError::refused(format!(
            "{message}: the list must lie within the parent's, and be online"
        )),
    }
}

/// Whether two lists mean the same.
pub(super) fn same(root: &Root, place: &str, one: &str, other: &str) -> bool {
    let (path, _) = split(place);
    let (Ok(one), Ok(other)) = (one.parse::<Cpus>(), other.parse::<Cpus>()) else { return false };
    let inherits = |none: &Cpus, all: &Cpus| {
        none.is_empty()
            && !is_version_1(root, path)
            && possible(root).is_some_and(|possible| possible.without(all).is_empty())
    };
    one == other || inherits(&one, &other) || inherits(&other, &one)
}

/// The value that puts a group back: the original, unless it has a processor that none of the lists
/// that were written had. Fewer than were written are ours: version 1 strikes those that go offline.
pub(super) fn put_back(original: &str, marks: &BTreeSet<String>, found: &str) -> String {
    let written = marks.iter().filter_map(|mark| mark.parse::<Cpus>().ok());
    let written = written.fold(Cpus::default(), |all, cpus| all.or(&cpus));
    let theirs = found.parse::<Cpus>().is_ok_and(|found| !found.without(&written).is_empty());
    if theirs && !marks.is_empty() { found.to_owned() } else { original.to_owned() }
}

/// The command that puts a list back, as far as the parent of a version 1 group has it.
pub(super) fn restore_command(root: &Root, place: &str, value: &str) -> String {
    let (path, _) = split(place);
    let all = || possible(root).filter(|_| value.is_empty());
    let cpus = value.parse().ok();
    let rest = cpus.and_then(|cpus| within_parent(root, path.trim_end_matches(FILE), &cpus));
    let taken = rest.or_else(all).map(|cpus| cpus.to_string());
    file::restore_command(root, path, taken.as_deref().unwrap_or(value))
}

/// Refuses paths that name no such file.
fn check(path: &str) -> Result<(), AccessError> {
    if path.starts_with("/sys/fs/cgroup/") && path.ends_with("/cpuset.cpus") {
        return Ok(());
    }
    Err(AccessError::refused("is not a /sys/fs/cgroup/…/cpuset.cpus"))
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
        let mut files = KeptFiles::new(&root);
        assert_eq!(read(&root, &mut files, PATH).unwrap(), "");
        write(&root, PATH, "0-1").unwrap();
        write(&root, PATH, "").unwrap();
        assert_eq!(read(&root, &mut files, PATH).unwrap(), "");
        let (_folder, root) = group(&[(FILE, "0-3"), ("cpuset.effective_cpus", "0-3")]);
        let mut files = KeptFiles::new(&root);
        assert!(matches!(write(&root, PATH, ""), Err(AccessError::Refused(..))));
        assert_eq!(read(&root, &mut files, PATH).unwrap(), "0-3");
    }

    /// The set of a restarted service was taken for somebody else's change, or got the old
    /// service's processors at the restore.
    #[test]
    fn a_group_that_was_made_anew_is_another_place() {
        let (_folder, root) = group(&[(FILE, "0-3")]);
        let mut files = KeptFiles::new(&root);
        let old = address(&root, "/sys/fs/cgroup/a").unwrap();
        write(&root, old.rest(), "0").unwrap();
        assert_eq!(read(&root, &mut files, old.rest()).unwrap(), "0");
        // Beside the old one, so that it has another inode.
        fs::create_dir(root.path("/sys/fs/cgroup/b")).unwrap();
        fs::write(root.path(&format!("/sys/fs/cgroup/b/{FILE}")), "0-7").unwrap();
        fs::remove_dir_all(root.path("/sys/fs/cgroup/a")).unwrap();
        assert_eq!(read(&root, &mut files, old.rest()), Err(AccessError::Gone));
        fs::rename(root.path("/sys/fs/cgroup/b"), root.path("/sys/fs/cgroup/a")).unwrap();
        assert_eq!(read(&root, &mut files, old.rest()), Err(AccessError::Gone));
        assert_eq!(write(&root, old.rest(), "0-3"), Err(AccessError::Gone));
        let new = address(&root, "/sys/fs/cgroup/a").unwrap();
        assert_ne!(new, old);
        write(&root, new.rest(), "0-1").unwrap();
        assert_eq!(read(&root, &mut files, PATH).unwrap(), "0-1", "whatever stands there");
        assert_eq!(restore_command(&root, old.rest(), "0-3"), format!("echo 0-3 > {PATH}"));
    }

    #[test]
    fn the_inode_is_what_follows_the_file() {
        let unit = "/sys/fs/cgroup/ssh@7.service/cpuset.cpus";
        assert_eq!(split(unit), (unit, None));
        assert_eq!(split(&format!("{unit}@12")), (unit, Some(12)));
        for other in ["", "@", "a@1", "cpuset.cpus@", "cpuset.cpus@-1"] {
            assert_eq!(split(other), (other, None));
        }
    }

    /// After a kill -9 a restore put the old list over the one that an operator had set since.
    #[test]
    fn a_list_that_somebody_set_after_a_crash_is_theirs() {
        let marks = BTreeSet::from(["0-1".to_owned(), "0".to_owned()]);
        let back = |found| put_back("0-3", &marks, found);
        assert_eq!((back("2"), back("0-2")), ("2".to_owned(), "0-2".to_owned()));
        assert_eq!((back("0-1"), back("0"), back("1")), ("0-3".into(), "0-3".into(), "0-3".into()));
        assert_eq!(put_back("0-3", &BTreeSet::new(), "2"), "0-3", "nobody knows what was written");
    }

    #[test]
    fn a_foreign_list_outlives_the_restore_after_a_crash() {
        let (folder, root) = group(&[(FILE, "0-3\n")]);
        let mut files = KeptFiles::new(&root);
        fs::create_dir_all(root.path(CPU_FOLDER)).unwrap();
        fs::write(root.path(&format!("{CPU_FOLDER}/possible")), "0-3\n").unwrap();
        let open = || {
            let machine = Box::new(crate::LinuxMachine::new(root.clone(), &[]).unwrap());
            let store = wattio_governor::FileStore::new(folder.path().join("snapshot.json"));
            wattio_governor::RestorableWriter::open(machine, Box::new(store), "boot").unwrap()
        };
        let place = address(&root, "/sys/fs/cgroup/a").unwrap();
        for (left, expected) in [("0", "0-3"), ("2", "2")] {
            fs::write(root.path(PATH), "0-3\n").unwrap();
            let (mut writer, _) = open();
            let narrow = wattio_governor::Assignment::new(place.clone(), "0");
            assert_eq!(writer.apply("cpu.cpuset", &[narrow]).notes, []);
            std::mem::forget(writer);
            fs::write(root.path(PATH), left).unwrap();
            let (_, restored) = open();
            assert_eq!(read(&root, &mut files, PATH).unwrap(), expected);
            assert_eq!(restored.foreign.len(), usize::from(left == "2"));
        }
    }

    #[test]
    fn a_set_that_the_parent_does_not_have_is_not_in_force() {
        let (_folder, root) = group(&[(FILE, ""), ("cpuset.cpus.effective", "0-3")]);
        let Err(AccessError::Refused(message)) = write(&root, PATH, "8-9") else { panic!() };
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
        assert_eq!(restore_command(&root, PATH, ""), "echo 0-3 > /sys/fs/cgroup/a/cpuset.cpus");
        let (_folder, root) = group(&[(FILE, ""), ("cpuset.effective_cpus", "")]);
        assert!(!super::same(&root, PATH, "", "0-3"), "no task can run there");
    }
}
