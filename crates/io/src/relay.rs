//! A rank on a dedicated node: it relays the blocks of ranks on other nodes to its writer. It sleeps
//! until one has something, and receives only what there is room for.

use crate::block;
use crate::client::{Client, Room};
use crate::connection;
use crate::error::{Error, Result, host, tell};
use crate::frame::{Frames, FromRank, ToRank};
use crate::job::is_same_token;
use crate::peers::Peers;
use crate::slot::{Fate, Slot, UNKNOWN};
use crate::transport::{Declared, Open, Part, Placed};
use rustix::event::{PollFd, PollFlags};
use std::io::Read;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// How long who has connected has to say who it is.
const GREETING: Duration = Duration::from_secs(10);

/// Where ranks of other nodes connect.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    /// The address.
    pub address: String,
}

impl Port {
    /// Listen, on the loopback device alone if all ranks are on this machine.
    ///
    /// # Errors
    ///
    /// `Host`.
    pub fn open(spread: bool) -> Result<Self> {
        let what = "a port for ranks of other nodes";
        let listener = TcpListener::bind((if spread { "0.0.0.0" } else { "127.0.0.1" }, 0))
            .map_err(host(what))?;
        // A wait that a signal has ended, and one who has gone again, leave nobody to be accepted.
        listener.set_nonblocking(true).map_err(host(what))?;
        let port = listener.local_addr().map_err(host(what))?.port();
        let name = if spread {
            rustix::system::uname().nodename().to_string_lossy().into_owned()
        } else {
            "127.0.0.1".to_owned()
        };
        Ok(Self { listener, address: format!("{name}:{port}") })
    }

    /// Who has connected, if somebody has; never waits.
    fn accept(&self) -> Result<Option<Frames>> {
        self.listener.accept().ok().map(|(stream, _)| Frames::new(stream)).transpose()
    }
}

/// A dump, or a part of it, that a rank is handing over.
struct Post {
    step: u64,
    end: bool,
    declared: Vec<Declared>,
    attributes: block::Attributes,
    open: Open,
    next: usize,
}

/// What a rank has been told of.
#[derive(Debug, Default)]
struct Reported {
    dumps: u64,
    failures: u64,
}

impl Reported {
    /// What has become of dumps since the last time. The writer tells the cause of the last failure alone.
    fn fates(&mut self, slot: &Slot, steps: &[u64]) -> Vec<ToRank> {
        let settled = slot.settled();
        let mut found = Vec::new();
        while self.dumps < settled {
            let fate = slot.fate(self.dumps);
            let failed = (fate == Fate::Failed).then(|| {
                self.failures += 1;
                let (count, step, text) = slot.last_failure();
                if count == self.failures {
                    return (step, text);
                }
                let step = steps.get(self.dumps as usize).copied().unwrap_or(step);
                (step, UNKNOWN.to_owned())
            });
            found.push(ToRank::Settled(fate == Fate::Dropped, failed));
            self.dumps += 1;
        }
        found
    }
}

/// A rank on another node.
struct Sender {
    rank: usize,
    frames: Frames,
    local: Client,
    post: Option<Post>,
    /// The steps of its dumps, by their numbers.
    steps: Vec<u64>,
    told: Reported,
    ending: bool,
    closed: bool,
    ended: bool,
}

/// Who relays.
pub struct Relay {
    port: Port,
    ranks: Vec<usize>,
    token: String,
    local: Vec<Client>,
}

impl Relay {
    /// For these ranks, each with its way to the writer of this rank.
    #[must_use]
    pub fn new(port: Port, ranks: Vec<usize>, token: String, local: Vec<Client>) -> Self {
        Self { port, ranks, token, local }
    }

