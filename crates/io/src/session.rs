//! What a program holds: the same calls for all approaches.
//!
//! No call but `close` waits for the writer. Those that have to say so (`None`, false): then one sleeps at a
//! `nap`, which was had before the call, and calls again. Others may use the session meanwhile.

use crate::block::{self, Attributes, Type, Value, Variable};
use crate::error::{Error, Result};
use crate::shared::Shared;
use crate::slot::{Fate, UNKNOWN};
use crate::transport::{Declared, Nap, Open, Part, Placed, Transport};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Steps go up to this, as in files.
pub const STEP_MAX: u64 = i64::MAX as u64;
/// Variables of a session, at most.
const VARIABLES_MAX: usize = 65536;

/// What a rank's calls have cost, and what became of its dumps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Steps that were handed over.
    pub steps: u64,
    /// Bytes of data in them.
    pub bytes: u64,
    /// Time within calls from `begin_step` to `end_step`, of all threads together.
    pub blocked_s: f64,
    /// How often the rank slept since there was no room.
    pub stalls: u64,
    /// Steps that were given up since the buffer was full.
    pub dropped: Vec<u64>,
    /// Steps that failed.
    pub failed: Vec<u64>,
}

/// One rank's part in the dumps of a program.
pub struct Session {
    transport: Box<dyn Transport>,
    /// Whether each step is waited for.
    synchronous: bool,
    declared: Vec<Declared>,
    names: HashMap<String, usize>,
    current: Option<Current>,
    /// The steps handed over, by their numbers, with what became of them.
    steps: Vec<(u64, Option<Fate>)>,
    settled: usize,
    failures_told: u64,
    report: Report,
    closed: bool,
}

/// A step that has begun.
#[derive(Debug)]
struct Current {
    step: u64,
    attributes: Attributes,
    open: Open,
    /// The variables of which there is a block.
    has: Vec<bool>,
    deferred: Vec<(usize, *const u8)>,
    /// A thread ends the step: nothing may be added to it.
    ending: bool,
}

/// How far the end of a step has come, for whoever ends it.
#[derive(Debug, Default)]
pub struct Ending {
    begun: bool,
    /// How many steps were handed over with this one.
    steps: Option<u64>,
}

// SAFETY is not at stake: the pointers are followed in unsafe calls only, whose caller has promised
// that they may be until the step ends, on whichever thread that is. See `ffi`.

impl Session {
    /// A session of a rank that has reached its writer.
    #[must_use]
    pub fn new(transport: Box<dyn Transport>, synchronous: bool) -> Self {
        Self {
            transport,
            synchronous,
            declared: Vec::new(),
            names: HashMap::new(),
            current: None,
            steps: Vec::new(),
            settled: 0,
            failures_told: 0,
            report: Report::default(),
            closed: false,
        }
    }

    /// Declare a variable, or declare it anew: then its number stays, and its attributes.
    ///
    /// # Errors
    ///
    /// `Input`.
    pub fn declare(
        &mut self,
        name: &str,
        kind: Type,
        count: &[u64],
        place: Option<(&[u64], &[u64])>,
    ) -> Result<usize> {
        self.check_open()?;
        let mut variable = Variable::new(name, kind, count, place)?;
        if let Some(&which) = self.names.get(name) {
            if self.current.as_ref().is_some_and(|one| one.has.get(which) == Some(&true)) {
                return Err(Error::Input(format!(
                    "variable {name}: has a block in this step already: declare it again first"
                )));
            }
            variable.attributes = std::mem::take(&mut self.declared[which].variable.attributes);
            self.declared[which] = Declared::new(variable);
            return Ok(which);
        }
        if self.declared.len() == VARIABLES_MAX {
            return Err(Error::Input(format!(
                "variable {name}: there are {VARIABLES_MAX} already"
            )));
        }
        self.declared.push(Declared::new(variable));
        self.names.insert(name.to_owned(), self.declared.len() - 1);
        Ok(self.declared.len() - 1)
    }

