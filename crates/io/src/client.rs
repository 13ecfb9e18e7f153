//! A rank's end of the memory that it shares with its writer: room for blocks, entries handed over,
//! and sleep until the writer has done something.

use crate::block::{self, Attributes};
use crate::config::WhenFull;
use crate::connection::{self, Address, Doorbell, Woken};
use crate::error::{Error, Result, host};
use crate::ring::Ring;
use crate::shared::Shared;
use crate::slot::{Board, Counts, DATA, ENTRIES, Entry, Fate, Slot, WINDOW};
use crate::transport::{Declared, Nap, Open, Part, Transport};
use crate::turns::Turns;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether a block has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Its data lie there.
    At(u64),
    /// When the writer is done with something.
    Later,
    /// When what is complete of its own dump has been handed over.
    AfterPost,
}

/// How far a writer is: entries that are done, and dumps that have a fate.
type Seen = (u64, u64);

/// What wakes a client, for all threads that wait for its writer.
#[derive(Debug)]
struct Ear {
    counts: Counts,
    doorbell: Doorbell,
    peer: UnixStream,
    turns: Turns,
}

impl Ear {
    /// Sleep until the writer is further than it was seen to be, or until a moment.
    fn sleep(&self, turn: u64, seen: Seen, until: Option<Instant>) -> Result<Woken> {
        self.turns.sleep(turn, until, || {
            self.counts.set_asleep(true);
            let woken = if self.counts.seen() == seen {
                connection::wait(&self.doorbell, &self.peer, until)
            } else {
                Ok(Woken::Rung)
            };
            self.counts.set_asleep(false);
            if woken == Ok(Woken::Spoken) && self.counts.seen() == seen {
                return Err(gone());
            }
            woken
        })
    }
}

/// A client's sleep, beside it.
struct BesideClient {
    ear: Arc<Ear>,
    turn: u64,
    seen: Seen,
}

impl Nap for BesideClient {
    fn sleep(&self, until: Option<Instant>) -> Result<bool> {
        self.ear.sleep(self.turn, self.seen, until).map(|woken| woken != Woken::TimedOut)
    }
}

/// A rank's end.
#[derive(Debug)]
pub struct Client {
    slot: Slot,
    board: Board,
    data: Ring,
    heads: Ring,
    writer: Doorbell,
    ear: Arc<Ear>,
    /// The session's end is wanted: the writer's is no death.
    closing: Arc<AtomicBool>,
    /// The writer's end was seen, unasked.
    dead: Arc<AtomicBool>,
    when_full: WhenFull,
    posted: u64,
    /// The number of the dump that is open, or will be next.
    pub number: u64,
    giving_up: Option<u64>,
    scratch: Vec<u8>,
    /// How often the rank has slept since there was no room.
    pub stalls: u64,
}

impl Client {
    /// Reach a writer.
    ///
    /// # Errors
    ///
    /// `Host`.
    pub fn connect(
        address: &Address,
        rank: usize,
        token: u32,
        when_full: WhenFull,
    ) -> Result<Self> {
        let what = format!("rank {rank} cannot reach its writer at {address}");
        let peer = address.connect().map_err(host(&what))?;
        let number = u32::try_from(rank).map_err(|_| Error::Input(format!("rank {rank}")))?;
        let welcome = connection::greet(&peer, number, token)?;
        let (file, bytes) = welcome.slot;
        let slot = Slot::open(file, bytes)?;
        let memory = Arc::clone(slot.memory());
        // Beside the program, which has other things to do before its first step.
        let _ = thread("wattio-io-map").spawn(move || memory.populate());
        Ok(Self {
            board: Board::open(welcome.board)?,
            data: Ring::new(slot.share()),
            heads: Ring::new(slot.heads_bytes()),
            writer: welcome.writer,
            ear: Arc::new(Ear {
                counts: slot.counts(),
                doorbell: welcome.client,
                peer,
                turns: Turns::default(),
            }),
            closing: Arc::default(),
            dead: Arc::default(),
            when_full,
            posted: 0,
            number: 0,
            giving_up: None,
            scratch: Vec::new(),
            stalls: 0,
            slot,
        })
    }

    /// Bytes for data.
    #[must_use]
    pub fn share(&self) -> u64 {
        self.data.capacity()
    }

    /// Bytes that the attributes of a variable may take, and those of a step: blocks have half of a list.
    #[must_use]
    pub fn attributes_max(&self) -> u64 {
        (self.heads.capacity() / 2).saturating_sub(block::BARE_MAX)
    }

    /// What is shared with the writer.
    #[must_use]
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Call `died` from a thread of its own when the writer is gone without having been asked to.
    ///
    /// # Errors
    ///
    /// `Host` where there can be no thread.
    pub fn watch(&self, died: impl FnOnce() + Send + 'static) -> Result<()> {
        let peer = self.ear.peer.try_clone().map_err(host("the writer cannot be watched"))?;
        let dead = Arc::clone(&self.dead);
        watch(peer, Arc::clone(&self.closing), move || {
            dead.store(true, Ordering::Release);
            died();
        })
    }

