//! The Normal lane: connections, the protocol, and the replies to clients.

mod ages;
mod answer;
mod ask;
mod connection;
mod drive;
mod handover;
mod input;
mod output;
mod room;
mod routes;
mod turned_away;

use crate::latency::Latencies;
use crate::log::{Priority, log};
use crate::messages::{Answer, Tag, ToNormal, ToVolume};
use crate::reactor::{Answered, Published};
use crate::status::LaneCounters;
use crate::tls::Identity;
use crate::token::Token;
use ages::Ages;
use answer::Zeros;
use ask::ask;
use connection::{Allowed, Connection, Ending, Stage, Step, bytes_max};
pub use handover::{ConnectionLoad, Leaver, Moving};
use input::Payload;
use output::Cost;
use room::Room;
use routes::Routes;
use slab::Slab;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turned_away::TurnedAway;
use wattio_nbd::{Command, Errno, Exports, Handshake, Span, TlsPolicy};
use wattio_pages::Recycler;
use wattio_ring::{Back, Completion, Ring};
use wattio_volume::Part;

/// The time that a client may take to negotiate.
const HANDSHAKE_MAX: Duration = Duration::from_secs(15);
/// The time that it may take to receive what is left for it, once nothing more is read from it.
const LEAVING_MAX: Duration = Duration::from_secs(60);
/// Connections that a reactor serves at once.
const CONNECTIONS_MAX: usize = 1024;

/// A request that a volume has not answered.
#[derive(Debug)]
struct Asked {
    connection: usize,
    cookie: u64,
    what: What,
    cost: Cost,
    /// When it came.
    since: Instant,
}

/// What its reply is made of.
#[derive(Clone, Copy, Debug)]
enum What {
    Read { span: Span, is_unfragmented: bool },
    Status { span: Span, is_first_only: bool },
    Write { span: Span },
    Other,
}

/// What is exported, and by whom.
#[derive(Clone, Debug)]
pub struct Offer {
    /// What clients see.
    pub exports: Exports,
    /// The reactor of each one's volume at the start.
    pub reactors: Arc<[usize]>,
    /// Who the target is, if clients may use TLS.
    pub tls: Option<Identity>,
    /// Whether clients that come by TCP have to.
    pub is_tls_required: bool,
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// The socket.
    pub socket: OwnedFd,
    /// Whether it is of TCP.
    pub is_tcp: bool,
}

/// The connections of a reactor.
pub struct Normal {
    reactor: u8,
    offer: Offer,
    routes: Routes,
    connections: Slab<Connection>,
    asked: Slab<Asked>,
    generation: u32,
    room: Room,
    zeros: Zeros,
    is_stopping: bool,
    counters: LaneCounters,
    turned_away: TurnedAway,
    latencies: Latencies,
    published: Arc<Published>,
    ages: Ages,
    /// When what is taken in this turn came, and the time of what is answered in it.
    came: Instant,
    now: Instant,
    /// Whether a connection goes on once something is sent.
    is_send_awaited: bool,
    /// Connections to be looked at before the turn ends.
    listed: Vec<usize>,
    /// Connections that have left, and to which reactor.
    pub(crate) left: Vec<(usize, Moving)>,
    /// What volumes are asked, and which reactor's.
    pub(crate) asks: Vec<(usize, ToVolume)>,
    /// Memory of answers that goes back to volumes of this reactor.
    pub(crate) returned: Vec<(usize, Part)>,
}

#[cfg(test)]
mod tests;

