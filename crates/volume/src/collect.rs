//! Garbage collection: live blocks of a segment are written anew, until the segment is empty.

use crate::compression::{BLOCK_SECTORS, check_of, is_sound, stored};
use crate::devices::Devices;
use crate::entry::{Entry, Place, Span, State};
use crate::format::{Header, RECORD_BLOCKS_MAX};
use crate::log::MOVES_FULL;
use crate::record_builder::{Moving, Stored};
use crate::volume::{Purpose, Volume};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use wattio_pages::{BLOCK, Pages};

/// Blocks that are read at once: a whole record, however long.
pub(crate) const CHUNK_BLOCKS: u32 = RECORD_BLOCKS_MAX + 1;
/// Memory of chunks that is kept for later ones.
const SPARE_CHUNKS_MAX: usize = 8;
/// So a chunk is told by its length from what is recycled elsewhere, which has powers of two of blocks.
const _: () = assert!(!CHUNK_BLOCKS.is_power_of_two());
/// Moves that may wait for the log.
const MOVES_WAITING_MAX: usize = MOVES_FULL;
/// Blocks of the map that are searched in one slice.
const SEARCHED_AT_ONCE: u64 = 16_384;

#[derive(Debug, Default)]
pub(crate) struct Collector {
    victim: Option<Victim>,
    reading: Option<Reading>,
    arrived: Option<(io::Result<Pages>, u8)>,
    /// Live blocks that are read one by one, for they could not be read with their record.
    singles: VecDeque<(u64, Place)>,
    /// Memory of chunks of full length, with whatever was in it.
    spare: Vec<Pages>,
}

#[derive(Debug)]
struct Victim {
    segment: u32,
    /// The next record.
    block: u32,
    /// Sectors of live blocks that were found by way of records.
    found: u32,
    /// Where the search of the map goes on: for blocks whose record's header is damaged.
    search_from: Option<u64>,
}

#[derive(Debug)]
enum Reading {
    Chunk { segment: u32 },
    Single { lba: u64, place: Place, tried: Tried },
}

/// Which devices gave something else than a block's data, as bits, and whether one was asked again:
/// only data that is damaged each time it is read is given up.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    bad: u8,
    again: bool,
    /// Whether a device could not read at all: then nothing is known of the data.
    failed: bool,
}

impl Collector {
    pub(crate) const fn is_busy(&self) -> bool {
        self.victim.is_some() || self.reading.is_some()
    }

    /// Memory that is read into whole: clearing that of each chunk cost an eighth of all the work on
    /// small writes to a full volume.
    fn memory(&mut self, blocks: u32) -> Pages {
        let spare = if blocks == CHUNK_BLOCKS { self.spare.pop() } else { None };
        spare.unwrap_or_else(|| Pages::zeroed(blocks as usize))
    }

    /// Takes memory of a chunk back; memory that is of none comes back.
    pub(crate) fn take_back(&mut self, pages: Pages) -> Option<Pages> {
        if pages.capacity_blocks() != CHUNK_BLOCKS as usize {
            return Some(pages);
        }
        if self.spare.len() < SPARE_CHUNKS_MAX {
            self.spare.push(pages);
        }
        None
    }
}

impl Volume {
    /// Goes on with garbage collection by one slice; whether there was something to do.
    pub(crate) fn collect_slice(&mut self) -> bool {
        if self.failed.is_some() {
            return false;
        }
        if let Some((pages, device)) = self.collector.arrived.take() {
            match self.collector.reading.take() {
                Some(Reading::Chunk { segment }) => {
                    self.take_chunk(pages);
                    self.segments.unpin(segment);
                }
                Some(Reading::Single { lba, place, tried }) => {
                    self.take_single(lba, place, tried, pages, device);
                    self.segments.unpin(place.segment);
                }
                None => {}
            }
            self.commit();
            return true;
        }
        if self.collector.reading.is_some() || self.log.moving.len() >= MOVES_WAITING_MAX {
            return false;
        }
        if let Some((lba, place)) = self.collector.singles.pop_front() {
            if self.map.get(lba).place() == Some(place) {
                self.read_single(lba, place, Tried::default());
            }
            return true;
        }
        match &self.collector.victim {
            Some(victim) if victim.search_from.is_some() => self.search(),
            Some(victim) => {
                let (segment, block) = (victim.segment, victim.block);
                self.read_next(segment, block);
            }
            None => return self.choose_victim(),
        }
        true
    }

