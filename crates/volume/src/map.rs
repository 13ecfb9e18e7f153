//! The map from a client's block to its place in the log, and the parts of the map that no
//! checkpoint has written yet.

use crate::entry::Entry;
use crate::geometry::PAGE_ENTRIES;
use std::ops::Range;

const ENTRIES: usize = PAGE_ENTRIES as usize;

type Page = Box<[Entry; ENTRIES]>;

/// The map of a volume: an array in pages, of which those without a block take no memory.
#[derive(Debug)]
pub(crate) struct Map {
    blocks: u64,
    pages: Vec<Option<Page>>,
    /// Pages that each of the two areas does not have as they are here.
    dirty: [Bits; 2],
}

/// Pages by number, as bits.
#[derive(Debug)]
struct Bits {
    words: Vec<u64>,
    count: u64,
}

impl Bits {
    fn all(len: usize) -> Self {
        let mut bits = Self { words: vec![0; len.div_ceil(64)], count: 0 };
        (0..len).for_each(|at| bits.set(at));
        bits
    }

    fn set(&mut self, at: usize) {
        let (word, bit) = (&mut self.words[at / 64], 1 << (at % 64));
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }

    fn clear(&mut self, at: usize) {
        let (word, bit) = (&mut self.words[at / 64], 1 << (at % 64));
        self.count -= u64::from(*word & bit != 0);
        *word &= !bit;
    }

    fn has(&self, at: usize) -> bool {
        self.words[at / 64] & (1 << (at % 64)) != 0
    }