    /// Room for a block of the open dump, if there is some now.
    ///
    /// # Errors
    ///
    /// `Input` for what can never fit.
    pub fn try_reserve(
        &mut self,
        open: &mut Open,
        declared: &[Declared],
        which: usize,
    ) -> Result<Room> {
        let (bytes, name) = (declared[which].bytes, &declared[which].variable.name);
        let head_bytes = 8 + declared[which].encoded.len() as u64;
        check_share(&declared[which], self.data.capacity())?;
        // Looked at once: what is done between two looks would be free for one of them alone.
        let done = self.slot.done();
        self.release(done);
        let crowded = open.head_bytes + head_bytes > self.heads.capacity() / 2;
        if !crowded
            && self.may_post()
            && let Some(at) = self.data.take(bytes)
        {
            open.head_bytes += head_bytes;
            return Ok(Room::At(DATA + at));
        }
        let idle = done == self.posted;
        if !crowded && !idle {
            return Ok(Room::Later);
        }
        // Only this dump itself is in the way: what is complete of it can go.
        if open.placed.is_empty() || open.placed.iter().any(|one| !one.committed) {
            return Err(Error::Input(format!(
                "variable {name}: the blocks of this step that are allocated and not committed \
                 leave no room for it in this rank's share of the buffer, {} B: make buffer larger, or \
                 commit what is complete",
                self.data.capacity()
            )));
        }
        Ok(Room::AfterPost)
    }

    /// Hand over what is open, as `post` does, if there is room for the list of its blocks now.
    ///
    /// # Errors
    ///
    /// `Input` for a list that can never fit.
    pub fn try_post(&mut self, open: &mut Open, part: Part<'_>) -> Result<bool> {
        let mut head = std::mem::take(&mut self.scratch);
        put_head(&mut head, open, part);
        let at = self.place_head(&head);
        let head_bytes = head.len() as u64;
        self.scratch = head;
        let Some(head) = at? else { return Ok(false) };
        let Part { step, end, .. } = part;
        self.slot.post(Entry { number: self.number, step, end, head, head_bytes });
        self.data.mark(self.posted);
        self.heads.mark(self.posted);
        self.posted += 1;
        open.placed.clear();
        open.head_bytes = 0;
        open.posted = true;
        if end {
            self.number += 1;
        }
        self.writer.ring();
        Ok(true)
    }

    /// The bytes of a block that has its place, to be filled.
    ///
    /// # Errors
    ///
    /// `Host` where it lies outside.
    pub fn block(&mut self, data: u64, bytes: u64) -> Result<&mut [u8]> {
        self.slot.block(data, bytes).ok_or_else(outside)
    }

    /// What rings when the writer has done something, and what tells that it is gone; for whoever waits
    /// for several.
    #[must_use]
    pub fn wakers(&self) -> (&Doorbell, &UnixStream) {
        (&self.ear.doorbell, &self.ear.peer)
    }

    /// There was no room: what the policy says should give way does.
    pub fn make_room(&mut self) {
        self.stalls += 1;
        if self.when_full == WhenFull::DropOldest {
            self.give_up();
        }
    }

    /// Say that nothing will be handed over any more, without waiting.
    ///
    /// # Errors
    ///
    /// `Host` where the writer has died.
    pub fn say_close(&self) -> Result<()> {
        self.closing.store(true, Ordering::Release);
        connection::say(&self.ear.peer, &[connection::CLOSE]).map_err(|_| gone())
    }

    /// Copy a list of blocks to where it has room; `None` where there is none now.
    fn place_head(&mut self, head: &[u8]) -> Result<Option<u64>> {
        self.release(self.slot.done());
        let bytes = head.len() as u64;
        if self.may_post()
            && let Some(at) = self.heads.take(bytes)
        {
            let at = DATA + self.data.capacity() + at;
            if !self.slot.memory().write(at, head) {
                return Err(Error::Host("the shared memory is too small".to_owned()));
            }
            return Ok(Some(at));
        }
        if bytes > self.heads.capacity() {
            return Err(Error::Input(format!(
                "the attributes of this step take {bytes} B; there is room for {} B",
                self.heads.capacity()
            )));
        }
        Ok(None)
    }

    fn may_post(&self) -> bool {
        self.posted - self.slot.done() < ENTRIES - 1
            && self.number < self.slot.dumps_done() + WINDOW
    }

    fn release(&mut self, done: u64) {
        self.data.release(done);
        self.heads.release(done);
    }

    /// Give up the oldest dump that nobody writes yet, once at a time.
    fn give_up(&mut self) {
        let done = self.slot.dumps_done();
        if self.giving_up.is_some_and(|number| number >= done) {
            return;
        }
        self.giving_up = (done..self.number).find(|&number| self.board.drop_dump(number));
        self.writer.ring();
    }
}

