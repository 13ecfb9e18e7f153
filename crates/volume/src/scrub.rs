//! The scrub: reads everything once in a while, from every device, and repairs what it can.

use crate::collect::{CHUNK_BLOCKS, data_of};
use crate::devices::Part;
use crate::entry::Place;
use crate::format::{DeviceRole, Header};
use crate::segments::Use;
use crate::volume::{Purpose, Volume};
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
            self.scrub =
                Scrub { tour: Some((origin, 0)), tours: self.scrub.tours, ..Scrub::default() };
        }
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
            None if self.scrub.tour.is_none() => return false,
            None => match self.scrub.at {
                Some(place) => self.read_for_scrub(place),
                None => self.next_segment(),
            },
        }
        true
    }

    fn next_segment(&mut self) {
        let Some((origin, visited)) = &mut self.scrub.tour else { return };
        if *visited == self.geometry.segments {
            self.scrub.tour = None;
            self.scrub.tours += 1;
            return;
        }
        let segment = (*origin + *visited) % self.geometry.segments;
        *visited += 1;
        let found = self.segments.get(segment);
        if found.purpose == Use::Closed && found.live > 0 && found.unapplied == 0 {
            self.scrub.at = Some(Place { segment, block: 0 });
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
            for (lba, data_place, checksum) in data_of(&header) {
                let is_live = self.map.get(lba).place() == Some(data_place);
                let block = data_place.block - first.block;
                let is_good =
                    |copy: &Arc<Pages>| crc32c::crc32c(copy.block(block as usize)) == checksum;
                self.check_block(&chunk, block, data_place, is_good, is_live);
            }
            at += header.blocks();
            self.counters.scrubbed_blocks += u64::from(header.blocks());
        }
        self.scrub.at = (at > 0).then(|| first.plus(at));
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
