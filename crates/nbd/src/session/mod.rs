//! What was negotiated, and which requests it allows.

#[cfg(test)]
mod tests;

use crate::errno::Errno;
use crate::export::{Export, Exports, FastZero};
use crate::reply::{Extent, Reply};
use crate::request::{Command, Header, Span};
use crate::wire::{PAYLOAD_BYTES_BENIGN, command, command_flag as flag};

/// By this number replies name `base:allocation`.
pub(crate) const ALLOCATION_CONTEXT_ID: u32 = 1;

/// A negotiated connection: an export, and the form of its replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    exports: Exports,
    export: usize,
    is_structured: bool,
    has_allocation: bool,
}

/// A request that is answered with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The error of the reply.
    pub errno: Errno,
    /// Its message, for people.
    pub message: &'static str,
    /// So many bytes of payload follow the header; they are read and dropped.
    pub payload_bytes: u32,
}

/// A write with so much payload that it is taken for an attack: the connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a write of {length_bytes} bytes; at most {max_bytes} are read, even to refuse them")]
pub struct TooLong {
    /// Its length.
    pub length_bytes: u32,
    /// What would have been read.
    pub max_bytes: u32,
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Carry it out.
    Accept(Command),
    /// Drop its payload and answer with the error.
    Refuse(Refusal),
    /// Close the connection.
    Close(TooLong),
}

const NO_CONTEXT: &str = "no metadata context was negotiated";

