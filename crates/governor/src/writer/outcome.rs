//! What a write or a restore did.

use crate::knob::{Address, MachineError};
use crate::snapshot::Saved;

/// A note for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A value could not be read, saved, written, or was not what was read back.
    Failed {
        /// Which knob.
        knob: String,
        /// What was wrong.
        message: String,
    },
    /// Somebody else changed a held place: it is theirs now.
    Foreign {
        /// Which knob.
        knob: String,
        /// Where.
        address: Address,
        /// What wattio had written.
        written: String,
        /// The value there now.
        found: String,
    },
}

/// The outcome of some assignments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Values written.
    pub writes: u32,
    /// What went wrong, and what others took over.
    pub notes: Vec<Note>,
}

/// A place that could not be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrestored {
    /// Where, and the value that belongs there.
    pub saved: Saved,
    /// Why not.
    pub message: String,
    /// The command by which a person can do it.
    pub restore_command: String,
}

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Places that hold their old value again, and did not before.
    pub restored: Vec<Saved>,
    /// Places that somebody else changed meanwhile: left as they are.
    pub foreign: Vec<Address>,
    /// Places that could not be restored; they stay in the snapshot.
    pub left: Vec<Unrestored>,
}

impl Applied {
    /// Whether something was not done.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.notes.iter().any(|note| matches!(note, Note::Failed { .. }))
    }

    pub(super) fn fail(&mut self, knob: &str, error: &MachineError) {
        let (knob, message) = (knob.to_owned(), error.to_string());
        self.notes.push(Note::Failed { knob, message });
    }
}
