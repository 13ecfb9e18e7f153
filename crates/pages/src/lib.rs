//! Memory in whole blocks of 4096 bytes that begin at multiples of 4096, as direct I/O needs it.
//!
//! Below everything that handles blocks: what computes with them ([`Pages`] are plain bytes) and
//! what hands them to the kernel share this one type, so that nothing is copied in between. Data
//! that is written to two places at once is shared as `Arc<Pages>`.

mod recycler;
mod single;

pub use recycler::Recycler;

use single::Single;
use std::fmt;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Bytes of a block, and its alignment.
pub const BLOCK: usize = 4096;

/// One block, where the kernel wants blocks to be.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
pub struct Block([u8; BLOCK]);

/// An owned run of blocks.
///
/// Its address stays the same while it is moved, truncated or shared.
#[derive(Default)]
pub struct Pages {
    memory: Memory,
    /// At most as many as there are; what is beyond is kept for a later use of the same memory.
    len: usize,
}

enum Memory {
    Run(Vec<Block>),
    Single(Single),
}

impl Default for Memory {
    fn default() -> Self {
        Self::Run(Vec::new())
    }
}

impl Pages {
    /// `count` blocks of zeros, which the allocator gives without writing them where it can.
    ///
    /// # Panics
    ///
    /// If there is no memory for them, as `Vec` does.
    #[must_use]
    pub fn zeroed(count: usize) -> Self {
        let Ok(blocks) = Block::new_vec_zeroed(count) else {
            panic!("no memory for {count} blocks of {BLOCK} bytes");
        };
        Self { memory: Memory::Run(blocks), len: count }
    }

    /// One block, of contents that may be anything: memory that another one has left, if there is
    /// any.
    #[must_use]
    pub fn single() -> Self {
        Self { memory: Memory::Single(Single::take()), len: 1 }
    }

    /// A copy of `bytes`, with zeros up to a whole block.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Self {
        let mut pages = Self::zeroed(bytes.len().div_ceil(BLOCK));
        pages.as_bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        pages
    }

    /// How many blocks these are.
    #[must_use]
    pub const fn len_blocks(&self) -> usize {
        self.len
    }

    /// How many bytes these are: a multiple of [`BLOCK`].
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        self.len * BLOCK
    }

    /// Whether there is no block.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Run(blocks) => blocks[..self.len].as_bytes(),
            Memory::Single(single) => &single.bytes()[..self.len * BLOCK],
        }
    }

    /// All bytes, to be changed.
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Run(blocks) => blocks[..self.len].as_mut_bytes(),
            Memory::Single(single) => &mut single.bytes_mut()[..self.len * BLOCK],
        }
    }

    /// Block `index`.
    ///
    /// # Panics
    ///
    /// If there is no such block.
    #[must_use]
    pub fn block(&self, index: usize) -> &[u8; BLOCK] {
        let (blocks, _) = self.as_bytes().as_chunks();
        &blocks[index]
    }

    /// Block `index`, to be changed.
    ///
    /// # Panics
    ///
    /// If there is no such block.
    #[must_use]
    pub fn block_mut(&mut self, index: usize) -> &mut [u8; BLOCK] {
        let (blocks, _) = self.as_bytes_mut().as_chunks_mut();
        &mut blocks[index]
    }

    /// Keeps the first `blocks` blocks; nothing happens if there are no more.
    pub fn truncate(&mut self, blocks: usize) {
        self.len = self.len.min(blocks);
    }

    /// Blocks of the memory behind, those that were truncated included.
    #[must_use]
    pub const fn capacity_blocks(&self) -> usize {
        match &self.memory {
            Memory::Run(blocks) => blocks.len(),
            Memory::Single(_) => 1,
        }
    }
}

impl Clone for Pages {
    fn clone(&self) -> Self {
        Self::from_slice(self.as_bytes())
    }
}

impl PartialEq for Pages {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Pages {}

impl fmt::Debug for Pages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pages({} blocks)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_copy_is_what_was_given_then_zeros(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
            let pages = Pages::from_slice(&bytes);
            let (copy, padding) = pages.as_bytes().split_at(bytes.len());
            prop_assert_eq!(copy, &bytes);
            prop_assert!(padding.len() < BLOCK && padding.iter().all(|&byte| byte == 0));
            prop_assert_eq!(pages.len_bytes() % BLOCK, 0);
            prop_assert_eq!(pages.as_bytes().as_ptr().align_offset(BLOCK), 0);
        }
    }

    #[test]
    fn blocks_are_views_of_the_bytes() {
        let mut pages = Pages::zeroed(3);
        pages.block_mut(1).fill(7);
        assert_eq!(pages.block(1), &[7; BLOCK]);
        assert_eq!(pages.as_bytes()[BLOCK - 1..=BLOCK], [0, 7]);
        pages.truncate(9);
        assert_eq!(pages.len_blocks(), 3);
        pages.truncate(2);
        assert_eq!((pages.len_bytes(), pages.capacity_blocks()), (2 * BLOCK, 3));
        assert_eq!(pages.clone(), pages);
        assert_ne!(Pages::zeroed(2), pages);
        assert!(Pages::default().is_empty());
    }

    #[test]
    #[should_panic(expected = "the len is 1 but the index is 1")]
    fn a_block_that_was_truncated_is_gone() {
        let mut pages = Pages::zeroed(2);
        pages.truncate(1);
        let _ = pages.block(1);
    }
}
