//! Putting old values back.

use super::{Held, RestorableWriter, Restored, Unrestored, Written};
use crate::knob::{Address, MachineError};
use crate::snapshot::{Saved, SnapshotError};
use std::collections::BTreeSet;

/// The outcome of restoring one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// It held its old value already.
    AsItWas,
    /// It holds its old value again.
    Written,
    /// Its old value was written, and is not in force yet.
    Coming,
    /// It holds what somebody else set.
    Theirs,
}

/// A place to put back, in the order from the last to the first: whether it is whole, and its rank.
type Waiting = (bool, u64, Address);

impl RestorableWriter {
    /// Puts every old value back, each by itself, and reads it back. Places depend on each other
    /// (no set of processors takes a core that is off), so the rest is tried again as long as that
    /// helps. Places with parts go after the others: whose the parts are only shows once everything else
    /// is restored. Only slow places go after them, as nothing is to wait for a drive that spins up.
    ///
    /// # Errors
    /// When the snapshot could not be brought up to date; the machine is restored all the same.
    pub fn restore(&mut self) -> Result<Restored, SnapshotError> {
        /// Some are born while others are put back.
        const GENERATIONS_MAX: usize = 8;
        let mut outcome = Restored::default();
        // First, while it can still be told whose a change is: our own writes change other places
        // as a side effect.
        self.leave_to_others(&mut outcome);
        // Heirs are found by their parents, which the snapshot names until the end: what is killed
        // here can be done again.
        let parents = self.snapshot().saved;
        self.adopt(&parents);
        for _ in 0..GENERATIONS_MAX {
            outcome.left.clear();
            self.restore_held(false, &mut outcome);
            if self.adopt(&parents).is_empty() {
                break;
            }
        }
        self.restore_held(true, &mut outcome);
        if self.held.is_empty() {
            self.store.clear()?;
            self.outdated = false;
        } else {
            let held: Vec<_> = self.held.keys().cloned().collect();
            held.iter().for_each(|address| self.resolve_doubt(address));
            self.keep()?;
        }
        Ok(outcome)
    }

    /// Puts back what is held of the places that are slow, or of the others, as far as that is possible.
    fn restore_held(&mut self, slow: bool, outcome: &mut Restored) {
        let rank = |(address, held): (&Address, &Held)| {
            (!self.machine.has_parts(address), held.rank, address.clone())
        };
        let these = self.held.iter().filter(|(address, _)| self.machine.is_slow(address) == slow);
        let mut waiting: Vec<_> = these.map(rank).collect();
        waiting.sort_by(|a, b| b.cmp(a));
        let left_before = outcome.left.len();
        while !waiting.is_empty() {
            let before = waiting.len();
            self.machine.share_time(false);
            outcome.left.truncate(left_before);
            waiting = self.restore_all(waiting, outcome);
            if waiting.len() == before {
                break;
            }
        }
    }

    /// Releases the places that hold neither what was written nor the old value.
    fn leave_to_others(&mut self, outcome: &mut Restored) {
        let places: Vec<_> = self.held.keys().cloned().collect();
        // They settle at the same time, and what is somebody else's is not waited for at length.
        self.machine.share_time(true);
        for address in places {
            if self.is_theirs(&address) {
                self.forget(&address);
                outcome.foreign.push(address);
            }
        }
    }

    /// Whether a place holds neither what was written nor the old value, and still does after the time
    /// that what limits it takes to be in force.
    fn is_theirs(&mut self, address: &Address) -> bool {
        let Some(held) = self.held.get(address).cloned() else { return false };
        let unknown = match held.written {
            Written::Read(_) => false,
            Written::Nothing => held.marks.is_empty() && !matches!(held.effect, Written::Read(_)),
            Written::Unread => true,
        };
        if unknown || self.machine.has_parts(address) || !self.looks_foreign(address, &held) {
            return false;
        }
        let told = match &held.written {
            Written::Read(written) => written,
            _ => &held.original,
        };
        self.machine.settle(address, told);
        self.looks_foreign(address, &held)
    }

    /// Whether what a place shows now is neither the old value nor ours.
    fn looks_foreign(&mut self, address: &Address, held: &Held) -> bool {
        let Ok(mut found) = self.machine.read(address) else { return false };
        if let Written::Read(written) = &held.written {
            found = self.behind_limit(address, written, found);
        }
        if self.machine.same(address, &found, &held.original) {
            return false;
        }
        match (&held.written, &held.effect) {
            (Written::Read(written), _) => !self.machine.took(address, written, &found),
            (_, Written::Read(seen)) => !self.is_side_effect(address, &held.original, seen, &found),
            _ => self.machine.put_back(address, &held.original, &held.marks, &found) == found,
        }
    }

