//! The one writer of a job that publishes dumps: it hears from each writer what became of its part,
//! and gives a dump its name when all of them have it. So nobody reads what others have left in the
//! folder, and the work grows with the number of writers, not with its square.
//!
//! Nothing here waits: the writer's own loop calls `turn` between other things.

use crate::fields::{self, Found, Indexed};
use crate::folder::{self, Output};
use crate::hdf5::Hdf5;
use crate::note::{self, Hello, Incoming, Named, Note, Said, Settled};
use crate::part;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use wattio_io::block::{Attributes, Value};
use wattio_io::config::Existing;
use wattio_io::connection::{Address, START};
use wattio_io::error::tell;
use wattio_io::job::{Job, is_same_token, random_hex};

/// Bytes that are read at once.
const CHUNK: usize = 1 << 18;
/// Bytes of a line, at most.
const LINE_MAX: usize = 1 << 28;
/// Of a peer that has not said who it is.
const HELLO_MAX: usize = 1 << 20;
/// The listener's number among events.
const LISTENER: u64 = u64::MAX;

/// A connected writer.
struct Peer {
    socket: OwnedFd,
    incoming: Incoming,
    outgoing: VecDeque<u8>,
    process: Option<usize>,
    since: Instant,
}

/// What is known of a writer of the job.
#[derive(Default)]
struct Member {
    ranks: Vec<usize>,
    notes: VecDeque<Note>,
    /// It says nothing any more; why, where that is a fault.
    gone: Option<Option<String>>,
}

impl Member {
    /// Whether it has said what there is to say of the next dump.
    fn is_ready(&self) -> bool {
        !self.notes.is_empty() || self.gone.is_some()
    }
}

/// Who publishes dumps.
pub struct Publisher<'a> {
    library: &'a Hdf5,
    job: &'a Job,
    output: Output,
    listener: OwnedFd,
    address: String,
    events: OwnedFd,
    peers: HashMap<u64, Peer>,
    next_peer: u64,
    members: BTreeMap<usize, Member>,
    settled: Vec<Settled>,
    next: u64,
    index: Vec<Indexed>,
    unwritten: usize,
    /// Whether the index has dumps of earlier jobs, too: their manifests take long to read where they are many.
    has_earlier: bool,
}

impl<'a> Publisher<'a> {
    /// Listen for the other writers.
    ///
    /// # Errors
    ///
    /// In words.
    pub fn new(library: &'a Hdf5, job: &'a Job) -> Result<Self, String> {
        let (listener, address) = listen(job.spread)?;
        let events = epoll::create(CreateFlags::CLOEXEC).map_err(|error| error.to_string())?;
        epoll::add(&events, &listener, EventData::new_u64(LISTENER), EventFlags::IN)
            .map_err(|error| error.to_string())?;
        let output = Output::new(&job.config.output);
        let own = Member { ranks: job.clients.clone(), ..Member::default() };
        Ok(Self {
            library,
            job,
            output,
            listener,
            address,
            events,
            peers: HashMap::new(),
            next_peer: 0,
            members: BTreeMap::from([(job.process, own)]),
            settled: Vec::new(),
            next: 0,
            index: Vec::new(),
            unwritten: 0,
            has_earlier: false,
        })
    }

    /// Where the other writers connect.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The note of the writer that publishes.
    pub fn note(&mut self, note: Note) {
        self.take(self.job.process, Said::Note(note));
    }

    /// The writer that publishes has no dump any more.
    pub fn bye(&mut self) {
        self.take(self.job.process, Said::Bye);
    }

