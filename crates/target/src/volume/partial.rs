//! A change that covers only part of its first or last block: the old blocks are read, changed and
//! written.

use crate::messages::{Change, Kind, Tag};
use wattio_pages::{BLOCK, Pages};
use wattio_volume::{Fault, Part, Piece, Request};

/// A discard cut to the blocks that it covers; `None` if there are none. Others stay as they are.
pub(super) fn whole_blocks_of_discard(change: Change) -> Option<Change> {
    if !matches!(change.kind, Kind::Discard) {
        return Some(change);
    }
    let block = BLOCK as u64;
    let first = change.offset_bytes.div_ceil(block);
    let end = (change.offset_bytes + change.length_bytes) / block;
    (first < end).then(|| Change {
        offset_bytes: first * block,
        length_bytes: (end - first) * block,
        ..change
    })
}

/// How far such a change has come.
#[derive(Debug)]
pub(super) struct Partial {
    tag: Tag,
    change: Change,
    /// Old blocks that were read.
    old: Vec<(u64, Pages)>,
    /// Reads, then writes, that have not ended.
    under_way: usize,
    is_writing: bool,
    fault: Option<Fault>,
}

impl Partial {
    pub(super) fn new(tag: Tag, change: Change) -> Self {
        let mut new =
            Self { tag, change, old: Vec::new(), under_way: 0, is_writing: false, fault: None };
        new.under_way = new.edges().len();
        new
    }

    pub(super) const fn tag(&self) -> Tag {
        self.tag
    }

    pub(super) const fn change(&self) -> &Change {
        &self.change
    }

    pub(super) fn result(&self) -> Result<Vec<Piece>, Fault> {
        self.fault.map_or_else(|| Ok(Vec::new()), Err)
    }

    /// The blocks that are covered in part: one or two.
    pub(super) fn edges(&self) -> Vec<u64> {
        let block = BLOCK as u64;
        let (first, end) = self.change.blocks();
        let mut edges = Vec::new();
        if !self.change.offset_bytes.is_multiple_of(block) {
            edges.push(first);
        }
        let change_end = self.change.offset_bytes + self.change.length_bytes;
        if !change_end.is_multiple_of(block) && edges.last() != Some(&(end - 1)) {
            edges.push(end - 1);
        }
        edges
    }

