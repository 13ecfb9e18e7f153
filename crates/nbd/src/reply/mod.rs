//! Replies of the transmission phase: heads, behind which the connection's owner sends payload.

#[cfg(test)]
mod tests;

use crate::errno::Errno;
use crate::request::Span;
use crate::session::ALLOCATION_CONTEXT_ID;
use crate::wire::{SIMPLE_REPLY_MAGIC, STRING_BYTES_MAX, STRUCTURED_REPLY_MAGIC, chunk as kind};

const HEAD_BYTES_MAX: usize = 32;
/// A chunk of block status has at most 2^20 extents (section "Structured reply types").
const EXTENTS_MAX: usize = 1 << 20;

/// The bytes of a reply or a chunk that come before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    length: usize,
}

impl Head {
    fn of(parts: &[&[u8]]) -> Self {
        let mut head = Self { bytes: [0; HEAD_BYTES_MAX], length: 0 };
        for part in parts {
            head.bytes[head.length..head.length + part.len()].copy_from_slice(part);
            head.length += part.len();
        }
        head
    }
}

impl AsRef<[u8]> for Head {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Writes the reply to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    cookie: u64,
    is_structured: bool,
}

/// Whether a chunk is the last of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// More chunks follow.
    More,
    /// The reply ends here.
    Done,
}

/// What is left to do for a read that failed when a part of it was sent already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Send so many zeroes, which complete the chunk, then the error that was put out.
    Pad {
        /// How many.
        zeroes_bytes: u32,
    },
    /// Close the connection: simple replies cannot tell.
    Close,
}

/// A part of the export that is allocated, or not, as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// How long it is.
    pub length_bytes: u64,
    /// `NBD_STATE_HOLE`: not allocated.
    pub is_hole: bool,
    /// `NBD_STATE_ZERO`: known to read as zeroes.
    pub is_zero: bool,
}

impl Extent {
    fn status(&self) -> u32 {
        u32::from(self.is_hole) | u32::from(self.is_zero) << 1
    }
}

impl Reply {
    pub(crate) fn new(cookie: u64, is_structured: bool) -> Self {
        Self { cookie, is_structured }
    }

    /// Success of a command whose reply has no payload.
    #[must_use]
    pub fn done(self) -> Head {
        // Simple also where replies are structured: that is allowed for all but reads.
        self.simple(0)
    }

    /// A read that has succeeded: the data follow, as long as `span`.
    ///
    /// Only for data that are there: no error can be told any more. [`Reply::start_read`] is for
    /// data that are read while they are sent.
    #[must_use]
    pub fn whole_read(self, span: Span) -> Head {
        match self.chunks() {
            Some(chunks) => chunks.data(span, Ending::Done),
            None => self.simple(0),
        }
    }

    /// A read whose data follow but may yet fail, which [`Reply::broken_read`] then tells. After
    /// the data comes the second head, if there is one.
    #[must_use]
    pub fn start_read(self, span: Span) -> (Head, Option<Head>) {
        match self.chunks() {
            Some(chunks) => (chunks.data(span, Ending::More), Some(chunks.none())),
            None => (self.simple(0), None),
        }
    }

    /// A read that fails `sent_bytes` into the data of `span`, whose head was sent. The error with
    /// its place is appended to `output`, to be sent behind the zeroes.
    ///
    /// A chunk that was sent whole, or is empty, has its error at its last byte.
    pub fn broken_read(
        self,
        span: Span,
        sent_bytes: u32,
        errno: Errno,
        message: &str,
        output: &mut Vec<u8>,
    ) -> Broken {
        let Some(chunks) = self.chunks() else { return Broken::Close };
        let at = sent_bytes.min(span.length_bytes.saturating_sub(1));
        let offset_bytes = span.offset_bytes + u64::from(at);
        chunks.error_at(errno, message, offset_bytes, Ending::Done, output);
        Broken::Pad { zeroes_bytes: span.length_bytes.saturating_sub(sent_bytes) }
    }

    /// The request fails, before anything else of its reply was sent. Messages are for people;
    /// only structured replies carry them.
    pub fn error(self, errno: Errno, message: &str, output: &mut Vec<u8>) {
        match self.chunks() {
            Some(chunks) => chunks.error(errno, message, Ending::Done, output),
            None => output.extend_from_slice(self.simple(errno.number()).as_ref()),
        }
    }

    /// Chunks, one by one; `None` where replies are simple.
    #[must_use]
    pub fn chunks(self) -> Option<Chunks> {
        self.is_structured.then_some(Chunks { cookie: self.cookie })
    }

    fn simple(self, errno: u32) -> Head {
        Head::of(&[
            &SIMPLE_REPLY_MAGIC.to_be_bytes(),
            &errno.to_be_bytes(),
            &self.cookie.to_be_bytes(),
        ])
    }
}