    /// Set an attribute of a variable; or of the step that has begun.
    ///
    /// # Errors
    ///
    /// `Input`.
    pub fn attribute(&mut self, which: Option<usize>, name: &str, value: Value) -> Result<()> {
        self.check_open()?;
        let Some(which) = which else {
            let mut attributes = self.filled()?.attributes.clone();
            block::set_attribute(&mut attributes, name, value)?;
            self.check_room(name, "of this step", &attributes)?;
            self.filled()?.attributes = attributes;
            return Ok(());
        };
        self.check_variable(which)?;
        if self.current.as_ref().is_some_and(|one| one.has.get(which) == Some(&true)) {
            return Err(Error::Input(format!(
                "attribute {name:?}: its variable has a block in this step already: set it before the block"
            )));
        }
        let mut variable = self.declared[which].variable.clone();
        block::set_attribute(&mut variable.attributes, name, value)?;
        self.check_room(name, &format!("of variable {}", variable.name), &variable.attributes)?;
        self.declared[which] = Declared::new(variable);
        Ok(())
    }

    /// Begin a step: steps rise.
    ///
    /// # Errors
    ///
    /// `Input`; `Host` where the writer takes no more.
    pub fn begin_step(&mut self, step: u64) -> Result<()> {
        self.check_open()?;
        // First of all: a step that a dead writer has kept from ending is not the program's fault.
        self.transport.check_alive()?;
        if let Some(current) = &self.current {
            let open = current.step;
            return Err(Error::Input(format!("begin_step({step}): step {open} has not ended")));
        }
        self.check_rises("begin_step", step)?;
        if self.transport.is_ending() {
            return Err(Error::Host(format!(
                "begin_step({step}): the writer has been told to end, and takes no more"
            )));
        }
        self.current = Some(Current {
            step,
            attributes: Attributes::new(),
            open: Open::default(),
            has: vec![false; self.declared.len()],
            deferred: Vec::new(),
            ending: false,
        });
        Ok(())
    }

    /// Give the step that has begun another number, before anything of it was handed over.
    ///
    /// # Errors
    ///
    /// `Input`; `Host` where the writer has died.
    pub fn number_step(&mut self, step: u64) -> Result<()> {
        self.check_open()?;
        self.check_rises("number_step", step)?;
        let current = self.filled()?;
        if current.open.posted {
            return Err(Error::Input(format!(
                "number_step({step}): a part of step {} was handed over already",
                current.step
            )));
        }
        current.step = step;
        Ok(())
    }

    /// Memory for a variable's block in this step, which the writer sees; its content is arbitrary.
    /// It is complete at `commit`, or at the step's end, and must not be touched from then on. `None` where
    /// there is no room yet.
    ///
    /// # Errors
    ///
    /// `Input`; `Host` where the writer has died.
    pub fn allocate(&mut self, which: usize) -> Result<Option<*mut u8>> {
        self.check_block(which)?;
        self.filled()?;
        let Some(data) = self.timed(|session| session.place(which, false))? else {
            return Ok(None);
        };
        let bytes = self.declared[which].bytes;
        self.transport.place(data, bytes).map(Some)
    }

    /// A block that `allocate` has given is complete.
    ///
    /// # Errors
    ///
    /// `Input` where there is none.
    pub fn commit(&mut self, which: usize) -> Result<()> {
        self.check_open()?;
        self.check_variable(which)?;
        let open = &mut self.begun()?.open;
        // The last one, mostly.
        let found = open.placed.iter_mut().rev().find(|one| one.variable == which);
        match found {
            Some(one) => {
                one.committed = true;
                Ok(())
            }
            None => Err(Error::Input(format!(
                "variable {}: nothing is allocated for it in this step",
                self.declared[which].variable.name
            ))),
        }
    }

    /// Copy a variable's block of this step; deferred, it is copied when the step ends. False where there
    /// is no room yet.
    ///
    /// # Errors
    ///
    /// As `allocate`.
    ///
    /// # Safety
    ///
    /// `data` points to the block's bytes, which can be read: now, or until the step has ended. It may be
    /// null.
    #[allow(unsafe_code)]
    pub unsafe fn put(&mut self, which: usize, data: *const u8, deferred: bool) -> Result<bool> {
        self.check_block(which)?;
        self.filled()?;
        let declared = &self.declared[which];
        // What has no elements need not lie anywhere.
        if data.is_null() && declared.bytes > 0 {
            let name = &declared.variable.name;
            return Err(Error::Input(format!("variable {name}: data is NULL")));
        }
        if deferred {
            // Told now: at the step's end, other blocks would go with it.
            self.transport.check_share(&self.declared[which])?;
            let current = self.begun()?;
            current.has[which] = true;
            current.deferred.push((which, data));
            return Ok(true);
        }
        self.timed(|session| {
            // SAFETY: as the caller has promised.
            unsafe { session.place_and_copy(which, data) }
        })
    }

