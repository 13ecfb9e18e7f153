//! Writing values, and reading them back.

use super::{Applied, RestorableWriter, Written};
use crate::knob::{Address, Assignment, MachineError, Target};

impl RestorableWriter {
    /// Writes one value, unless it is there already, is not held or has become somebody else's.
    /// Returns the value if it is not in force yet.
    pub(super) fn write_one(
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
        let found = match written {
            Written::Read(written) => {
                let found = self.stands(address, &written)?;
                if let Some(note) = self.notice(address, &written, found.clone()) {
                    applied.notes.push(note);
                    return Ok(None);
                }
                found
            }
            _ => self.machine.read(address)?,
        };
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
    pub(super) fn write_and_note(
        &mut self,
        address: &Address,
        value: &str,
    ) -> Result<bool, MachineError> {
        let endangered = self.held.get(address).map(|held| held.endangers.clone());
        self.leave_side_effects_to_others(endangered.iter().flatten());
        if let Some(held) = self.held.get_mut(address) {
            // Whatever comes of the write, what is found next is not somebody else's.
            held.written = Written::Unread;
        }
        let wrote = self.machine.write(address, value);
        // A write that was refused may still have changed something.
        let mut found = self.machine.read(address)?;
        if wrote.is_ok() {
            found = self.behind_limit(address, value, found);
        }
        let as_wanted = self.machine.took(address, value, &found);
        self.note_write(address, found);
        wrote.map(|()| as_wanted)
    }

    /// Waits until what was written is in force, and reads it back again.
    pub(super) fn settle(&mut self, address: &Address, value: &str) -> Result<(), MachineError> {
        self.machine.settle(address, value);
        let found = self.machine.read(address)?;
        let found = self.behind_limit(address, value, found);
        let as_wanted = self.machine.took(address, value, &found);
        let message = format!("{value:?} was written, but {found:?} was read back");
        self.note_write(address, found);
        if as_wanted {
            return Ok(());
        }
        if let Some(held) = self.held.get_mut(address) {
            // It may still arrive, and must not count as somebody else's then.
            held.written = Written::Unread;
            if !self.machine.has_parts(address) {
                // Nor is it known what becomes of it the next time.
                let marks = self.machine.marks(address, &held.original, value);
                held.marks.retain(|mark| !marks.contains(mark));
            }
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
}
