//! Fixed newstyle negotiation: options until there is a session, or none.

mod options;
mod replies;
#[cfg(test)]
mod tests;

use crate::export::Exports;
use crate::session::Session;
use crate::wire::{Fields, INIT_MAGIC, OPTION_MAGIC, handshake_flag, option};

/// What a server says first: both magic numbers, and that it knows fixed newstyle and can leave out
/// the zeroes behind `EXPORT_NAME`. Not repeated after TLS has started.
pub const GREETING: [u8; 18] = greeting();

/// No option with more data than this is looked into: eight strings of the longest kind.
const DATA_BYTES_MAX: usize = 32_768;
const CLIENT_FLAGS_BYTES: usize = 4;
const OPTION_HEAD_BYTES: usize = 16;

/// A handshake holds no more than this of an option that has not arrived whole.
pub const HELD_BYTES_MAX: usize = DATA_BYTES_MAX;

const fn greeting() -> [u8; 18] {
    let (init, option) = (INIT_MAGIC.to_be_bytes(), OPTION_MAGIC.to_be_bytes());
    let flags = (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES).to_be_bytes();
    let mut bytes = [0; 18];
    let mut at = 0;
    while at < 8 {
        bytes[at] = init[at];
        bytes[8 + at] = option[at];
        at += 1;
    }
    bytes[16] = flags[0];
    bytes[17] = flags[1];
    bytes
}

/// Whether connections are encrypted. The specification calls these modes NOTLS, SELECTIVETLS
/// (without exports that insist on TLS) and FORCEDTLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPolicy {
    /// `STARTTLS` is refused.
    Off,
    /// The client may start TLS.
    Allowed,
    /// Until TLS has started every option but `STARTTLS` and `ABORT` is refused.
    Required,
}

/// Why a connection is to be closed; what was put out before still goes to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The client is done, and has said so.
    #[error("the client ended the negotiation")]
    Aborted,
    /// Flags that were not offered.
    #[error("client flags {0:#x}; only those of {known:#x} are known", known = KNOWN_CLIENT_FLAGS)]
    UnknownClientFlags(u32),
    /// The client does not follow the protocol.
    #[error("an option opens with {0:#018x} instead of IHAVEOPT")]
    BadMagic(u64),
    /// A client that does not speak fixed newstyle sent an option that only this has.
    #[error("option {0} from a client without fixed newstyle")]
    NotFixed(u32),
    /// `EXPORT_NAME` cannot be refused in another way.
    #[error("the client asked for an export that is not there")]
    UnknownExport,
    /// As before; or a client that cannot start TLS.
    #[error("the client asked for an export without the TLS that is required")]
    TlsRequired,
    /// The handshake had ended before.
    #[error("bytes for a handshake that is over")]
    Over,
}

/// What the owner of the connection does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Send the output, then feed the rest of the input, or what arrives.
    Continue,
    /// Send the output, then start TLS as its server; the rest of the input belongs to TLS, as does
    /// everything that follows. Once it is up, call [`Handshake::tls_started`] and feed what comes
    /// out of it. If it fails, close.
    StartTls,
    /// Send the output; the rest of the input are requests.
    Transmission(Session),
    /// Send the output and close.
    Close(Closed),
}

/// What became of the input.
#[derive(Debug, Clone, PartialEq)]
pub struct Fed {
    /// So much of the input was taken; the rest is for whoever `next` names.
    pub consumed_bytes: usize,
    /// What comes next.
    pub next: Next,
}

const KNOWN_CLIENT_FLAGS: u32 = (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES) as u32;

/// What is awaited.
#[derive(Debug, Clone, Copy)]
enum State {
    ClientFlags,
    OptionHead,
    Data {
        option: u32,
        length_bytes: usize,
    },
    /// The data of an option that is too long: they are dropped as they come.
    Drop {
        option: u32,
        left_bytes: u32,
    },
    Tls,
    Over,
}

/// One connection's negotiation.
#[derive(Debug)]
pub struct Handshake {
    exports: Exports,
    tls: TlsPolicy,
    state: State,
    held: Vec<u8>,
    is_fixed: bool,
    no_zeroes: bool,
    has_tls: bool,
    is_structured: bool,
    /// The export for which `base:allocation` was selected, if it was.
    allocation_of: Option<usize>,
}

impl Handshake {
    /// For a connection that was just accepted and to which [`GREETING`] is sent.
    #[must_use]
    pub fn new(exports: Exports, tls: TlsPolicy) -> Self {
        Self {
            exports,
            tls,
            state: State::ClientFlags,
            held: Vec::new(),
            is_fixed: false,
            no_zeroes: false,
            has_tls: false,
            is_structured: false,
            allocation_of: None,
        }
    }

