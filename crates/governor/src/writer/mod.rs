//! The only code that writes to a machine: saves before the first write, reads back after each,
//! releases what others change, and restores.

mod outcome;
mod restore;
mod side_effects;

pub use outcome::{Applied, Note, Restored, Unrestored};

use crate::knob::{Address, Assignment, Machine, MachineError, MachineView, Target};
use crate::snapshot::{Saved, Snapshot, SnapshotError, SnapshotStore};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A place whose old value is saved.
#[derive(Clone, Debug)]
struct Held {
    knob: String,
    original: String,
    written: Written,
    /// What the values that were written leave there, see [`MachineView::marks`].
    marks: BTreeSet<String>,
    /// Places that writes here change as a side effect.
    endangers: BTreeSet<Address>,
    /// What was found here after the last write elsewhere that endangers it.
    effect: Written,
    /// When it was saved, among the others.
    rank: u64,
}

impl Held {
    fn saved(&self, address: &Address) -> Saved {
        Saved {
            address: address.clone(),
            value: self.original.clone(),
            knob: self.knob.clone(),
            marks: self.marks.clone(),
        }
    }
}

/// What is known of the last write to a held place, or of the last one that endangers it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Written {
    /// There was none.
    Nothing,
    /// The value could not be read back: whatever is found next may be ours.
    Unread,
    /// What was read back.
    Read(String),
}

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

