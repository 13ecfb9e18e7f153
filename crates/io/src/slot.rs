//! What a client and its writer share: a queue of entries, what became of dumps, and room for data.
//!
//! ```text
//! page 0   words, each written by one side only, and the text of the last failure
//! then     ENTRIES entries of 64 bytes, filled by the client
//! then     what became of the last SETTLED dumps, a word for each, filled by the writer
//! then     data
//! ```
//!
//! An entry is a part of a dump, or its end, with the list of its blocks. Neither side ever waits for
//! the other within these calls; whoever waits sleeps at a counter of the kernel (`connection`).

use crate::error::{Error, Result};
use crate::ring::ALIGNMENT;
use crate::shared::{Shared, WORD};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

/// The form of this memory: library and writer have to be of the same.
pub const MAGIC: u64 = 0x7761_7474_696f_0001;
/// Entries that may be on their way.
pub const ENTRIES: u64 = 256;
/// Dumps of which it is remembered what became of them.
pub const SETTLED: u64 = 1024;
/// Dumps that a client may be ahead of its writer.
pub const WINDOW: u64 = 64;
/// Bytes for lists of blocks: a sixteenth of those for data, within limits.
const HEADS_MIN: u64 = 64 << 10;
const HEADS_MAX: u64 = 4 << 20;
/// Bytes of the text of a failure, at most.
const TEXT_MAX: u64 = 2048;
/// How often the text of a failure is looked at, which changes: first at once, then between pauses.
const TRIES: u32 = 1000;
const SPINS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(100);
/// What is told of a failure whose cause is not known.
pub const UNKNOWN: &str = "it did not reach its file";

const POSTED: usize = WORD;
const DONE: usize = 2 * WORD;
const DUMPS_DONE: usize = 3 * WORD;
const ASLEEP: usize = 4 * WORD;
const FAILURES: usize = 5 * WORD;
const FAILED_STEP: usize = 6 * WORD;
const FAILED_LENGTH: usize = 7 * WORD;
const SETTLED_COUNT: usize = 8 * WORD;
const ENDING: usize = 9 * WORD;
const SHARE: usize = 10 * WORD;
const TEXT: u64 = 1024;
const FIRST_ENTRY: usize = 4096;
const ENTRY_BYTES: usize = 64;
const FIRST_SETTLED: usize = FIRST_ENTRY + ENTRIES as usize * ENTRY_BYTES;
/// Where data begin.
pub const DATA: u64 = (FIRST_SETTLED + SETTLED as usize * WORD) as u64;

/// What a client hands over at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The dump, counted from 0.
    pub number: u64,
    /// Its step.
    pub step: u64,
    /// Whether nothing of this dump follows.
    pub end: bool,
    /// Where the list of its blocks lies.
    pub head: u64,
    /// Bytes of that list.
    pub head_bytes: u64,
}

/// What became of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is whole, and has its name.
    Whole,
    /// It was given up since the buffer was full.
    Dropped,
    /// Something went wrong.
    Failed,
}

/// The memory of one client.
#[derive(Debug)]
pub struct Slot(Arc<Shared>);

impl Slot {
    /// Reserve a slot with so much room for data, and some for lists of blocks. A writer's call.
    ///
    /// # Errors
    ///
    /// `Host` where there is no such room.
    pub fn create(rank: usize, share: u64) -> Result<Self> {
        let share = (share / ALIGNMENT * ALIGNMENT).max(ALIGNMENT);
        let heads = (share / 16).clamp(HEADS_MIN, HEADS_MAX).next_multiple_of(ALIGNMENT);
        let bytes = usize::try_from(DATA + share + heads)
            .map_err(|_| Error::Host(format!("a buffer of {share} B is too large")))?;
        let memory = Shared::create(&format!("dumps-{rank}"), bytes)?;
        memory.word(SHARE).store(share, Relaxed);
        memory.word(0).store(MAGIC, Release);
        Ok(Self(Arc::new(memory)))
    }

    /// Map the slot that a writer has made. A client's call.
    ///
    /// # Errors
    ///
    /// `Host` where it cannot be mapped, or where the writer is of another version.
    pub fn open(file: OwnedFd, bytes: u64) -> Result<Self> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let memory = Shared::open(file, bytes)?;
        if memory.bytes() < DATA as usize || memory.word(0).load(Acquire) != MAGIC {
            return Err(Error::Host(
                "the writer is of another version than this library: install both from one package"
                    .to_owned(),
            ));
        }
        Ok(Self(Arc::new(memory)))
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<Shared> {
        &self.0
    }