impl Transport for Client {
    fn attributes_max(&self) -> u64 {
        self.attributes_max()
    }

    fn check_share(&self, declared: &Declared) -> Result<()> {
        check_share(declared, self.data.capacity())
    }

    fn reserve(
        &mut self,
        open: &mut Open,
        declared: &[Declared],
        which: usize,
        step: u64,
    ) -> Result<Option<u64>> {
        loop {
            match self.try_reserve(open, declared, which)? {
                Room::At(data) => return Ok(Some(data)),
                Room::Later => {
                    self.make_room();
                    return Ok(None);
                }
                Room::AfterPost => {
                    let attributes = &Attributes::new();
                    if !self.post(open, Part { declared, step, end: false, attributes })? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn place(&mut self, data: u64, bytes: u64) -> Result<*mut u8> {
        let found = self.slot.memory().pointer(data, bytes);
        found.map(NonNull::as_ptr).ok_or_else(outside)
    }

    fn memory(&self) -> Option<Arc<Shared>> {
        Some(Arc::clone(self.slot.memory()))
    }

    fn post(&mut self, open: &mut Open, part: Part<'_>) -> Result<bool> {
        let posted = self.try_post(open, part)?;
        self.stalls += u64::from(!posted);
        Ok(posted)
    }

    fn settled(&mut self) -> Result<u64> {
        Ok(self.slot.settled())
    }

    fn fate(&self, number: u64) -> Fate {
        self.slot.fate(number)
    }

    fn failures(&self) -> u64 {
        self.slot.failures()
    }

    fn last_failure(&self) -> (u64, u64, String) {
        self.slot.last_failure()
    }

    fn is_ending(&self) -> bool {
        self.slot.is_ending()
    }

    fn check_alive(&self) -> Result<()> {
        if self.dead.load(Ordering::Acquire) { Err(gone()) } else { Ok(()) }
    }

    fn stalls(&self) -> u64 {
        self.stalls
    }

    fn nap(&self) -> Box<dyn Nap> {
        // Seen before one looks: the writer does not ring for what it does after that and before the sleep.
        let (turn, seen) = (self.ear.turns.number(), self.ear.counts.seen());
        Box::new(BesideClient { ear: Arc::clone(&self.ear), turn, seen })
    }

    fn close(&mut self) -> Result<()> {
        if self.closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let said = connection::say(&self.ear.peer, &[connection::CLOSE]);
        let mut word = [0];
        while said.is_ok() && word[0] != connection::ENDED {
            match (&self.ear.peer).read(&mut word) {
                Ok(1) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                _ => return Err(gone()),
            }
        }
        let _ = self.ear.peer.shutdown(std::net::Shutdown::Both);
        said.map_err(|_| gone())
    }
}

/// The list of the blocks of an entry, and the attributes of its step.
fn put_head(head: &mut Vec<u8>, open: &Open, part: Part<'_>) {
    head.clear();
    head.extend((open.placed.len() as u32).to_le_bytes());
    for one in &open.placed {
        head.extend(one.data.to_le_bytes());
        head.extend(&part.declared[one.variable].encoded);
    }
    block::put_attributes(head, part.attributes);
}

fn gone() -> Error {
    Error::Host("the writer has died".to_owned())
}

fn outside() -> Error {
    Error::Host("a block lies outside of the shared memory".to_owned())
}

/// Whether a block can ever fit.
///
/// # Errors
///
/// `Input`.
pub fn check_share(declared: &Declared, share: u64) -> Result<()> {
    let (bytes, name) = (declared.bytes, &declared.variable.name);
    if bytes <= share {
        return Ok(());
    }
    Err(Error::Input(format!(
        "variable {name}: {bytes} B are more than this rank's share of the buffer, {share} B: make \
         buffer larger"
    )))
}

impl Drop for Client {
    fn drop(&mut self) {
        // Ends the thread that watches.
        self.closing.store(true, Ordering::Release);
        let _ = self.ear.peer.shutdown(std::net::Shutdown::Both);
    }
}

/// Call `died` from a thread of its own when the other end of a connection is gone, unless that is
/// wanted.
///
/// # Errors
///
/// `Host` where there can be no thread.
pub fn watch(
    peer: impl AsFd + Send + 'static,
    closing: Arc<AtomicBool>,
    died: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let watch = move || {
        use rustix::event::{PollFd, PollFlags};
        loop {
            let mut polled = [PollFd::new(&peer, PollFlags::RDHUP)];
            match rustix::event::poll(&mut polled, None) {
                Err(rustix::io::Errno::INTR) => {}
                _ => break,
            }
        }
        if !closing.load(Ordering::Acquire) {
            died();
        }
    };
    thread("wattio-io").spawn(watch).map(|_| ()).map_err(host("the writer cannot be watched"))
}

/// A thread of little stack: what it calls needs little, and each rank has it.
pub fn thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned()).stack_size(64 << 10)
}

#[cfg(test)]
pub(crate) mod tests;