/// The next sweep comes once this many places more than twice those of the last one are held.
const UNSWEPT_MAX: usize = 64;

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
                if let Some(held) = writer.held.get_mut(&saved.address) {
                    held.marks = saved.marks;
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
        for _ in 0..count.min(self.held.len()) {
            let from = self.inspected.take().map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.held.range((from, Bound::Unbounded)).next();
            let Some((address, held)) = next.or_else(|| self.held.iter().next()) else { break };
            let (address, written) = (address.clone(), held.written.clone());
            self.inspected = Some(address.clone());
            if self.released.contains(&address) {
                continue;
            }
            let Written::Read(written) = written else {
                if self.machine.is_gone(&address) {
                    self.forget(&address);
                }
                continue;
            };
            match self.machine.read(&address) {
                Ok(found) => notes.extend(self.notice(&address, &written, found)),
                Err(MachineError::Gone { .. }) => self.forget(&address),
                Err(MachineError::Refused { .. }) => {}
            }
        }
        notes
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

    /// Saves the old value of every place that is about to be written for the first time, and of
    /// the places that these writes endanger.
    fn save_before(
        &mut self,
        knob: &str,
        assignments: &[Assignment],
        applied: &mut Applied,
    ) -> Result<(), SnapshotError> {
        let (mut new, mut marked) = (Vec::new(), Vec::new());
        let is_new = |at: &&Address| {
            let known = self.held.contains_key(*at) || self.released.contains(*at);
            self.machine.has_parts(at) && !known && !self.asked.contains(*at)
        };
        let addresses = assignments.iter().map(|assignment| &assignment.address);
        let asked: Vec<_> = addresses.filter(is_new).cloned().collect();
        if !asked.is_empty() {
            // What was born to a confined process shows its own value nowhere.
            let held = self.snapshot().saved;
            new.extend(self.adopt(&held));
            self.asked.extend(asked);
            if self.asked.len() > 2 * self.swept + UNSWEPT_MAX {
                self.sweep();
            }
        }
        for Assignment { address, target, endangers } in assignments {
            let Target::Set(value) = target else { continue };
            if self.released.contains(address) {
                continue;
            }
            self.leave_side_effects_to_others(endangers.iter().chain([address]));
            if !self.held.contains_key(address) {
                match self.machine.read(address) {
                    Ok(found) if self.machine.same(address, &found, value) => continue,
                    Ok(found) => {
                        self.hold(knob, address.clone(), found);
                        new.push(address.clone());
                    }
                    Err(MachineError::Gone { .. }) => continue,
                    Err(error) => {
                        applied.fail(knob, &error);
                        continue;
                    }
                }
            }
            for endangered in endangers {
                if !self.held.contains_key(endangered)
                    && let Ok(found) = self.machine.read(endangered)
                {
                    self.hold(knob, endangered.clone(), found);
                    new.push(endangered.clone());
                }
            }
            if let Some(held) = self.held.get_mut(address) {
                held.endangers.extend(endangers.iter().cloned());
                if !self.machine.same(address, value, &held.original) {
                    let marks = self.machine.marks(address, &held.original, value);
                    let fresh: Vec<_> = marks.difference(&held.marks).cloned().collect();
                    held.marks.extend(fresh.iter().cloned());
                    marked.extend(fresh.into_iter().map(|mark| (address.clone(), mark)));
                }
            }
        }
        if new.is_empty() && marked.is_empty() {
            return Ok(());
        }
        if self.held.len() > 2 * self.swept + UNSWEPT_MAX {
            self.sweep();
        }
        let kept = self.keep();
        if kept.is_err() {
            for (address, mark) in &marked {
                if let Some(held) = self.held.get_mut(address) {
                    held.marks.remove(mark);
                }
            }
            new.iter().for_each(|address| self.forget(address));
        }
        kept
    }

    /// Whether the disk has all that undoing this takes. What a write endangers may be new each time,
    /// so that one is saved on its way back only.
    fn is_saved(&self, assignment: &Assignment) -> bool {
        let Assignment { address, target, endangers } = assignment;
        let Some(held) = self.held.get(address) else { return false };
        let Target::Set(value) = target else { return true };
        let marks = || self.machine.marks(address, &held.original, value);
        self.machine.same(address, value, &held.original)
            || (endangers.is_empty() && marks().is_subset(&held.marks))
    }

    /// Writes one value, unless it is there already, is not held or has become somebody else's.
    /// Returns the value if it is not in force yet.
    fn write_one(
        &mut self,
        knob: &str,
        assignment: &Assignment,
        applied: &mut Applied,
    ) -> Result<Option<String>, MachineError> {
        let address = &assignment.address;
        // Not held: as wanted already, not readable, or left to somebody else.
        let Some(held) = self.held.get(address) else { return Ok(None) };
        if self.released.contains(address) {
            return Ok(None);
        }
        let target = match (&assignment.target, &held.written) {
            (Target::Set(value), _) => value.clone(),
            (Target::Original, Written::Nothing) => return Ok(None),
            (Target::Original, _) => held.original.clone(),
        };
        let written = held.written.clone();
        let found = self.machine.read(address)?;
        if let Written::Read(written) = written
            && let Some(note) = self.notice(address, &written, found.clone())
        {
            applied.notes.push(note);
            return Ok(None);
        }
        if self.machine.same(address, &found, &target) {
            return Ok(None);
        }
        if let Some(held) = self.held.get_mut(address) {
            held.knob = knob.to_owned();
        }
        applied.writes += 1;
        let in_force = self.write_and_note(address, &target)?;
        Ok((!in_force).then_some(target))
    }

    /// Writes and reads back; returns whether the value is in force already.
    fn write_and_note(&mut self, address: &Address, value: &str) -> Result<bool, MachineError> {
        let endangered = self.held.get(address).map(|held| held.endangers.clone());
        self.leave_side_effects_to_others(endangered.iter().flatten());
        if let Some(held) = self.held.get_mut(address) {
            // Whatever comes of the write, what is found next is not somebody else's.
            held.written = Written::Unread;
        }
        let wrote = self.machine.write(address, value);
        // A write that was refused may still have changed something.
        let found = self.machine.read(address)?;
        let as_wanted = self.machine.took(address, value, &found);
        self.note_write(address, found);
        wrote.map(|()| as_wanted)
    }

    /// Waits until what was written is in force, and reads it back again.
    fn settle(&mut self, address: &Address, value: &str) -> Result<(), MachineError> {
        self.machine.settle(address, value);
        let found = self.machine.read(address)?;
        let as_wanted = self.machine.took(address, value, &found);
        let message = format!("{value:?} was written, but {found:?} was read back");
        self.note_write(address, found);
        if as_wanted {
            return Ok(());
        }
        if let Some(held) = self.held.get_mut(address) {
            // It may still arrive, and must not count as somebody else's then.
            held.written = Written::Unread;
        }
        Err(MachineError::Refused { address: address.clone(), message })
    }

    /// Takes note of what a write changed, here and at the places it endangers.
    fn note_write(&mut self, address: &Address, found: String) {
        let Some(held) = self.held.get_mut(address) else { return };
        let back = self.machine.same(address, &found, &held.original);
        held.written = Written::Read(found);
        self.note_side_effects(address, back);
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

    /// Holds the heirs of places whose old values are saved, with what would be theirs; answers
    /// those that are new.
    fn adopt(&mut self, of: &[Saved]) -> Vec<Address> {
        let mut new = Vec::new();
        for Saved { address, value, knob, marks } in self.machine.heirs(of) {
            if self.held.contains_key(&address) || self.released.contains(&address) {
                continue;
            }
            self.hold(&knob, address.clone(), value);
            if let Some(held) = self.held.get_mut(&address) {
                held.marks = marks;
            }
            new.push(address);
        }
        new
    }

    fn hold(&mut self, knob: &str, address: Address, original: String) {
        self.rank += 1;
        let (knob, rank) = (knob.to_owned(), self.rank);
        let written = Written::Nothing;
        let (marks, endangers) = (BTreeSet::new(), BTreeSet::new());
        let effect = Written::Nothing;
        let held = Held { knob, original, written, marks, endangers, effect, rank };
        self.held.insert(address, held);
    }

    /// Releases all places that are gone, so that places of ended processes do not pile up.
    fn sweep(&mut self) {
        let machine = &mut self.machine;
        self.held.retain(|address, _| !machine.is_gone(address));
        self.released.retain(|address| !machine.is_gone(address));
        self.asked.retain(|address| !machine.is_gone(address));
        self.swept = self.held.len().max(self.asked.len());
    }

    fn forget(&mut self, address: &Address) {
        self.held.remove(address);
        self.asked.remove(address);
    }

    /// Brings the disk up to date.
    fn keep(&mut self) -> Result<(), SnapshotError> {
        self.store.save(&self.snapshot())?;
        self.outdated = false;
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        let mut held: Vec<_> = self.held.iter().collect();
        held.sort_by_key(|(_, held)| held.rank);
        let mut snapshot = Snapshot::new(&*self.boot_id);
        snapshot.saved.extend(held.into_iter().map(|(address, held)| held.saved(address)));
        snapshot
    }
}

impl Drop for RestorableWriter {
    /// Every way out that unwinds restores; a caller that wants to know the outcome calls
    /// [`RestorableWriter::restore`] first.
    fn drop(&mut self) {
        let _ = self.restore();
    }
}
