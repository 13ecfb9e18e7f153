//! How a rank's blocks get to a writer: by memory that both share, or by messages to another node. A
//! session does not know which.

use crate::block::{self, Attributes, Variable};
use crate::error::Result;
use crate::shared::Shared;
use crate::slot::Fate;
use std::sync::Arc;
use std::time::Instant;

/// A block that has its place.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Which of the session's variables.
    pub variable: usize,
    /// Where its data lie, in bytes from the start of the memory.
    pub data: u64,
    /// Whether they are complete.
    pub committed: bool,
}

/// What is open of a dump: blocks that have not been handed over yet.
#[derive(Debug, Default)]
pub struct Open {
    /// The blocks.
    pub placed: Vec<Placed>,
    /// Bytes that the list of them takes.
    pub head_bytes: u64,
    /// Whether a part of the dump was handed over already.
    pub posted: bool,
}

/// A declared variable, with what is the same for each of its blocks.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The variable.
    pub variable: Variable,
    /// It in bytes, as lists of blocks have it.
    pub encoded: Vec<u8>,
    /// Bytes of its data.
    pub bytes: u64,
}

impl Declared {
    /// A variable, or one that has changed.
    #[must_use]
    pub fn new(variable: Variable) -> Self {
        let (encoded, bytes) = (block::encode(&variable), variable.bytes());
        Self { variable, encoded, bytes }
    }
}

/// What is handed over of a dump, besides the blocks that are open: a part of it, or its end.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The session's variables.
    pub declared: &'a [Declared],
    /// The dump's step.
    pub step: u64,
    /// Whether nothing of the dump follows.
    pub end: bool,
    /// Attributes of the step, with its end.
    pub attributes: &'a Attributes,
}

/// A sleep until something may have changed for the dumps of a transport, which others use meanwhile.
pub trait Nap: Send {
    /// Sleep, or until a moment; false where that has come. What has changed since this was had ends it
    /// at once.
    ///
    /// # Errors
    ///
    /// `Host` where the writer has died.
    fn sleep(&self, until: Option<Instant>) -> Result<bool>;
}

/// One rank's way to its writer. No call but `close` waits for the writer: whoever has to sleeps at a
/// `nap`, and lets others use the session meanwhile.
pub trait Transport: Send {
    /// Bytes that the attributes of a variable may take, and those of a step.
    fn attributes_max(&self) -> u64;

    /// Whether a block can ever have room.
    ///
    /// # Errors
    ///
    /// `Input`.
    fn check_share(&self, declared: &Declared) -> Result<()>;

    /// Room for a block of the open dump, and where it lies; `None` where there is none yet: to be asked
    /// again after a sleep.
    ///
    /// # Errors
    ///
    /// `Input` for what can never fit, `Host` where the writer has died.
    fn reserve(
        &mut self,
        open: &mut Open,
        declared: &[Declared],
        which: usize,
        step: u64,
    ) -> Result<Option<u64>>;

    /// Where a block that has its place lies in this process's memory.
    ///
    /// # Errors
    ///
    /// `Host` where that is nowhere.
    fn place(&mut self, data: u64, bytes: u64) -> Result<*mut u8>;

    /// The memory that blocks lie in, where a writer shares it: it stays for as long as somebody holds it.
    fn memory(&self) -> Option<Arc<Shared>>;

    /// Hand over what is open; false where there is no room yet, for all or for a part of it: to be asked
    /// again after a sleep, and nothing is to be added meanwhile.
    ///
    /// # Errors
    ///
    /// `Input` where attributes are larger than all room for them, `Host` where the writer has died.
    fn post(&mut self, open: &mut Open, part: Part<'_>) -> Result<bool>;

    /// How many dumps have a fate.
    ///
    /// # Errors
    ///
    /// `Host` where the writer has died.
    fn settled(&mut self) -> Result<u64>;

    /// The fate of a dump that has one.
    fn fate(&self, number: u64) -> Fate;

    /// How many dumps have failed.
    fn failures(&self) -> u64;

    /// How many dumps have failed; the step and the error of the last.
    fn last_failure(&self) -> (u64, u64, String);

    /// Whether the writer takes no more.
    fn is_ending(&self) -> bool;

    /// Whether the writer is there, as far as is known.
    ///
    /// # Errors
    ///
    /// `Host` where it has died.
    fn check_alive(&self) -> Result<()>;

    /// How often the rank has slept since there was no room.
    fn stalls(&self) -> u64;

    /// What to sleep at, beside this, until there may be more room, or more dumps have a fate; to be had
    /// before one asks for either.
    fn nap(&self) -> Box<dyn Nap>;

    /// Hand nothing over any more, and wait until everything is written.
    ///
    /// # Errors
    ///
    /// `Host` where the writer has died.
    fn close(&mut self) -> Result<()>;
}
