//! One writer at a time: the lock on the host, and the lock on a snapshot's folder.
//!
//! The host's lock is on a kernel folder that nobody can remove, so two daemons with different
//! state folders still exclude each other. It works across mount and control group namespaces; a
//! container with its own network namespace and its own sysfs has a separate lock.

use crate::topology::CPU_FOLDER;
use crate::trust::{self, Untrusted};
use crate::{Root, processes};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, getegid, geteuid, test_kill_process};
use std::fmt;
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
    Untrusted(Untrusted),
    /// Another process has it.
    #[error("another wattio acts on this host ({}); it restores what it changed when it ends", told(path, *holder))]
    Held {
        /// What is locked.
        path: PathBuf,
        /// The process that has it, if the kernel says.
        holder: Option<u32>,
    },
}

// Not as its source: who prints a chain of errors would say it twice.
impl From<Untrusted> for LockError {
    fn from(error: Untrusted) -> Self {
        Self::Untrusted(error)
    }
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
        Self::host_holder(root).is_some()
    }

    /// Who holds the lock on the host, if anybody does. Creates nothing.
    #[must_use]
    pub fn host_holder(root: &Root) -> Option<Holder> {
        let asked = FlockOperation::NonBlockingLockShared;
        let locked = |path: &str| {
            let file = File::open(root.path(path)).ok();
            file.filter(|file| flock(file, asked) == Err(Errno::WOULDBLOCK))
        };
        match locked(CPU_FOLDER).map(|file| KeptBy::of(&file)) {
            Some(KeptBy::Wattio(pid)) => return Some(Holder(Some(pid))),
            Some(KeptBy::Unknown) => return Some(Holder(None)),
            Some(KeptBy::Stranger) | None => {}
        }
        let file = locked(&format!("{HOST}/lock"))?;
        Some(Holder(holders(&file).first().copied()))
    }
}

/// A process that holds the lock on the host; its number where the kernel says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(Option<u32>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("a process outside of this container"),
        }
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

/// How often the kernel's folder is tried: who holds it may end while that is looked up.
const KERNEL_TRIES: usize = 2;

/// Locks the folder of processors, which no one removes; `None` if there is none.
///
/// Anybody may open it and hold its lock. That must not keep out root's daemon, nor the restore of
/// what it changed: only a lock counts that a wattio may hold, see [`KeptBy`].
fn lock_kernel(root: &Root) -> Result<Option<File>, LockError> {
    let path = root.path(CPU_FOLDER);
    let Ok(file) = File::open(&path) else { return Ok(None) };
    let mut kept_by = KeptBy::Stranger;
    for _ in 0..KERNEL_TRIES {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => kept_by = KeptBy::of(&file),
            // A file system without locks.
            Err(_) => return Ok(None),
        }
        if let KeptBy::Wattio(pid) = kept_by {
            return Err(LockError::Held { path, holder: Some(pid) });
        }
    }
    match kept_by {
        KeptBy::Unknown => Err(LockError::Held { path, holder: None }),
        _ => Ok(None),
    }
}

/// Who keeps the lock on the kernel's folder.
///
/// The kernel names the process that took a lock, and others may hold it on: those to which that one
/// left the open folder. A wattio hands it to nobody, as it is closed when a program is started. So
/// where the process named has ended, no wattio holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptBy {
    /// A process that lives, and is root's or the caller's own.
    Wattio(u32),
    /// None that counts.
    Stranger,
    /// The kernel does not say: a process outside of this one's namespace.
    Unknown,
}

impl KeptBy {
    fn of(file: &File) -> Self {
        let holders = holders(file);
        match holders.iter().find(|&&pid| counts(pid)) {
            Some(&pid) => Self::Wattio(pid),
            None if holders.is_empty() => Self::Unknown,
            None => Self::Stranger,
        }
    }
}

/// Whether a process lives. One that ended and that nobody has waited for holds nothing any more.
#[must_use]
pub fn is_live(pid: u32) -> bool {
    match processes::process_stat(&Root::default(), pid) {
        Some(stat) => !stat.ended,
        // It may be hidden (`hidepid`).
        None => is_there(pid),
    }
}

fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Whether a process that holds the lock may be a wattio that acts.
fn counts(pid: u32) -> bool {
    let users = [0, geteuid().as_raw()];
    let groups = [0, getegid().as_raw()];
    is_live(pid)
        && Root::default()
            .read(&format!("/proc/{pid}/status"))
            .map_or_else(|_| is_there(pid), |status| is_of(&status, users, groups))
}