    /// The old contents of a block are there.
    pub(super) fn edge_read(&mut self, lba: u64, result: Result<Vec<Piece>, Fault>) {
        self.under_way -= 1;
        match result {
            Ok(pieces) => {
                let old = match pieces.first() {
                    Some(Piece::Data(part)) => {
                        Pages::from_slice(part.pages.block(part.blocks.start))
                    }
                    _ => Pages::zeroed(1),
                };
                self.old.push((lba, old));
            }
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// One of the writes is done.
    pub(super) fn share_written(&mut self, fault: Option<Fault>) {
        self.under_way -= 1;
        self.fault = self.fault.or(fault);
    }

    /// What to do next, once nothing is under way: `None` if something is, nothing if all is done.
    pub(super) fn next(&mut self) -> Option<Vec<Request>> {
        if self.under_way > 0 {
            return None;
        }
        if self.is_writing || self.fault.is_some() {
            return Some(Vec::new());
        }
        self.is_writing = true;
        let requests = self.writes();
        self.under_way = requests.len();
        Some(requests)
    }

    /// The bytes of a block that change.
    fn changed_in(&self, lba: u64) -> std::ops::Range<usize> {
        let start = lba * BLOCK as u64;
        let change = &self.change;
        let from = change.offset_bytes.saturating_sub(start) as usize;
        let to = (change.offset_bytes + change.length_bytes - start).min(BLOCK as u64) as usize;
        from..to
    }

    fn writes(&mut self) -> Vec<Request> {
        let (first, end) = self.change.blocks();
        let fua = self.change.fua;
        let old = std::mem::take(&mut self.old);
        let ranges: Vec<_> = old.iter().map(|(lba, _)| self.changed_in(*lba)).collect();
        if let Kind::Write(pages) = &mut self.change.kind {
            let mut pages = std::mem::take(pages);
            for ((lba, old), changed) in old.iter().zip(ranges) {
                let (block, old) = (pages.block_mut((lba - first) as usize), old.block(0));
                block[..changed.start].copy_from_slice(&old[..changed.start]);
                block[changed.end..].copy_from_slice(&old[changed.end..]);
            }
            return vec![Request::Write { lba: first, data: Part::whole(pages), fua }];
        }
        let discard = matches!(self.change.kind, Kind::Zero { discard: true });
        let (mut inner_first, mut inner_end) = (first, end);
        let mut requests = Vec::new();
        for ((lba, mut old), changed) in old.into_iter().zip(ranges) {
            old.block_mut(0)[changed].fill(0);
            requests.push(Request::Write { lba, data: Part::whole(old), fua });
            if lba == first {
                inner_first = first + 1;
            } else {
                inner_end = end - 1;
            }
        }
        if inner_first < inner_end {
            let blocks = inner_end - inner_first;
            requests.push(Request::Zero { lba: inner_first, blocks, discard, fua });
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: usize = 6;

    /// Does a partial change to a volume that is an array.
    fn apply(volume: &mut [u8], change: Change) {
        let mut partial = Partial::new(Tag::new(0, 0), change);
        let edges = partial.edges();
        assert!(partial.next().is_none());
        for lba in edges {
            let at = lba as usize * BLOCK;
            let data = Part::whole(Pages::from_slice(&volume[at..at + BLOCK]));
            partial.edge_read(lba, Ok(vec![Piece::Data(data)]));
        }
        for request in partial.next().expect("all was read") {
            match request {
                Request::Write { lba, data, .. } => {
                    let at = lba as usize * BLOCK;
                    volume[at..at + data.pages.len_bytes()].copy_from_slice(data.pages.as_bytes());
                }
                Request::Zero { lba, blocks, .. } => {
                    let at = lba as usize * BLOCK;
                    volume[at..at + blocks as usize * BLOCK].fill(0);
                }
                other => panic!("{other:?}"),
            }
            partial.share_written(None);
        }
        assert!(partial.next().expect("all was written").is_empty());
    }

    proptest! {
        #[test]
        fn only_the_bytes_of_the_change_change(
            offset in 0..BLOCKS * BLOCK - 1,
            length in 1..3 * BLOCK,
            zero in any::<bool>(),
        ) {
            let length = length.min(BLOCKS * BLOCK - offset);
            let aligned = offset % BLOCK == 0 && length % BLOCK == 0;
            prop_assume!(!aligned);
            let before: Vec<u8> = (0..BLOCKS * BLOCK).map(|at| (at % 251) as u8 | 1).collect();
            let lead = offset % BLOCK;
            let kind = if zero {
                Kind::Zero { discard: false }
            } else {
                let mut pages = Pages::zeroed((lead + length).div_ceil(BLOCK));
                pages.as_bytes_mut().fill(0xee);
                pages.as_bytes_mut()[lead..lead + length].fill(0xaa);
                Kind::Write(pages)
            };
            let change = Change {
                offset_bytes: offset as u64,
                length_bytes: length as u64,
                kind,
                fua: false,
            };
            let mut volume = before.clone();
            apply(&mut volume, change);
            let mut expected = before;
            expected[offset..offset + length].fill(if zero { 0 } else { 0xaa });
            prop_assert!(volume == expected);
        }
    }

    #[test]
    fn a_block_that_cannot_be_read_ends_the_change() {
        let kind = Kind::Zero { discard: false };
        let change = Change { offset_bytes: 10, length_bytes: 5000, kind, fua: false };
        let mut partial = Partial::new(Tag::new(0, 0), change);
        assert_eq!(partial.edges(), [0, 1]);
        partial.edge_read(0, Err(Fault::Io));
        assert!(partial.next().is_none());
        partial.edge_read(1, Ok(vec![Piece::Zeros(1, true)]));
        assert!(partial.next().unwrap().is_empty(), "nothing is written");
        assert_eq!(partial.result().unwrap_err(), Fault::Io);
    }

    #[test]
    fn a_discard_is_cut_to_whole_blocks() {
        let discard = |offset_bytes, length_bytes| {
            whole_blocks_of_discard(Change {
                offset_bytes,
                length_bytes,
                kind: Kind::Discard,
                fua: false,
            })
            .map(|change| change.blocks())
        };
        assert_eq!(discard(0, 4096), Some((0, 1)));
        assert_eq!(discard(1, 12_288), Some((1, 3)));
        assert_eq!(discard(1, 4096), None);
        assert_eq!(discard(4095, 4097), Some((1, 2)));
    }
}