impl Normal {
    /// The lane of reactor `reactor`.
    pub fn new(reactor: u8, offer: Offer, published: Arc<Published>) -> Self {
        Self {
            reactor,
            routes: Routes::new(&offer.reactors),
            offer,
            connections: Slab::new(),
            asked: Slab::new(),
            generation: 0,
            room: Room::new(),
            zeros: Zeros::default(),
            is_stopping: false,
            counters: LaneCounters::default(),
            turned_away: TurnedAway::default(),
            latencies: Latencies::default(),
            published,
            ages: Ages::default(),
            came: Instant::now(),
            now: Instant::now(),
            is_send_awaited: false,
            listed: Vec::new(),
            left: Vec::new(),
            asks: Vec::new(),
            returned: Vec::new(),
        }
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Requests that volumes have not answered.
    pub fn in_flight(&self) -> usize {
        self.asked.len()
    }

    /// Begins a turn: what is taken in it came then.
    pub const fn begin_turn(&mut self, came: Instant) {
        self.came = came;
        self.is_send_awaited = false;
    }

    /// Whether something was found in this turn that goes on once a send has ended: of one that began
    /// in it, too, and nobody is woken for the end of a quiet one.
    pub const fn is_send_awaited(&self) -> bool {
        self.is_send_awaited
    }

    /// What is answered from here on is answered now.
    pub const fn begin_answers(&mut self, now: Instant) {
        self.now = now;
    }

    /// From a request's arrival to its reply, since the start.
    pub const fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Counts since the start.
    pub const fn counters(&self) -> LaneCounters {
        self.counters
    }

    /// Takes a new connection.
    pub fn connect(&mut self, ring: &mut Ring, Accepted { socket, is_tcp }: Accepted) {
        if self.is_stopping {
            return;
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            return self.tell_turned_away(&format!("{CONNECTIONS_MAX} are connected"));
        }
        let handle = match ring.add(socket) {
            Ok(handle) => handle,
            Err(error) => return log(Priority::Warning, &format!("a connection: {error}")),
        };
        self.generation = self.generation.wrapping_add(1);
        let policy = match &self.offer.tls {
            None => TlsPolicy::Off,
            Some(_) if is_tcp && self.offer.is_tls_required => TlsPolicy::Required,
            Some(_) => TlsPolicy::Allowed,
        };
        let handshake = Handshake::new(self.offer.exports.clone(), policy);
        let connection = Connection::new(handle, self.generation, handshake);
        let index = self.connections.insert(connection);
        let token = Token::Deadline { connection: index, generation: self.generation };
        ring.timeout(token.pack(), HANDSHAKE_MAX);
        self.counters.connections += 1;
        self.list(index);
    }

    /// The time for a handshake, or for receiving what is left, is over: a client that reads nothing
    /// would hold its place for ever.
    pub fn deadline(&mut self, index: usize, generation: u32) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.generation != generation {
            return;
        }
        match connection.ending {
            Ending::No if matches!(connection.stage, Stage::Handshake(_)) => {
                connection.is_broken = true;
            }
            Ending::No if connection.waits_for_bytes.is_some() => return self.end_stalled(index),
            Ending::Finish if connection.leaves_by.is_some_and(|by| by <= Instant::now()) => {
                // It waits for a volume, and not for its client: its time begins anew.
                connection.leaves_by = None;
                connection.is_broken = connection.asked == 0;
            }
            _ => return,
        }
        self.list(index);
    }

