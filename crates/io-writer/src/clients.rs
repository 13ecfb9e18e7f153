//! The ranks that a writer writes for: the memory that it shares with them, and who is let in.

use crate::folder::{Claim, Lock};
use crate::publisher::Publisher;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Instant;
use wattio_io::connection::{self, Doorbell, START, Welcome};
use wattio_io::error::tell;
use wattio_io::free_memory;
use wattio_io::job::Job;
use wattio_io::slot::{Board, Entry, Slot};

/// A rank that hands over.
pub struct Client {
    /// Its rank.
    pub rank: usize,
    /// What it shares with the writer.
    pub slot: Slot,
    /// What wakes it.
    pub doorbell: Doorbell,
    /// What tells that it closes, or is gone.
    pub peer: UnixStream,
    /// Entries that are done.
    pub taken: u64,
    /// It hands nothing over any more.
    pub closed: bool,
    /// It is gone without having said so.
    pub died: bool,
}

impl Client {
    /// The next entry, if there is one.
    pub fn next(&self) -> Option<Entry> {
        (self.slot.posted() > self.taken).then(|| self.slot.entry(self.taken))
    }

    /// Wake it where it sleeps.
    pub fn wake(&self) {
        if self.slot.is_asleep() {
            self.doorbell.ring();
        }
    }
}

/// What ends a writer, or tells it to hurry.
pub struct Signals {
    /// Readable when a signal has asked for the end.
    pub end: UnixStream,
    /// The rank that has started this writer; its end is that rank's.
    pub parent: Option<UnixStream>,
}

/// What a writer shares with its clients, before they come.
pub struct Memory {
    board: Board,
    doorbell: Doorbell,
    slots: Vec<Option<Slot>>,
}

impl Memory {
    /// Have it.
    ///
    /// # Errors
    ///
    /// In words: there is not so much.
    pub fn new(job: &Job) -> Result<Self, String> {
        let text = |error: wattio_io::Error| error.to_string();
        // Each rank's share is there as long as others have not filled theirs; other writers of the node may
        // have some of the buffer, too.
        let own = job.share.saturating_mul(job.clients.len() as u64);
        free_memory::check(own.max(job.config.buffer.value() as u64)).map_err(text)?;
        let slot = |&rank: &usize| Slot::create(rank, job.share).map(Some).map_err(text);
        Ok(Self {
            board: Board::create().map_err(text)?,
            doorbell: Doorbell::new().map_err(text)?,
            slots: job.clients.iter().map(slot).collect::<Result<_, String>>()?,
        })
    }

    /// Wait for the clients, and give each its memory. Where this writer publishes, it lets the others in
    /// meanwhile: clients come when all of them are ready. The output folder is touched when the last client
    /// has come, since nothing can keep the job from beginning any more, and nobody writes there before that
    /// one has its memory.
    ///
    /// # Errors
    ///
    /// In words.
    pub fn admit(
        self,
        job: &Job,
        listener: &UnixListener,
        signals: &Signals,
        mut publisher: Option<&mut Publisher<'_>>,
        mut claim: Option<Claim>,
    ) -> Result<Admitted, String> {
        let text = |error: wattio_io::Error| error.to_string();
        let Self { board, doorbell, mut slots } = self;
        let mut clients: Vec<Client> = Vec::new();
        let mut lock = None;
        let until = Instant::now() + START;
        while clients.len() < slots.len() {
            let peer = next_peer(listener, signals, &clients, publisher.as_deref_mut(), until)
                .map_err(|why| format!("{}: {why}", missing(job, &clients)))?;
            let Some(rank) = connection::who(&peer, job.client_token()) else { continue };
            let Some(at) = job.clients.iter().position(|&one| one == rank as usize) else {
                continue;
            };
            let Some(slot) = slots[at].take() else { continue };
            if slots.iter().all(Option::is_none)
                && let Some(claim) = claim.take()
            {
                // The client hears no more than that it is not let in.
                let told = |text: &String| tell("wattio-io-writer", text);
                lock = claim.begin(job.config.existing).inspect_err(told)?;
            }
            let own = Doorbell::new().map_err(text)?;
            let given = Welcome {
                slot: (slot.memory().file(), slot.memory().bytes() as u64),
                board: board.memory().file(),
                writer: &doorbell,
                client: &own,
            };
            connection::welcome(&peer, &given).map_err(text)?;
            peer.set_read_timeout(None).map_err(|error| error.to_string())?;
            let rank = rank as usize;
            let fresh =
                Client { rank, slot, doorbell: own, peer, taken: 0, closed: false, died: false };
            clients.push(fresh);
        }
        clients.sort_by_key(|client| client.rank);
        let memories: Vec<_> =
            clients.iter().map(|client| Arc::clone(client.slot.memory())).collect();
        let reserve = move || {
            for memory in memories {
                if let Err(error) = memory.reserve() {
                    // Sooner than a rank that finds a page missing.
                    tell("wattio-io-writer", &format!("{error}; make the buffer smaller"));
                    crate::process::exit(1);
                }
                memory.populate();
            }
        };
        std::thread::Builder::new().spawn(reserve).map_err(|error| error.to_string())?;
        Ok(Admitted { board, doorbell, clients, lock })
    }
}

/// The clients of a writer, and what it shares with all of them.
pub struct Admitted {
    /// Which dumps are being written, and which are given up.
    pub board: Board,
    /// What wakes the writer.
    pub doorbell: Doorbell,
    /// By their ranks.
    pub clients: Vec<Client>,
    /// On the output folder, where this writer has it.
    pub lock: Option<Lock>,
}

fn missing(job: &Job, clients: &[Client]) -> String {
    let there: Vec<usize> = clients.iter().map(|client| client.rank).collect();
    let missing: Vec<&usize> = job.clients.iter().filter(|rank| !there.contains(rank)).collect();
    format!("ranks {missing:?} did not reach their writer")
}

fn next_peer(
    listener: &UnixListener,
    signals: &Signals,
    clients: &[Client],
    mut publisher: Option<&mut Publisher<'_>>,
    until: Instant,
) -> Result<UnixStream, String> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("there was no time left".to_owned());
        }
        let others = publisher.as_deref().map(Publisher::as_fd);
        let mut polled = vec![PollFd::new(listener, PollFlags::IN)];
        polled.extend(others.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)));
        let before = polled.len();
        polled.push(PollFd::new(&signals.end, PollFlags::IN));
        polled.extend(signals.parent.iter().map(|one| PollFd::new(one, PollFlags::RDHUP)));
        // One that has come and gone again: its job will not begin any more.
        polled.extend(clients.iter().map(|one| PollFd::new(&one.peer, PollFlags::RDHUP)));
        match rustix::event::poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
            Err(Errno::INTR) | Ok(0) => continue,
            Err(error) => return Err(error.to_string()),
            Ok(_) => {}
        }
        let has = |polled: &[PollFd<'_>]| polled.iter().any(|one| !one.revents().is_empty());
        if has(&polled[..1]) {
            return listener.accept().map(|(peer, _)| peer).map_err(|error| error.to_string());
        }
        if has(&polled[before..]) {
            return Err("the job has ended before".to_owned());
        }
        if let Some(publisher) = publisher.as_deref_mut() {
            // Nothing is settled before this writer has told of a dump.
            drop(publisher.turn());
        }
    }
}
