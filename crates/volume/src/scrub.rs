//! The scrub: from time to time reads everything from every device, and repairs what it can. It
//! begins with the segments and ends with the map (`scrub_map.rs`).

use crate::collect::CHUNK_BLOCKS;
use crate::devices::Part;
use crate::entry::{Entry, Place, Span};
use crate::format::{DeviceRole, Header, VolumeId};
use crate::geometry::BLOCK_BYTES;
use crate::scrub_map::MapScrub;
use crate::segments::{Segment, Use};
use crate::volume::{Purpose, Volume};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use wattio_pages::{BLOCK, Pages};

/// A tour through all segments that hold data, from a segment drawn at random.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    /// Which segment the tour began at, and how many it has visited.
    pub(crate) tour: Option<(u32, u32)>,
    /// The segment that is read, and the next record in it.
    at: Option<Place>,
    /// Which use of the segment this is, and the sectors of live blocks that were found in it.
    generation: u64,
    found_sectors: u32,
    /// Where its records end that had taken effect when its turn came.
    end: u32,
    pub(crate) reading: Option<Chunk>,
    pub(crate) map: MapScrub,
    /// Segments in which something is known to be damaged, and can be repaired.
    visits: VecDeque<u32>,
    /// Whether the segment that is read is one of those, and not the tour's next.
    is_visiting: bool,
    /// Damaged blocks that were found on this tour and could not be repaired.
    pub(crate) found: u64,
    pub(crate) tours: u64,
}

/// The same blocks from each device in sync.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Where they lie on a device, in bytes.
    offset: u64,
    pub(crate) blocks: u32,
    waiting: u32,
    pub(crate) copies: Vec<Copy>,
}

/// Blocks as a device has them.
#[derive(Debug)]
pub(crate) struct Copy {
    device: u8,
    /// Those that were read, `None` for one that cannot be.
    blocks: Vec<Option<Part>>,
    /// Whether they are read one by one, for they could not be read at once.
    is_by_one: bool,
}

impl Chunk {
    /// Block `at` of a device; `None` if it cannot be read.
    pub(crate) fn block(copy: &Copy, at: u32) -> Option<&[u8; BLOCK]> {
        let part = copy.blocks.get(at as usize)?.as_ref()?;
        Some(part.pages.block(part.blocks.start))
    }

    /// Whether any device could read any of it.
    fn is_readable(&self) -> bool {
        self.copies.iter().any(|copy| copy.blocks.iter().any(Option::is_some))
    }

    /// The newest header in block `at`, which lies at `place`: a device that was filled may have an
    /// older one where the other could not be read.
    fn header(&self, at: u32, place: Place, volume: VolumeId, segment: &Segment) -> Option<Header> {
        let blocks = self.copies.iter().filter_map(|copy| Self::block(copy, at));
        let headers = blocks.filter_map(|block| Header::decode(block, volume, place));
        let headers = headers.filter(|header| segment.holds(header));
        headers.max_by_key(|header| (header.generation, header.epoch, header.sequence))
    }
}

impl Volume {
    /// Begins a tour at a segment that the caller draws, unless one is under way.
    pub fn begin_scrub(&mut self, random: u64) {
        if self.scrub.tour.is_none() {
            let origin = (random % u64::from(self.geometry.segments)) as u32;
            self.scrub.tour = Some((origin, 0));
            self.scrub.found = 0;
            self.scrub.map = MapScrub::default();
        }
    }

    /// Devices in `bad`, as bits, gave damaged data from a segment, and another one did not: it is
    /// visited next.
    pub(crate) fn scrub_soon(&mut self, segment: u32, bad: u8) {
        if bad != 0 && !self.scrub.visits.contains(&segment) {
            self.scrub.visits.push_back(segment);
        }
    }

    /// Whether something is known to be damaged that the scrub can repair, whether or not a tour is
    /// under way.
    #[must_use]
    pub fn has_repairs(&self) -> bool {
        let is_reading = self.scrub.at.is_some();
        !self.scrub.visits.is_empty() || (self.scrub.is_visiting && is_reading)
    }

    /// Blocks of devices in segments that are to be visited out of turn.
    pub(crate) fn scrub_visit_blocks(&self) -> u64 {
        self.scrub.visits.len() as u64 * u64::from(self.geometry.segment_blocks)
    }

    /// The share of the tour under way that is done; `None` if none is.
    #[must_use]
    pub fn scrub_progress(&self) -> Option<f64> {
        let (_, visited) = self.scrub.tour?;
        Some(f64::from(visited) / f64::from(self.geometry.segments))
    }

