//! A writer's work: it sleeps until ranks hand something over, and writes it.
//!
//! One thread does it all, since HDF5 is not safe for several. Entries of a dump are taken as they
//! come, from any client; the dump after it waits until all have ended this one. When clients have
//! died, or a signal asks for the end, what was accepted is still written, within the grace.

mod causes;

use crate::clients::{Admitted, Client, Signals};
use crate::folder::{self, Lock, Output};
use crate::hdf5::Hdf5;
use crate::member::Member;
use crate::note::{self, Named, Note, Said, Settled};
use crate::part::{self, Fact, Origin, Part};
use crate::publisher::{Publisher, exists};
use causes::Causes;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;
use serde_json::json;
use serde_json::value::RawValue;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattio_io::block;
use wattio_io::config::Existing;
use wattio_io::connection::{self, Doorbell};
use wattio_io::error::tell;
use wattio_io::job::{Account, Job, Written};
use wattio_io::slot::{Board, Entry};

/// How often the one that publishes looks whether time is over, while it waits for the others.
const LOOK: Duration = Duration::from_millis(200);

/// Who gives dumps their names.
enum Line<'a> {
    /// This writer.
    Own(Box<Publisher<'a>>),
    /// Another one.
    Member(Member),
    /// It has died.
    Lost,
}

/// The dump that is being written.
struct Dump<'a> {
    step: Option<u64>,
    part: Option<Part<'a>>,
    ended: Vec<bool>,
    attributes: Named,
    error: Option<String>,
    dropped: bool,
    bytes: u64,
    write: Duration,
}

impl Dump<'_> {
    fn new(clients: usize) -> Self {
        Self {
            step: None,
            part: None,
            ended: vec![false; clients],
            attributes: Named::new(),
            error: None,
            dropped: false,
            bytes: 0,
            write: Duration::ZERO,
        }
    }
}

/// A writer at work.
pub struct Server<'a> {
    library: &'a Hdf5,
    job: &'a Job,
    output: Output,
    board: Board,
    doorbell: Doorbell,
    clients: Vec<Client>,
    line: RefCell<Line<'a>>,
    /// What came while a block was being written.
    news: RefCell<VecDeque<Settled>>,
    number: u64,
    settled: u64,
    /// The last dump that is known to be lost, until a later one is whole: the disk may be full, so that
    /// none is begun before those that are done are settled, and what is lost of them has gone.
    lost: Option<u64>,
    deadline: Cell<Option<Instant>>,
    /// When it was last seen who is gone, while there is work.
    looked: Cell<Instant>,
    /// The steps of the dumps that were ended, by their numbers.
    steps: Vec<u64>,
    told: Causes,
    account: Account,
    lock: Option<Lock>,
    signals: Option<Signals>,
}

/// What has ended a sleep.
struct Heard {
    /// A client has handed something over.
    rung: bool,
    /// The rank that has started this writer is gone.
    orphaned: bool,
    /// Clients that say something, or are gone.
    speaking: Vec<usize>,
}

impl<'a> Server<'a> {
    /// A writer whose clients have come.
    pub fn new(
        library: &'a Hdf5,
        job: &'a Job,
        admitted: Admitted,
        line: Result<Publisher<'a>, Member>,
    ) -> Self {
        let Admitted { board, doorbell, clients, lock } = admitted;
        Self {
            library,
            job,
            output: Output::new(&job.config.output),
            board,
            doorbell,
            clients,
            line: RefCell::new(match line {
                Ok(publisher) => Line::Own(Box::new(publisher)),
                Err(member) => Line::Member(member),
            }),
            news: RefCell::default(),
            number: 0,
            settled: 0,
            lost: None,
            deadline: Cell::new(None),
            looked: Cell::new(Instant::now()),
            steps: Vec::new(),
            told: Causes::default(),
            account: Account::default(),
            lock,
            signals: None,
        }
    }

