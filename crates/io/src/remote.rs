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
    closing: Arc<AtomicBool>,
    stalls: u64,
    ear: Arc<Ear>,
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
                if self.ear.turns.wake() {
                    self.ear.doorbell.ring();
                }
            }
            ToRank::Ending => self.ending = true,
            ToRank::Ended | ToRank::Welcome { .. } | ToRank::Send(_) | ToRank::Refused(_) => {}
        }
    }

    /// Send blocks that have been told of, as there is room for them.
    fn send(&mut self, placed: &[Placed], declared: &[Declared]) -> Result<()> {
        let mut left = placed.iter();
        let mut asked = false;
        while left.len() > 0 {
            // The first answer comes at once where there is room.
            self.stalls += u64::from(asked);
            asked = true;
            let answer = self.hear(None, |told| match told {
                ToRank::Send(count) => Some(Answer::Send(*count)),
                ToRank::Refused(text) => Some(Answer::Refused(text.clone())),
                _ => None,
            })?;
            match answer {
                Some(Answer::Send(count)) => {
                    for one in left.by_ref().take(count as usize) {
                        let bytes = declared[one.variable].bytes as usize;
                        let words = &self.buffers[one.data as usize];
                        self.peers.send(&words.as_bytes()[..bytes], self.relay)?;
                    }
                }
                Some(Answer::Refused(text)) => return Err(Error::Input(text)),
                None => {}
            }
        }
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

/// What answers a post.
enum Answer {
    Send(u32),
    Refused(String),
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
    ) -> Result<u64> {
        self.check_share(&declared[which])?;
        if self.buffers.len() < declared.len() {
            self.buffers.resize_with(declared.len(), Buffer::new);
        }
        self.buffers[which].resize(declared[which].bytes.div_ceil(8) as usize, 0);
        open.head_bytes += declared[which].encoded.len() as u64;
        Ok(which as u64)
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

    fn post(&mut self, open: &mut Open, part: Part<'_>) -> Result<()> {
        let Part { declared, step, end, attributes } = part;
        let placed = std::mem::take(&mut open.placed);
        open.head_bytes = 0;
        open.posted = true;
        let none = Attributes::new();
        let mut left = &placed[..];
        loop {
            let (some, others) = left.split_at(fitting(left, declared));
            left = others;
            let last = left.is_empty();
            let mut encoded = Vec::new();
            block::put_attributes(&mut encoded, if last { attributes } else { &none });
            self.frames.say(&FromRank::Post {
                step,
                end: end && last,
                blocks: some.iter().map(|one| declared[one.variable].encoded.clone()).collect(),
                attributes: encoded,
            })?;
            self.send(some, declared)?;
            if last {
                return Ok(());
            }
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
mod tests;