    /// Wait for all ranks. To be called beside their `Remote::connect`.
    ///
    /// # Errors
    ///
    /// `Host`.
    pub fn admit(self) -> Result<Senders> {
        let until = Instant::now() + connection::START;
        let mut waiting: Vec<(usize, Client)> = self.ranks.into_iter().zip(self.local).collect();
        let mut senders = Vec::new();
        // Who has connected and not said yet who it is, each until a moment: others need not wait for it.
        let mut strangers: Vec<(Frames, Instant)> = Vec::new();
        while !waiting.is_empty() {
            let next = strangers.iter().map(|one| one.1).fold(until, Instant::min);
            let left = next.saturating_duration_since(Instant::now());
            let limit = rustix::event::Timespec::try_from(left).ok();
            let mut polled = vec![PollFd::new(&self.port.listener, PollFlags::IN)];
            polled.extend(strangers.iter().map(|one| PollFd::new(one.0.stream(), PollFlags::IN)));
            let _ = rustix::event::poll(&mut polled, limit.as_ref());
            let now = Instant::now();
            if now >= until {
                let missing: Vec<usize> = waiting.iter().map(|one| one.0).collect();
                return Err(Error::Host(format!("ranks {missing:?} did not reach their writer")));
            }
            while let Some(frames) = self.port.accept()? {
                strangers.push((frames, now + GREETING));
            }
            for (mut frames, late) in std::mem::take(&mut strangers) {
                let rank = match greeted(&mut frames, &self.token) {
                    Greeting::Rank(rank) => rank,
                    Greeting::Later if now < late => {
                        strangers.push((frames, late));
                        continue;
                    }
                    Greeting::Later | Greeting::Wrong => continue,
                };
                let Some(at) = waiting.iter().position(|one| one.0 == rank) else { continue };
                let (rank, local) = waiting.remove(at);
                let (share, attributes_max) = (local.share(), local.attributes_max());
                frames.say(&ToRank::Welcome { share, attributes_max })?;
                // Who relays sleeps at the doorbells of all ranks, so that the writer always rings.
                local.slot().set_asleep(true);
                senders.push(Sender {
                    rank,
                    frames,
                    local,
                    post: None,
                    steps: Vec::new(),
                    told: Reported::default(),
                    ending: false,
                    closed: false,
                    ended: false,
                });
            }
        }
        Ok(Senders(senders))
    }
}

/// Who somebody says that it is.
enum Greeting {
    /// A rank that knows the token.
    Rank(usize),
    /// Nothing yet.
    Later,
    /// Nobody who is let in.
    Wrong,
}

/// What somebody who has connected has said; never waits.
fn greeted(frames: &mut Frames, token: &str) -> Greeting {
    match frames.hear() {
        Ok(Some(FromRank::Hello { rank, token: given })) if is_same_token(&given, token) => {
            Greeting::Rank(rank)
        }
        Ok(None) => Greeting::Later,
        Ok(Some(_)) | Err(_) => Greeting::Wrong,
    }
}

/// Ranks that have been let in.
pub struct Senders(Vec<Sender>);

impl Senders {
    /// Relay until all ranks have closed and everything is written. A rank that dies ends only its own
    /// part; the launcher, or whoever watches it, ends the job.
    ///
    /// # Errors
    ///
    /// `Host` where the writer has died.
    pub fn run(mut self, peers: &dyn Peers) -> Result<()> {
        while !self.0.is_empty() {
            // First of all, as they may wait for it: the blocks of others may take long.
            for sender in &mut self.0 {
                sender.tell_fates();
            }
            for sender in &mut self.0 {
                sender.turn(peers)?;
            }
            self.0.retain(|sender| !sender.ended);
            let mut polled = Vec::new();
            for sender in &self.0 {
                let (doorbell, peer) = sender.local.wakers();
                polled.push(PollFd::new(doorbell, PollFlags::IN));
                polled.push(PollFd::new(peer, PollFlags::IN));
                if !sender.closed && sender.post.is_none() {
                    polled.push(PollFd::new(sender.frames.stream(), PollFlags::IN));
                }
            }
            if !polled.is_empty() {
                let _ = rustix::event::poll(&mut polled, None);
            }
            self.0.iter().for_each(|sender| sender.local.wakers().0.clear());
        }
        Ok(())
    }
}

impl Sender {
    /// Do what there is to do, without waiting for anything but blocks that are on their way.
    fn turn(&mut self, peers: &dyn Peers) -> Result<()> {
        if self.turn_with_rank(peers)? {
            return Ok(());
        }
        // The rank is gone: its writer sees that by the end of this way to it.
        tell("wattio-io", &format!("rank {}, whose blocks are relayed, has died", self.rank));
        self.ended = true;
        Ok(())
    }