/// An error and its message.
type Fault = (Errno, &'static str);

impl Session {
    pub(crate) fn new(
        exports: Exports,
        export: usize,
        is_structured: bool,
        has_allocation: bool,
    ) -> Self {
        Self { exports, export, is_structured, has_allocation }
    }

    /// What is exported.
    #[must_use]
    pub fn export(&self) -> &Export {
        &self.exports.as_slice()[self.export]
    }

    /// Its place among the [`Exports`] of the handshake.
    #[must_use]
    pub fn export_index(&self) -> usize {
        self.export
    }

    /// Whether replies are structured.
    #[must_use]
    pub fn is_structured(&self) -> bool {
        self.is_structured
    }

    /// Whether block status may be asked for: `base:allocation` was selected for this export.
    #[must_use]
    pub fn has_block_status(&self) -> bool {
        self.has_allocation
    }

    /// Writes replies to the request with this cookie.
    #[must_use]
    pub fn reply(&self, cookie: u64) -> Reply {
        Reply::new(cookie, self.is_structured)
    }

    /// Appends the whole reply to a block status request, whose fields these are: extents that
    /// follow each other from the offset of `span` on. They are taken until `span` is told, cut at
    /// its end, joined where neighbours are of one state, and left out where they are empty; what
    /// comes after is not asked for.
    ///
    /// Fewer than cover `span` are allowed. Where there is none, all of it is told to be allocated
    /// data, as the specification always allows.
    pub fn block_status(
        &self,
        cookie: u64,
        span: Span,
        is_first_only: bool,
        extents: impl IntoIterator<Item = Extent>,
        output: &mut Vec<u8>,
    ) {
        let reply = self.reply(cookie);
        let bytes_max = self.export().block_size.max_payload_bytes;
        match reply.chunks().filter(|_| self.has_allocation) {
            Some(chunks) => chunks.block_status(span, is_first_only, bytes_max, extents, output),
            None => reply.error(Errno::Invalid, NO_CONTEXT, output),
        }
    }

    /// Whether a request is valid here.
    ///
    /// Errors are those of the specification, sections "Request types" and "Error values". Where it
    /// leaves a choice: a length of zero is refused; a read that is too long is `EOVERFLOW` with
    /// structured replies and `EINVAL` without; a write that is too long is `EINVAL` as long as its
    /// payload is not above both the export's maximum and 32 MiB, which is a reason to close.
    /// Commands without payload may be longer than the maximum payload.
    #[must_use]
    pub fn judge(&self, header: &Header) -> Verdict {
        let payload_bytes = if header.command == command::WRITE { header.length_bytes } else { 0 };
        let max_bytes = self.export().block_size.max_payload_bytes.max(PAYLOAD_BYTES_BENIGN);
        if payload_bytes > max_bytes {
            return Verdict::Close(TooLong { length_bytes: payload_bytes, max_bytes });
        }
        match self.command(header) {
            Ok(command) => Verdict::Accept(command),
            Err((errno, message)) => Verdict::Refuse(Refusal { errno, message, payload_bytes }),
        }
    }

    fn command(&self, header: &Header) -> Result<Command, Fault> {
        // A client that wants to go is not held back by what else it says.
        if header.command == command::DISC {
            return Ok(Command::Disconnect);
        }
        self.check_offered(header.command)?;
        self.check_flags(header)?;
        if header.command == command::FLUSH {
            return match (header.offset_bytes, header.length_bytes) {
                (0, 0) => Ok(Command::Flush),
                _ => Err((Errno::Invalid, "a flush with an offset or a length")),
            };
        }
        let span = self.span(header)?;
        let has = |bit| header.flags & bit != 0;
        let is_fua = has(flag::FUA);
        Ok(match header.command {
            command::READ => Command::Read { span, is_unfragmented: has(flag::DF) },
            command::WRITE => Command::Write { span, is_fua },
            command::TRIM => Command::Trim { span, is_fua },
            command::CACHE => Command::Cache { span },
            command::WRITE_ZEROES => Command::WriteZeroes {
                span,
                is_fua,
                may_make_hole: !has(flag::NO_HOLE),
                is_fast_only: has(flag::FAST_ZERO),
            },
            _ => Command::BlockStatus { span, is_first_only: has(flag::REQ_ONE) },
        })
    }

    /// The command is known, and was offered or negotiated.
    fn check_offered(&self, command: u16) -> Result<(), Fault> {
        let export = self.export();
        let writes = [command::WRITE, command::TRIM, command::WRITE_ZEROES].contains(&command);
        if writes && export.is_read_only {
            return Err((Errno::NotPermitted, "the export is read-only"));
        }
        let (is_offered, message) = match command {
            command::READ | command::WRITE => return Ok(()),
            command::FLUSH => (export.can_flush, "the export does not offer flushes"),
            command::TRIM => (export.can_trim, "the export does not offer trims"),
            command::CACHE => (export.can_cache, "the export does not offer caching"),
            command::WRITE_ZEROES => {
                (export.can_write_zeroes, "the export does not offer to write zeroes")
            }
            command::BLOCK_STATUS => (self.has_allocation, NO_CONTEXT),
            _ => (false, "this server does not know the command"),
        };
        if is_offered { Ok(()) } else { Err((Errno::Invalid, message)) }
    }

    /// `FUA` goes with every command; the others with one each.
    fn check_flags(&self, header: &Header) -> Result<(), Fault> {
        let export = self.export();
        let mut known = if export.can_fua { flag::FUA } else { 0 };
        known |= match header.command {
            command::READ if self.is_structured => flag::DF,
            command::WRITE_ZEROES if export.fast_zero != FastZero::NotOffered => {
                flag::NO_HOLE | flag::FAST_ZERO
            }
            command::WRITE_ZEROES => flag::NO_HOLE,
            command::BLOCK_STATUS => flag::REQ_ONE,
            _ => 0,
        };
        if header.flags & !known != 0 {
            return Err((Errno::Invalid, "a flag that this command does not have here"));
        }
        let is_fast = header.flags & flag::FAST_ZERO != 0;
        if is_fast && export.fast_zero == FastZero::AlwaysRefused {
            return Err((Errno::NotSupported, "zeroes are not faster than writing here"));
        }
        Ok(())
    }

    fn span(&self, header: &Header) -> Result<Span, Fault> {
        let export = self.export();
        let Header { offset_bytes, length_bytes, .. } = *header;
        let min_bytes = export.block_size.min_bytes;
        if length_bytes == 0 {
            return Err((Errno::Invalid, "a length of zero"));
        }
        if !offset_bytes.is_multiple_of(min_bytes.into()) || !length_bytes.is_multiple_of(min_bytes)
        {
            return Err((Errno::Invalid, "not a multiple of the minimum block size"));
        }
        let left_bytes = export.size_bytes.checked_sub(offset_bytes);
        if left_bytes.is_none_or(|left_bytes| u64::from(length_bytes) > left_bytes) {
            let writes = [command::WRITE, command::WRITE_ZEROES].contains(&header.command);
            let errno = if writes { Errno::NoSpace } else { Errno::Invalid };
            return Err((errno, "beyond the end of the export"));
        }
        let has_payload = [command::READ, command::WRITE].contains(&header.command);
        if has_payload && length_bytes > export.block_size.max_payload_bytes {
            let is_chunked = self.is_structured && header.command == command::READ;
            let errno = if is_chunked { Errno::Overflow } else { Errno::Invalid };
            return Err((errno, "longer than the maximum payload"));
        }
        Ok(Span { offset_bytes, length_bytes })
    }
}
