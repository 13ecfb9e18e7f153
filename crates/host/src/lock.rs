//! One writer at a time: the lock on the folder of a snapshot.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
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
    /// Takes the lock in a folder, which is made where it is missing.
    ///
    /// # Errors
    /// [`LockError::Held`] when another process has it.
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join("lock");
        let failed = |error| LockError::Folder { path: folder.to_owned(), error };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let options = File::options().create(true).truncate(false).write(true).open(&path);
        let file = options.map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held(path)),
            Err(error) => Err(failed(error.into())),
        }
    }
}

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
}