    /// Write until all clients have closed, or died, and all of it has a fate; or until time is over.
    pub fn serve(mut self, signals: Signals) -> Account {
        let mut dump = Dump::new(self.clients.len());
        self.signals = Some(signals);
        loop {
            self.turn();
            self.hear_news();
            if self.step_or_give_up(&mut dump) {
                continue;
            }
            let silent = self.clients.iter().all(|one| one.closed || one.died);
            if self.is_late() || (silent && self.settled == self.number) {
                break;
            }
            self.sleep();
        }
        self.end();
        self.told.rest().iter().for_each(|line| tell("wattio-io-writer", line));
        for client in &self.clients {
            // The kernel takes it back when this process ends: the account is told before.
            std::mem::forget(Arc::clone(client.slot.memory()));
        }
        self.account
    }

    /// Take one entry, or end the dump, as long as there is time; whether there was anything to do.
    fn step_or_give_up(&mut self, dump: &mut Dump<'a>) -> bool {
        if self.is_late() {
            self.abandon(dump);
            return false;
        }
        self.step(dump)
    }

    /// Take one entry, or end the dump; whether there was anything to do.
    fn step(&mut self, dump: &mut Dump<'a>) -> bool {
        if dump.step.is_none() && self.lost.is_some() && self.settled < self.number {
            return false;
        }
        for at in 0..self.clients.len() {
            if dump.ended[at] {
                continue;
            }
            if let Some(entry) = self.clients[at].next() {
                self.take(dump, at, entry);
                return true;
            }
        }
        let somebody = dump.step.is_some();
        let all = self
            .clients
            .iter()
            .zip(&dump.ended)
            .all(|(client, &ended)| ended || client.closed || client.died);
        if !somebody || !all {
            return false;
        }
        let silent: Vec<usize> = self
            .clients
            .iter()
            .zip(&dump.ended)
            .filter(|&(_, &ended)| !ended)
            .map(|(client, _)| client.rank)
            .collect();
        if !silent.is_empty() && dump.error.is_none() && !dump.dropped {
            dump.error = Some(format!("ranks {silent:?} ended without this dump"));
        }
        let whole = std::mem::replace(dump, Dump::new(self.clients.len()));
        self.finish(whole);
        true
    }

    fn take(&mut self, dump: &mut Dump<'a>, at: usize, entry: Entry) {
        if dump.step.is_none() {
            dump.step = Some(entry.step);
            dump.dropped = !self.board.begin(self.number);
        }
        if entry.number != self.number && dump.error.is_none() {
            dump.error = Some("the shared memory is damaged: something has written over it".into());
        }
        if dump.step != Some(entry.step) && dump.error.is_none() {
            let steps = [dump.step.unwrap_or_default(), entry.step];
            dump.error = Some(format!("ranks disagree about the step: {steps:?}"));
        }
        if dump.error.is_none() && !dump.dropped {
            let began = Instant::now();
            if let Err(text) = self.write(dump, at, entry) {
                dump.error = Some(if self.is_late() { self.too_late() } else { text });
            }
            dump.write += began.elapsed();
        }
        let client = &mut self.clients[at];
        client.taken += 1;
        dump.ended[at] = entry.end;
        let dumps = self.number + u64::from(entry.end);
        client.slot.finish(client.taken, dumps);
        client.wake();
    }

    /// Write the blocks of an entry.
    fn write(&self, dump: &mut Dump<'a>, at: usize, entry: Entry) -> Result<(), String> {
        let client = &self.clients[at];
        let memory = client.slot.memory();
        let damaged = || "the shared memory is damaged: something has written over it".to_owned();
        let head = memory.read(entry.head, entry.head_bytes).ok_or_else(damaged)?;
        let (blocks, attributes) = block::decode(&head).map_err(|error| error.to_string())?;
        let set = part::as_json(&attributes).into_iter();
        note::merge(&mut dump.attributes, set.map(|(name, value)| (name, (client.rank, value))));
        if dump.part.is_none() {
            dump.part = Some(self.begin(entry.step)?);
        }
        let Some(part) = dump.part.as_mut() else { return Ok(()) };
        let late = || {
            self.turn();
            self.is_late()
        };
        for block in &blocks {
            let bytes = block.variable.bytes();
            let data = memory.slice(block.data, bytes).ok_or_else(damaged)?;
            part.write(client.rank, block, data, &late)?;
            dump.bytes += bytes;
        }
        Ok(())
    }