    /// The first one that is set, at `from` or after it.
    fn next(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.words.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.words.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

impl Map {
    /// Of so many blocks, all of them holes; no area of the device has it.
    pub(crate) fn new(blocks: u64) -> Self {
        let pages = blocks.div_ceil(PAGE_ENTRIES) as usize;
        Self {
            blocks,
            pages: std::iter::repeat_with(|| None).take(pages).collect(),
            dirty: [Bits::all(pages), Bits::all(pages)],
        }
    }

    /// What it knows of a block of the volume.
    pub(crate) fn get(&self, lba: u64) -> Entry {
        debug_assert!(lba < self.blocks);
        let (page, entry) = split(lba);
        self.pages[page].as_ref().map_or(Entry::HOLE, |page| page[entry])
    }

    /// Sets what it knows; returns what it knew.
    pub(crate) fn set(&mut self, lba: u64, entry: Entry) -> Entry {
        let (page, at) = split(lba);
        if entry == Entry::HOLE && self.pages[page].is_none() {
            return Entry::HOLE;
        }
        let entries = self.pages[page].get_or_insert_with(|| Box::new([Entry::HOLE; ENTRIES]));
        let before = std::mem::replace(&mut entries[at], entry);
        if before != entry {
            self.dirty.iter_mut().for_each(|area| area.set(page));
        }
        before
    }

    /// The blocks of a range that are in pages with memory, with their entries: all but holes, and
    /// some of those.
    pub(crate) fn present(&self, lbas: Range<u64>) -> impl Iterator<Item = (u64, Entry)> {
        let mut at = lbas.start;
        std::iter::from_fn(move || {
            let lba = if at < lbas.end { self.skip_empty(at) } else { at };
            at = lba + 1;
            (lba < lbas.end).then(|| (lba, self.get(lba)))
        })
    }

    /// The end of the run of holes without memory that begins at `lba`: what a caller may skip.
    pub(crate) fn skip_empty(&self, lba: u64) -> u64 {
        let (mut page, _) = split(lba);
        if self.pages[page].is_some() {
            return lba;
        }
        while self.pages.get(page).is_some_and(Option::is_none) {
            page += 1;
        }
        (page as u64 * PAGE_ENTRIES).min(self.blocks)
    }

    /// Puts in a page as an area of the device has it.
    pub(crate) fn load(&mut self, page: u64, area: usize, entries: &[Entry]) {
        let page = page as usize;
        if entries.iter().any(|&entry| entry != Entry::HOLE) {
            let mut loaded = Box::new([Entry::HOLE; ENTRIES]);
            loaded.copy_from_slice(entries);
            self.pages[page] = Some(loaded);
        }
        self.dirty[area].clear(page);
    }

    /// The same with so many blocks, no fewer than before: the new ones are holes.
    pub(crate) fn resized(self, blocks: u64) -> Self {
        let mut resized = Self::new(blocks);
        resized.pages.iter_mut().zip(self.pages).for_each(|(after, before)| *after = before);
        resized
    }

    /// Neither area has anything: a device takes part that has none of it.
    pub(crate) fn forget_areas(&mut self) {
        let pages = self.pages.len();
        self.dirty = [Bits::all(pages), Bits::all(pages)];
    }

    /// An area of the device has a page as it is.
    pub(crate) fn written(&mut self, page: u64, area: usize) {
        self.dirty[area].clear(page as usize);
    }

    /// An area of some device does not have a page as it is.
    pub(crate) fn damaged(&mut self, page: u64, area: usize) {
        self.dirty[area].set(page as usize);
    }

    /// Whether an area does not have a page as it is.
    pub(crate) fn is_dirty(&self, area: usize, page: u64) -> bool {
        self.dirty[area].has(page as usize)
    }

    /// The first page at `from` or after it that an area does not have as it is.
    pub(crate) fn next_dirty(&self, area: usize, from: u64) -> Option<u64> {
        self.dirty[area].next(from as usize).map(|page| page as u64)
    }

    /// How many pages an area does not have as they are.
    pub(crate) const fn dirty_pages(&self, area: usize) -> u64 {
        self.dirty[area].count
    }

    /// The entries of a page, which is about to be written to an area.
    pub(crate) fn take_dirty(&mut self, area: usize, page: u64) -> &[Entry] {
        self.dirty[area].clear(page as usize);
        self.entries(page)
    }

    /// The entries of a page.
    pub(crate) fn entries(&self, page: u64) -> &[Entry] {
        const HOLES: [Entry; ENTRIES] = [Entry::HOLE; ENTRIES];
        self.pages[page as usize].as_ref().map_or(&HOLES[..], |page| &page[..])
    }
}

fn split(lba: u64) -> (usize, usize) {
    ((lba / PAGE_ENTRIES) as usize, (lba % PAGE_ENTRIES) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Place;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Against a map that is obviously right, with checkpoints in between.
        #[test]
        fn it_is_a_map_that_knows_what_changed(
            steps in prop::collection::vec((0u64..3000, 0u32..3, prop::bool::weighted(0.05)), 0..300)
        ) {
            let mut map = Map::new(3000);
            let mut plain = HashMap::new();
            let mut areas = [HashMap::new(), HashMap::new()];
            for (turn, (lba, value, checkpoint)) in steps.into_iter().enumerate() {
                let place = Place::new(0, value);
                let entry = if value == 0 { Entry::HOLE } else { Entry::data(place, 0) };
                let before = plain.insert(lba, entry).unwrap_or_default();
                prop_assert_eq!(map.set(lba, entry), before);
                prop_assert!(map.skip_empty(lba) == lba || map.get(lba) == Entry::HOLE);
                if checkpoint {
                    let mut page = 0;
                    while let Some(dirty) = map.next_dirty(turn % 2, page) {
                        let entries = map.take_dirty(turn % 2, dirty).to_vec();
                        areas[turn % 2].insert(dirty, entries);
                        page = dirty + 1;
                    }
                    prop_assert_eq!(map.dirty_pages(turn % 2), 0);
                    let area = &areas[turn % 2];
                    for lba in 0..3000 {
                        prop_assert_eq!(area[&(lba / PAGE_ENTRIES)][(lba % PAGE_ENTRIES) as usize],
                            map.get(lba));
                    }
                }
            }
            for (&lba, &entry) in &plain {
                prop_assert_eq!(map.get(lba), entry);
            }
        }
    }

    #[test]
    fn what_was_never_written_takes_no_memory_and_is_skipped() {
        let mut map = Map::new(10_000);
        assert_eq!(map.skip_empty(3), 10_000);
        map.set(PAGE_ENTRIES * 4, Entry::ZEROS);
        assert_eq!(map.skip_empty(3), PAGE_ENTRIES * 4);
        assert_eq!(map.skip_empty(PAGE_ENTRIES * 4 + 7), PAGE_ENTRIES * 4 + 7);
        assert_eq!(map.pages.iter().flatten().count(), 1);
    }
}
