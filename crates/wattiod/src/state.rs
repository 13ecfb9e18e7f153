//! Taking over the machine: what an earlier daemon left is restored first.

use crate::log::detail;
use std::path::Path;
use thiserror::Error;
use wattio_governor::{FileStore, RestorableWriter, Restored, SnapshotError, Unrestored};
use wattio_host::config::DaemonConfig;
use wattio_host::knobs::KnobConfig;
use wattio_host::lock::{Lock, LockError};
use wattio_host::{LinuxMachine, Root};

/// Why the machine cannot be taken over.
#[derive(Debug, Error)]
pub enum StateError {
    /// Another daemon acts, or the folder cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The snapshot cannot be read or written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The configuration's commands cannot be run.
    #[error("{0}")]
    Commands(String),
}

/// The locks of a daemon that acts: on the host, and on the folder of its snapshot.
#[derive(Debug)]
pub struct Locks {
    _host: Option<Lock>,
    _folder: Lock,
}

impl Locks {
    /// Takes both.
    ///
    /// # Errors
    /// [`StateError::Lock`] when somebody else has one of them.
    pub fn take(folder: &Path, root: &Root) -> Result<Self, StateError> {
        Ok(Self { _host: Lock::take_host(root)?, _folder: Lock::take(folder)? })
    }
}

/// Takes over the machine: restores what an earlier run left, and is ready to write then.
///
/// # Errors
/// [`StateError`]; nothing was touched if the snapshot cannot be read.
pub fn take_hold(
    folder: &Path,
    config: Option<&DaemonConfig>,
    root: &Root,
    _locks: &Locks,
) -> Result<(RestorableWriter, Restored), StateError> {
    let knobs = || config.into_iter().flat_map(|config| &config.knobs);
    let commands: Vec<_> = knobs().flat_map(|knob| knob.commands().iter().cloned()).collect();
    let machine = LinuxMachine::new(root.clone(), &commands)
        .map_err(|error| StateError::Commands(error.to_string()))?
        .with_drives(knobs().filter_map(KnobConfig::drives).collect())
        .telling(|address, value| detail(|| format!("writes {value:?} to {address}")));
    let boot_id = root.read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let store = FileStore::new(folder.join("snapshot.json"));
    Ok(RestorableWriter::open(Box::new(machine), Box::new(store), &boot_id)?)
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
    lines.extend(restored.left.iter().map(|Unrestored { saved, message, restore_command }| {
        format!(
            "NOT restored: {message}\n  {} should be {:?}; by hand: {restore_command}",
            saved.address, saved.value
        )
    }));
    lines
}