    /// Whether all writers have ended, and all dumps have a fate.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.members.len() >= self.job.writers
            && self.members.values().all(|one| one.gone.is_some() && one.notes.is_empty())
    }

    /// Time is over: whoever has not said anything will not.
    pub fn give_up(&mut self) {
        for member in self.members.values_mut() {
            let late = || Some(format!("its writer was not done within {}", self.job.config.grace));
            member.gone.get_or_insert_with(late);
        }
        self.settle();
    }

    /// Do what there is to do, without waiting; what has been settled since the last time.
    pub fn turn(&mut self) -> Vec<Settled> {
        let mut space = [MaybeUninit::<Event>::uninit(); 64];
        loop {
            let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let found = match epoll::wait(&self.events, &mut space, Some(&zero)) {
                Ok((found, _)) => found,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            let found: Vec<(u64, EventFlags)> =
                found.iter().map(|event| (event.data.u64(), event.flags)).collect();
            for &(number, flags) in &found {
                if number == LISTENER {
                    self.accept();
                } else {
                    self.serve(number, flags);
                }
            }
            if found.len() < space.len() {
                break;
            }
        }
        self.settle();
        std::mem::take(&mut self.settled)
    }

    /// Write the index of dumps, where it is behind.
    pub fn finish(&mut self) {
        if self.unwritten > 0 {
            self.write_index();
        }
    }

    fn accept(&mut self) {
        let Ok(socket) =
            rustix::net::accept_with(&self.listener, rustix::net::SocketFlags::CLOEXEC)
        else {
            return;
        };
        let number = self.next_peer;
        self.next_peer += 1;
        // Strangers that never say who they are do not stay.
        let strangers: Vec<u64> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.process.is_none() && peer.since.elapsed() > START)
            .map(|(&number, _)| number)
            .collect();
        strangers.into_iter().for_each(|number| self.forget(number));
        if epoll::add(&self.events, &socket, EventData::new_u64(number), EventFlags::IN).is_ok() {
            let (incoming, outgoing) = (Incoming::default(), VecDeque::new());
            let since = Instant::now();
            self.peers.insert(number, Peer { socket, incoming, outgoing, process: None, since });
        }
    }

    fn serve(&mut self, number: u64, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.send(number, &[]);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        let mut buffer = vec![0; CHUNK];
        let Some(peer) = self.peers.get_mut(&number) else { return };
        let got = match rustix::net::recv(&peer.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((_, got)) => got,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => 0,
        };
        if got == 0 {
            return self.forget(number);
        }
        peer.incoming.push(&buffer[..got]);
        let limit = if peer.process.is_some() { LINE_MAX } else { HELLO_MAX };
        let lines = peer.incoming.lines();
        if peer.incoming.waiting() > limit {
            return self.forget(number);
        }
        for line in lines {
            let Some(peer) = self.peers.get_mut(&number) else { return };
            match (serde_json::from_slice::<Said>(&line), peer.process) {
                (Ok(Said::Hello(hello)), None) if self.lets_in(&hello) => {
                    let Some(peer) = self.peers.get_mut(&number) else { return };
                    peer.process = Some(hello.process);
                    let member = Member { ranks: hello.ranks, ..Member::default() };
                    self.members.insert(hello.process, member);
                }
                (Ok(Said::Hello(_)) | Err(_), _) | (_, None) => return self.forget(number),
                (Ok(said), Some(process)) => self.take(process, said),
            }
        }
    }

    fn lets_in(&self, hello: &Hello) -> bool {
        is_same_token(&hello.token, &self.job.token) && !self.members.contains_key(&hello.process)
    }

    fn forget(&mut self, number: u64) {
        let Some(peer) = self.peers.remove(&number) else { return };
        let _ = epoll::delete(&self.events, &peer.socket);
        if let Some(process) = peer.process
            && let Some(member) = self.members.get_mut(&process)
        {
            member.gone.get_or_insert_with(|| Some("its writer has died".to_owned()));
        }
    }

    fn take(&mut self, process: usize, said: Said) {
        let Some(member) = self.members.get_mut(&process) else { return };
        match said {
            Said::Note(note) => member.notes.push_back(note),
            Said::Bye => member.gone = Some(None),
            Said::Hello(_) => {}
        }
    }

    fn settle(&mut self) {
        while self.members.len() >= self.job.writers
            && self.members.values().all(Member::is_ready)
            && self.members.values().any(|one| !one.notes.is_empty())
        {
            let number = self.next;
            self.next += 1;
            let mut parts = Vec::new();
            let mut silent = Vec::new();
            let mut why = None;
            for (&process, member) in &mut self.members {
                match member.notes.pop_front() {
                    Some(note) => parts.push((process, member.ranks.clone(), note)),
                    None => {
                        silent.extend(member.ranks.iter().copied());
                        why = why.or_else(|| member.gone.clone().flatten());
                    }
                }
            }
            let settled = self.judge(number, &parts, silent, why);
            if settled.fate() != wattio_io::slot::Fate::Whole {
                self.remove_parts(settled.step, &parts);
                self.lose(&settled, &parts);
            }
            self.tell(&settled);
            self.settled.push(settled);
        }
    }

    fn judge(
        &mut self,
        number: u64,
        parts: &[(usize, Vec<usize>, Note)],
        mut silent: Vec<usize>,
        why: Option<String>,
    ) -> Settled {
        let step = parts.iter().map(|part| part.2.step).min().unwrap_or_default();
        let mut steps: Vec<u64> = parts.iter().map(|part| part.2.step).collect();
        steps.sort_unstable();
        steps.dedup();
        silent.sort_unstable();
        let first = parts.iter().find_map(|part| part.2.error.clone());
        let error = first.or_else(|| {
            if steps.len() > 1 {
                return Some(format!("ranks disagree about the step: {steps:?}"));
            }
            let why = why.unwrap_or_else(|| "they ended without this dump".to_owned());
            (!silent.is_empty()).then(|| format!("ranks {silent:?}: {why}"))
        });
        let dropped = error.is_none() && parts.iter().any(|part| part.2.dropped);
        let mut settled = Settled { number, step, dropped, error };
        if settled.error.is_none() && !dropped {
            settled.error = self.publish(step, parts).err();
        }
        settled
    }

    fn publish(&mut self, step: u64, parts: &[(usize, Vec<usize>, Note)]) -> Result<(), String> {
        let job = self.job;
        let config = &job.config;
        let folder = self.output.partial(step);
        let failed = |error: std::io::Error| match error.raw_os_error() {
            Some(errno) => part::told(&folder, errno),
            None => format!("{}: {error}", folder.display()),
        };
        let attributes = together(parts);
        let mut content = json!({
            "wattio_hpcio": part::VERSION,
            "step": step,
            "job": self.job.id,
            "approach": self.job.approach,
            "attributes": attributes,
            "ranks": self.job.computing,
            "fields": config.fields,
        })
        .to_string();
        content.pop();
        content.push_str(",\"parts\":[");
        for (at, (process, ranks, note)) in parts.iter().enumerate() {
            let file = part::file_name(*process);
            if !folder.join(&file).is_file() {
                return Err(format!("{}: somebody has removed it", folder.join(file).display()));
            }
            let comma = if at == 0 { "" } else { "," };
            content
                .push_str(&format!("{comma}{{\"file\":\"{file}\",\"ranks\":{ranks:?},\"blocks\":"));
            content.push_str(note.blocks.get());
            content.push('}');
        }
        content.push(']');
        // Of all that stands before it.
        let crc32 = crc32fast::hash(content.as_bytes());
        content.push_str(&format!(",\"crc32\":{crc32}}}\n"));
        let fields = config
            .fields
            .then(|| self.make_fields(&folder, step, &attributes, parts))
            .transpose()?;
        folder::put(&folder.join(folder::MANIFEST), content.as_bytes(), config.sync)
            .map_err(failed)?;
        if config.existing != Existing::Overwrite && self.output.whole(step).exists() {
            return Err(exists(&self.output, step));
        }
        self.output.publish(step, config.existing, config.sync).map_err(failed)?;
        if let Some(fields) = fields {
            let time = attributes.get("time").and_then(serde_json::Value::as_f64);
            self.index.retain(|one| one.step != step);
            self.index.push(Indexed { step, time, fields });
            self.unwritten += 1;
            if self.unwritten > self.index.len() / 16 {
                self.write_index();
            }
        }
        Ok(())
    }

    fn make_fields(
        &self,
        folder: &std::path::Path,
        step: u64,
        attributes: &serde_json::Map<String, serde_json::Value>,
        parts: &[(usize, Vec<usize>, Note)],
    ) -> Result<Vec<fields::Field>, String> {
        let mut found: Vec<(CString, Vec<Found>)> = Vec::new();
        for (process, _, note) in parts {
            let blocks = serde_json::from_str(note.blocks.get()).map_err(|e| e.to_string())?;
            let file = CString::new(part::file_name(*process)).map_err(|e| e.to_string())?;
            found.push((file, blocks));
        }
        let attributes: Attributes = attributes
            .iter()
            .filter_map(|(name, value)| {
                let value = match value {
                    serde_json::Value::Number(number) => Value::Number(number.as_f64()?),
                    serde_json::Value::String(text) => Value::Text(text.clone()),
                    _ => return None,
                };
                Some((name.clone(), value))
            })
            .collect();
        let origin = (self.job.id.as_str(), step);
        fields::make(self.library, folder, origin, &attributes, &found, self.job.config.sync)
    }

    /// The index is a help: without it, dumps are as good.
    fn write_index(&mut self) {
        self.unwritten = 0;
        if !self.has_earlier {
            self.has_earlier = true;
            let own: BTreeSet<u64> = self.index.iter().map(|one| one.step).collect();
            let all = fields::index(&self.output).into_iter();
            self.index.extend(all.filter(|one| !own.contains(&one.step)));
        }
        self.index.sort_by_key(|one| one.step);
        let path = self.output.path().join(fields::INDEX);
        if let Err(error) = folder::put(&path, fields::xdmf(&self.index).as_bytes(), false) {
            tell("wattio-io-writer", &format!("{}: {}", path.display(), folder::plain(&error)));
        }
    }

    /// The parts of a dump that is lost are of no use. They go before anybody is told, who may have
    /// lacked the room that they take.
    fn remove_parts(&self, step: u64, parts: &[(usize, Vec<usize>, Note)]) {
        // Where ranks disagree, each part is of its own step.
        let own: HashMap<usize, u64> = parts.iter().map(|part| (part.0, part.2.step)).collect();
        for process in self.members.keys() {
            let folder = self.output.partial(own.get(process).copied().unwrap_or(step));
            let _ = std::fs::remove_file(folder.join(part::file_name(*process)));
        }
    }

    /// Leave word on disk of a dump that never will be whole.
    fn lose(&self, settled: &Settled, parts: &[(usize, Vec<usize>, Note)]) {
        let folder = self.output.partial(settled.step);
        let _ = std::fs::create_dir(&folder);
        let _ = std::fs::remove_file(folder.join(fields::FILE));
        let process = parts.first().map_or(self.job.process, |part| part.0);
        let note = json!({
            "process": process,
            "ranks": self.job.computing,
            "blocks": [],
            "error": settled.error,
            "dropped": settled.dropped,
            "ranks_expected": self.job.computing,
        });
        let path = folder.join(format!("part-{process:06}.json"));
        let text = note.to_string();
        if folder::put(&path, text.as_bytes(), self.job.config.sync).is_err() {
            // There is no room: an empty file takes none, and says as much.
            let _ = std::fs::File::create(&path);
        }
    }

    fn tell(&mut self, settled: &Settled) {
        let Ok(mut text) = serde_json::to_vec(settled) else { return };
        text.push(b'\n');
        let numbers: Vec<u64> = self.peers.keys().copied().collect();
        for number in numbers {
            self.send(number, &text);
        }
    }

    /// Send what a peer's socket takes, and keep the rest.
    fn send(&mut self, number: u64, text: &[u8]) {
        let Some(peer) = self.peers.get_mut(&number) else { return };
        if peer.process.is_none() {
            return;
        }
        peer.outgoing.extend(text);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while !peer.outgoing.is_empty() {
            match rustix::net::send(&peer.socket, peer.outgoing.as_slices().0, flags) {
                Ok(sent) => drop(peer.outgoing.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // Reading from it will tell.
                Err(_) => peer.outgoing.clear(),
            }
        }
        let wanted = if peer.outgoing.is_empty() {
            EventFlags::IN
        } else {
            EventFlags::IN | EventFlags::OUT
        };
        let _ = epoll::modify(&self.events, &peer.socket, EventData::new_u64(number), wanted);
    }
}