    /// End the step: what was allocated or put belongs to the writer once it is handed over. False where
    /// there is no room yet, or it is to be waited for and has no fate yet: to be called again with the same
    /// `ending`.
    ///
    /// # Errors
    ///
    /// `Input` where what was put deferred has no room beside what is not committed: the step goes on, and
    /// can be ended once that is.
    ///
    /// `StepFailed` where a step, of before mostly, did not reach its file and no call has told yet;
    /// this step is handed over all the same, and the program may go on. `Host` where the writer has
    /// died.
    ///
    /// # Safety
    ///
    /// What was put deferred can still be read.
    #[allow(unsafe_code)]
    pub unsafe fn end_step(&mut self, ending: &mut Ending) -> Result<bool> {
        self.timed(|session| {
            session.check_open()?;
            if !ending.begun {
                session.filled()?.ending = true;
                ending.begun = true;
            }
            if ending.steps.is_none() {
                // SAFETY: as the caller has promised.
                let handed_over = unsafe { session.hand_over() };
                if let (Err(_), Some(current)) = (&handed_over, &mut session.current) {
                    current.ending = false;
                }
                if !handed_over? {
                    return Ok(false);
                }
                ending.steps = Some(session.handed_over());
            }
            match ending.steps {
                Some(steps) if session.synchronous => session.is_flushed(steps),
                _ => {
                    session.look();
                    session.untold().map(|()| true)
                }
            }
        })
    }

    /// Hand the step over; false where there is no room yet.
    ///
    /// # Safety
    ///
    /// What was put deferred can be read.
    #[allow(unsafe_code)]
    unsafe fn hand_over(&mut self) -> Result<bool> {
        // SAFETY: as the caller has promised.
        if !unsafe { self.copy_deferred()? } {
            return Ok(false);
        }
        let Some(current) = &mut self.current else { return Err(not_begun()) };
        let Current { step, ref attributes, .. } = *current;
        let part = Part { declared: &self.declared, step, end: true, attributes };
        if !self.transport.post(&mut current.open, part)? {
            return Ok(false);
        }
        self.current = None;
        self.steps.push((step, None));
        self.report.steps += 1;
        Ok(true)
    }

    /// Whether the first so many steps that were handed over have a fate, as `flush` waits for.
    ///
    /// # Errors
    ///
    /// `StepFailed` where they have, and steps failed of which no call has told yet; `Host` where the
    /// writer has died.
    pub fn is_flushed(&mut self, steps: u64) -> Result<bool> {
        self.check_open()?;
        if self.transport.settled()? < steps {
            return Ok(false);
        }
        self.look();
        self.untold().map(|()| true)
    }

    /// How many steps were handed over.
    #[must_use]
    pub fn handed_over(&self) -> u64 {
        self.steps.len() as u64
    }

    /// What to sleep at, beside this session, until there may be room, or its steps have a fate; to be had
    /// before one looks.
    #[must_use]
    pub fn nap(&self) -> Box<dyn Nap> {
        self.transport.nap()
    }

    /// Time that a call from `begin_step` to `end_step` has slept beside this session.
    pub fn add_blocked(&mut self, slept: Duration) {
        self.report.blocked_s += slept.as_secs_f64();
    }

    /// Whether a step that was handed over is whole, visible and, with `sync`, on the disk.
    ///
    /// # Errors
    ///
    /// `StepFailed` where it never will be; `Input` for a step that was not handed over.
    pub fn is_durable(&mut self, step: u64) -> Result<bool> {
        self.check_open()?;
        self.look();
        let at = self
            .steps
            .binary_search_by_key(&step, |one| one.0)
            .map_err(|_| Error::Input(format!("step {step}: has not been handed over")))?;
        match self.steps[at].1 {
            None => Ok(false),
            Some(Fate::Whole) => Ok(true),
            Some(Fate::Dropped) => {
                Err(Error::StepFailed(format!("step {step}: was given up: the buffer was full")))
            }
            Some(Fate::Failed) => {
                let (count, last, text) = self.transport.last_failure();
                if last == step && count == self.failures_told + 1 {
                    self.failures_told = count;
                }
                let why = if last == step { text } else { UNKNOWN.to_owned() };
                Err(Error::StepFailed(format!("step {step}: {why}")))
            }
        }
    }