    /// Tries each place once, and answers those that refused. All are written before any is waited
    /// for: what settles settles at the same time.
    fn restore_all(&mut self, waiting: Vec<Waiting>, outcome: &mut Restored) -> Vec<Waiting> {
        let (mut refused, mut coming) = (Vec::new(), Vec::new());
        for place in waiting {
            match self.put_back(&place.2) {
                Ok(Back::Coming) => coming.push(place),
                back => self.conclude(place, back, outcome, &mut refused),
            }
        }
        for place in coming {
            let original = self.held.get(&place.2).map(|held| held.original.clone());
            let settled = self.settle(&place.2, &original.unwrap_or_default());
            self.conclude(place, settled.map(|()| Back::Written), outcome, &mut refused);
        }
        refused
    }

    fn put_back(&mut self, address: &Address) -> Result<Back, MachineError> {
        if self.machine.has_parts(address) {
            return self.put_parts_back(address);
        }
        let Some(held) = self.held.get(address) else { return Ok(Back::AsItWas) };
        let (original, written) = (held.original.clone(), held.written.clone());
        let mut found = self.machine.read(address)?;
        if let Written::Read(written) = written {
            found = self.behind_limit(address, &written, found);
        }
        if self.machine.same(address, &found, &original) {
            return Ok(Back::AsItWas);
        }
        let in_force = self.write_and_note(address, &original)?;
        Ok(if in_force { Back::Written } else { Back::Coming })
    }

    /// Releases a place, or keeps it if it was refused.
    fn conclude(
        &mut self,
        place: Waiting,
        back: Result<Back, MachineError>,
        outcome: &mut Restored,
        refused: &mut Vec<Waiting>,
    ) {
        let address = &place.2;
        match back {
            Ok(Back::Written | Back::Coming) => {
                outcome.restored.extend(self.held.get(address).map(|held| Saved {
                    address: address.clone(),
                    value: held.original.clone(),
                    knob: held.knob.clone(),
                    marks: BTreeSet::new(),
                }));
            }
            Ok(Back::Theirs) => outcome.foreign.push(address.clone()),
            Ok(Back::AsItWas) | Err(MachineError::Gone { .. }) => {}
            Err(error) => {
                outcome.left.push(self.unrestored(address, error.to_string()));
                return refused.push(place);
            }
        }
        self.forget(address);
    }

    /// Puts back every part that is ours, until none is left: parts are born while others are put
    /// back, and each is looked at before the old value is let go.
    pub(super) fn put_parts_back(&mut self, address: &Address) -> Result<Back, MachineError> {
        /// One that is not done by then is kept, and tried again.
        const PASSES_MAX: usize = 8;
        let Some(held) = self.held.get(address) else { return Ok(Back::AsItWas) };
        let (original, marks) = (held.original.clone(), held.marks.clone());
        let mut back = Back::AsItWas;
        let mut left = String::new();
        for _ in 0..PASSES_MAX {
            let found = self.machine.read(address)?;
            let target = self.machine.put_back(address, &original, &marks, &found);
            if target == found {
                let theirs =
                    back == Back::AsItWas && !self.machine.same(address, &found, &original);
                return Ok(if theirs { Back::Theirs } else { back });
            }
            if let Some(held) = self.held.get_mut(address) {
                held.written = Written::Unread;
            }
            self.machine.write(address, &target)?;
            back = Back::Written;
            left = format!("{target:?} was written and {found:?} was found before");
        }
        Err(MachineError::Refused { address: address.clone(), message: left })
    }

    fn unrestored(&self, address: &Address, message: String) -> Unrestored {
        let held = self.held.get(address);
        let value = held.map(|held| held.original.clone()).unwrap_or_default();
        let knob = held.map(|held| held.knob.clone()).unwrap_or_default();
        let restore_command = self.machine.restore_command(address, &value);
        let obstacle = self.machine.obstacle(address, &value);
        let message = obstacle.map_or(message, |obstacle| format!("{address}: {obstacle}"));
        let marks = BTreeSet::new();
        Unrestored {
            saved: Saved { address: address.clone(), value, knob, marks },
            message,
            restore_command,
        }
    }
}
