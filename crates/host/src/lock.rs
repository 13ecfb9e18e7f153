//! One writer at a time: the lock on the host, and the one on the folder of a snapshot.
//!
//! The host's lock is on a folder of the kernel's that nobody can remove, so that two daemons with
//! different folders still exclude each other. It holds across mount and control group namespaces;
//! a container with a network namespace and a sysfs of its own has another one.

use crate::Root;
use crate::topology::CPU_FOLDER;
use crate::trust::{self, Untrusted};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the lock could not be taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// The folder cannot be used.
    #[error("{}: {error}; what has to be restored is kept there: run as root, or name another folder", path.display())]
    Folder {
        /// Which one.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// Others may write there, and could make wattio write anything as an old value.
    #[error("old values are trusted when they are restored, so they cannot be kept here: {0}")]
    Untrusted(#[from] Untrusted),
    /// Another process has it.
    #[error("another wattio acts on this host ({}); it restores what it changed when it ends", told(path, *holder))]
    Held {
        /// What is locked.
        path: PathBuf,
        /// The process that has it, if the kernel says.
        holder: Option<u32>,
    },
}

fn told(path: &Path, holder: Option<u32>) -> String {
    let process = holder.map_or_else(String::new, |pid| format!("process {pid}: "));
    format!("{process}{} is locked", path.display())
}

/// The lock, held as long as this lives; it ends with the process.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    /// The kernel's folder, for the lock of the host.
    _kernel: Option<File>,
}

impl Lock {
    /// Takes the lock in a folder, which is created if it is missing. It belongs to root or to this
    /// user, and nobody else may write there or put another folder in its place.
    ///
    /// # Errors
    /// [`LockError::Held`] when another process has it.
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        Ok(Self { _file: lock_in(folder)?, _kernel: None })
    }

    /// Takes the lock of the whole host, so that two who keep their old values in different folders
    /// do not take each other's settings for old values. `None` for a user without permission, who
    /// can change little.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub fn take_host(root: &Root) -> Result<Option<Self>, LockError> {
        let kernel = lock_kernel(root)?;
        match lock_in(&root.path(HOST)) {
            Err(LockError::Folder { .. }) if !geteuid().is_root() => {
                Ok(kernel.map(|file| Self { _file: file, _kernel: None }))
            }
            file => Ok(Some(Self { _file: file?, _kernel: kernel })),
        }
    }

    /// Whether somebody holds the lock on the host. Creates nothing.
    #[must_use]
    pub fn host_is_held(root: &Root) -> bool {
        let paths = [CPU_FOLDER.to_owned(), format!("{HOST}/lock")];
        let files = paths.iter().filter_map(|path| File::open(root.path(path)).ok());
        let asked = FlockOperation::NonBlockingLockShared;
        files.into_iter().any(|file| flock(&file, asked) == Err(Errno::WOULDBLOCK))
    }
}

/// The folder of the other lock of the whole host; the unit's `RuntimeDirectory=`. It disappears
/// when a unit stops, and with it the lock of a daemon that runs without one.
const HOST: &str = "/run/wattiod";

/// How often a lock file is opened anew that was removed while it was waited for.
const TRIES_MAX: usize = 8;

fn lock_in(folder: &Path) -> Result<File, LockError> {
    let path = folder.join("lock");
    let failed = |error| LockError::Folder { path: folder.to_owned(), error };
    trust::check(folder, None)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    trust::check(folder, None)?;
    for _ in 0..TRIES_MAX {
        // Whoever may open the file can hold the lock, so nobody else may.
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(&file, &path) => return Ok(file),
            // Removed between opening and locking: the next process would lock another file.
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(LockError::Held { holder: holders(&file).first().copied(), path });
            }
            Err(error) => return Err(failed(error.into())),
        }
    }
    Err(failed(io::Error::other("the file \"lock\" there is removed again and again")))
}

/// Whether a file that is open is still the one of this name.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

