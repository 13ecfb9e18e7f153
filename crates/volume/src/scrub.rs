//! The scrub: reads everything once in a while, from every device, and repairs what it can.

use crate::collect::CHUNK_BLOCKS;
use crate::devices::Part;
use crate::entry::{Place, Span};
use crate::format::{DeviceRole, Header};
use crate::segments::Use;
use crate::volume::{Purpose, Volume};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use wattio_pages::Pages;

/// A tour through all segments that hold data, from a segment drawn at random.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    /// Which segment the tour began at, and how many it has visited.
    tour: Option<(u32, u32)>,
    /// The segment that is read, and the next record in it.
    at: Option<Place>,
    reading: Option<Chunk>,
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
struct Chunk {
    waiting: u32,
    copies: Vec<(u8, Option<Arc<Pages>>)>,
}

impl Volume {
    /// Begins a tour at a segment that the caller draws, unless one is under way.
    pub fn begin_scrub(&mut self, random: u64) {
        if self.scrub.tour.is_none() {
            let origin = (random % u64::from(self.geometry.segments)) as u32;
            self.scrub.tour = Some((origin, 0));
            self.scrub.found = 0;
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
        let is_reading = self.scrub.at.is_some() || self.scrub.reading.is_some();
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
            self.scrub.tour = None;
            self.scrub.tours += 1;
            return;
        }
        let segment = (*origin + *visited) % self.geometry.segments;
        *visited += 1;
        self.visit(segment);
    }

    fn visit(&mut self, segment: u32) {
        let found = self.segments.get(segment);
        if found.purpose == Use::Closed && found.live > 0 && found.unapplied == 0 {
            self.scrub.at = Some(Place::new(segment, 0));
        }
    }

    fn read_for_scrub(&mut self, place: Place) {
        let blocks = CHUNK_BLOCKS.min(self.geometry.segment_blocks - place.block);
        // A segment that was emptied meanwhile may be used again.
        if blocks < 2 || self.segments.get(place.segment).purpose != Use::Closed {
            self.scrub.at = None;
            return;
        }
        let offset = self.geometry.block_offset(place.segment, place.block);
        let roles: Vec<DeviceRole> = self.devices.roles().to_vec();
        let mut chunk = Chunk { waiting: 0, copies: Vec::new() };
        for (device, role) in (0..).zip(&roles) {
            if *role == DeviceRole::InSync {
                let pages = Pages::zeroed(blocks as usize);
                self.devices.read_from(Purpose::Scrub, device, offset, pages);
                self.segments.pin(place.segment);
                chunk.waiting += 1;
            }
        }
        self.scrub.reading = Some(chunk);
    }

    pub(crate) fn scrub_read(&mut self, pages: io::Result<Pages>, device: u8) {
        let (Some(chunk), Some(place)) = (&mut self.scrub.reading, self.scrub.at) else { return };
        chunk.waiting -= 1;
        chunk.copies.push((device, pages.ok().map(Arc::new)));
        self.segments.unpin(place.segment);
    }

    fn check_chunk(&mut self) {
        let (Some(chunk), Some(first)) = (self.scrub.reading.take(), self.scrub.at) else { return };
        // Used anew meanwhile, it holds none of the headers that were read.
        let segment = self.segments.get(first.segment).clone();
        let volume = self.superblock.volume;
        let blocks = CHUNK_BLOCKS.min(self.geometry.segment_blocks - first.block);
        let mut at = 0;
        while at < blocks {
            let place = first.plus(at);
            let read = |copy: &Arc<Pages>| {
                Header::decode(copy.block(at as usize), volume, place)
                    .filter(|header| segment.holds(header))
            };
            let Some(header) = chunk.copies.iter().flat_map(|(_, copy)| copy).find_map(read) else {
                // Either the end of what was written, or a header that no device has: blocks
                // behind that are found by garbage collection, in the map.
                self.scrub.at = None;
                return;
            };
            if at + header.blocks() > blocks {
                break;
            }
            self.check_block(&chunk, at, place, |copy| read(copy).is_some(), true);
            let live = self.live_blocks_of(&header);
            for ((behind, &checksum), is_live) in (1..).zip(&header.checksums).zip(live) {
                let block = at + behind;
                let is_good =
                    |copy: &Arc<Pages>| crc32c::crc32c(copy.block(block as usize)) == checksum;
                self.check_block(&chunk, block, place.plus(behind), is_good, is_live);
            }
            at += header.blocks();
            self.counters.scrubbed_blocks += u64::from(header.blocks());
        }
        self.scrub.at = (at > 0).then(|| first.plus(at));
    }

    /// For each block behind a header, whether anything in it is live.
    fn live_blocks_of(&self, header: &Header) -> Vec<bool> {
        let mut live = vec![false; header.checksums.len()];
        for (lba, written) in header.data() {
            let is_live = self.map.get(lba).place() == written.place();
            if let Some(Span { first, blocks }) = written.span().filter(|_| is_live) {
                let from = first.block - header.place.block;
                for behind in (from..from + blocks).filter_map(|block| block.checked_sub(1)) {
                    live[behind as usize] = true;
                }
            }
        }
        live
    }

    /// Repairs a block from a copy that is good; counts it if there is none and it matters.
    fn check_block(
        &mut self,
        chunk: &Chunk,
        block: u32,
        place: Place,
        is_good: impl Fn(&Arc<Pages>) -> bool,
        matters: bool,
    ) {
        let good = |copy: &Option<Arc<Pages>>| copy.as_ref().is_some_and(&is_good);
        let bad = chunk.copies.iter().filter(|(_, copy)| !good(copy));
        let bad = bad.fold(0, |bits, (device, _)| bits | 1 << device);
        if bad == 0 {
            return;
        }
        let source = chunk.copies.iter().find(|(_, copy)| good(copy));
        match source.and_then(|(_, copy)| copy.as_ref()) {
            Some(copy) => {
                let block = block as usize;
                let part = Part { pages: Arc::clone(copy), blocks: block..block + 1 };
                self.repair(place, &part, bad);
            }
            None if matters => {
                self.scrub.found += 1;
                self.counters.damaged_blocks += 1;
            }
            None => {}
        }
    }
}