    /// Tours that were completed, and damaged blocks that the last one could not repair.
    #[must_use]
    pub const fn scrub_tours(&self) -> (u64, u64) {
        (self.scrub.tours, self.scrub.found)
    }

    /// Goes on with the tour by one slice; whether there was something to do.
    pub(crate) fn scrub_slice(&mut self) -> bool {
        if self.failed.is_some() {
            return false;
        }
        match &self.scrub.reading {
            Some(chunk) if chunk.waiting > 0 => return false,
            Some(_) if self.scrub.at.is_none() => self.check_pages(),
            Some(_) => self.check_chunk(),
            None => match self.scrub.at {
                Some(place) => self.read_for_scrub(place),
                None if self.scrub.tour.is_none() && self.scrub.visits.is_empty() => return false,
                None => self.next_segment(),
            },
        }
        true
    }

    fn next_segment(&mut self) {
        let visited = self.scrub.visits.pop_front();
        self.scrub.is_visiting = visited.is_some();
        if let Some(segment) = visited {
            return self.visit(segment);
        }
        let Some((origin, visited)) = &mut self.scrub.tour else { return };
        if *visited == self.geometry.segments {
            return self.read_pages();
        }
        let segment = (*origin + *visited) % self.geometry.segments;
        *visited += 1;
        self.visit(segment);
    }

    fn visit(&mut self, segment: u32) {
        let found = self.segments.get(segment);
        let positions = self.log.positions();
        // Where the first record lies that has not taken effect, if it may lie in this segment.
        let after = positions.iter().find(|at| at.segment == segment).map(|at| at.block);
        let end = match found.purpose {
            Use::Closed => after.unwrap_or(self.geometry.segment_blocks),
            Use::Open => after.unwrap_or(0),
            _ => 0,
        };
        if end > 0 && found.live > 0 {
            self.scrub.at = Some(Place::new(segment, 0));
            self.scrub.generation = found.generation;
            self.scrub.found_sectors = 0;
            self.scrub.end = end;
        }
    }

    /// Whether the segment that is read was used anew meanwhile.
    fn is_used_anew(&self, segment: &Segment) -> bool {
        !matches!(segment.purpose, Use::Open | Use::Closed)
            || segment.generation != self.scrub.generation
    }

    fn read_for_scrub(&mut self, place: Place) {
        let blocks = CHUNK_BLOCKS.min(self.scrub.end - place.block);
        if self.is_used_anew(self.segments.get(place.segment)) {
            self.scrub.at = None;
            return;
        }
        if blocks == 0 {
            // To others more has been added meanwhile.
            let is_all = self.scrub.end == self.geometry.segment_blocks;
            return self.end_segment(place.segment, is_all);
        }
        let offset = self.geometry.block_offset(place.segment, place.block);
        let copies = self.read_chunk(offset, blocks);
        (0..copies).for_each(|_| self.segments.pin(place.segment));
    }

    /// Reads blocks from each device in sync; returns from how many.
    pub(crate) fn read_chunk(&mut self, offset: u64, blocks: u32) -> u32 {
        let roles: Vec<DeviceRole> = self.devices.roles().to_vec();
        let mut chunk = Chunk { offset, blocks, waiting: 0, copies: Vec::new() };
        for (device, role) in (0..).zip(&roles) {
            if *role == DeviceRole::InSync {
                let pages = Pages::zeroed(blocks as usize);
                self.devices.read_from(Purpose::Scrub, device, offset, pages);
                chunk.waiting += 1;
                chunk.copies.push(Copy { device, blocks: Vec::new(), is_by_one: false });
            }
        }
        let copies = chunk.waiting;
        self.scrub.reading = Some(chunk);
        copies
    }

    pub(crate) fn scrub_read(&mut self, pages: io::Result<Pages>, device: u8) {
        let Some(chunk) = &mut self.scrub.reading else { return };
        let Some(copy) = chunk.copies.iter_mut().find(|copy| copy.device == device) else { return };
        match pages {
            Ok(pages) => {
                let pages = Arc::new(pages);
                let block = |at| Part { pages: Arc::clone(&pages), blocks: at..at + 1 };
                copy.blocks.extend((0..pages.len_blocks()).map(|at| Some(block(at))));
            }
            Err(_) if copy.is_by_one => copy.blocks.push(None),
            Err(_) => copy.is_by_one = true,
        }
        let next = copy.blocks.len() as u32;
        if next < chunk.blocks {
            let offset = chunk.offset + u64::from(next) * BLOCK_BYTES;
            self.devices.read_from(Purpose::Scrub, device, offset, Pages::zeroed(1));
            return;
        }
        chunk.waiting -= 1;
        if let Some(place) = self.scrub.at {
            self.segments.unpin(place.segment);
        }
    }