    /// Wait until everything is written, and end. What was put into a step that has not ended is left
    /// out: the step has failed. The report can be had even if it fails.
    ///
    /// # Errors
    ///
    /// `StepFailed` where steps failed of which no call has told yet; `Host` where the writer has
    /// died.
    pub fn close(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.closed = true;
        let left = self.current.take().and_then(|current| self.leave_out(&current));
        self.transport.close()?;
        self.look();
        match (self.untold(), left) {
            (Ok(()), Some(text)) => Err(Error::StepFailed(text)),
            (Err(error), Some(text)) => Err(Error::StepFailed(format!("{error}; {text}"))),
            (told, None) => told,
        }
    }

    /// A step that was not ended has failed, if anything was put into it; what to tell of it.
    fn leave_out(&mut self, current: &Current) -> Option<String> {
        if !current.has.contains(&true) {
            return None;
        }
        // What was put deferred has not been copied, nor counted.
        let copied = |which: &usize| !current.deferred.iter().any(|one| one.0 == *which);
        let copied = (0..current.has.len()).filter(|&which| current.has[which]).filter(copied);
        self.report.bytes -= copied.map(|which| self.declared[which].bytes).sum::<u64>();
        self.report.failed.push(current.step);
        Some(format!("step {}: was not ended: what was put into it is left out", current.step))
    }

    /// What it has cost so far, and what became of dumps.
    #[must_use]
    pub fn report(&self) -> Report {
        Report { stalls: self.transport.stalls(), ..self.report.clone() }
    }

    /// What keeps the memory of blocks where it is, after the session, too; none where blocks are sent.
    #[must_use]
    pub fn memory(&self) -> Option<Arc<Shared>> {
        self.transport.memory()
    }

    /// Whether the calls of a program still mean something.
    fn check_open(&self) -> Result<()> {
        if self.closed {
            return Err(Error::Input("the session has ended".to_owned()));
        }
        Ok(())
    }

    /// Whether attributes, of which one is new, can be told to the writer: with them, too, a list of
    /// blocks has to fit where such lists have room.
    fn check_room(&self, name: &str, of: &str, attributes: &Attributes) -> Result<()> {
        let (taken, room) = (block::attributes_bytes(attributes), self.transport.attributes_max());
        if taken <= room {
            return Ok(());
        }
        Err(Error::Input(format!(
            "attribute {name:?}: with it, the attributes {of} take {taken} B; allowed: {room} B: make \
             buffer larger, of which each rank has its share, or the attributes smaller"
        )))
    }

    /// Whether a step may come after those that were handed over.
    fn check_rises(&self, call: &str, step: u64) -> Result<()> {
        if step > STEP_MAX {
            return Err(Error::Input(format!("{call}({step}): steps go up to {STEP_MAX}")));
        }
        match self.steps.last() {
            Some(&(last, _)) if step <= last => Err(Error::Input(format!(
                "{call}({step}): steps begin at 0 and rise; the last was {last}"
            ))),
            _ => Ok(()),
        }
    }

    fn begun(&mut self) -> Result<&mut Current> {
        self.transport.check_alive()?;
        self.current.as_mut().ok_or_else(not_begun)
    }

    /// The step that has begun, and that nobody ends.
    fn filled(&mut self) -> Result<&mut Current> {
        let current = self.begun()?;
        if current.ending {
            let step = current.step;
            return Err(Error::Input(format!("step {step}: another thread is already ending it")));
        }
        Ok(current)
    }

    fn check_variable(&self, which: usize) -> Result<()> {
        if which < self.declared.len() {
            return Ok(());
        }
        Err(Error::Input(format!(
            "variable number {which}: {} are declared, counted from 0",
            self.declared.len()
        )))
    }