/// Writes a structured reply chunk by chunk. Each chunk lies within the request, none overlaps
/// another, and the last one says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    cookie: u64,
}

impl Chunks {
    /// Data follow, as long as `span`, which is not empty and not longer than the maximum payload.
    #[must_use]
    pub fn data(self, span: Span, ending: Ending) -> Head {
        let head = self.head(kind::OFFSET_DATA, ending, 8 + u64::from(span.length_bytes));
        Head::of(&[head.as_ref(), &span.offset_bytes.to_be_bytes()])
    }

    /// `span`, which is not empty, reads as zeroes.
    #[must_use]
    pub fn hole(self, span: Span, ending: Ending) -> Head {
        let head = self.head(kind::OFFSET_HOLE, ending, 12);
        let Span { offset_bytes, length_bytes } = span;
        Head::of(&[head.as_ref(), &offset_bytes.to_be_bytes(), &length_bytes.to_be_bytes()])
    }

    /// Ends the reply, with success if no error was among its chunks.
    #[must_use]
    pub fn none(self) -> Head {
        self.head(kind::NONE, Ending::Done, 0)
    }

    /// The request failed, and nothing of its data may be used. Only the first 4,096 bytes of the
    /// message are sent.
    pub fn error(self, errno: Errno, message: &str, ending: Ending, output: &mut Vec<u8>) {
        self.put_error(kind::ERROR, errno, message, &[], ending, output);
    }

    /// The request failed at this offset, which lies within it.
    pub fn error_at(
        self,
        errno: Errno,
        message: &str,
        offset_bytes: u64,
        ending: Ending,
        output: &mut Vec<u8>,
    ) {
        let offset = offset_bytes.to_be_bytes();
        self.put_error(kind::ERROR_OFFSET, errno, message, &offset, ending, output);
    }

    /// See [`Session::block_status`](crate::Session::block_status). `bytes_max` is the maximum
    /// payload.
    pub(crate) fn block_status(
        self,
        span: Span,
        is_first_only: bool,
        bytes_max: u32,
        extents: impl IntoIterator<Item = Extent>,
        output: &mut Vec<u8>,
    ) {
        let count_max = if is_first_only { 1 } else { (bytes_max as usize / 8).min(EXTENTS_MAX) };
        let mut told: Vec<(u32, u32)> = Vec::new();
        let mut left_bytes = span.length_bytes;
        for extent in extents {
            let (length, status) = (clamped(extent.length_bytes, left_bytes), extent.status());
            let count = told.len();
            match told.last_mut() {
                _ if length == 0 => {}
                Some((before, same)) if *same == status => *before += length,
                _ if count >= count_max.max(1) => break,
                _ => told.push((length, status)),
            }
            left_bytes -= length;
            if left_bytes == 0 {
                break;
            }
        }
        if told.is_empty() {
            told.push((span.length_bytes, 0));
        }
        let head = self.head(kind::BLOCK_STATUS, Ending::Done, 4 + 8 * told.len() as u64);
        output.extend_from_slice(head.as_ref());
        output.extend_from_slice(&ALLOCATION_CONTEXT_ID.to_be_bytes());
        for (length, status) in told {
            output.extend_from_slice(&length.to_be_bytes());
            output.extend_from_slice(&status.to_be_bytes());
        }
    }

    fn put_error(
        self,
        kind: u16,
        errno: Errno,
        message: &str,
        after: &[u8],
        ending: Ending,
        output: &mut Vec<u8>,
    ) {
        let message = cut(message);
        let length = 6 + message.len() + after.len();
        output.extend_from_slice(self.head(kind, ending, length as u64).as_ref());
        output.extend_from_slice(&errno.number().to_be_bytes());
        // At most 4,096, by `cut`.
        output.extend_from_slice(&u16::try_from(message.len()).unwrap_or(0).to_be_bytes());
        output.extend_from_slice(message.as_bytes());
        output.extend_from_slice(after);
    }

    /// The length fits: data are at most 32 bits long less the eight of their offset, because an
    /// export's maximum payload bounds them; the rest is small.
    fn head(self, kind: u16, ending: Ending, length: u64) -> Head {
        let flags = if ending == Ending::Done { kind::FLAG_DONE } else { 0 };
        Head::of(&[
            &STRUCTURED_REPLY_MAGIC.to_be_bytes(),
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &self.cookie.to_be_bytes(),
            &u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes(),
        ])
    }
}

fn clamped(length_bytes: u64, max_bytes: u32) -> u32 {
    u32::try_from(length_bytes).map_or(max_bytes, |length| length.min(max_bytes))
}

/// The first part of a message that the protocol allows, cut between characters.
fn cut(message: &str) -> &str {
    let message = message.split('\0').next().unwrap_or("");
    let lengths = (0..=message.len().min(STRING_BYTES_MAX)).rev();
    let length = lengths.into_iter().find(|&length| message.is_char_boundary(length));
    &message[..length.unwrap_or(0)]
}