    /// What was read is worked through in the next slice.
    pub(crate) fn chunk_read(&mut self, pages: io::Result<Pages>, device: u8) {
        self.collector.arrived = Some((pages, device));
    }

    fn choose_victim(&mut self) -> bool {
        if !self.is_collection_wanted() {
            return false;
        }
        let victim = self.segments.victim(self.log.next_sequence());
        self.collector.victim =
            victim.map(|segment| Victim { segment, block: 0, found: 0, search_from: None });
        victim.is_some()
    }

    fn read_next(&mut self, segment: u32, block: u32) {
        if self.segments.get(segment).live == 0 {
            return self.end_victim();
        }
        let blocks = CHUNK_BLOCKS.min(self.geometry.segment_blocks - block);
        if blocks < 2 {
            return self.end_of_records();
        }
        let pages = self.collector.memory(blocks);
        let offset = self.geometry.block_offset(segment, block);
        if self.devices.read(Purpose::Collect, offset, pages, 0).is_ok() {
            self.collector.reading = Some(Reading::Chunk { segment });
            self.segments.pin(segment);
        }
    }

    fn take_chunk(&mut self, pages: io::Result<Pages>) {
        let Ok(pages) = pages else { return self.end_of_records() };
        let Some(victim) = &mut self.collector.victim else { return };
        let pages = Arc::new(pages);
        let mut at = 0;
        while at < pages.len_blocks() {
            let place = Place::new(victim.segment, victim.block);
            let header = Header::decode(pages.block(at), self.superblock.volume, place);
            let holds = |header: &Header| self.segments.get(place.segment).holds(header);
            let header = header.filter(holds);
            let Some(header) = header else { return self.end_of_records() };
            if at + header.blocks() as usize > pages.len_blocks() {
                break;
            }
            let mut checked = Checked::new(&pages, at, &header);
            for (lba, written) in header.data() {
                let entry = self.map.get(lba);
                let Some(place) = entry.place().filter(|_| entry.place() == written.place()) else {
                    continue;
                };
                victim.found += entry.sectors();
                let data =
                    checked.stored(written, &header).filter(|stored| entry.matches(stored.crc));
                if data.is_some() {
                    self.segments.begin_move(place.segment);
                    self.log.moving.push_back(Moving { lba, entry, data });
                } else {
                    self.collector.singles.push_back((lba, place));
                }
            }
            at += header.blocks() as usize;
            victim.block += header.blocks();
        }
        if at == 0 {
            self.end_of_records();
        }
        if let Some(pages) = Arc::into_inner(pages) {
            // Nothing in it was live.
            self.collector.take_back(pages);
        }
    }

    /// The victim's records are all read, or cannot be read any further: what is live and was not
    /// found is looked for in the map.
    fn end_of_records(&mut self) {
        let Some(victim) = &mut self.collector.victim else { return };
        if self.segments.get(victim.segment).live > victim.found {
            victim.search_from = Some(0);
        } else {
            self.end_victim();
        }
    }

    fn end_victim(&mut self) {
        self.collector.victim = None;
        self.counters.collected_segments += 1;
    }

    fn search(&mut self) {
        let Some(victim) = &mut self.collector.victim else { return };
        let Some(from) = victim.search_from else { return };
        let end = (from + SEARCHED_AT_ONCE).min(self.geometry.blocks);
        let present = self.map.present(from..end);
        let places = present.filter_map(|(lba, entry)| Some((lba, entry.place()?)));
        let found = places.filter(|(_, place)| place.segment == victim.segment);
        self.collector.singles.extend(found);
        victim.search_from = Some(end);
        if end == self.geometry.blocks {
            self.end_victim();
        }
    }

    fn read_single(&mut self, lba: u64, place: Place, tried: Tried) {
        let offset = self.geometry.block_offset(place.segment, place.block);
        let blocks = self.map.get(lba).span().map_or(1, |span| span.blocks as usize);
        let read = |devices: &mut Devices<Purpose>, without| {
            devices.read(Purpose::Collect, offset, Pages::zeroed(blocks), without).is_ok()
        };
        let (is_read, tried) = if read(&mut self.devices, tried.bad) {
            (true, tried)
        } else if tried.again {
            (false, tried)
        } else {
            let tried = Tried { bad: 0, again: true, ..tried };
            (read(&mut self.devices, 0), tried)
        };
        if is_read {
            self.segments.pin(place.segment);
            self.collector.reading = Some(Reading::Single { lba, place, tried });
        } else if tried.failed {
            self.give_up_victim(place.segment);
        } else {
            self.counters.damaged_blocks += 1;
            self.segments.begin_move(place.segment);
            self.log.moving.push_back(Moving { lba, entry: self.map.get(lba), data: None });
        }
    }

