//! `cgroup:…/cpu.weight@INODE`: a file of a control group that holds one value.
//!
//! The inode is that of the group's folder. A service that restarts gets a new control group of the
//! same name with its own values; the old one is gone, and there is nothing left to restore. The
//! kernel does not reuse an inode of this file system for the next group.

use super::{AccessError, file};
use crate::Root;
use crate::kept_files::KeptFiles;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use wattio_governor::Address;

/// The address of a file of the control group that has the path now; `None` if there is none.
pub(crate) fn address(root: &Root, path: &str) -> Option<Address> {
    let inode = inode(root, folder_of(path))?;
    Some(Address::new("cgroup", &format!("{path}@{inode}")))
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The number of a folder.
pub(super) fn inode(root: &Root, folder: &str) -> Option<u64> {
    Some(fs::metadata(root.path(folder)).ok()?.ino())
}

/// The path of a place, and the inode of its folder. Without an inode, whatever group has the path
/// is meant.
pub(super) fn split(place: &str) -> (&str, Option<u64>) {
    let parts = place.rsplit_once('@');
    parts.and_then(|(path, inode)| Some((path, Some(inode.parse().ok()?)))).unwrap_or((place, None))
}

/// Whether the group is still the one that is meant. If so, anything opened or read before belongs
/// to it too, as a removed group does not come back.
pub(super) fn check_inode(root: &Root, path: &str, meant: Option<u64>) -> Result<(), AccessError> {
    let found = inode(root, folder_of(path));
    if meant.is_none() || found == meant { Ok(()) } else { Err(AccessError::Gone) }
}

/// Writes to the group that is meant and to no other: the file of a removed group takes nothing.
pub(super) fn put(
    root: &Root,
    path: &str,
    inode: Option<u64>,
    text: &str,
) -> Result<(), AccessError> {
    let problem = |error| AccessError::of_system(&error, &format!("does not take {text:?}"));
    // In a folder that is shaped like a host, opening would empty another group's file.
    check_inode(root, path, inode)?;
    let file = fs::OpenOptions::new().write(true).truncate(true).open(root.path(path));
    let mut file = file.map_err(problem)?;
    check_inode(root, path, inode)?;
    file.write_all(text.as_bytes()).map_err(problem)
}

/// The value of a file.
pub(super) fn read(root: &Root, files: &mut KeptFiles, place: &str) -> Result<String, AccessError> {
    let (path, inode) = split(place);
    let value = file::read(files, path)?;
    check_inode(root, path, inode)?;
    Ok(value)
}

/// Whether the group was removed.
pub(super) fn is_gone(root: &Root, place: &str) -> bool {
    let (path, inode) = split(place);
    file::is_gone(root, path) || check_inode(root, path, inode).is_err()
}

/// Writes a value.
pub(super) fn write(root: &Root, place: &str, value: &str) -> Result<(), AccessError> {
    let (path, inode) = split(place);
    file::check(path)?;
    put(root, path, inode, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weight of a restarted service was taken for somebody else's change, or got the old
    /// service's at the restore.
    #[test]
    fn a_group_that_was_made_anew_is_another_place() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let make = |name: &str, weight: &str| {
            fs::create_dir_all(root.path(&format!("/sys/fs/cgroup/{name}"))).unwrap();
            fs::write(root.path(&format!("/sys/fs/cgroup/{name}/cpu.weight")), weight).unwrap();
        };
        let (path, mut files) = ("/sys/fs/cgroup/a@7.service/cpu.weight", KeptFiles::new(&root));
        assert_eq!(address(&root, path), None);
        make("a@7.service", "100\n");
        let old = address(&root, path).unwrap();
        write(&root, old.rest(), "50").unwrap();
        assert_eq!(read(&root, &mut files, old.rest()).unwrap(), "50");
        assert!(!is_gone(&root, old.rest()));
        // Beside the old one, so that it has another inode.
        make("b", "200\n");
        fs::remove_dir_all(root.path("/sys/fs/cgroup/a@7.service")).unwrap();
        assert_eq!(read(&root, &mut files, old.rest()), Err(AccessError::Gone));
        fs::rename(root.path("/sys/fs/cgroup/b"), root.path("/sys/fs/cgroup/a@7.service")).unwrap();
        assert_eq!(read(&root, &mut files, old.rest()), Err(AccessError::Gone));
        assert_eq!(write(&root, old.rest(), "100"), Err(AccessError::Gone));
        assert!(is_gone(&root, old.rest()));
        let new = address(&root, path).unwrap();
        assert_eq!(read(&root, &mut files, new.rest()).unwrap(), "200");
        assert_eq!(read(&root, &mut files, path).unwrap(), "200", "whatever stands there");
        assert!(matches!(write(&root, "/etc/cpu.weight@1", "1"), Err(AccessError::Refused(..))));
    }
}
