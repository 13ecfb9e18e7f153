//! Memory that is used again, since mapping and clearing pages costs more than most I/O does.

use crate::{BLOCK, Pages};

/// Runs of blocks that were given back, by size class: powers of two of blocks.
///
/// It belongs to one thread. What it keeps is bounded; what does not fit is freed.
#[derive(Debug)]
pub struct Recycler {
    /// Index: binary logarithm of the blocks of a run.
    classes: Vec<Vec<Pages>>,
    kept_blocks: usize,
    kept_blocks_max: usize,
}

impl Recycler {
    /// One that keeps `kept_bytes_max` at the most.
    #[must_use]
    pub const fn new(kept_bytes_max: usize) -> Self {
        Self { classes: Vec::new(), kept_blocks: 0, kept_blocks_max: kept_bytes_max / BLOCK }
    }

    /// A run of `blocks`. Its contents are whatever they were: who takes it writes it whole, or
    /// clears what it does not write.
    #[must_use]
    pub fn take(&mut self, blocks: usize) -> Pages {
        let class = blocks.next_power_of_two();
        let index = class.ilog2() as usize;
        let mut pages = match self.classes.get_mut(index).and_then(Vec::pop) {
            Some(pages) => {
                self.kept_blocks -= class;
                pages
            }
            None if class == 1 => Pages::single(),
            None => Pages::zeroed(class),
        };
        pages.len = blocks;
        pages
    }

    /// Takes a run back, wherever it came from.
    pub fn give(&mut self, pages: Pages) {
        let class = pages.capacity_blocks();
        if !class.is_power_of_two() || self.kept_blocks + class > self.kept_blocks_max {
            return;
        }
        let index = class.ilog2() as usize;
        if self.classes.len() <= index {
            self.classes.resize_with(index + 1, Vec::new);
        }
        self.kept_blocks += class;
        self.classes[index].push(pages);
    }

    /// Bytes that wait to be used again.
    #[must_use]
    pub const fn kept_bytes(&self) -> usize {
        self.kept_blocks * BLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The count of what is kept is that of what is there, and never above the bound.
        #[test]
        fn what_is_kept_is_bounded(steps in prop::collection::vec((any::<bool>(), 0usize..40), 1..80)) {
            let mut recycler = Recycler::new(64 * BLOCK);
            let mut out = Vec::new();
            for (take, blocks) in steps {
                if take {
                    let pages = recycler.take(blocks);
                    prop_assert_eq!(pages.len_blocks(), blocks);
                    prop_assert_eq!(pages.as_bytes().len(), blocks * BLOCK);
                    out.push(pages);
                } else if let Some(mut pages) = out.pop() {
                    pages.truncate(blocks);
                    recycler.give(pages);
                }
                let kept = recycler.classes.iter().flatten().map(Pages::capacity_blocks);
                prop_assert_eq!(recycler.kept_bytes(), kept.sum::<usize>() * BLOCK);
                prop_assert!(recycler.kept_bytes() <= 64 * BLOCK);
            }
        }
    }

    #[test]
    fn the_same_memory_comes_back_for_any_size_of_its_class() {
        let mut recycler = Recycler::new(1 << 20);
        let pages = recycler.take(3);
        let address = pages.as_bytes().as_ptr();
        recycler.give(pages);
        assert_eq!(recycler.kept_bytes(), 4 * BLOCK);
        let again = recycler.take(4);
        assert_eq!((again.as_bytes().as_ptr(), recycler.kept_bytes()), (address, 0));
    }

    #[test]
    fn odd_runs_are_freed() {
        let mut recycler = Recycler::new(1 << 20);
        recycler.give(Pages::zeroed(3));
        recycler.give(Pages::default());
        assert_eq!(recycler.kept_bytes(), 0);
    }
}