    /// A device fails to read from a segment: its blocks stay there, for they may be read later.
    fn give_up_victim(&mut self, segment: u32) {
        self.segments.stick(segment);
        self.collector.victim = None;
        self.collector.singles.retain(|(_, place)| place.segment != segment);
    }

    fn take_single(
        &mut self,
        lba: u64,
        place: Place,
        mut tried: Tried,
        pages: io::Result<Pages>,
        device: u8,
    ) {
        let entry = self.map.get(lba);
        if entry.place() != Some(place) {
            return;
        }
        match pages {
            Ok(pages) if is_sound(entry, pages.as_bytes()) => {
                let data = Stored::new(Arc::new(pages), 0, entry);
                self.segments.begin_move(place.segment);
                self.log.moving.push_back(Moving { lba, entry, data });
            }
            pages => {
                tried.bad |= 1 << device;
                tried.failed |= pages.is_err();
                self.read_single(lba, place, tried);
            }
        }
    }
}

/// A record in memory, and which of its blocks are known to be undamaged.
struct Checked<'a> {
    pages: &'a Arc<Pages>,
    /// Where its header is.
    at: usize,
    /// For each block behind the header, once somebody has asked.
    good: Vec<Option<bool>>,
}

impl<'a> Checked<'a> {
    fn new(pages: &'a Arc<Pages>, at: usize, header: &Header) -> Self {
        Self { pages, at, good: vec![None; header.checksums.len()] }
    }

    /// What it has of a block of the volume; `None` if that is damaged.
    fn stored(&mut self, entry: Entry, header: &Header) -> Option<Stored> {
        let Span { first, blocks } = entry.span()?;
        let first = (first.block - header.place.block) as usize;
        let is_good = (first..first + blocks as usize).all(|block| {
            // The header has been read, with its checksum of all its block.
            let Some(behind) = block.checked_sub(1) else { return true };
            let is_good =
                || crc32c::crc32c(self.pages.block(self.at + block)) == header.checksums[behind];
            *self.good[behind].get_or_insert_with(is_good)
        });
        if is_good { Stored::new(Arc::clone(self.pages), self.at + first, entry) } else { None }
    }
}

impl Stored {
    /// What is stored for an entry, in memory that has the blocks it lies in from `block` on, and is
    /// known to be undamaged.
    fn new(pages: Arc<Pages>, block: usize, entry: Entry) -> Option<Self> {
        let bytes = stored(entry, &pages.as_bytes()[block * BLOCK..])?;
        let crc = match entry.state() {
            State::Packed(..) => check_of(bytes)?,
            _ => crc32c::crc32c(bytes),
        };
        let sector = block * BLOCK_SECTORS as usize + entry.place()?.sector as usize;
        Some(Self { pages, sector, sectors: entry.sectors(), crc })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_chunks_is_used_again_and_no_other_is_kept() {
        let mut collector = Collector::default();
        let pages = collector.memory(CHUNK_BLOCKS);
        let address = pages.as_bytes().as_ptr();
        assert!(collector.take_back(pages).is_none());
        assert_eq!(collector.memory(CHUNK_BLOCKS - 1).len_blocks(), CHUNK_BLOCKS as usize - 1);
        let again = collector.memory(CHUNK_BLOCKS);
        assert_eq!(
            (again.as_bytes().as_ptr(), again.len_blocks()),
            (address, CHUNK_BLOCKS as usize)
        );
        for blocks in [0, 1, CHUNK_BLOCKS as usize - 1, (CHUNK_BLOCKS as usize).next_power_of_two()]
        {
            assert_eq!(collector.take_back(Pages::zeroed(blocks)).unwrap().len_blocks(), blocks);
        }
        let many = || Pages::zeroed(CHUNK_BLOCKS as usize);
        (0..2 * SPARE_CHUNKS_MAX).for_each(|_| assert!(collector.take_back(many()).is_none()));
        assert_eq!(collector.spare.len(), SPARE_CHUNKS_MAX);
    }
}
