//! The only code that writes to a machine. It saves the old value before the first write, reads
//! back each write, lets go of places that others change, and restores.

mod held;
mod outcome;
mod restore;
mod side_effects;
mod write;

pub use outcome::{Applied, Note, Restored, Unrestored};

use crate::knob::{Address, Assignment, Machine, MachineError, MachineView};
use crate::snapshot::{SnapshotError, SnapshotStore};
use held::{Held, Written};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Writes to a machine and can always undo it. Dropping restores.
pub struct RestorableWriter {
    machine: Box<dyn Machine>,
    store: Box<dyn SnapshotStore>,
    boot_id: String,
    held: BTreeMap<Address, Held>,
    released: BTreeSet<Address>,
    /// Places of which it is known whether they are heirs: to look for these takes long.
    asked: BTreeSet<Address>,
    rank: u64,
    inspected: Option<Address>,
    /// How many places were held, or asked of, at the last sweep for those that are gone.
    swept: usize,
    /// Whether the disk has old values that are not to be put back any more.
    outdated: bool,
}

impl RestorableWriter {
    /// Takes over a machine. What an earlier run left in the store is restored first; what cannot
    /// be restored stays saved with its old value.
    ///
    /// Values from another boot are dropped if the machine forgot them too; if the boot is unknown
    /// (an empty `boot_id`), none are.
    ///
    /// # Errors
    /// When there is a snapshot that cannot be read: nothing is touched then.
    pub fn open(
        machine: Box<dyn Machine>,
        mut store: Box<dyn SnapshotStore>,
        boot_id: &str,
    ) -> Result<(Self, Restored), SnapshotError> {
        let left_behind = store.load()?;
        let mut writer = Self {
            machine,
            store,
            boot_id: boot_id.to_owned(),
            held: BTreeMap::new(),
            released: BTreeSet::new(),
            asked: BTreeSet::new(),
            rank: 0,
            inspected: None,
            swept: 0,
            outdated: false,
        };
        let Some(snapshot) = left_behind else { return Ok((writer, Restored::default())) };
        let unknown = boot_id.is_empty() || snapshot.boot_id.is_empty();
        let same_boot = unknown || snapshot.boot_id == boot_id;
        for saved in snapshot.saved {
            if same_boot || writer.machine.outlives_boot(&saved.address) {
                writer.hold(&saved.knob, saved.address.clone(), saved.value);
                let in_doubt = saved.marks.is_empty() && !writer.machine.has_parts(&saved.address);
                if let Some(held) = writer.held.get_mut(&saved.address) {
                    (held.marks, held.in_doubt) = (saved.marks, in_doubt);
                }
            }
        }
        let restored = writer.restore()?;
        Ok((writer, restored))
    }

    /// Applies a knob's assignments in order. Each one is tried independently. Where old values cannot
    /// be saved, what was saved before is written all the same: a full disk keeps back no core.
    pub fn apply(&mut self, knob: &str, assignments: &[Assignment]) -> Applied {
        let mut applied = Applied::default();
        let kept = self.save_before(knob, assignments, &mut applied);
        if let Err(error) = &kept {
            let message =
                format!("old values cannot be saved, so nothing new was written: {error}");
            applied.notes.push(Note::Failed { knob: knob.to_owned(), message });
        }
        // All are written before any is waited for, so that values settle in parallel.
        let mut unsettled = Vec::new();
        for assignment in assignments {
            if kept.is_err() && !self.is_saved(assignment) {
                continue;
            }
            match self.write_one(knob, assignment, &mut applied) {
                Ok(None) => {}
                Ok(Some(value)) => unsettled.push((&assignment.address, value)),
                Err(error) => self.note_failure(knob, error, &mut applied),
            }
        }
        for (address, value) in unsettled {
            if let Err(error) = self.settle(address, &value) {
                self.note_failure(knob, error, &mut applied);
            }
        }
        assignments.iter().for_each(|assignment| self.resolve_doubt(&assignment.address));
        self.forget_restored();
        if self.outdated {
            // If this fails, the snapshot holds some old values too many; the next call tries again.
            let _ = self.keep();
        }
        applied
    }

    fn note_failure(&mut self, knob: &str, error: MachineError, applied: &mut Applied) {
        match error {
            MachineError::Gone { address } => self.forget(&address),
            error => applied.fail(knob, &error),
        }
    }

