//! The file of a socket, which goes with its process.

use rustix::fs::{Mode, OFlags, fstat, lstat, open};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Removes the socket's file when dropped, unless it was replaced: by then it may be the socket of
/// the next process.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Open, so that no other file gets its number; none if it has gone already.
    file: Option<OwnedFd>,
}

impl SocketFile {
    /// That of a socket which was just bound.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self { path: path.to_owned(), file: open(path, flags, Mode::empty()).ok() }
    }

    fn is_there(&self) -> bool {
        let ours = self.file.as_ref().and_then(|file| fstat(file).ok());
        let there = lstat(&self.path).ok();
        ours.zip(there)
            .is_some_and(|(ours, there)| (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
