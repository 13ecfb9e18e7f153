//! Single blocks, of which a cache has many.
//!
//! An allocator takes two blocks of memory for one that has to begin at a multiple of its size. So
//! they are cut from runs, and kept for the next one when they are let go: a process has as many as
//! it once needed.

use crate::BLOCK;
use bytes::BytesMut;
use std::sync::{Mutex, PoisonError};

/// Blocks that are cut from one run.
const RUN: usize = 64;

/// Blocks that nobody has.
static FREE: Mutex<Vec<BytesMut>> = Mutex::new(Vec::new());

/// One block, which goes back when it is dropped.
pub(crate) struct Single(BytesMut);

impl Single {
    /// A block; what is in it may be anything.
    pub(crate) fn take() -> Self {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let found = free.pop();
        Self(found.unwrap_or_else(|| {
            let mut run = BytesMut::zeroed((RUN + 1) * BLOCK);
            let before = run.as_ptr().align_offset(BLOCK);
            drop(run.split_to(before));
            free.extend((1..RUN).map(|_| run.split_to(BLOCK)));
            run.split_to(BLOCK)
        }))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pages;

    /// One block at a time from the allocator took the memory of two.
    #[test]
    fn single_blocks_are_apart_and_begin_where_blocks_do() {
        let mut singles: Vec<Pages> = (0..5 * RUN).map(|_| Pages::single()).collect();
        for (at, single) in singles.iter_mut().enumerate() {
            assert_eq!((single.len_blocks(), single.capacity_blocks()), (1, 1));
            assert_eq!(single.as_bytes().as_ptr().align_offset(BLOCK), 0);
            single.block_mut(0).fill(at as u8);
        }
        for (at, single) in singles.iter().enumerate() {
            assert_eq!(single.block(0), &[at as u8; BLOCK]);
        }
        let mut places: Vec<usize> =
            singles.iter().map(|single| single.as_bytes().as_ptr() as usize).collect();
        places.sort_unstable();
        let next = places.windows(2).filter(|pair| pair[1] - pair[0] == BLOCK).count();
        assert!(next >= 4 * (RUN - 1), "most lie next to each other: {next}");
        singles[1].truncate(0);
        assert!(singles[1].is_empty() && singles[1].as_bytes().is_empty());
    }

    /// What is let go is used again, on whatever thread: memory does not grow with time.
    #[test]
    fn as_many_are_kept_as_were_needed_at_once() {
        let place = |single: &Pages| single.as_bytes().as_ptr() as usize;
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let singles: Vec<Pages> = (0..100).map(|_| Pages::single()).collect();
            places.extend(singles.iter().map(place));
            std::thread::spawn(move || drop(singles)).join().unwrap();
        }
        // Other tests take and leave some meanwhile.
        assert!(places.len() < 1000, "{}", places.len());
    }
}
