//! Taking over the machine: what an earlier daemon left is restored first.

use crate::log::detail;
use std::path::Path;
use thiserror::Error;
use wattio_governor::{RestorableWriter, Restored, SnapshotError};
use wattio_host::config::DaemonConfig;
use wattio_host::hold;
pub use wattio_host::hold::{Locks, describe};
use wattio_host::knobs::KnobConfig;
use wattio_host::lock::LockError;
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

/// Takes over the machine: restores what an earlier run left, and is ready to write then.
///
/// # Errors
/// [`StateError`]; nothing was touched if the snapshot cannot be read.
pub fn take_hold(
    folder: &Path,
    config: Option<&DaemonConfig>,
    root: &Root,
    locks: &Locks,
) -> Result<(RestorableWriter, Restored), StateError> {
    let knobs = || config.into_iter().flat_map(|config| &config.knobs);
    let commands: Vec<_> = knobs().flat_map(|knob| knob.commands().iter().cloned()).collect();
    let machine = LinuxMachine::new(root.clone(), &commands)
        .map_err(|error| StateError::Commands(error.to_string()))?
        .with_drives(knobs().filter_map(KnobConfig::drives).collect())
        .telling(|address, value| detail(|| format!("writes {value:?} to {address}")));
    Ok(hold::take_hold(folder, machine, root, locks)?)
}