    /// No request is read any more; those that were read are answered.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        let all: Vec<usize> = self.connections.iter().map(|(index, _)| index).collect();
        for index in all {
            let connection = &mut self.connections[index];
            connection.leaving = None;
            if connection.ending == Ending::No {
                connection.ending = Ending::Finish;
            }
            self.list(index);
        }
    }

    /// Closes what is open, whatever is under way.
    pub fn abort(&mut self, ring: &mut Ring) {
        for (_, connection) in &mut self.connections {
            if connection.ending != Ending::Closed {
                connection.ending = Ending::Closed;
                connection.is_broken = true;
                ring.close(connection.socket);
            }
        }
        let all: Vec<usize> = self.connections.iter().map(|(index, _)| index).collect();
        all.into_iter().for_each(|index| self.list(index));
    }

    fn list(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.is_listed {
            connection.is_listed = true;
            self.listed.push(index);
        }
    }

    /// A receive of a connection has ended.
    pub fn received(&mut self, index: usize, completion: Completion, memory: &mut Recycler) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.is_receiving = false;
        let (count, failure) = match completion.result {
            Ok(count) => (count, None),
            Err(error) => (0, Some(error)),
        };
        match completion.back {
            Back::Bytes(bytes) => match &mut connection.tls {
                Some(tls) => tls.take_back(bytes, count),
                None => connection.input.take_back(bytes, count),
            },
            Back::Pages(pages) => connection.payload_received(pages, count),
            _ => {}
        }
        // A connection that leaves has nothing received any more; it may stay all the same.
        let is_cancelled = failure.as_ref().is_some_and(|failure| {
            failure.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error())
        });
        if count == 0 && connection.ending == Ending::No && !is_cancelled {
            connection.ending = Ending::Finish;
            if failure.is_some() || connection.is_within_request() {
                self.counters.broken_connections += 1;
            }
        }
        self.advance(index, memory);
        self.list(index);
    }

    /// Takes what has come of a connection as far as possible.
    fn advance(&mut self, index: usize, memory: &mut Recycler) {
        let bytes_max = bytes_max(self.connections.len());
        loop {
            let connection = &mut self.connections[index];
            if connection.ending != Ending::No || connection.leaving.is_some() {
                return;
            }
            let has_waited = connection.waits_for_bytes.is_some();
            let shared_bytes = self.room.left_bytes(has_waited);
            let step = connection.step(memory, Allowed { bytes: bytes_max, shared_bytes });
            self.room.count(connection);
            let since = connection.payload_since.unwrap_or(self.came);
            connection.payload_since = connection.is_within_payload().then_some(since);
            match step {
                Step::Again => {}
                Step::StartTls => {
                    let started = connection.start_tls(self.offer.tls.as_ref());
                    if let Err(reason) = started {
                        self.turn_away(index, &reason);
                    }
                }
                Step::Wait => match connection.decrypt() {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(reason) => self.turn_away(index, &reason),
                },
                Step::Full => return,
                Step::NoRoom => return self.room.wait(index, connection),
                Step::Request { cookie, command, payload, cost } => {
                    self.request(index, cookie, command, payload, cost);
                }
                Step::Refuse { cookie, refusal, cost } => {
                    self.counters.refused_requests += 1;
                    let what = (refusal.errno, refusal.message);
                    self.connections[index].refuse(cookie, what, cost);
                }
                Step::End(Some(reason)) => self.turn_away(index, &reason),
                Step::End(None) => connection.ending = Ending::Finish,
            }
        }
    }

    fn turn_away(&mut self, index: usize, reason: &str) {
        self.connections[index].ending = Ending::Finish;
        self.counters.broken_connections += 1;
        self.tell_turned_away(reason);
    }

    fn tell_turned_away(&mut self, reason: &str) {
        if let Some(line) = self.turned_away.line(reason, self.came) {
            log(Priority::Warning, &line);
        }
    }

    fn request(
        &mut self,
        index: usize,
        cookie: u64,
        command: Command,
        payload: Option<Payload>,
        cost: Cost,
    ) {
        let connection = &mut self.connections[index];
        let Some(export) = connection.session().map(wattio_nbd::Session::export_index) else {
            return;
        };
        self.counters.count(&command);
        let what = match command {
            Command::Read { span, is_unfragmented } => What::Read { span, is_unfragmented },
            Command::BlockStatus { span, is_first_only } => What::Status { span, is_first_only },
            Command::Write { span, .. } => What::Write { span },
            _ => What::Other,
        };
        let Ok(ask) = ask(&command, payload) else {
            let why = (Errno::NotSupported, "less than a block cannot be zeroed fast");
            return connection.refuse(cookie, why, cost);
        };
        connection.asked += 1;
        connection.requests += 1;
        let asked = Asked { connection: index, cookie, what, cost, since: self.came };
        let number = self.asked.insert(asked);
        self.published.arrived();
        self.ages.came(number, self.came);
        let tag = Tag::new(self.reactor, number);
        self.asks.extend(self.routes.send(ToVolume { volume: export, tag, ask }));
    }

    /// A volume has answered.
    pub fn answered(&mut self, ToNormal { tag, answer }: ToNormal) {
        let Some(asked) = self.asked.try_remove(tag.number()) else { return };
        let index = asked.connection;
        let connection = &mut self.connections[index];
        connection.asked -= 1;
        let took = self.now.saturating_duration_since(asked.since);
        let (latency, bytes) = match asked.what {
            What::Read { span, .. } => (&mut self.latencies.reads, span.length_bytes),
            What::Write { span } => (&mut self.latencies.writes, span.length_bytes),
            _ => (&mut self.latencies.others, 0),
        };
        latency.record(took);
        if connection.is_broken {
            self.published.abandoned();
        } else {
            let is_read = matches!(asked.what, What::Read { .. });
            self.published.answered(Answered { took, is_read, bytes: bytes.into() });
        }
        let (cookie, cost) = (asked.cookie, asked.cost);
        let Connection { stage: Stage::Requests(session), output, is_broken: false, .. } =
            connection
        else {
            return self.list(index);
        };
        let reply = session.reply(cookie);
        match (asked.what, answer) {
            (What::Read { span, is_unfragmented }, Answer::Done(Ok(pieces))) => {
                answer::read(reply, span, is_unfragmented, pieces, &self.zeros, output);
            }
            (What::Status { span, is_first_only }, Answer::Allocation(runs)) => {
                answer::block_status(session, cookie, span, is_first_only, &runs, output);
            }
            (_, Answer::Done(Err(fault))) => {
                self.counters.failed_requests += 1;
                let (errno, message) = answer::errno(fault);
                output.write(|bytes| reply.error(errno, message, bytes));
            }
            _ => output.head(reply.done().as_ref()),
        }
        output.reply(cost);
        self.list(index);
    }

    /// A send of a connection has ended.
    pub fn sent(&mut self, index: usize, completion: Completion, memory: &mut Recycler) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if completion.result.is_err() && !connection.is_broken {
            connection.is_broken = true;
            self.counters.broken_connections += 1;
        }
        let here = usize::from(self.reactor);
        let volume = connection.session().map(wattio_nbd::Session::export_index);
        let volume = volume.filter(|&volume| self.routes.is_at(volume, here));
        if let Back::Gathered { head, mut parts } = completion.back {
            for part in parts.drain(..) {
                let pages = part.into_pages();
                match volume {
                    Some(volume) => {
                        let blocks = 0..pages.len_blocks();
                        self.returned.push((volume, Part { pages, blocks }));
                    }
                    None => {
                        if let Some(pages) = Arc::into_inner(pages) {
                            memory.give(pages);
                        }
                    }
                }
            }
            connection.output.keep(head, parts);
        }
        if let Some((sending, _)) = connection.sending.take() {
            connection.under_way.sub(sending.end(memory));
            self.room.count(connection);
        }
        if connection.is_full {
            self.advance(index, memory);
        }
        self.list(index);
    }

    /// Ends a turn: sends the replies, receives more, and closes what is done.
    pub fn turn(&mut self, ring: &mut Ring, memory: &mut Recycler) {
        let since = |number: usize| self.asked.get(number).map(|asked| asked.since);
        self.published.set_oldest(self.ages.oldest(self.asked.len(), since));
        self.let_in(memory);
        while let Some(index) = self.listed.pop() {
            let connection = &mut self.connections[index];
            connection.is_listed = false;
            connection.drive(index, self.came, ring, memory);
            let connection = &self.connections[index];
            self.is_send_awaited |= connection.is_send_awaited();
            let is_busy = connection.is_receiving || connection.sending.is_some();
            if connection.ending == Ending::Closed && !is_busy && connection.asked == 0 {
                self.room.leave(&mut self.connections.remove(index));
                self.let_in(memory);
            } else {
                self.detach(index, ring);
            }
        }
        self.time_waiting(ring);
    }
}
