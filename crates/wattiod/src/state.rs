//! The folder of the snapshot: one writer at a time, and what an earlier one left.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use wattio_governor::{FileStore, Hands, LeftOver, Restored, SnapshotError};
use wattio_host::config::DaemonConfig;
use wattio_host::{LinuxMachine, Root};

/// Why the machine cannot be taken hold of.
#[derive(Debug, Error)]
pub enum StateError {
    /// The folder cannot be used.
    #[error("{}: {error}; the daemon keeps there what it has to restore: run it as root, or set service.state", path.display())]
    Folder {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Another daemon has it.
    #[error("another wattiod acts on this host ({} is locked); it restores what it changed when it stops", .0.display())]
    Locked(PathBuf),
    /// The snapshot cannot be read or written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The configuration's commands cannot be run.
    #[error("{0}")]
    Commands(String),
}

/// The one writer: the lock is held as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock in the folder, which is made where it is missing.
    ///
    /// # Errors
    /// [`StateError::Locked`] when another daemon has it.
    pub fn take(folder: &Path) -> Result<Self, StateError> {
        let path = folder.join("lock");
        let failed = |error| StateError::Folder { path: folder.to_owned(), error };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let options = File::options().create(true).truncate(false).write(true).open(&path);
        let file = options.map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StateError::Locked(path)),
            Err(error) => Err(failed(error.into())),
        }
    }
}

/// Takes hold of the machine: restores what an earlier start left, then is ready to write.
///
/// # Errors
/// [`StateError`]; nothing was touched where the snapshot cannot be read.
pub fn take_hold(
    folder: &Path,
    config: Option<&DaemonConfig>,
    root: &Root,
    _lock: &Lock,
) -> Result<(Hands, Restored), StateError> {
    let commands: Vec<_> = config
        .into_iter()
        .flat_map(|config| &config.knobs)
        .flat_map(|knob| knob.commands().iter().cloned())
        .collect();
    let machine = LinuxMachine::new(root.clone(), &commands)
        .map_err(|error| StateError::Commands(error.to_string()))?;
    let boot_id = root.read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let store = FileStore::new(folder.join("snapshot.json"));
    Ok(Hands::open(Box::new(machine), Box::new(store), &boot_id)?)
}

/// What a restore did, for people.
#[must_use]
pub fn describe(restored: &Restored) -> Vec<String> {
    let mut lines: Vec<_> = restored
        .restored
        .iter()
        .map(|saved| format!("restored {} to {:?} ({})", saved.address, saved.value, saved.knob))
        .collect();
    lines.extend(
        restored
            .foreign
            .iter()
            .map(|address| format!("left {address} as it is: somebody else changed it")),
    );
    lines.extend(restored.left.iter().map(|LeftOver { saved, message, mend }| {
        format!(
            "NOT restored: {message}\n  {} should be {:?}; by hand: {mend}",
            saved.address, saved.value
        )
    }));
    lines
}
