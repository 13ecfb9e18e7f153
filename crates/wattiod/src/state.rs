//! Takes over the machine: first restores what an earlier daemon left changed.

use crate::keeper;
use crate::log::detail;
use sd_notify::NotifyState;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;
use wattio_governor::{Address, RestorableWriter, Restored, SnapshotError};
use wattio_host::config::DaemonConfig;
use wattio_host::knobs::KnobConfig;
use wattio_host::lock::{LockError, is_live};
use wattio_host::machine::is_slow;
use wattio_host::sources::tracepoint;
use wattio_host::takeover;
pub use wattio_host::takeover::{Locks, describe};
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

/// How long a keeper may take to put back what a killed daemon left: drives spin up, commands run.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a lock may outlive its process: what that one was just starting has the file open until
/// it runs its own program.
const REMAINS: Duration = Duration::from_secs(1);
/// How often it is looked whether it has done so.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Takes the locks, once a keeper that is at work has put everything back.
///
/// # Errors
/// [`LockError`] when somebody else has one of them.
pub fn take_locks(folder: &Path, root: &Root) -> Result<Locks, LockError> {
    let began = Instant::now();
    loop {
        match Locks::take(folder, root) {
            Err(LockError::Held { holder, .. }) if began.elapsed() < patience(holder) => {
                thread::sleep(LOOK_EVERY);
            }
            taken => return taken,
        }
    }
}

/// How long to wait for whoever holds a lock.
fn patience(holder: Option<u32>) -> Duration {
    match holder {
        Some(pid) if keeper::is_one(pid) => PATIENCE,
        Some(pid) if is_live(pid) => Duration::ZERO,
        _ => REMAINS,
    }
}

/// What is told before each write. Drives that spin up one after another may take longer than the
/// watchdog waits for a cycle, and each is given its time.
fn before_write(address: &Address, value: &str) {
    detail(|| format!("writes {value:?} to {address}"));
    if is_slow(address) {
        let _ = sd_notify::notify(&[NotifyState::Watchdog]);
    }
}

/// Takes over the machine: restores what an earlier run left, and is ready to write then.
///
/// # Errors
/// [`StateError`]; nothing was touched if the snapshot cannot be read.
pub fn take_over(
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
        .telling(before_write);
    // What a killed daemon had the kernel record.
    tracepoint::remove_stale(root);
    Ok(takeover::take_over(folder, machine, root, locks)?)
}