    fn check_chunk(&mut self) {
        let (Some(chunk), Some(first)) = (self.scrub.reading.take(), self.scrub.at) else { return };
        let segment = self.segments.get(first.segment).clone();
        if self.is_used_anew(&segment) {
            self.scrub.at = None;
            return;
        }
        if !chunk.is_readable() {
            return self.end_segment(first.segment, true);
        }
        let mut at = 0;
        while at < chunk.blocks {
            let place = first.plus(at);
            let header = chunk.header(at, place, self.superblock.volume, &segment);
            let blocks = header.as_ref().map_or(1, Header::blocks);
            if at > 0 && at + blocks > chunk.blocks {
                break;
            }
            // Behind a header that no device has the next one is looked for.
            let checked = header.filter(|_| at + blocks <= chunk.blocks);
            let checked = checked.is_some_and(|header| self.check_record(&chunk, at, &header));
            let blocks = if checked { blocks } else { 1 };
            at += blocks;
            self.counters.scrubbed_blocks += u64::from(blocks);
        }
        self.scrub.at = Some(first.plus(at));
    }

    /// Checks the blocks of a record, unless it may be an old one that was left there: it was written
    /// since the volume was opened, or the map has some of it. Of one from before, other blocks than
    /// those that the map has may be of a newer record by now.
    fn check_record(&mut self, chunk: &Chunk, at: u32, header: &Header) -> bool {
        let is_new = header.epoch == self.superblock.epoch;
        let (live, live_sectors) = self.live_blocks_of(header);
        if !is_new && live_sectors == 0 {
            return false;
        }
        self.scrub.found_sectors += live_sectors;
        let volume = self.superblock.volume;
        let is_it = |block: &[u8; BLOCK]| {
            Header::decode(block, volume, header.place).as_ref() == Some(header)
        };
        self.check_block(chunk, at, header.place, is_it, true);
        for ((behind, &checksum), is_live) in (1..).zip(&header.checksums).zip(live) {
            if is_new || is_live {
                let is_good = |block: &[u8; BLOCK]| crc32c::crc32c(block) == checksum;
                self.check_block(chunk, at + behind, header.place.plus(behind), is_good, is_live);
            }
        }
        true
    }

    /// A segment has been read, as far as it can be. If all its live blocks should have been found,
    /// those that were not lie behind a header that no device has: garbage collection finds them, in
    /// the map.
    fn end_segment(&mut self, segment: u32, is_all: bool) {
        self.scrub.at = None;
        if is_all && self.segments.get(segment).live > self.scrub.found_sectors {
            self.scrub.found += 1;
            self.counters.damaged_blocks += 1;
        }
    }

    /// For each block behind a header, whether anything in it is live; and all sectors that are.
    fn live_blocks_of(&self, header: &Header) -> (Vec<bool>, u32) {
        let (mut live, mut sectors) = (vec![false; header.checksums.len()], 0);
        let is_live = |&(lba, written): &(u64, Entry)| self.map.get(lba) == written;
        for (_, written) in header.data().filter(is_live) {
            sectors += written.sectors();
            let Some(Span { first, blocks }) = written.span() else { continue };
            let from = first.block - header.place.block;
            for behind in (from..from + blocks).filter_map(|block| block.checked_sub(1)) {
                live[behind as usize] = true;
            }
        }
        (live, sectors)
    }

    /// Repairs a block from a copy that is good; counts it if there is none and it matters.
    fn check_block(
        &mut self,
        chunk: &Chunk,
        at: u32,
        place: Place,
        is_good: impl Fn(&[u8; BLOCK]) -> bool,
        matters: bool,
    ) {
        let good = |copy: &&Copy| Chunk::block(copy, at).is_some_and(&is_good);
        let bad = chunk.copies.iter().filter(|copy| !good(copy));
        let bad = bad.fold(0_u8, |bits, copy| bits | 1 << copy.device);
        if bad == 0 {
            return;
        }
        let source = chunk.copies.iter().find(good);
        match source.and_then(|copy| copy.blocks[at as usize].as_ref()) {
            Some(part) => {
                self.counters.damaged_blocks += u64::from(bad.count_ones());
                self.repair(place, part, bad);
            }
            None if matters => {
                self.scrub.found += 1;
                self.counters.damaged_blocks += 1;
            }
            None => {}
        }
    }
}