    /// Whether a variable may get a block in this step.
    fn check_block(&mut self, which: usize) -> Result<()> {
        self.check_open()?;
        self.check_variable(which)?;
        let count = self.declared.len();
        let current = self.begun()?;
        current.has.resize(count, false);
        if current.has[which] {
            let step = current.step;
            return Err(Error::Input(format!(
                "variable {}: has a block in step {step} already",
                self.declared[which].variable.name
            )));
        }
        Ok(())
    }

    fn place(&mut self, which: usize, committed: bool) -> Result<Option<u64>> {
        self.check_block(which)?;
        let Some(current) = self.current.as_mut() else { return Err(not_begun()) };
        let step = current.step;
        let reserved = self.transport.reserve(&mut current.open, &self.declared, which, step)?;
        let Some(data) = reserved else { return Ok(None) };
        current.open.placed.push(Placed { variable: which, data, committed });
        current.has[which] = true;
        self.report.bytes += self.declared[which].bytes;
        Ok(Some(data))
    }

    /// Copy what was put deferred; false where not all has room yet. What has none stays deferred, with all
    /// that follows: the step does not end without it.
    ///
    /// # Safety
    ///
    /// What was put deferred can be read.
    #[allow(unsafe_code)]
    unsafe fn copy_deferred(&mut self) -> Result<bool> {
        let deferred = std::mem::take(&mut self.begun()?.deferred);
        for (at, &(which, data)) in deferred.iter().enumerate() {
            self.begun()?.has[which] = false;
            // SAFETY: as the caller has promised.
            let copied = unsafe { self.place_and_copy(which, data) };
            if copied != Ok(true) {
                if let Some(current) = &mut self.current {
                    current.has[which] = true;
                    current.deferred = deferred[at..].to_vec();
                }
                return copied;
            }
        }
        Ok(true)
    }

    /// False where there is no room yet.
    ///
    /// # Safety
    ///
    /// As `copy`.
    #[allow(unsafe_code)]
    unsafe fn place_and_copy(&mut self, which: usize, data: *const u8) -> Result<bool> {
        let Some(at) = self.place(which, true)? else { return Ok(false) };
        // SAFETY: as the caller has promised.
        unsafe { self.copy(which, at, data) }.map(|()| true)
    }

    /// # Safety
    ///
    /// `data` points to the block's bytes, which can be read.
    #[allow(unsafe_code)]
    unsafe fn copy(&mut self, which: usize, at: u64, data: *const u8) -> Result<()> {
        let bytes = self.declared[which].bytes;
        let to = self.transport.place(at, bytes)?;
        if bytes > 0 {
            // SAFETY: there is room for so many bytes; the source is as the caller has promised, and is not
            // that room, which programs get by `allocate` only.
            unsafe { std::ptr::copy_nonoverlapping(data, to, bytes as usize) };
        }
        Ok(())
    }

    fn timed<T>(&mut self, call: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let began = Instant::now();
        let found = call(self);
        self.report.blocked_s += began.elapsed().as_secs_f64();
        found
    }

    /// Take note of what became of dumps.
    fn look(&mut self) {
        // That the writer has died is told by the calls that need it.
        let settled =
            self.transport.settled().unwrap_or_default().min(self.steps.len() as u64) as usize;
        for number in self.settled..settled.max(self.settled) {
            let fate = self.transport.fate(number as u64);
            let step = self.steps[number].0;
            self.steps[number].1 = Some(fate);
            match fate {
                Fate::Whole => {}
                Fate::Dropped => self.report.dropped.push(step),
                Fate::Failed => self.report.failed.push(step),
            }
        }
        self.settled = settled.max(self.settled);
    }

    /// Tell of failures that no call has told.
    fn untold(&mut self) -> Result<()> {
        if self.transport.failures() == self.failures_told {
            return Ok(());
        }
        let (count, step, text) = self.transport.last_failure();
        let new = count - self.failures_told;
        self.failures_told = count;
        let more = if new > 1 { format!(" (and {} more)", new - 1) } else { String::new() };
        Err(Error::StepFailed(format!("step {step}: {text}{more}")))
    }
}

fn not_begun() -> Error {
    Error::Input("no step has begun: begin_step comes first".to_owned())
}

#[cfg(test)]
mod tests;
