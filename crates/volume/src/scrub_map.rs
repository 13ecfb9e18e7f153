//! The last part of a scrub: the map, as stored on each device in sync.
//!
//! The map is also in memory, so nothing is lost; but a recovery needs the area that the superblock
//! points to, and the next checkpoint skips pages that the other area already has. So a page that
//! is damaged on a device is written again with the next checkpoint to its area, and a checkpoint
//! begins at once, so that the superblock soon points to the other area.

use crate::collect::CHUNK_BLOCKS;
use crate::format::decode_page;
use crate::scrub::Chunk;
use crate::volume::Volume;

/// How far the map has been read.
#[derive(Debug, Default)]
pub(crate) struct MapScrub {
    /// The area that is read, and the next page of it.
    at: (usize, u64),
    /// Checkpoints that had been completed when the last pages were read, if none was under way.
    checkpoints: Option<u64>,
    is_damaged: bool,
}

impl Volume {
    /// In how many chunks a tour of the scrub reads the map.
    #[must_use]
    pub const fn scrub_map_chunks(&self) -> u64 {
        2 * self.geometry.map_pages().div_ceil(CHUNK_BLOCKS as u64)
    }

    /// Reads the next pages of the map; if there are none, the tour ends.
    pub(crate) fn read_pages(&mut self) {
        let all = self.geometry.map_pages();
        let (area, page) = match self.scrub.map.at {
            (area, page) if page == all => (area + 1, 0),
            at => at,
        };
        if area == 2 {
            self.scrub.tour = None;
            self.scrub.tours += 1;
            if self.scrub.map.is_damaged {
                self.begin_checkpoint();
            }
            return;
        }
        self.scrub.map.at = (area, page);
        self.scrub.map.checkpoints = self.quiet_checkpoints();
        let blocks = (all - page).min(u64::from(CHUNK_BLOCKS)) as u32;
        self.read_chunk(self.geometry.page_offset(area, page), blocks);
    }

    /// Checkpoints that were completed; `None` while one writes pages.
    fn quiet_checkpoints(&self) -> Option<u64> {
        (!self.checkpoint.is_busy()).then_some(self.counters.checkpoints)
    }

    pub(crate) fn check_pages(&mut self) {
        let Some(chunk) = self.scrub.reading.take() else { return };
        let (area, first) = self.scrub.map.at;
        let is_durable = area == self.checkpoint.area();
        // What was read while it was written may be anything; it is written once more, to no harm.
        let checkpoints = self.quiet_checkpoints();
        let is_quiet = checkpoints.is_some() && checkpoints == self.scrub.map.checkpoints;
        for at in 0..chunk.blocks {
            let page = first + u64::from(at);
            // What is to be written to the other area need not be there.
            if !is_durable && self.map.is_dirty(area, page) {
                continue;
            }
            let bad = self.damaged_copies(&chunk, at, area, page);
            if bad > 0 {
                self.map.damaged(page, area);
                self.scrub.map.is_damaged = true;
                let counted = if is_quiet { bad } else { 0 };
                self.counters.damaged_blocks += counted;
                self.counters.repaired_blocks += counted;
            }
        }
        self.scrub.map.at = (area, first + u64::from(chunk.blocks));
        self.counters.scrubbed_blocks += u64::from(chunk.blocks);
    }

    /// How many devices do not have a page as it was last written to them.
    fn damaged_copies(&self, chunk: &Chunk, at: u32, area: usize, page: u64) -> u64 {
        let is_changed = self.map.is_dirty(area, page);
        let is_good = |block| {
            decode_page(block, self.superblock.volume, page)
                .is_some_and(|entries| is_changed || entries == self.map.entries(page))
        };
        let copies = chunk.copies.iter().map(|copy| Chunk::block(copy, at));
        copies.filter(|block| !block.is_some_and(is_good)).count() as u64
    }
}
