//! Places whose old values are saved: in memory, and on the disk before anything is written.

use super::{Applied, RestorableWriter};
use crate::knob::{Address, Assignment, MachineError, Target};
use crate::snapshot::{Saved, Snapshot, SnapshotError};
use std::collections::BTreeSet;

/// A place whose old value is saved.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) knob: String,
    pub(super) original: String,
    pub(super) written: Written,
    /// What the values that were written leave there, see [`MachineView::marks`].
    pub(super) marks: BTreeSet<String>,
    /// Whether these do not tell whose a value is: then the disk has none of them.
    pub(super) in_doubt: bool,
    /// Whether writes elsewhere change the place, and the machine may make any value of it then.
    pub(super) altered: bool,
    /// Places that writes here change as a side effect.
    pub(super) endangers: BTreeSet<Address>,
    /// What was found here after the last write elsewhere that endangers it.
    pub(super) effect: Written,
    /// When it was saved, among the others.
    pub(super) rank: u64,
}

impl Held {
    pub(super) fn saved(&self, address: &Address) -> Saved {
        Saved {
            address: address.clone(),
            value: self.original.clone(),
            knob: self.knob.clone(),
            marks: if self.in_doubt { BTreeSet::new() } else { self.marks.clone() },
        }
    }
}

/// What is known of the last write to a held place, or of the last one that endangers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// There was none.
    Nothing,
    /// The value could not be read back: whatever is found next may be ours.
    Unread,
    /// What was read back.
    Read(String),
}

/// The next sweep comes once this many places more than twice those of the last one are held.
const UNSWEPT_MAX: usize = 64;

impl RestorableWriter {
    /// Saves the old value of every place that is about to be written for the first time, and of
    /// the places that these writes endanger.
    pub(super) fn save_before(
        &mut self,
        knob: &str,
        assignments: &[Assignment],
        applied: &mut Applied,
    ) -> Result<(), SnapshotError> {
        let (mut new, mut marked, mut doubted) = (Vec::new(), Vec::new(), Vec::new());
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
                        let found = self.machine.unlimited(address, found);
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
                    let found = self.machine.unlimited(endangered, found);
                    self.hold(knob, endangered.clone(), found);
                    new.push(endangered.clone());
                }
                doubted.extend(self.expect_changes(endangered));
            }
            if let Some(held) = self.held.get_mut(address) {
                held.endangers.extend(endangers.iter().cloned());
                if !self.machine.same(address, value, &held.original) {
                    let marks = self.machine.marks(address, &held.original, value);
                    let fresh: Vec<_> = marks.difference(&held.marks).cloned().collect();
                    held.marks.extend(fresh.iter().cloned());
                    if !fresh.is_empty() && !held.in_doubt && self.machine.may_alter(address) {
                        held.in_doubt = true;
                        doubted.push(address.clone());
                    }
                    marked.extend(fresh.into_iter().map(|mark| (address.clone(), mark)));
                }
            }
        }
        if new.is_empty() && marked.is_empty() && doubted.is_empty() {
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
            for address in &doubted {
                if let Some(held) = self.held.get_mut(address) {
                    (held.in_doubt, held.altered) = (false, false);
                }
            }
            new.iter().for_each(|address| self.forget(address));
        }
        kept
    }

    /// Takes note that a write is to change this place as a side effect: its address, if the disk has
    /// marks that mean nothing from then on.
    fn expect_changes(&mut self, endangered: &Address) -> Option<Address> {
        let held = self.held.get_mut(endangered)?;
        if held.altered || !self.machine.may_alter(endangered) {
            return None;
        }
        held.altered = true;
        let told = !std::mem::replace(&mut held.in_doubt, true) && !held.marks.is_empty();
        told.then(|| endangered.clone())
    }

    /// Takes note of whether the marks of what was written tell what stands at a place from what others
    /// set there.
    pub(super) fn resolve_doubt(&mut self, address: &Address) {
        let Some(held) = self.held.get_mut(address) else { return };
        let in_doubt = match &held.written {
            _ if self.machine.has_parts(address) => false,
            _ if held.altered => true,
            Written::Nothing => held.in_doubt,
            Written::Unread => true,
            Written::Read(found) if self.machine.same(address, found, &held.original) => false,
            Written::Read(found) => {
                let back = self.machine.put_back(address, &held.original, &held.marks, found);
                held.marks.is_empty() || back == *found
            }
        };
        if std::mem::replace(&mut held.in_doubt, in_doubt) != in_doubt && !held.marks.is_empty() {
            self.outdated = true;
        }
    }

    /// Whether the disk has all that undoing this takes. What a write endangers may be new each time,
    /// so that one is saved on its way back only.
    pub(super) fn is_saved(&self, assignment: &Assignment) -> bool {
        let Assignment { address, target, endangers } = assignment;
        let Some(held) = self.held.get(address) else { return false };
        let Target::Set(value) = target else { return true };
        let marks = || self.machine.marks(address, &held.original, value);
        self.machine.same(address, value, &held.original)
            || (endangers.is_empty() && marks().is_subset(&held.marks))
    }

    /// Holds the heirs of places whose old values are saved, with what would be theirs; answers
    /// those that are new.
    pub(super) fn adopt(&mut self, of: &[Saved]) -> Vec<Address> {
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

    pub(super) fn hold(&mut self, knob: &str, address: Address, original: String) {
        self.rank += 1;
        let (knob, rank) = (knob.to_owned(), self.rank);
        let written = Written::Nothing;
        let (marks, endangers) = (BTreeSet::new(), BTreeSet::new());
        let effect = Written::Nothing;
        let (in_doubt, altered) = (false, false);
        let held =
            Held { knob, original, written, marks, in_doubt, altered, endangers, effect, rank };
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

    pub(super) fn forget(&mut self, address: &Address) {
        self.held.remove(address);
        self.asked.remove(address);
    }

    /// Brings the disk up to date.
    pub(super) fn keep(&mut self) -> Result<(), SnapshotError> {
        self.store.save(&self.snapshot())?;
        self.outdated = false;
        Ok(())
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut held: Vec<_> = self.held.iter().collect();
        held.sort_by_key(|(_, held)| held.rank);
        let mut snapshot = Snapshot::new(&*self.boot_id);
        snapshot.saved.extend(held.into_iter().map(|(address, held)| held.saved(address)));
        snapshot
    }
}
