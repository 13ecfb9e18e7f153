//! One connection: bytes in, requests out.

use super::input::{Input, Payload};
use super::output::{Cost, Output, Sending};
use super::room::shared_bytes;
use crate::tls::{Identity, Layer};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use wattio_nbd::{Command, Handshake, Header, Next, Refusal, Session, Verdict};
use wattio_pages::Recycler;
use wattio_ring::Handle;

/// How much more a connection may have under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// In all, if there is something already.
    pub(super) bytes: u64,
    /// More of the memory that connections share.
    pub(super) shared_bytes: u64,
}

/// Bytes of requests that a connection may have under way, and replies to be sent, if there are
/// `connections`. One request may be larger.
pub(super) fn bytes_max(connections: usize) -> u64 {
    (ALL_BYTES_MAX / connections.max(1) as u64).clamp(1 << 20, 64 << 20)
}

/// About what all connections of a reactor may have under way.
const ALL_BYTES_MAX: u64 = 1 << 30;
/// Requests that it may have under way.
pub(super) const REQUESTS_MAX: usize = 1024;
/// Answers of the handshake that wait to be sent; one more may be put behind them.
const ANSWERS_BYTES_MAX: usize = 64 << 10;
/// What a request costs beside its data.
const REQUEST_BYTES: u64 = 256;

/// The number of the next connection of this process.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// Where a connection stands.
#[derive(Debug)]
pub(super) enum Stage {
    Handshake(Box<Handshake>),
    Requests(Session),
}

/// Whether more is read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Yes.
    No,
    /// No: what is under way is answered, then it is closed.
    Finish,
    /// It is closed.
    Closed,
}

/// What the bytes behind a header are.
#[derive(Debug)]
enum Behind {
    Nothing,
    Payload {
        cookie: u64,
        command: Command,
        payload: Payload,
    },
    /// Of a write that is refused.
    Dropped {
        cookie: u64,
        refusal: Refusal,
    },
}

/// What has come.
#[derive(Debug)]
pub(super) enum Step {
    /// Something to be done. The cost stands until the reply is sent.
    Request { cookie: u64, command: Command, payload: Option<Payload>, cost: Cost },
    /// Something to be refused.
    Refuse { cookie: u64, refusal: Refusal, cost: Cost },
    /// It goes on with what is there.
    Again,
    /// More has to come.
    Wait,
    /// Replies have to be sent first.
    Full,
    /// There is no memory for the request, which others have.
    NoRoom,
    /// TLS begins.
    StartTls,
    /// It is to be finished; why, if that is not how it should end.
    End(Option<String>),
}

#[derive(Debug)]
pub(super) struct Connection {
    /// Its number, which it keeps wherever it goes.
    pub(super) id: u64,
    pub(super) socket: Handle,
    pub(super) generation: u32,
    pub(super) stage: Stage,
    /// When it came.
    pub(super) since: Instant,
    pub(super) input: Input,
    pub(super) tls: Option<Layer>,
    /// Whether the end of TLS was told.
    pub(super) is_tls_closed: bool,
    behind: Behind,
    pub(super) output: Output,
    pub(super) ending: Ending,
    /// When it is closed whatever is left to be sent; set once nothing more is read.
    pub(super) leaves_by: Option<Instant>,
    /// Requests that are not answered and replies that are not sent.
    pub(super) under_way: Cost,
    /// Of these, what is of the memory that connections share.
    pub(super) shared_bytes: u64,
    /// What it waits for of that memory, if it does.
    pub(super) waits_for_bytes: Option<u64>,
    /// Whether it is in the queue of those that wait.
    pub(super) is_queued: bool,
    /// Since when the payload of a write has come in part.
    pub(super) payload_since: Option<Instant>,
    /// Requests that are not answered.
    pub(super) asked: usize,
    pub(super) is_receiving: bool,
    /// What is being sent, and since when.
    pub(super) sending: Option<(Sending, Instant)>,
    /// Whether nothing can be sent any more.
    pub(super) is_broken: bool,
    /// Whether more was to be read and there was no room.
    pub(super) is_full: bool,
    /// Whether it is in the list of those to be looked at.
    pub(super) is_listed: bool,
    /// The reactor that it goes to as soon as nothing is under way.
    pub(super) leaving: Option<usize>,
    /// Requests so far.
    pub(super) requests: u64,
}

