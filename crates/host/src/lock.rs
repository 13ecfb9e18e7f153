//! One writer at a time: the lock on the folder of a snapshot.

use crate::Root;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the lock cannot be had.
#[derive(Debug, Error)]
pub enum LockError {
    /// The folder cannot be used.
    #[error("{}: {error}; what has to be restored is kept there: run as root, or name another folder", path.display())]
    Folder {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Others may write there, and could have whatever they like written as an old value.
    #[error("{}: others than this user may write there; what is restored is trusted: name a folder of your own", .0.display())]
    Untrusted(PathBuf),
    /// Another process has it.
    #[error("another wattio acts on this host ({} is locked); it restores what it changed when it ends", .0.display())]
    Held(PathBuf),
}

/// The one writer: the lock is held as long as this lives, and goes with the process.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock in a folder, which is made where it is missing. It belongs to root or to this
    /// user, and nobody else may write there.
    ///
    /// # Errors
    /// [`LockError::Held`] when another process has it.
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join("lock");
        let failed = |error| LockError::Folder { path: folder.to_owned(), error };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let is = fs::metadata(folder).map_err(failed)?;
        let owned = [0, geteuid().as_raw()].contains(&is.uid());
        if !owned || is.mode() & 0o022 != 0 {
            return Err(LockError::Untrusted(folder.to_owned()));
        }
        // Who may open the file may hold the lock: nobody else may.
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held(path)),
            Err(error) => Err(failed(error.into())),
        }
    }
    /// Takes the lock of the whole host, so that two who keep their old values in different folders
    /// do not take each other's settings for old values. `None` for a user that may not: what he
    /// can turn is little.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub fn take_host(root: &Root) -> Result<Option<Self>, LockError> {
        match Self::take(&root.path(HOST)) {
            Err(LockError::Folder { .. }) if !geteuid().is_root() => Ok(None),
            lock => lock.map(Some),
        }
    }

    /// The same without making anything: to see whether somebody has it.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub fn take_host_if_there(root: &Root) -> Result<Option<Self>, LockError> {
        if root.exists(&format!("{HOST}/lock")) { Self::take_host(root) } else { Ok(None) }
    }
}

/// The folder of the lock of the whole host; the unit's `RuntimeDirectory=`.
const HOST: &str = "/run/wattiod";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_writer_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("state");
        let first = Lock::take(&inner).unwrap();
        let refused = Lock::take(&inner).unwrap_err();
        assert!(matches!(refused, LockError::Held(_)), "{refused}");
        drop(first);
        Lock::take(&inner).unwrap();
    }

    #[test]
    fn a_host_has_one_writer_whatever_folders_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert!(Lock::take_host_if_there(&root).unwrap().is_none());
        assert!(!root.exists("/run"), "looking makes nothing");
        let first = Lock::take_host(&root).unwrap();
        assert!(matches!(Lock::take_host_if_there(&root), Err(LockError::Held(_))));
        drop(first);
        assert!(Lock::take_host_if_there(&root).unwrap().is_some());
    }

    /// Whoever can put a snapshot there had its values written by root.
    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("state");
        Lock::take(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Lock::take(&inner), Err(LockError::Untrusted(_))));
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        Lock::take(&inner).unwrap();
        if geteuid().is_root() {
            chown(&inner, Some(65534), None).unwrap();
            assert!(matches!(Lock::take(&inner), Err(LockError::Untrusted(_))));
        }
    }
}