    /// Checks up to `count` of the places written to, the next ones at each call, and releases
    /// those that somebody else changed.
    pub fn inspect(&mut self, count: usize) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut left = count.min(self.held.len());
        while left > 0 {
            let next = self.next_held(left);
            if next.is_empty() {
                break;
            }
            for (address, written) in next {
                left -= 1;
                self.inspected = Some(address.clone());
                let (held, told) = (self.held.len(), notes.len());
                self.inspect_one(&address, written, &mut notes);
                if (self.held.len(), notes.len()) != (held, told) {
                    // What comes next may be gone with it.
                    break;
                }
            }
        }
        notes
    }

    /// The next places to be checked, round and round, with what was written there. All in one pass:
    /// to find one among the long names of hundreds takes longer than to read it.
    fn next_held(&self, count: usize) -> Vec<(Address, Written)> {
        let from = self.inspected.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.held.range((from, Bound::Unbounded)).chain(&self.held).take(count);
        next.map(|(address, held)| (address.clone(), held.written.clone())).collect()
    }

    fn inspect_one(&mut self, address: &Address, written: Written, notes: &mut Vec<Note>) {
        if self.released.contains(address) {
            return;
        }
        let Written::Read(written) = written else {
            if self.machine.is_gone(address) {
                self.forget(address);
            }
            return;
        };
        match self.stands(address, &written) {
            Ok(found) => notes.extend(self.notice(address, &written, found)),
            Err(MachineError::Gone { .. }) => self.forget(address),
            Err(MachineError::Refused { .. }) => {}
        }
    }

    /// A read-only view of the machine.
    pub fn look(&mut self) -> &mut dyn MachineView {
        &mut *self.machine
    }

    /// See [`Machine::share_time`]; a restore takes the time that it needs.
    pub fn share_time(&mut self, shared: bool) {
        self.machine.share_time(shared);
    }

    /// How many places' old values are saved.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The places that were left to somebody else.
    pub fn released(&self) -> impl Iterator<Item = &Address> {
        self.released.iter()
    }

    /// What stands at a place that was told `told`. It may show something else for a moment, before
    /// what limited it or no longer does is in force: only what is still there after that is somebody
    /// else's.
    fn stands(&mut self, address: &Address, told: &str) -> Result<String, MachineError> {
        let found = self.machine.read(address)?;
        let found = self.behind_limit(address, told, found);
        if self.machine.took(address, told, &found) {
            return Ok(found);
        }
        self.machine.settle(address, told);
        let found = self.machine.read(address)?;
        Ok(self.behind_limit(address, told, found))
    }

    /// What stands at a place that was told `told` and shows `found`: the former, if the latter only
    /// shows because something limits it for now. Otherwise a limit of the firmware's would count as
    /// somebody else's write, and so would its end.
    fn behind_limit(&self, address: &Address, told: &str, found: String) -> String {
        let shows_it = self.machine.took(address, told, &found);
        let limited = !shows_it && self.machine.is_limited(address, told, &found);
        if limited { told.to_owned() } else { found }
    }

    /// Releases a place that no longer holds what was written, after putting back whatever part of
    /// it is still ours; what cannot be put back stays saved until the restore.
    fn notice(&mut self, address: &Address, written: &str, found: String) -> Option<Note> {
        if self.machine.took(address, written, &found) {
            return None;
        }
        let knob = self.held.get(address).map(|held| held.knob.clone()).unwrap_or_default();
        let before: Vec<_> =
            self.held.get(address).map(|held| held.saved(address)).into_iter().collect();
        self.adopt(&before);
        if !self.machine.has_parts(address) || self.put_parts_back(address).is_ok() {
            self.forget(address);
        }
        self.released.insert(address.clone());
        // If this fails, the snapshot holds one old value too many; the next call tries again.
        self.outdated = true;
        let _ = self.keep();
        let (address, written) = (address.clone(), written.to_owned());
        Some(Note::Foreign { knob, address, written, found })
    }
}

impl Drop for RestorableWriter {
    /// Every way out that unwinds restores; a caller that wants to know the outcome calls
    /// [`RestorableWriter::restore`] first.
    fn drop(&mut self) {
        let _ = self.restore();
    }
}
