//! Room for blocks in a stretch of memory: given out in order, and given back in the same order.
//!
//! Positions only grow; where they lie in memory is what is left after division by its size. A block
//! is never cut in two: what does not fit before the end begins anew at the start.

use std::collections::VecDeque;

/// Blocks begin at multiples of this, as caches and vector units like it.
pub const ALIGNMENT: u64 = 64;

/// Who has what of a stretch of memory.
#[derive(Debug)]
pub struct Ring {
    capacity: u64,
    head: u64,
    tail: u64,
    /// Up to where memory becomes free as soon as so many entries are done.
    marks: VecDeque<(u64, u64)>,
}

impl Ring {
    /// All is free; the size is rounded down to the alignment.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let capacity = bytes / ALIGNMENT * ALIGNMENT;
        Self { capacity, head: 0, tail: 0, marks: VecDeque::new() }
    }

    /// How large a block may be.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether nothing is taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// The offset of free bytes, taken from now on; `None` where there are not so many in a row.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let length = bytes.max(1).checked_next_multiple_of(ALIGNMENT)?;
        if length > self.capacity {
            return None;
        }
        if self.is_empty() {
            // From the start again, where there is most room.
            self.head = self.head.next_multiple_of(self.capacity);
            self.tail = self.head;
        }
        let offset = self.head % self.capacity;
        let skipped = if offset + length > self.capacity { self.capacity - offset } else { 0 };
        if self.head + skipped + length - self.tail > self.capacity {
            return None;
        }
        let start = self.head + skipped;
        self.head = start + length;
        Some(start % self.capacity)
    }

    /// What has been taken so far belongs to this entry, or to those before it.
    pub fn mark(&mut self, entry: u64) {
        self.marks.push_back((entry, self.head));
    }

    /// So many entries are done: what belongs to them is free.
    pub fn release(&mut self, done: u64) {
        while let Some(&(entry, end)) = self.marks.front()
            && entry < done
        {
            // Where an entry took nothing, all may have begun anew since its mark.
            self.tail = self.tail.max(end);
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_dump_as_large_as_all_fits_again_and_again() {
        let mut ring = Ring::new(1 << 20);
        for entry in 0..5 {
            ring.release(entry);
            assert_eq!(ring.take(1 << 20), Some(0));
            assert_eq!(ring.take(1), None);
            ring.mark(entry);
        }
    }

    #[test]
    fn an_entry_that_took_nothing_gives_nothing_back() {
        let mut ring = Ring::new(1024);
        assert_eq!(ring.take(64), Some(0));
        ring.mark(0);
        ring.mark(1);
        ring.release(1);
        assert_eq!(ring.take(64), Some(0));
        ring.release(2);
        assert_eq!(ring.take(512), Some(64));
    }

    proptest! {
        /// Against the plain statement: blocks that are held do not overlap and lie within. Entries have a
        /// block or none, and some are done before there is need.
        #[test]
        fn blocks_that_are_held_never_overlap(
            entries in prop::collection::vec((prop::option::of(0u64..700), any::<bool>()), 1..80)
        ) {
            let mut ring = Ring::new(2048);
            let mut held: VecDeque<Option<(u64, u64)>> = VecDeque::new();
            let mut done = 0;
            for (entry, (bytes, early)) in (0..).zip(entries) {
                let mut block = None;
                while let Some(bytes) = bytes && block.is_none() {
                    block = ring.take(bytes).map(|start| (start, start + bytes.max(1)));
                    if block.is_none() {
                        let some = held.iter().any(Option::is_some);
                        prop_assert!(some, "{bytes} B do not fit into all");
                        held.pop_front();
                        done += 1;
                        ring.release(done);
                    }
                }
                if let Some((start, end)) = block {
                    prop_assert!(start % ALIGNMENT == 0 && end <= 2048);
                    let mut others = held.iter().flatten();
                    prop_assert!(others.all(|&(from, to)| end <= from || to <= start));
                }
                held.push_back(block);
                ring.mark(entry);
                if early {
                    held.pop_front();
                    done += 1;
                    ring.release(done);
                }
            }
        }
    }
}