/// Locks the folder of processors, which no one removes; `None` if there is none.
///
/// Anybody may open it and hold its lock. That must not block root's daemon: only root's locks and
/// the caller's own count.
fn lock_kernel(root: &Root) -> Result<Option<File>, LockError> {
    let path = root.path(CPU_FOLDER);
    let Ok(file) = File::open(&path) else { return Ok(None) };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => {
            let holders = holders(&file);
            let counts = |&&pid: &&u32| {
                let owner = fs::metadata(format!("/proc/{pid}")).map(|is| is.uid());
                owner.map_or(true, |uid| [0, geteuid().as_raw()].contains(&uid))
            };
            let holder = holders.iter().find(counts).copied();
            if holder.is_none() && !holders.is_empty() {
                return Ok(None);
            }
            Err(LockError::Held { path, holder })
        }
        // A file system without locks.
        Err(_) => Ok(None),
    }
}

/// The processes that hold a lock on a file, as far as the kernel says. Source: `/proc/locks` in
/// `proc(5)`: `1: FLOCK  ADVISORY  WRITE 4711 00:16:3562 0 EOF`, and `->` before those that wait.
fn holders(file: &File) -> Vec<u32> {
    let Ok(is) = file.metadata() else { return Vec::new() };
    let text = Root::default().read("/proc/locks").unwrap_or_default();
    let (major, minor) = (rustix::fs::major(is.dev()), rustix::fs::minor(is.dev()));
    holders_in(&text, &format!("{major:02x}:{minor:02x}:{}", is.ino()))
}

fn holders_in(locks: &str, place: &str) -> Vec<u32> {
    let holder = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let kind = fields.next()?;
        let pid = fields.nth(2)?.parse().ok().filter(|&pid| pid > 0);
        (kind == "FLOCK" && fields.next()? == place).then_some(pid)?
    };
    locks.lines().filter_map(holder).collect()
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
        assert!(matches!(refused, LockError::Held { .. }), "{refused}");
        let me = format!("(process {}: ", std::process::id());
        assert!(refused.to_string().contains(&me), "{refused}");
        drop(first);
        Lock::take(&inner).unwrap();
    }

    #[test]
    fn a_host_has_one_writer_whatever_folders_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert!(!Lock::host_is_held(&root));
        assert!(!root.exists("/run"), "looking makes nothing");
        let first = Lock::take_host(&root).unwrap();
        assert!(Lock::host_is_held(&root));
        assert!(matches!(Lock::take_host(&root), Err(LockError::Held { .. })));
        drop(first);
        assert!(!Lock::host_is_held(&root));
    }

    /// The folder of the lock is a unit's `RuntimeDirectory=` and goes when the unit stops: a daemon
    /// that somebody had started by hand held the lock of a file that was no more, and the unit's
    /// next start took another one. Both acted.
    #[test]
    fn a_lock_whose_folder_was_removed_is_still_the_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(root.path(CPU_FOLDER)).unwrap();
        let first = Lock::take_host(&root).unwrap();
        fs::remove_dir_all(root.path(HOST)).unwrap();
        let refused = Lock::take_host(&root);
        assert!(matches!(refused, Err(LockError::Held { .. })), "{refused:?}");
        assert!(Lock::host_is_held(&root));
        drop(first);
        assert!(Lock::take_host(&root).unwrap().is_some());
    }

    #[test]
    fn a_lock_file_that_was_removed_is_not_the_one_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        assert!(is_at(&file, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path));
        let _again = File::create(&path).unwrap();
        assert!(!is_at(&file, &path));
    }

    #[test]
    fn the_kernel_tells_who_holds_a_lock() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:16:3562 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 00:16:3562 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 00:16:3562 0 EOF\n\
                     3: FLOCK  ADVISORY  READ -1 00:16:3562 0 EOF\n";
        assert_eq!(holders_in(locks, "00:16:3562"), [4711]);
        assert_eq!(holders_in("nonsense", ""), [0u32; 0]);
    }

    /// Whoever could put a snapshot there had root write its values.
    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("state");
        Lock::take(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Lock::take(&inner), Err(LockError::Untrusted(_))));
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        Lock::take(&inner).unwrap();
        if geteuid().is_root() {
            let link = folder.path().join("link");
            symlink(&inner, &link).unwrap();
            Lock::take(&link).unwrap();
            lchown(&link, Some(65534), None).unwrap();
            assert!(matches!(Lock::take(&link), Err(LockError::Untrusted(_))), "planted");
            chown(&inner, Some(65534), None).unwrap();
            assert!(matches!(Lock::take(&inner), Err(LockError::Untrusted(_))));
        }
    }
}
