//! Takes over the machine: makes sure that nobody else acts, and first restores what an earlier
//! program left changed.

use crate::lock::{Lock, LockError};
use crate::{LinuxMachine, Root};
use std::collections::BTreeSet;
use std::path::Path;
use wattio_governor::{
    FileStore, RestorableWriter, Restored, SnapshotError, SnapshotStore, Unrestored,
};

/// The locks of a program that acts: on the host, and on the folder of its snapshot.
#[derive(Debug)]
pub struct Locks {
    _host: Option<Lock>,
    _folder: Lock,
}

impl Locks {
    /// Takes both.
    ///
    /// # Errors
    /// [`LockError`] when somebody else has one of them.
    pub fn take(folder: &Path, root: &Root) -> Result<Self, LockError> {
        Ok(Self { _host: Lock::take_host(root)?, _folder: Lock::take(folder)? })
    }
}

/// The file of old values in its folder.
const SNAPSHOT: &str = "snapshot.json";

/// Whether old values wait there for their restore.
#[must_use]
pub fn is_held(folder: &Path) -> bool {
    folder.join(SNAPSHOT).exists()
}

/// The knobs whose old values wait there for their restore.
///
/// # Errors
/// [`SnapshotError`] when they cannot be read: only root may read root's.
pub fn knobs_held(folder: &Path) -> Result<BTreeSet<String>, SnapshotError> {
    let snapshot = FileStore::new(folder.join(SNAPSHOT)).load()?;
    Ok(snapshot.into_iter().flat_map(|held| held.saved).map(|saved| saved.knob).collect())
}

/// Takes over a machine: restores what an earlier run left in the folder, and is ready to write then.
///
/// # Errors
/// [`SnapshotError`]; nothing was touched if the snapshot cannot be read.
pub fn take_over(
    folder: &Path,
    machine: LinuxMachine,
    root: &Root,
    _locks: &Locks,
) -> Result<(RestorableWriter, Restored), SnapshotError> {
    let boot_id = root.read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let store = FileStore::new(folder.join(SNAPSHOT));
    RestorableWriter::open(Box::new(machine), Box::new(store), &boot_id)
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