    /// The same slot, for its counts alone: blocks are filled by whoever holds this one.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts(Self(Arc::clone(&self.0)))
    }

    /// The bytes of a block that has its place, to be filled by whoever holds the slot.
    #[must_use]
    pub fn block(&mut self, offset: u64, bytes: u64) -> Option<&mut [u8]> {
        self.0.slice_mut(offset, bytes)
    }

    /// Bytes for data.
    #[must_use]
    pub fn share(&self) -> u64 {
        self.0.word(SHARE).load(Relaxed).min(self.0.bytes() as u64 - DATA)
    }

    /// Bytes for lists of blocks, after the data.
    #[must_use]
    pub fn heads_bytes(&self) -> u64 {
        self.0.bytes() as u64 - DATA - self.share()
    }

    /// Hand an entry over; the caller has seen that there is room for it. Whatever was written before
    /// is seen by whoever sees the entry.
    pub fn post(&self, entry: Entry) {
        let posted = self.0.word(POSTED).load(Relaxed);
        let at = FIRST_ENTRY + (posted % ENTRIES) as usize * ENTRY_BYTES;
        let words = [entry.number, entry.step, u64::from(entry.end), entry.head, entry.head_bytes];
        for (index, value) in words.into_iter().enumerate() {
            self.0.word(at + index * WORD).store(value, Relaxed);
        }
        self.0.word(POSTED).store(posted + 1, Release);
    }

    /// How many entries have been handed over.
    #[must_use]
    pub fn posted(&self) -> u64 {
        self.0.word(POSTED).load(Acquire)
    }

    /// An entry that has been handed over and is not done.
    #[must_use]
    pub fn entry(&self, index: u64) -> Entry {
        let at = FIRST_ENTRY + (index % ENTRIES) as usize * ENTRY_BYTES;
        let word = |index: usize| self.0.word(at + index * WORD).load(Relaxed);
        Entry {
            number: word(0),
            step: word(1),
            end: word(2) != 0,
            head: word(3),
            head_bytes: word(4),
        }
    }

    /// How many entries are done: their memory is the client's again.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.0.word(DONE).load(Acquire)
    }

    /// Of how many dumps the writer needs nothing any more.
    #[must_use]
    pub fn dumps_done(&self) -> u64 {
        self.0.word(DUMPS_DONE).load(Acquire)
    }

    /// So many entries, and dumps, are done.
    pub fn finish(&self, entries: u64, dumps: u64) {
        self.0.word(DUMPS_DONE).store(dumps, Release);
        self.0.word(DONE).store(entries, SeqCst);
    }

    /// The client is about to sleep, or awake again.
    pub fn set_asleep(&self, asleep: bool) {
        self.0.word(ASLEEP).store(u64::from(asleep), SeqCst);
        // Whoever is about to sleep looks once more, and after this.
        std::sync::atomic::fence(SeqCst);
    }

    /// Whether the client sleeps, or is about to.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.0.word(ASLEEP).load(SeqCst) != 0
    }

    /// The writer takes no more: it has been told to end.
    pub fn set_ending(&self) {
        self.0.word(ENDING).store(1, SeqCst);
    }

    /// Whether the writer takes no more.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.0.word(ENDING).load(Acquire) != 0
    }

    /// The next dump has this fate. A writer's call, in the order of dumps.
    pub fn settle(&self, fate: Fate) {
        let count = self.0.word(SETTLED_COUNT).load(Relaxed);
        let at = FIRST_SETTLED + (count % SETTLED) as usize * WORD;
        self.0.word(at).store(fate as u64, Relaxed);
        self.0.word(SETTLED_COUNT).store(count + 1, SeqCst);
    }

    /// How many dumps have a fate.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.0.word(SETTLED_COUNT).load(Acquire)
    }

    /// The fate of a dump that is settled, and not long ago.
    #[must_use]
    pub fn fate(&self, number: u64) -> Fate {
        let at = FIRST_SETTLED + (number % SETTLED) as usize * WORD;
        match self.0.word(at).load(Relaxed) {
            0 => Fate::Whole,
            1 => Fate::Dropped,
            _ => Fate::Failed,
        }
    }

    /// Tell of a dump that failed. A writer's call.
    pub fn fail(&self, step: u64, text: &str) {
        let mut end = text.len().min(TEXT_MAX as usize);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // Odd while the text changes.
        let count = self.0.word(FAILURES).load(Relaxed);
        self.0.word(FAILURES).store(count + 1, SeqCst);
        let fits = self.0.write(TEXT, &text.as_bytes()[..end]);
        self.0.word(FAILED_LENGTH).store(if fits { end as u64 } else { 0 }, Relaxed);
        self.0.word(FAILED_STEP).store(step, Relaxed);
        self.0.word(FAILURES).store(count + 2, SeqCst);
    }

    /// How many dumps have failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.0.word(FAILURES).load(Acquire) / 2
    }

    /// How many dumps have failed; the step and the error of the last. A writer that was killed while it
    /// told of one never ends that: such a failure is not counted, and nothing is known of its cause.
    #[must_use]
    pub fn last_failure(&self) -> (u64, u64, String) {
        for tried in 0..TRIES {
            let count = self.0.word(FAILURES).load(SeqCst);
            let length = self.0.word(FAILED_LENGTH).load(Relaxed).min(TEXT_MAX);
            let step = self.0.word(FAILED_STEP).load(Relaxed);
            let text = self.0.read(TEXT, length).unwrap_or_default();
            if count.is_multiple_of(2) && self.0.word(FAILURES).load(SeqCst) == count {
                return (count / 2, step, String::from_utf8_lossy(&text).into_owned());
            }
            if tried < SPINS {
                std::hint::spin_loop();
            } else {
                // It may wait for a core.
                std::thread::sleep(PAUSE);
            }
        }
        (self.failures(), self.0.word(FAILED_STEP).load(Relaxed), UNKNOWN.to_owned())
    }
}

