//! A rank's way to a writer on another node: a rank there relays its blocks.

use crate::block::{self, Attributes};
use crate::client::check_share;
use crate::connection::{Doorbell, Woken};
use crate::error::{Error, Result, host, kernel};
use crate::frame::{self, Frames, FromRank, LIST_MAX, ToRank, fate};
use crate::peers::Peers;
use crate::shared::Shared;
use crate::slot::Fate;
use crate::transport::{Declared, Nap, Open, Part, Placed, Transport};
use crate::turns::Turns;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use zerocopy::IntoBytes;

/// Words of private memory: what blocks are filled in begins at multiples of 8 bytes.
type Buffer = Vec<u64>;

/// A rank's end.
pub struct Remote {
    frames: Frames,
    peers: Arc<dyn Peers>,
    relay: usize,
    share: u64,
    attributes_max: u64,
    /// Memory for a block of each variable, used again step after step.
    buffers: Vec<Buffer>,
    fates: Vec<Fate>,
    failures: u64,
    last_failure: (u64, String),
    ending: bool,
    /// What is being handed over.
    posting: Option<Posting>,
    /// How many blocks there is room for that have not been sent.
    granted: usize,
    refused: Option<String>,
    closing: Arc<AtomicBool>,
    stalls: u64,
    ear: Arc<Ear>,
}

/// How far a post has come: the writer's node makes room for its blocks bit by bit.
#[derive(Debug, Default)]
struct Posting {
    /// Of so many blocks the other end was told.
    told: usize,
    /// So many have been sent to it.
    sent: usize,
    /// Whether it was told of all, and of the end.
    whole: bool,
    /// Whether some have been sent of those that it was told of last.
    answered: bool,
}

/// What wakes threads that wait beside a rank's end for what its writer tells.
struct Ear {
    stream: TcpStream,
    /// Rung for who sleeps at the stream where another thread has heard what came over it.
    doorbell: Doorbell,
    turns: Turns,
}

/// A sleep beside a rank's end.
struct BesideRemote {
    ear: Arc<Ear>,
    turn: u64,
}

impl Nap for BesideRemote {
    fn sleep(&self, until: Option<Instant>) -> Result<bool> {
        let woken = self.ear.turns.sleep(self.turn, until, || {
            let (stream, doorbell) = (&self.ear.stream, &self.ear.doorbell);
            loop {
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                let left = left.and_then(|left| Timespec::try_from(left).ok());
                let mut polled =
                    [PollFd::new(stream, PollFlags::IN), PollFd::new(doorbell, PollFlags::IN)];
                match rustix::event::poll(&mut polled, left.as_ref()) {
                    Ok(0) => return Ok(Woken::TimedOut),
                    Ok(_) => {
                        doorbell.clear();
                        return Ok(Woken::Rung);
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(kernel("waiting for the writer")(error)),
                }
            }
        });
        woken.map(|woken| woken != Woken::TimedOut)
    }
}

impl Remote {
    /// Reach the rank that relays, and wait until it lets this one in.
    ///
    /// # Errors
    ///
    /// `Host`.
    pub fn connect(
        address: &str,
        relay: usize,
        token: &str,
        peers: Arc<dyn Peers>,
    ) -> Result<Self> {
        let rank = peers.rank();
        let what = format!("rank {rank} cannot reach rank {relay} at {address}");
        let stream = frame::reach(address, crate::connection::START).map_err(host(&what))?;
        let ear = Ear {
            stream: stream.try_clone().map_err(host(&what))?,
            doorbell: Doorbell::new()?,
            turns: Turns::default(),
        };
        let frames = Frames::new(stream)?;
        frames.say(&FromRank::Hello { rank, token: token.to_owned() })?;
        let mut own = Self {
            frames,
            peers,
            relay,
            share: 0,
            attributes_max: 0,
            buffers: Vec::new(),
            fates: Vec::new(),
            failures: 0,
            last_failure: (0, String::new()),
            ending: false,
            posting: None,
            granted: 0,
            refused: None,
            closing: Arc::default(),
            stalls: 0,
            ear: Arc::new(ear),
        };
        let welcome =
            own.hear(Some(Instant::now() + crate::connection::START), |told| match told {
                ToRank::Welcome { share, attributes_max } => Some((*share, *attributes_max)),
                _ => None,
            })?;
        (own.share, own.attributes_max) =
            welcome.ok_or_else(|| Error::Host(format!("{what}: it does not answer")))?;
        Ok(own)
    }

    /// The connection, and whether its end is wanted: for whoever watches.
    ///
    /// # Errors
    ///
    /// `Host`.
    pub fn watched(&self) -> Result<(TcpStream, Arc<AtomicBool>)> {
        let stream = self.frames.stream().try_clone().map_err(host("a connection"))?;
        Ok((stream, Arc::clone(&self.closing)))
    }