impl Connection {
    pub(super) fn new(socket: Handle, generation: u32, handshake: Handshake) -> Self {
        let mut output = Output::default();
        output.head(&wattio_nbd::GREETING);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            socket,
            generation,
            stage: Stage::Handshake(Box::new(handshake)),
            since: Instant::now(),
            input: Input::new(),
            tls: None,
            is_tls_closed: false,
            behind: Behind::Nothing,
            output,
            ending: Ending::No,
            leaves_by: None,
            under_way: Cost::default(),
            shared_bytes: 0,
            waits_for_bytes: None,
            is_queued: false,
            payload_since: None,
            asked: 0,
            is_receiving: false,
            sending: None,
            is_broken: false,
            is_full: false,
            is_listed: false,
            leaving: None,
            requests: 0,
        }
    }

    pub(super) const fn session(&self) -> Option<&Session> {
        match &self.stage {
            Stage::Requests(session) => Some(session),
            Stage::Handshake(_) => None,
        }
    }

    /// Goes on with what has been received.
    pub(super) fn step(&mut self, memory: &mut Recycler, allowed: Allowed) -> Step {
        self.waits_for_bytes = None;
        let step = match &mut self.stage {
            Stage::Handshake(_) => self.negotiate(),
            Stage::Requests(_) => self.request(memory, allowed),
        };
        self.is_full = matches!(step, Step::Full | Step::NoRoom);
        step
    }

    /// Begins TLS; what has come behind its request belongs to it.
    pub(super) fn start_tls(&mut self, identity: Option<&Identity>) -> Result<(), String> {
        let identity = identity.ok_or("TLS is not configured")?;
        let (plain, received) = (self.output.take_heads(), self.input.take_all());
        self.tls = Some(Layer::new(identity, plain, &received)?);
        Ok(())
    }

    /// Decrypts more of what has come; whether there was any. Nothing without TLS.
    pub(super) fn decrypt(&mut self) -> Result<bool, String> {
        let Some(tls) = &mut self.tls else { return Ok(false) };
        let count = self.input.append(|room| tls.read(room))?;
        if let Stage::Handshake(handshake) = &mut self.stage
            && tls.is_up()
            && !handshake.has_tls()
        {
            handshake.tls_started();
        }
        Ok(count > 0)
    }

    fn negotiate(&mut self) -> Step {
        loop {
            let Stage::Handshake(handshake) = &mut self.stage else { return Step::Wait };
            // A client that reads no answers gets no more of them.
            let input = self.input.bytes();
            if input.is_empty() {
                return Step::Wait;
            }
            if self.output.heads_bytes() > ANSWERS_BYTES_MAX {
                return Step::Full;
            }
            let mut fed = None;
            self.output.write(|output| fed = Some(handshake.feed(input, output)));
            let Some(fed) = fed else { return Step::Wait };
            self.input.take(fed.consumed_bytes);
            match fed.next {
                Next::Continue => {}
                Next::Transmission(session) => {
                    self.stage = Stage::Requests(session);
                    return Step::Again;
                }
                Next::StartTls => return Step::StartTls,
                Next::Close(wattio_nbd::Closed::Aborted) => return Step::End(None),
                Next::Close(closed) => return Step::End(Some(closed.to_string())),
            }
        }
    }

    fn request(&mut self, memory: &mut Recycler, allowed: Allowed) -> Step {
        match std::mem::replace(&mut self.behind, Behind::Nothing) {
            Behind::Nothing => self.header(memory, allowed),
            Behind::Payload { cookie, command, payload } => self.payload(cookie, command, payload),
            Behind::Dropped { cookie, refusal } => self.drop_payload(cookie, refusal),
        }
    }

    fn header(&mut self, memory: &mut Recycler, allowed: Allowed) -> Step {
        let Stage::Requests(session) = &self.stage else { return Step::Wait };
        let Some(bytes) = self.input.bytes().first_chunk::<{ Header::BYTES }>() else {
            return Step::Wait;
        };
        let header = match Header::parse(bytes) {
            Ok(header) => header,
            Err(error) => return Step::End(Some(error.to_string())),
        };
        let verdict = session.judge(&header);
        let data_bytes = match &verdict {
            Verdict::Accept(Command::Read { span, .. } | Command::Write { span, .. }) => {
                u64::from(span.length_bytes)
            }
            _ => 0,
        };
        let cost = Cost::of(REQUEST_BYTES + data_bytes);
        let under_way = self.under_way;
        let all_bytes = under_way.bytes + cost.bytes;
        if under_way.requests > 0
            && (all_bytes > allowed.bytes || under_way.requests >= REQUESTS_MAX)
        {
            return Step::Full;
        }
        let more_bytes = shared_bytes(all_bytes) - self.shared_bytes;
        if more_bytes > allowed.shared_bytes {
            self.waits_for_bytes = Some(more_bytes);
            return Step::NoRoom;
        }
        self.input.take(Header::BYTES);
        let cookie = header.cookie;
        match verdict {
            Verdict::Accept(Command::Disconnect) => Step::End(None),
            Verdict::Accept(command) => {
                self.under_way.add(cost);
                if let Command::Write { span, .. } = command {
                    let payload = Payload::new(memory, span.offset_bytes, span.length_bytes);
                    return self.payload(cookie, command, payload);
                }
                Step::Request { cookie, command, payload: None, cost }
            }
            Verdict::Refuse(refusal) => {
                self.under_way.add(cost);
                self.drop_payload(cookie, refusal)
            }
            Verdict::Close(reason) => Step::End(Some(reason.to_string())),
        }
    }

    fn payload(&mut self, cookie: u64, command: Command, mut payload: Payload) -> Step {
        if payload.fill(&mut self.input) {
            let cost = Cost::of(REQUEST_BYTES + u64::from(command.payload_bytes()));
            return Step::Request { cookie, command, payload: Some(payload), cost };
        }
        self.behind = Behind::Payload { cookie, command, payload };
        Step::Wait
    }

    fn drop_payload(&mut self, cookie: u64, mut refusal: Refusal) -> Step {
        let count = self.input.bytes().len().min(refusal.payload_bytes as usize);
        self.input.take(count);
        refusal.payload_bytes -= count as u32;
        if refusal.payload_bytes == 0 {
            return Step::Refuse { cookie, refusal, cost: Cost::of(REQUEST_BYTES) };
        }
        self.behind = Behind::Dropped { cookie, refusal };
        Step::Wait
    }

    /// The memory of a payload so much of which is missing that it is received there; it comes
    /// back with [`Self::payload_received`].
    pub(super) fn payload_to_receive(
        &mut self,
    ) -> Option<(wattio_pages::Pages, std::ops::Range<usize>)> {
        let Behind::Payload { payload, .. } = &mut self.behind else { return None };
        let is_worth =
            self.tls.is_none() && payload.is_worth_receiving() && self.input.bytes().is_empty();
        is_worth.then(|| (std::mem::take(&mut payload.pages), payload.at..payload.end))
    }

    /// The payload has come, in all or so far.
    pub(super) fn payload_received(&mut self, pages: wattio_pages::Pages, count: usize) {
        if let Behind::Payload { payload, .. } = &mut self.behind {
            payload.pages = pages;
            payload.at += count;
        }
    }

    /// Whether the payload of a write has come in part.
    pub(super) const fn is_within_payload(&self) -> bool {
        matches!(self.behind, Behind::Payload { .. })
    }

    /// Whether a request has come in part.
    pub(super) fn is_within_request(&self) -> bool {
        !matches!(self.behind, Behind::Nothing) || !self.input.bytes().is_empty()
    }
}