/// Whether a process is altogether of these users and groups, by its `/proc/PID/status`. A set-user-ID
/// program, which anybody may start with the folder open, keeps its caller's user or group as its
/// real one. Source: `proc_pid_status(5)`.
fn is_of(status: &str, users: [u32; 2], groups: [u32; 2]) -> bool {
    let all_in = |key: &str, allowed: [u32; 2]| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.is_some_and(|line| {
            let mut ids = line.split_ascii_whitespace().map(str::parse);
            ids.all(|id| id.is_ok_and(|id| allowed.contains(&id)))
        })
    };
    all_in("Uid:", users) && all_in("Gid:", groups)
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
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// A lock that was given back. What other tests are just starting has its file open until it runs
    /// its own program.
    fn given_back<T>(take: impl Fn() -> Result<T, LockError>) -> T {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match take() {
                Err(LockError::Held { .. }) if Instant::now() < until => std::thread::yield_now(),
                taken => return taken.unwrap(),
            }
        }
    }

    /// This process, where the kernel says who holds a lock on a file of a folder: on some file systems,
    /// such as btrfs, it names another device than the file does.
    fn told_in(folder: &Path) -> Option<u32> {
        let file = File::create(folder.join("own")).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        (!holders(&file).is_empty()).then(std::process::id)
    }

    #[test]
    fn there_is_one_writer_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("state");
        let first = Lock::take(&inner).unwrap();
        let refused = Lock::take(&inner).unwrap_err();
        assert!(matches!(refused, LockError::Held { .. }), "{refused}");
        let says = told(&inner.join("lock"), told_in(folder.path()));
        assert!(refused.to_string().contains(&format!("({says});")), "{refused}");
        drop(first);
        given_back(|| Lock::take(&inner));
    }

    #[test]
    fn a_host_has_one_writer_whatever_folders_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert!(!Lock::host_is_held(&root));
        assert!(!root.exists("/run"), "looking makes nothing");
        let first = Lock::take_host(&root).unwrap();
        assert!(Lock::host_is_held(&root));
        assert_eq!(Lock::host_holder(&root), Some(Holder(told_in(folder.path()))));
        assert!(matches!(Lock::take_host(&root), Err(LockError::Held { .. })));
        drop(first);
        drop(given_back(|| Lock::take_host(&root)));
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
        assert!(given_back(|| Lock::take_host(&root)).is_some());
    }

    /// Any user's shell kept root's daemon out, and the restore of one that was killed: `flock` takes
    /// the lock and ends, and the shell keeps the folder open.
    #[test]
    fn a_lock_whose_taker_has_ended_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(root.path(CPU_FOLDER)).unwrap();
        let file = File::open(root.path(CPU_FOLDER)).unwrap();
        let open = file.try_clone().unwrap();
        let taken = Command::new("flock").args(["-n", "0"]).stdin(open).status().unwrap();
        assert!(taken.success());
        // In a namespace of processes the kernel tells nothing of those that have ended.
        if holders(&file).is_empty() {
            return;
        }
        assert!(!Lock::host_is_held(&root));
        let _first = Lock::take_host(&root).unwrap();
        assert!(matches!(Lock::take_host(&root), Err(LockError::Held { .. })), "still one writer");
        assert!(Lock::host_is_held(&root));
    }

    #[test]
    fn only_a_process_that_is_altogether_roots_or_ones_own_counts() {
        let status = |uid: &str, gid: &str| format!("Name:\twattiod\nUid:\t{uid}\nGid:\t{gid}\n");
        let counts = |uid: &str, gid: &str| is_of(&status(uid, gid), [0, 1000], [0, 100]);
        assert!(counts("0\t0\t0\t0", "0\t0\t0\t0"));
        assert!(counts("1000\t1000\t1000\t1000", "100\t100\t100\t100"));
        assert!(!counts("1001\t1001\t1001\t1001", "100\t100\t100\t100"));
        assert!(!counts("1001\t0\t0\t0", "0\t0\t0\t0"), "su");
        assert!(!counts("0\t0\t0\t0", "101\t0\t0\t0"), "sudo");
        assert!(!is_of("", [0, 0], [0, 0]));
        assert!(is_live(std::process::id()) && !is_live(0) && !is_live(u32::MAX));
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
        // A chain of errors said it twice.
        assert!(std::error::Error::source(&Lock::take(&inner).unwrap_err()).is_none());
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        given_back(|| Lock::take(&inner));
        if geteuid().is_root() {
            let link = folder.path().join("link");
            symlink(&inner, &link).unwrap();
            given_back(|| Lock::take(&link));
            lchown(&link, Some(65534), None).unwrap();
            assert!(matches!(Lock::take(&link), Err(LockError::Untrusted(_))), "planted");
            chown(&inner, Some(65534), None).unwrap();
            assert!(matches!(Lock::take(&inner), Err(LockError::Untrusted(_))));
        }
    }
}