/// What a client that sleeps looks at.
#[derive(Debug)]
pub struct Counts(Slot);

impl Counts {
    /// How many entries are done, and how many dumps have a fate.
    #[must_use]
    pub fn seen(&self) -> (u64, u64) {
        (self.0.done(), self.0.settled())
    }

    /// As `Slot::set_asleep`.
    pub fn set_asleep(&self, asleep: bool) {
        self.0.set_asleep(asleep);
    }
}

/// What all clients of a writer share: which dumps are being written, and which are given up.
#[derive(Debug)]
pub struct Board(Shared);

/// Bytes of a board.
pub const BOARD_BYTES: usize = 4096;
const BEGUN: u64 = 1;
const DROPPED: u64 = 2;
const STATES: u64 = 2 * WINDOW;

impl Board {
    /// Make a board, for a writer.
    ///
    /// # Errors
    ///
    /// `Host` where there is no memory.
    pub fn create() -> Result<Self> {
        Shared::create("board", BOARD_BYTES).map(Self)
    }

    /// Map a writer's board.
    ///
    /// # Errors
    ///
    /// `Host` where it cannot be mapped.
    pub fn open(file: OwnedFd) -> Result<Self> {
        Shared::open(file, BOARD_BYTES).map(Self)
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &Shared {
        &self.0
    }

    /// Begin to write a dump; false where it has been given up.
    #[must_use]
    pub fn begin(&self, number: u64) -> bool {
        self.change(number, BEGUN)
    }

    /// Give a dump up that nobody has begun to write; whether that was so.
    #[must_use]
    pub fn drop_dump(&self, number: u64) -> bool {
        self.change(number, DROPPED)
    }

    fn state(&self, number: u64) -> &std::sync::atomic::AtomicU64 {
        self.0.word((number % STATES) as usize * WORD)
    }

    fn change(&self, number: u64, state: u64) -> bool {
        // What is there from an older dump of the same place, or nothing, means untouched.
        let change =
            |now: u64| (now / 4 != number || now.is_multiple_of(4)).then_some(number * 4 + state);
        self.state(number).fetch_update(SeqCst, SeqCst, change).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_as_they_were_posted_and_the_ring_goes_round() {
        let writer = Slot::create(0, 4096).unwrap();
        let file = writer.memory().file().try_clone().unwrap();
        let client = Slot::open(file, writer.memory().bytes() as u64).unwrap();
        for number in 0..3 * ENTRIES {
            let entry = Entry { number, step: 7 * number, end: true, head: DATA, head_bytes: 9 };
            client.post(entry);
            assert_eq!((writer.posted(), writer.entry(number)), (number + 1, entry));
            writer.finish(number + 1, number + 1);
            writer.settle(if number % 2 == 0 { Fate::Whole } else { Fate::Dropped });
            assert_eq!((client.done(), client.settled()), (number + 1, number + 1));
        }
        assert_eq!(client.fate(2 * ENTRIES + 1), Fate::Dropped);
    }

    #[test]
    fn the_last_failure_is_told_and_cut_at_a_letter() {
        let slot = Slot::create(0, 64).unwrap();
        slot.fail(4, "the disk is full");
        assert_eq!(slot.last_failure(), (1, 4, "the disk is full".to_owned()));
        slot.fail(5, &"ü".repeat(2000));
        let (count, step, text) = slot.last_failure();
        assert_eq!((count, step, text.chars().count()), (2, 5, 1024));
    }

    #[test]
    fn a_failure_of_which_a_killed_writer_told_half_is_told_without_its_cause() {
        let slot = Slot::create(0, 64).unwrap();
        slot.fail(4, "the disk is full");
        slot.memory().word(FAILURES).store(3, SeqCst);
        assert_eq!(slot.failures(), 1);
        assert_eq!(slot.last_failure(), (1, 4, UNKNOWN.to_owned()));
    }

    #[test]
    fn what_is_no_slot_is_refused() {
        let other = Shared::create("other", DATA as usize).unwrap();
        let file = other.file().try_clone().unwrap();
        let told = Slot::open(file, DATA).unwrap_err().to_string();
        assert!(told.contains("another version"), "{told}");
    }

    #[test]
    fn a_dump_is_begun_or_dropped_never_both() {
        let board = Board::create().unwrap();
        assert!(board.begin(0) && !board.drop_dump(0));
        assert!(board.drop_dump(1) && !board.begin(1));
        // The same place, a round later.
        assert!(board.begin(STATES) && !board.drop_dump(STATES));
        assert!(board.drop_dump(STATES + 1) && !board.drop_dump(STATES + 1));
    }
}
