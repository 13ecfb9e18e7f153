//! Messages between lanes. On one reactor a message is the argument of a call; between two reactors
//! it goes through a queue.

use wattio_pages::Pages;
use wattio_volume::{Fault, Piece};

/// Names a request: which reactor's Normal lane asks, and under which number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(u64);

impl Tag {
    const REACTOR_SHIFT: u32 = 56;

    /// For request `number` of reactor `reactor`.
    #[must_use]
    pub const fn new(reactor: u8, number: usize) -> Self {
        Self((reactor as u64) << Self::REACTOR_SHIFT | number as u64)
    }

    /// Who asks.
    #[must_use]
    pub const fn reactor(self) -> usize {
        (self.0 >> Self::REACTOR_SHIFT) as usize
    }

    /// The number of the request there.
    #[must_use]
    pub const fn number(self) -> usize {
        (self.0 & ((1 << Self::REACTOR_SHIFT) - 1)) as usize
    }
}

/// To the lane of a volume.
#[derive(Debug)]
pub struct ToVolume {
    /// Which volume: the number of its export.
    pub volume: usize,
    /// Whom to answer.
    pub tag: Tag,
    /// What is asked.
    pub ask: Ask,
}

/// What is asked of a volume. Bytes are within its size.
#[derive(Debug)]
pub enum Ask {
    /// Read whole blocks.
    Read {
        /// The first.
        lba: u64,
        /// How many.
        blocks: u32,
    },
    /// Read whole blocks into the cache.
    Prefetch {
        /// The first.
        lba: u64,
        /// How many.
        blocks: u64,
    },
    /// Change bytes.
    Change(Change),
    /// Make durable what was answered.
    Flush,
    /// How blocks are allocated.
    Allocation {
        /// The first.
        lba: u64,
        /// How many.
        blocks: u64,
        /// In at most so many runs.
        runs_max: usize,
    },
}

/// A change of bytes, which need not be whole blocks.
#[derive(Debug)]
pub struct Change {
    /// The first byte.
    pub offset_bytes: u64,
    /// How many bytes, at least one.
    pub length_bytes: u64,
    /// What they become.
    pub kind: Kind,
    /// Whether the answer comes only when it is durable.
    pub fua: bool,
}

/// What bytes become.
#[derive(Debug)]
pub enum Kind {
    /// These: as many blocks as the change touches, with what is written where it belongs. What
    /// else is in the first and in the last block may be anything.
    Write(Pages),
    /// Zeros; whole blocks may become holes.
    Zero {
        /// Whether they do.
        discard: bool,
    },
    /// Not needed any more: whole blocks become holes, others stay.
    Discard,
}

/// To a Normal lane.
#[derive(Debug)]
pub struct ToNormal {
    /// Which request is answered.
    pub tag: Tag,
    /// How.
    pub answer: Answer,
}

/// The answer of a volume.
#[derive(Debug)]
pub enum Answer {
    /// What was read, nothing for what reads nothing, or why it was not done.
    Done(Result<Vec<Piece>, Fault>),
    /// Runs of blocks: how many, whether they are a hole, whether they read as zeros.
    Allocation(Vec<(u64, bool, bool)>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_reactor_and_a_number() {
        let tag = Tag::new(255, (1 << 56) - 1);
        assert_eq!((tag.reactor(), tag.number()), (255, (1 << 56) - 1));
        assert_eq!((Tag::new(3, 0).reactor(), Tag::new(3, 9).number()), (3, 9));
    }
}