    /// Takes in what arrived, at most one option at a time, and appends the answer to `output`: a
    /// client that sends many options and reads no answer costs the answer to one of them. What
    /// arrived of an unfinished option is kept here, at most [`HELD_BYTES_MAX`].
    pub fn feed(&mut self, input: &[u8], output: &mut Vec<u8>) -> Fed {
        let mut rest = input;
        let next = loop {
            if let Some(next) = self.step(&mut rest, output) {
                break next;
            }
        };
        if matches!(next, Next::Transmission(_) | Next::Close(_)) {
            self.state = State::Over;
        }
        Fed { consumed_bytes: input.len() - rest.len(), next }
    }

    /// One message more; `None` where it needs no answer.
    fn step(&mut self, rest: &mut &[u8], output: &mut Vec<u8>) -> Option<Next> {
        match self.state {
            State::Tls => Some(Next::StartTls),
            State::Over => Some(Next::Close(Closed::Over)),
            State::ClientFlags => match self.whole(rest, CLIENT_FLAGS_BYTES) {
                Some(message) => self.client_flags(&message),
                None => Some(Next::Continue),
            },
            State::OptionHead => match self.whole(rest, OPTION_HEAD_BYTES) {
                Some(message) => self.option_head(&message),
                None => Some(Next::Continue),
            },
            State::Data { option, length_bytes } => match self.whole(rest, length_bytes) {
                Some(data) => {
                    self.state = State::OptionHead;
                    Some(self.answer(option, &data, output))
                }
                None => Some(Next::Continue),
            },
            State::Drop { option, left_bytes } => {
                let (dropped, left_bytes) = match u32::try_from(rest.len()) {
                    Ok(here) if here < left_bytes => (rest.len(), left_bytes - here),
                    _ => (left_bytes as usize, 0),
                };
                *rest = &rest[dropped..];
                if left_bytes > 0 {
                    self.state = State::Drop { option, left_bytes };
                    return Some(Next::Continue);
                }
                self.state = State::OptionHead;
                Some(self.answer_dropped(option, output))
            }
        }
    }

    /// A message of this length, once all of it is there; until then its parts are kept.
    fn whole(&mut self, rest: &mut &[u8], length_bytes: usize) -> Option<Vec<u8>> {
        let (part, after) = rest.split_at(rest.len().min(length_bytes - self.held.len()));
        self.held.reserve_exact(length_bytes - self.held.len());
        self.held.extend_from_slice(part);
        *rest = after;
        (self.held.len() == length_bytes).then(|| std::mem::take(&mut self.held))
    }

    fn client_flags(&mut self, message: &[u8]) -> Option<Next> {
        let flags = Fields(message).u32()?;
        if flags & !KNOWN_CLIENT_FLAGS != 0 {
            return Some(Next::Close(Closed::UnknownClientFlags(flags)));
        }
        self.is_fixed = flags & u32::from(handshake_flag::FIXED_NEWSTYLE) != 0;
        self.no_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) != 0;
        self.state = State::OptionHead;
        None
    }

    fn option_head(&mut self, message: &[u8]) -> Option<Next> {
        let mut fields = Fields(message);
        let (magic, option, length) = (fields.u64()?, fields.u32()?, fields.u32()?);
        if magic != OPTION_MAGIC {
            return Some(Next::Close(Closed::BadMagic(magic)));
        }
        if !self.is_fixed && option != option::EXPORT_NAME {
            return Some(Next::Close(Closed::NotFixed(option)));
        }
        self.state = match usize::try_from(length) {
            Ok(length_bytes) if length_bytes <= DATA_BYTES_MAX => {
                State::Data { option, length_bytes }
            }
            _ if option == option::EXPORT_NAME => return Some(Next::Close(self.no_export())),
            _ => State::Drop { option, left_bytes: length },
        };
        None
    }

    /// TLS is up: what is fed from here on came out of it. What was negotiated before is forgotten,
    /// as the specification demands; only the client's flags, which are not sent again, stay.
    pub fn tls_started(&mut self) {
        if matches!(self.state, State::Tls) {
            self.has_tls = true;
            self.is_structured = false;
            self.allocation_of = None;
            self.state = State::OptionHead;
        }
    }

    /// Whether TLS has started.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.has_tls
    }

    /// How much memory the parts of an unfinished option take.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.capacity()
    }
}
