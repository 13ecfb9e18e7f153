//! Which changes must wait for others.
//!
//! Changes of whole blocks take effect in the order in which they are passed to the volume. A
//! change that covers only part of a block first reads the block: nothing may change the block
//! between that read and its write, and changes passed to the volume before the read may not have
//! taken effect yet. So a partial change waits for all changes of its blocks that are in progress,
//! and all later changes of its blocks wait for it. Later changes also wait for changes that are
//! themselves waiting, so that nothing waits for ever.

use crate::messages::{Change, Tag};
use std::collections::VecDeque;

/// Changes under way, and those that wait.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// First block, the one after the last, and whether it is partial.
    under_way: Vec<(u64, u64, bool)>,
    partial: usize,
    waiting: VecDeque<(Tag, Change)>,
}

impl Order {
    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a change; it comes back if it may begin.
    pub(super) fn admit(&mut self, tag: Tag, change: Change) -> Option<(Tag, Change)> {
        if self.waits(&change, self.waiting.len()) {
            self.waiting.push_back((tag, change));
            return None;
        }
        self.begin(&change);
        Some((tag, change))
    }

    /// The next one of those waiting that may begin.
    pub(super) fn next(&mut self) -> Option<(Tag, Change)> {
        let mut all = 0..self.waiting.len();
        let first = all.find(|&at| !self.waits(&self.waiting[at].1, at))?;
        let (tag, change) = self.waiting.remove(first)?;
        self.begin(&change);
        Some((tag, change))
    }

    /// A change of these blocks has ended.
    pub(super) fn changed(&mut self, first: u64, end: u64) {
        let mut all = self.under_way.iter();
        if let Some(at) = all.position(|&(from, to, _)| (from, to) == (first, end)) {
            let (_, _, is_partial) = self.under_way.swap_remove(at);
            self.partial -= usize::from(is_partial);
        }
    }

    fn begin(&mut self, change: &Change) {
        let (first, end) = change.blocks();
        let is_partial = !change.is_whole();
        self.partial += usize::from(is_partial);
        self.under_way.push((first, end, is_partial));
    }

    /// Whether a change waits, with `before` of those that wait before it.
    fn waits(&self, change: &Change, before: usize) -> bool {
        let is_partial = !change.is_whole();
        if !is_partial && self.partial == 0 && before == 0 {
            return false;
        }
        let (first, end) = change.blocks();
        let meets = |from: u64, to: u64| from < end && first < to;
        let mut under_way = self.under_way.iter();
        under_way.any(|&(from, to, other)| (is_partial || other) && meets(from, to))
            || self.waiting.iter().take(before).any(|(_, earlier)| {
                let (from, to) = earlier.blocks();
                meets(from, to)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Kind;
    use proptest::prelude::*;

    fn zero(offset_bytes: u64, length_bytes: u64) -> Change {
        Change { offset_bytes, length_bytes, kind: Kind::Zero { discard: false }, fua: false }
    }

    fn tag(number: usize) -> Tag {
        Tag::new(0, number)
    }

    #[test]
    fn whole_blocks_never_wait_for_each_other() {
        let mut order = Order::default();
        for number in 0..3 {
            assert!(order.admit(tag(number), zero(0, 8192)).is_some());
        }
        assert_eq!(order.waiting(), 0);
    }

    #[test]
    fn a_partial_change_waits_and_is_waited_for() {
        let mut order = Order::default();
        assert!(order.admit(tag(0), zero(0, 8192)).is_some());
        assert!(order.admit(tag(1), zero(4096, 10)).is_none(), "its block is being changed");
        assert!(order.admit(tag(2), zero(4096, 4096)).is_none(), "it waits for who waits");
        assert!(order.admit(tag(3), zero(8192, 4096)).is_some(), "other blocks do not matter");
        assert!(order.next().is_none());
        order.changed(0, 2);
        assert_eq!(order.next().map(|(tag, _)| tag), Some(tag(1)));
        assert!(order.next().is_none());
        order.changed(1, 2);
        assert_eq!(order.next().map(|(tag, _)| tag), Some(tag(2)));
    }

    proptest! {
        /// Whatever ends first: everything begins once, no partial change is under way together
        /// with another of its blocks, and those that meet begin in the order in which they came
        /// if one of them is partial.
        #[test]
        fn no_partial_change_is_disturbed(
            changes in prop::collection::vec((0u64..40_000, 1u64..9000), 1..40),
            ends in prop::collection::vec(any::<prop::sample::Index>(), 40),
        ) {
            let mut order = Order::default();
            let (mut running, mut begun) = (Vec::new(), Vec::new());
            let mut ends = ends.into_iter();
            let mut coming = changes.iter().enumerate();
            let mut done = 0;
            while done < changes.len() {
                if let Some((number, &(offset, length))) = coming.next() {
                    let begins = order.admit(tag(number), zero(offset, length));
                    running.extend(begins.map(|(tag, change)| (tag.number(), change)));
                }
                if !running.is_empty() {
                    let index = ends.next().map_or(0, |index| index.index(running.len()));
                    let (number, change): (usize, Change) = running.remove(index);
                    begun.push(number);
                    done += 1;
                    let (first, end) = change.blocks();
                    order.changed(first, end);
                    while let Some((tag, change)) = order.next() {
                        running.push((tag.number(), change));
                    }
                }
                for (at, (_, a)) in running.iter().enumerate() {
                    for (_, b) in &running[..at] {
                        let ((a0, a1), (b0, b1)) = (a.blocks(), b.blocks());
                        let meet = a0 < b1 && b0 < a1;
                        prop_assert!(!meet || (a.is_whole() && b.is_whole()));
                    }
                }
            }
            for (at, &late) in begun.iter().enumerate() {
                for &early in &begun[..at] {
                    let change = |number: usize| zero(changes[number].0, changes[number].1);
                    let (a, b) = (change(early), change(late));
                    let ((a0, a1), (b0, b1)) = (a.blocks(), b.blocks());
                    let meet = a0 < b1 && b0 < a1;
                    prop_assert!(early < late || !meet || (a.is_whole() && b.is_whole()));
                }
            }
        }
    }
}