    /// Sleep until something is said that `wanted` takes, or until a moment; all else is noted.
    fn hear<T>(
        &mut self,
        until: Option<Instant>,
        wanted: impl Fn(&ToRank) -> Option<T>,
    ) -> Result<Option<T>> {
        loop {
            while let Some(told) = self.frames.hear::<ToRank>()? {
                let found = wanted(&told);
                self.take(told);
                if found.is_some() {
                    return Ok(found);
                }
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut polled = [PollFd::new(self.frames.stream(), PollFlags::IN)];
            match rustix::event::poll(&mut polled, left.as_ref()) {
                Ok(0) => return Ok(None),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(kernel("waiting for the writer")(error)),
            }
        }
    }

    fn take(&mut self, told: ToRank) {
        match told {
            ToRank::Settled(dropped, failed) => {
                self.fates.push(fate(dropped, failed.as_ref()));
                if let Some(failed) = failed {
                    self.failures += 1;
                    self.last_failure = failed;
                }
            }
            ToRank::Send(count) => self.granted += count as usize,
            ToRank::Refused(text) => self.refused = Some(text),
            ToRank::Ending => self.ending = true,
            ToRank::Ended | ToRank::Welcome { .. } => return,
        }
        // It may be what another thread sleeps for, which sees nothing any more on the stream.
        if self.ear.turns.wake() {
            self.ear.doorbell.ring();
        }
    }

    /// Tell of as many of the blocks that are left as go in one message.
    fn announce(&self, mut posting: Posting, open: &Open, part: Part<'_>) -> Result<Posting> {
        let Part { declared, step, end, attributes } = part;
        let left = &open.placed[posting.told..];
        let (some, others) = left.split_at(fitting(left, declared));
        posting.whole = others.is_empty();
        let mut encoded = Vec::new();
        let none = Attributes::new();
        block::put_attributes(&mut encoded, if posting.whole { attributes } else { &none });
        self.frames.say(&FromRank::Post {
            step,
            end: end && posting.whole,
            blocks: some.iter().map(|one| declared[one.variable].encoded.clone()).collect(),
            attributes: encoded,
        })?;
        posting.told += some.len();
        posting.answered = false;
        Ok(posting)
    }

    /// Send blocks that there is room for.
    fn send(&mut self, posting: &mut Posting, open: &Open, declared: &[Declared]) -> Result<()> {
        // The first answer comes at once where there is room.
        self.stalls += u64::from(posting.answered);
        posting.answered = true;
        let count = std::mem::take(&mut self.granted).min(posting.told - posting.sent);
        for one in &open.placed[posting.sent..posting.sent + count] {
            let bytes = declared[one.variable].bytes as usize;
            let words = &self.buffers[one.data as usize];
            self.peers.send(&words.as_bytes()[..bytes], self.relay)?;
        }
        posting.sent += count;
        Ok(())
    }
}

/// How many of these blocks can be told of in one message; one at least.
fn fitting(placed: &[Placed], declared: &[Declared]) -> usize {
    let mut bytes = 0;
    let too_many = |one: &Placed| {
        bytes += declared[one.variable].encoded.len() as u64;
        bytes > LIST_MAX
    };
    placed.iter().position(too_many).map_or(placed.len(), |count| count.max(1))
}

impl Transport for Remote {
    fn attributes_max(&self) -> u64 {
        self.attributes_max
    }

    fn check_share(&self, declared: &Declared) -> Result<()> {
        check_share(declared, self.share)
    }

    fn reserve(
        &mut self,
        open: &mut Open,
        declared: &[Declared],
        which: usize,
        _: u64,
    ) -> Result<Option<u64>> {
        self.check_share(&declared[which])?;
        if self.buffers.len() < declared.len() {
            self.buffers.resize_with(declared.len(), Buffer::new);
        }
        self.buffers[which].resize(declared[which].bytes.div_ceil(8) as usize, 0);
        open.head_bytes += declared[which].encoded.len() as u64;
        Ok(Some(which as u64))
    }

    fn place(&mut self, data: u64, bytes: u64) -> Result<*mut u8> {
        let found = self.buffers.get_mut(data as usize);
        match found.filter(|buffer| buffer.len() as u64 >= bytes.div_ceil(8)) {
            Some(buffer) => Ok(buffer.as_mut_ptr().cast()),
            None => Err(Error::Host("a block has no memory".to_owned())),
        }
    }

    fn memory(&self) -> Option<Arc<Shared>> {
        None
    }

    fn post(&mut self, open: &mut Open, part: Part<'_>) -> Result<bool> {
        let mut posting = self.posting.take().unwrap_or_default();
        loop {
            if posting.sent == posting.told {
                if posting.whole {
                    open.placed.clear();
                    open.head_bytes = 0;
                    open.posted = true;
                    return Ok(true);
                }
                posting = self.announce(posting, open, part)?;
                continue;
            }
            while self.granted == 0
                && self.refused.is_none()
                && let Some(told) = self.frames.hear()?
            {
                self.take(told);
            }
            if let Some(text) = self.refused.take() {
                return Err(Error::Input(text));
            }
            if self.granted == 0 {
                self.posting = Some(posting);
                return Ok(false);
            }
            self.send(&mut posting, open, part.declared)?;
        }
    }

    fn settled(&mut self) -> Result<u64> {
        while let Some(told) = self.frames.hear::<ToRank>()? {
            self.take(told);
        }
        Ok(self.fates.len() as u64)
    }

    fn fate(&self, number: u64) -> Fate {
        self.fates.get(number as usize).copied().unwrap_or(Fate::Failed)
    }

    fn failures(&self) -> u64 {
        self.failures
    }

    fn last_failure(&self) -> (u64, u64, String) {
        (self.failures, self.last_failure.0, self.last_failure.1.clone())
    }

    fn is_ending(&self) -> bool {
        self.ending
    }

    fn check_alive(&self) -> Result<()> {
        // Whoever watches ends the job.
        Ok(())
    }

    fn stalls(&self) -> u64 {
        self.stalls
    }

    fn nap(&self) -> Box<dyn Nap> {
        Box::new(BesideRemote { ear: Arc::clone(&self.ear), turn: self.ear.turns.number() })
    }

    fn close(&mut self) -> Result<()> {
        if self.closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.frames.say(&FromRank::Close)?;
        self.hear(None, |told| matches!(told, ToRank::Ended).then_some(()))?;
        let _ = self.frames.stream().shutdown(std::net::Shutdown::Both);
        Ok(())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Ends the thread that watches.
        self.closing.store(true, Ordering::Release);
        let _ = self.frames.stream().shutdown(std::net::Shutdown::Both);
    }
}

#[cfg(test)]
pub(crate) mod tests;