impl AsFd for Publisher<'_> {
    /// Readable when there is something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// The attributes of a step, whichever ranks have set them.
fn together(parts: &[(usize, Vec<usize>, Note)]) -> serde_json::Map<String, serde_json::Value> {
    let mut all = Named::new();
    for (_, _, note) in parts {
        note::merge(&mut all, note.attributes.clone());
    }
    all.into_iter().map(|(name, (_, value))| (name, value)).collect()
}

/// Why a dump cannot take the place of one that is there.
#[must_use]
pub fn exists(output: &Output, step: u64) -> String {
    format!(
        "{}: exists already: remove it, choose another output, or say existing = \"overwrite\" or \
         \"keep_apart\"",
        output.whole(step).display()
    )
}

fn listen(spread: bool) -> Result<(OwnedFd, String), String> {
    if spread {
        let listener = TcpListener::bind(("0.0.0.0", 0)).map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let name = rustix::system::uname();
        let address = format!("{}:{port}", name.nodename().to_string_lossy());
        return Ok((listener.into(), address));
    }
    let name = format!("wattio-io-{}", random_hex(12).map_err(|error| error.to_string())?);
    let address = Address::Abstract(name);
    let listener = address.listen().map_err(|error| error.to_string())?;
    Ok((listener.into(), address.to_string()))
}

/// How long a writer may take to reach the one that publishes.
pub const REACH: Duration = START;
