//! Requests of the transmission phase.

use crate::wire::{Fields, REQUEST_MAGIC};

/// A request as it stands on the wire, not judged yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Command flags.
    pub flags: u16,
    /// Type of the command.
    pub command: u16,
    /// The client's word for this request, which the reply repeats.
    pub cookie: u64,
    /// Where in the export.
    pub offset_bytes: u64,
    /// How much; of a write, also the payload's length.
    pub length_bytes: u32,
}

/// A request that does not open with the magic number. Where the next one begins is unknown, so the
/// connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a request opens with {0:#010x} instead of 0x25609513")]
pub struct BadMagic(pub u32);

impl Header {
    /// Length of a request without its payload.
    pub const BYTES: usize = 28;

    /// Reads one request.
    ///
    /// # Errors
    /// It does not open with the magic number: close the connection.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, BadMagic> {
        let mut fields = Fields(bytes);
        let mut read = || {
            let magic = fields.u32()?;
            let header = Self {
                flags: fields.u16()?,
                command: fields.u16()?,
                cookie: fields.u64()?,
                offset_bytes: fields.u64()?,
                length_bytes: fields.u32()?,
            };
            Some((magic, header))
        };
        match read() {
            Some((REQUEST_MAGIC, header)) => Ok(header),
            Some((magic, _)) => Err(BadMagic(magic)),
            // All fields together are as long as the array.
            None => Err(BadMagic(0)),
        }
    }

    /// As a client sends it.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset_bytes.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length_bytes.to_be_bytes());
        bytes
    }
}

/// A range of the export: within its size, a multiple of its minimum block size, not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u32,
}

impl Span {
    /// The first byte behind it.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes + u64::from(self.length_bytes)
    }
}

/// A request that may be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Read, not more than the maximum payload.
    Read {
        /// What.
        span: Span,
        /// `DF`: at most one chunk of content in the reply.
        is_unfragmented: bool,
    },
    /// Write the payload, which follows the header; not more than the maximum payload.
    Write {
        /// Where to.
        span: Span,
        /// `FUA`: on stable storage before the reply.
        is_fua: bool,
    },
    /// Answer what is in flight, end TLS, close. There is no reply.
    Disconnect,
    /// All writes that were answered, on any connection if the export says so, are on stable
    /// storage before the reply.
    Flush,
    /// These bytes are not needed any more.
    Trim {
        /// Which.
        span: Span,
        /// `FUA`: on stable storage before the reply.
        is_fua: bool,
    },
    /// These bytes are about to be read.
    Cache {
        /// Which.
        span: Span,
    },
    /// These bytes are zero from here on.
    WriteZeroes {
        /// Which.
        span: Span,
        /// `FUA`: on stable storage before the reply.
        is_fua: bool,
        /// `NO_HOLE` is not set: the range need not stay allocated.
        may_make_hole: bool,
        /// `FAST_ZERO`: answer [`Errno::NotSupported`](crate::Errno::NotSupported) at once unless
        /// this is faster than writing.
        is_fast_only: bool,
    },
    /// Which of these bytes are allocated.
    BlockStatus {
        /// Which.
        span: Span,
        /// `REQ_ONE`: tell of the first extent only.
        is_first_only: bool,
    },
}

impl Command {
    /// How many bytes of payload follow the header.
    #[must_use]
    pub fn payload_bytes(&self) -> u32 {
        match self {
            Self::Write { span, .. } => span.length_bytes,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BadMagic, Header};
    use proptest::prelude::*;

    #[test]
    fn other_magic_numbers_are_told() {
        // The historic number, and that of extended headers.
        for magic in [0x1256_0953_u32, 0x21e4_1c71, 0] {
            let mut bytes = [0; Header::BYTES];
            bytes[..4].copy_from_slice(&magic.to_be_bytes());
            assert_eq!(Header::parse(&bytes), Err(BadMagic(magic)));
        }
    }

    proptest! {
        #[test]
        fn a_header_comes_back_from_its_bytes(
            (flags, command, cookie, offset_bytes, length_bytes)
                in any::<(u16, u16, u64, u64, u32)>(),
        ) {
            let header = Header { flags, command, cookie, offset_bytes, length_bytes };
            prop_assert_eq!(Header::parse(&header.encode()), Ok(header));
        }

        #[test]
        fn bytes_come_back_from_their_header(mut bytes in any::<[u8; Header::BYTES]>()) {
            bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
            prop_assert_eq!(Header::parse(&bytes).map(|header| header.encode()), Ok(bytes));
        }
    }
}