    fn begin(&self, step: u64) -> Result<Part<'a>, String> {
        if self.job.config.existing != Existing::Overwrite && self.output.whole(step).exists() {
            return Err(exists(&self.output, step));
        }
        let folder = self.output.partial(step);
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(part::told(&folder, error.raw_os_error().unwrap_or_default()));
            }
            _ => {}
        }
        let origin = Origin { job: &self.job.id, step, process: self.job.process };
        Part::create(self.library, &folder, origin, &self.job.config)
    }

    /// All clients have ended the dump: close its part, and tell of it.
    fn finish(&mut self, mut dump: Dump<'a>) {
        let began = Instant::now();
        let step = dump.step.unwrap_or_default();
        let mut facts: Vec<Fact> = Vec::new();
        match dump.part.take() {
            Some(part) if dump.error.is_some() => part.abandon(),
            Some(part) => match part.finish() {
                Ok(found) => facts = found,
                Err(text) => dump.error = Some(text),
            },
            None => {}
        }
        let write_s = (dump.write + began.elapsed()).as_secs_f64();
        self.account.write_s += write_s;
        if dump.error.is_none() && !dump.dropped {
            self.account.written += 1;
            self.account.bytes += dump.bytes;
            self.account.dumps.push(Written { step, bytes: dump.bytes, write_s });
        }
        let blocks = serde_json::value::to_raw_value(&facts).unwrap_or_else(|_| empty());
        let number = self.number;
        let (error, dropped, attributes) = (dump.error, dump.dropped, dump.attributes);
        self.number += 1;
        if error.is_some() {
            self.lost = Some(number);
        }
        self.steps.push(step);
        for client in &self.clients {
            client.slot.finish(client.taken, self.number);
            client.wake();
        }
        self.note(Note { number, step, error, dropped, attributes, blocks });
    }

    fn note(&self, note: Note) {
        let mut line = self.line.borrow_mut();
        match &mut *line {
            Line::Own(publisher) => publisher.note(note),
            Line::Member(member) => {
                let (number, step) = (note.number, note.step);
                if let Err(text) = member.note(note) {
                    *line = Line::Lost;
                    self.orphan(number, step, &text);
                }
            }
            Line::Lost => {
                let text = "the writer that publishes dumps has died";
                self.orphan(note.number, note.step, text);
            }
        }
    }

    /// Nobody will give the dump its name; its part stays, with a note.
    fn orphan(&self, number: u64, step: u64, text: &str) {
        let note = json!({
            "process": self.job.process,
            "ranks": self.job.clients,
            "blocks": [],
            "error": text,
            "dropped": false,
            "ranks_expected": self.job.clients,
        });
        let path = self.output.partial(step).join(format!("part-{:06}.json", self.job.process));
        let _ = folder::put(&path, note.to_string().as_bytes(), self.job.config.sync);
        let error = Some(text.to_owned());
        self.news.borrow_mut().push_back(Settled { number, step, dropped: false, error });
    }

    /// See what others have to say, without waiting.
    fn turn(&self) {
        self.look_for_signals();
        self.look_for_ends();
        let mut line = self.line.borrow_mut();
        let found = match &mut *line {
            Line::Own(publisher) => publisher.turn(),
            Line::Member(member) => match member.turn() {
                Ok(found) => found,
                Err(text) => {
                    *line = Line::Lost;
                    drop(line);
                    return self.lose_all(&text);
                }
            },
            Line::Lost => return,
        };
        self.news.borrow_mut().extend(found);
    }

    /// The one that publishes has died: what it has not settled never will be.
    fn lose_all(&self, text: &str) {
        let heard = self.news.borrow().len() as u64;
        for number in self.settled + heard..self.number {
            let error = Some(text.to_owned());
            let step = self.steps.get(number as usize).copied().unwrap_or_default();
            let lost = Settled { number, step, dropped: false, error };
            self.news.borrow_mut().push_back(lost);
        }
        if self.deadline.get().is_none() {
            self.hurry();
        }
    }

    /// Tell the clients what has been settled.
    fn hear_news(&mut self) {
        while let Some(settled) = self.news.borrow_mut().pop_front() {
            self.settled += 1;
            if let Some(text) = &settled.error {
                // Once for the job: ranks are told, too.
                if !matches!(&*self.line.borrow(), Line::Member(_))
                    && let Some(line) = self.told.first(settled.step, text)
                {
                    tell("wattio-io-writer", &line);
                }
                self.account.failed.push((settled.step, text.clone()));
            } else if settled.dropped {
                self.account.dropped.push(settled.step);
            }
            match settled.error {
                Some(_) => self.lost = self.lost.max(Some(settled.number)),
                None if !settled.dropped && self.lost < Some(settled.number) => self.lost = None,
                None => {}
            }
            if settled.error.is_some() || settled.dropped {
                // Its own, where ranks disagree.
                let own = self.steps.get(settled.number as usize).copied();
                self.remove_part(own.unwrap_or(settled.step));
            }
            for client in &self.clients {
                if let Some(text) = &settled.error {
                    client.slot.fail(settled.step, text);
                }
                client.slot.settle(settled.fate());
                client.wake();
            }
        }
    }

    /// The data of a dump that is lost are of no use, and the disk may be full.
    fn remove_part(&self, step: u64) {
        if !matches!(&*self.line.borrow(), Line::Lost) {
            let name = part::file_name(self.job.process);
            let _ = std::fs::remove_file(self.output.partial(step).join(name));
        }
    }

    /// Sleep until somebody wants something.
    fn sleep(&mut self) {
        let Some(heard) = self.poll() else { return };
        if heard.rung {
            self.doorbell.clear();
        }
        if heard.orphaned {
            if let Some(signals) = &mut self.signals {
                signals.parent = None;
            }
            self.hurry();
        }
        for at in heard.speaking {
            self.listen(at);
        }
    }

    /// Whether a signal has asked for the end; seen between pieces of a block, too, so that the grace
    /// begins when it came.
    fn look_for_signals(&self) {
        let Some(signals) = &self.signals else { return };
        let flags = RecvFlags::DONTWAIT;
        if matches!(rustix::net::recv(&signals.end, &mut [0; 64][..], flags), Ok((_, 1..))) {
            self.clients.iter().for_each(|client| client.slot.set_ending());
            self.hurry();
        }
    }

    /// Whether ranks are gone, seen now and then while there is work, so that the grace begins then; who they
    /// are is told once it is done.
    fn look_for_ends(&self) {
        if self.deadline.get().is_some() || self.looked.get().elapsed() < LOOK {
            return;
        }
        self.looked.set(Instant::now());
        let parent = self.signals.as_ref().and_then(|signals| signals.parent.as_ref());
        // One that closes stays until it is let go.
        let peers = parent.into_iter().chain(self.clients.iter().map(|client| &client.peer));
        let mut polled: Vec<_> = peers.map(|peer| PollFd::new(peer, PollFlags::RDHUP)).collect();
        if matches!(rustix::event::poll(&mut polled, Some(&Timespec::default())), Ok(1..)) {
            self.hurry();
        }
    }

    fn poll(&self) -> Option<Heard> {
        let signals = self.signals.as_ref()?;
        let line = self.line.borrow();
        let mut polled = vec![
            PollFd::new(&self.doorbell, PollFlags::IN),
            PollFd::new(&signals.end, PollFlags::IN),
        ];
        let others = match &*line {
            Line::Own(publisher) => Some(publisher.as_fd()),
            Line::Member(member) => Some(member.as_fd()),
            Line::Lost => None,
        };
        polled.extend(others.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)));
        let parent = polled.len();
        let ends = PollFlags::IN | PollFlags::RDHUP;
        polled.extend(signals.parent.iter().map(|parent| PollFd::new(parent, ends)));
        let before = polled.len();
        let open: Vec<usize> = (0..self.clients.len())
            .filter(|&at| !self.clients[at].closed && !self.clients[at].died)
            .collect();
        polled.extend(open.iter().map(|&at| PollFd::new(&self.clients[at].peer, ends)));
        let limit = self.deadline.get().and_then(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec::try_from(left.max(Duration::from_millis(1))).ok()
        });
        if !matches!(rustix::event::poll(&mut polled, limit.as_ref()), Ok(1..)) {
            return None;
        }
        let has = |at: usize| !polled[at].revents().is_empty();
        let spoken = open.iter().enumerate().filter(|&(at, _)| has(before + at));
        Some(Heard {
            rung: has(0),
            orphaned: before > parent && has(parent),
            speaking: spoken.map(|(_, &at)| at).collect(),
        })
    }

    /// A client says that it closes, or is gone.
    fn listen(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let mut word = [0];
        match (&client.peer).read(&mut word) {
            Ok(1) if word[0] == connection::CLOSE => client.closed = true,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            _ => {
                client.died = true;
                let rank = client.rank;
                self.account.lost.push(rank);
                tell(
                    "wattio-io-writer",
                    &format!("rank {rank} has died; what it handed over is written"),
                );
                self.hurry();
            }
        }
    }

    /// There is only so much time left.
    fn hurry(&self) {
        if self.deadline.get().is_none() {
            let grace = Duration::try_from_secs_f64(self.job.config.grace.value());
            self.deadline.set(Some(Instant::now() + grace.unwrap_or(LOOK)));
        }
    }

    fn is_late(&self) -> bool {
        self.deadline.get().is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Why a dump is not written when time is over.
    fn too_late(&self) -> String {
        format!("was accepted, and not written within the grace of {}", self.job.config.grace)
    }

    /// Time is over: name on disk what was accepted and is not written.
    fn abandon(&mut self, dump: &mut Dump<'a>) {
        let mut open = std::mem::replace(dump, Dump::new(self.clients.len()));
        loop {
            let next = self.clients.iter().filter_map(Client::next).map(|entry| entry.step).min();
            let Some(step) = open.step.or(next) else { break };
            open.step = Some(step);
            open.error.get_or_insert_with(|| self.too_late());
            for client in &mut self.clients {
                while client.next().is_some_and(|entry| entry.step == step) {
                    client.taken += 1;
                }
            }
            self.finish(std::mem::replace(&mut open, Dump::new(self.clients.len())));
        }
        if let Line::Own(publisher) = &mut *self.line.borrow_mut() {
            publisher.bye();
            publisher.give_up();
        }
        self.turn();
        self.hear_news();
    }

    /// All is done: stay for the other writers where this one publishes, then let the clients go. They
    /// may start another job at once, so that the folder is free before.
    fn end(&mut self) {
        match &mut *self.line.borrow_mut() {
            Line::Own(publisher) => {
                publisher.bye();
                while !publisher.is_over() {
                    let limit = Timespec::try_from(LOOK).ok();
                    let mut polled = [PollFd::from_borrowed_fd(publisher.as_fd(), PollFlags::IN)];
                    let _ = rustix::event::poll(&mut polled, limit.as_ref());
                    drop(publisher.turn());
                    if self.is_late() {
                        publisher.give_up();
                        break;
                    }
                }
                publisher.finish();
            }
            Line::Member(member) => {
                let _ = member.say(&Said::Bye);
            }
            Line::Lost => {}
        }
        self.lock = None;
        for client in &self.clients {
            let _ = connection::say(&client.peer, &[connection::ENDED]);
        }
    }
}

fn empty() -> Box<RawValue> {
    RawValue::from_string("[]".to_owned()).unwrap_or_default()
}
