//! The acting side: knobs, and the writer that applies them.

use crate::knob::{Knob, Setting};
use crate::writer::{Applied, Note, RestorableWriter};

/// The acting side of a governor.
pub struct Actuator {
    /// What can be turned.
    pub knobs: Vec<Box<dyn Knob>>,
    /// What writes.
    pub writer: RestorableWriter,
}

impl Actuator {
    /// Asks every knob (or only those that look again) and applies what it returns; stops at
    /// the first failure when slowing down, and continues when speeding up.
    pub fn turn(&mut self, setting: &Setting, faster: bool, again: bool) -> Applied {
        let asked = |knob: &&mut Box<dyn Knob>| !again || knob.looks_again();
        let mut order: Vec<_> = self.knobs.iter_mut().filter(asked).collect();
        order.sort_by_key(|knob| knob.layer());
        if faster {
            order.reverse();
        }
        let mut all = Applied::default();
        for knob in order {
            let machine = self.writer.look();
            let assignments = match again {
                true => knob.assignments_again(setting, machine),
                false => knob.assignments(setting, machine),
            };
            let applied = match assignments {
                Ok(assignments) => self.writer.apply(knob.name(), &assignments),
                Err(error) => {
                    let (knob, message) = (knob.name().to_owned(), error.to_string());
                    let failed = Note::Failed { knob, message };
                    Applied { writes: 0, notes: vec![failed] }
                }
            };
            let failed = applied.failed();
            all.writes += applied.writes;
            all.notes.extend(applied.notes);
            if failed && !faster {
                break;
            }
        }
        all
    }
}