    /// False where the rank is gone.
    fn turn_with_rank(&mut self, peers: &dyn Peers) -> Result<bool> {
        loop {
            if let Some(post) = self.post.take() {
                match self.go_on(post, peers)? {
                    Some(waiting) => {
                        self.post = Some(waiting);
                        break;
                    }
                    None => continue,
                }
            }
            if self.closed {
                break;
            }
            match self.frames.hear() {
                Ok(Some(FromRank::Post { step, end, blocks, attributes })) => {
                    let decoded = blocks
                        .iter()
                        .map(|one| block::decode_variable(one).map(Declared::new))
                        .collect::<Result<Vec<_>>>()
                        .and_then(|all| Ok((all, block::decode_attributes(&attributes)?)));
                    let Ok((declared, attributes)) = decoded else { return Ok(false) };
                    let open = Open::default();
                    self.post = Some(Post { step, end, declared, attributes, open, next: 0 });
                }
                Ok(Some(FromRank::Close)) => {
                    self.closed = true;
                    self.local.say_close()?;
                }
                Ok(Some(FromRank::Hello { .. })) | Err(_) => return Ok(false),
                Ok(None) => break,
            }
        }
        self.tell()
    }

    /// Receive the blocks that there is room for; what is left then. Never sleeps: other ranks may have
    /// what the writer waits for.
    fn go_on(&mut self, mut post: Post, peers: &dyn Peers) -> Result<Option<Post>> {
        while post.next < post.declared.len() {
            let first = post.open.placed.len();
            let mut room = Ok(Room::Later);
            while post.next < post.declared.len() {
                room = self.local.try_reserve(&mut post.open, &post.declared, post.next);
                let Ok(Room::At(data)) = room else { break };
                let variable = post.next;
                post.open.placed.push(Placed { variable, data, committed: false });
                post.next += 1;
            }
            let count = post.open.placed.len() - first;
            if count > 0 {
                if self.frames.say(&ToRank::Send(count as u32)).is_err() {
                    return Ok(None);
                }
                for one in &mut post.open.placed[first..] {
                    let bytes = post.declared[one.variable].bytes;
                    peers.receive(self.local.block(one.data, bytes)?, self.rank)?;
                    one.committed = true;
                }
                continue;
            }
            match room {
                Ok(Room::AfterPost) => {
                    let attributes = &block::Attributes::new();
                    let Post { step, ref declared, .. } = post;
                    let part = Part { declared, step, end: false, attributes };
                    if !self.local.try_post(&mut post.open, part)? {
                        return Ok(Some(post));
                    }
                }
                Ok(_) => {
                    self.local.make_room();
                    return Ok(Some(post));
                }
                Err(error) => {
                    let _ = self.frames.say(&ToRank::Refused(error.to_string()));
                    return Ok(None);
                }
            }
        }
        let Post { step, end, ref declared, ref attributes, .. } = post;
        if !self.local.try_post(&mut post.open, Part { declared, step, end, attributes })? {
            return Ok(Some(post));
        }
        if end {
            self.steps.push(step);
        }
        Ok(None)
    }

    /// Tell the rank what has become of its dumps; false where it is gone.
    fn tell(&mut self) -> Result<bool> {
        let ended = self.has_ended()?;
        let mut said = self.tell_fates();
        if self.local.slot().is_ending() && !self.ending {
            self.ending = true;
            said &= self.frames.say(&ToRank::Ending).is_ok();
        }
        if ended {
            said &= self.frames.say(&ToRank::Ended).is_ok();
            self.ended = true;
        }
        Ok(said || self.ended)
    }

    /// Tell the rank which of its dumps have a fate; false where it is gone.
    fn tell_fates(&mut self) -> bool {
        let mut said = true;
        for fate in self.told.fates(self.local.slot(), &self.steps) {
            said &= self.frames.say(&fate).is_ok();
        }
        said
    }

    /// Whether the writer has said that all is written.
    fn has_ended(&self) -> Result<bool> {
        let (_, mut peer) = self.local.wakers();
        let mut polled = [PollFd::new(peer, PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if !matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(1..)) {
            return Ok(false);
        }
        let mut word = [0];
        match peer.read(&mut word) {
            Ok(1) if word[0] == connection::ENDED => Ok(true),
            _ => Err(Error::Host("the writer has died".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
