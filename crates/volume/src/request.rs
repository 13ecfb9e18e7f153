//! The requests of clients to a volume, and the answers.

use crate::devices::Part;

/// What a client asks of a volume, in whole blocks.
#[derive(Clone, Debug)]
pub enum Request {
    /// Read blocks.
    Read {
        /// The first block.
        lba: u64,
        /// How many.
        blocks: u32,
    },
    /// Write blocks.
    Write {
        /// The first block.
        lba: u64,
        /// What.
        data: Part,
        /// Whether the answer comes only when the data is durable.
        fua: bool,
    },
    /// Write zeros, or discard: either reads as zeros.
    Zero {
        /// The first block.
        lba: u64,
        /// How many.
        blocks: u64,
        /// Whether the blocks become holes.
        discard: bool,
        /// Whether the answer comes only when it is durable.
        fua: bool,
    },
    /// Make durable everything that was answered before.
    Flush,
}

/// Why a request was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A device failed, or the data is damaged.
    Io,
    /// There is no space left.
    NoSpace,
    /// It reaches beyond the end of the volume.
    Beyond,
}

/// A run of blocks that was read.
#[derive(Clone, Debug)]
pub enum Piece {
    /// So many blocks of zeros; whether they are a hole.
    Zeros(u32, bool),
    /// Data.
    Data(Part),
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    /// The request's tag.
    pub tag: u64,
    /// What was read, nothing for requests that read nothing, or why it was not done.
    pub result: Result<Vec<Piece>, Fault>,
}
