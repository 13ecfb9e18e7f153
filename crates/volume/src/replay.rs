//! Replays the log: which records count, and what they do to the map.
//!
//! Each stream leads from record to record and from segment to segment. Together the streams hold a
//! record for each sequence number, up to the first record that was not written completely. Nothing
//! after that one counts, because nothing after it was ever answered. If a record is incomplete
//! although a later header or the superblock says that it was durable, it was not torn by the crash
//! but damaged later. A block that a device cannot read, while it reads others, counts as
//! incomplete.
//!
//! A record is of the opening that the superblock is of. Where a later superblock may have been lost,
//! it may also be of the opening after that, which went on where the log ended for it. Nothing of the
//! earlier opening follows then.

use crate::create::cannot;
use crate::disk::{Copy, read_blocks};
use crate::effect::apply;
use crate::entry::Place;
use crate::error::OpenError;
use crate::format::{Extent, Header, Position, Superblock, VolumeId};
use crate::map::Map;
use crate::open::{InSync, OpenOptions, Recovery};
use crate::segments::Segments;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use wattio_pages::BLOCK;

/// Blocks that are read at once.
const CHUNK_BLOCKS: u32 = 256;
/// Chunks that are kept: of each stream the one that is read, and the one after it.
const CHUNKS: usize = 4;

/// A record as it was found.
struct Found {
    header: Header,
    /// Whether its data is whole on some device.
    is_whole: bool,
    /// Devices that do not have it whole, as bits.
    lacking: u8,
    /// Where its stream goes on after it.
    after: Position,
}

/// Blocks of records that a crash kept from some devices: a recovery copies them.
#[derive(Debug, Default)]
pub(crate) struct Unsynced(BTreeMap<(u32, u32), (u32, u8)>);

impl Unsynced {
    fn add(&mut self, header: &Header, devices: u8) {
        let Place { segment, block, .. } = header.place;
        self.0.insert((segment, block), (header.blocks(), devices));
    }

    /// Whether a device is to get the block at a place.
    pub(crate) fn has(&self, device: u8, place: Place) -> bool {
        let before = self.0.range(..=(place.segment, place.block)).next_back();
        before.is_some_and(|(&(segment, first), &(blocks, devices))| {
            segment == place.segment && place.block < first + blocks && devices & 1 << device != 0
        })
    }
}

/// Where reading a stream has come to.
struct StreamReader {
    at: Position,
    /// The next record, if it was read already.
    peeked: Option<Found>,
}

impl StreamReader {
    const fn new(at: Position) -> Self {
        Self { at, peeked: None }
    }
}

/// Reads the log, from where a superblock says that it goes on.
pub(crate) struct Reader<'a, 'b> {
    disks: &'a mut InSync<'b>,
    superblock: &'a Superblock,
    /// The opening that records are of, and the last one that they may be of.
    epoch: u64,
    last_epoch: u64,
    /// Whether records that only one device has whole are copied to the other.
    repairs: bool,
    resynced_blocks: u64,
    /// What was read last: records are small, and devices like to read much at once.
    chunks: VecDeque<Chunk>,
}

/// Blocks of a segment, as each device has them; `None` if it cannot read any of them.
struct Chunk {
    first: Place,
    blocks: u32,
    copies: Vec<Option<Copy>>,
}

/// The record with this sequence number, from whichever stream has it.
fn next_record(
    reader: &mut Reader<'_, '_>,
    streams: &mut [StreamReader; 2],
    sequence: u64,
) -> Result<Option<Found>, OpenError> {
    if reader.epoch < reader.last_epoch {
        let epoch = std::mem::replace(&mut reader.epoch, reader.last_epoch);
        let mut later = streams.each_ref().map(|stream| StreamReader::new(stream.at));
        let found = next_record(reader, &mut later, sequence)?;
        if found.is_some() {
            *streams = later;
            return Ok(found);
        }
        reader.epoch = epoch;
    }
    for stream in streams.iter_mut() {
        if stream.peeked.is_none() {
            stream.peeked = reader.peek(stream.at)?;
        }
    }
    let has_it = |stream: &&mut StreamReader| {
        stream.peeked.as_ref().is_some_and(|found| found.header.sequence == sequence)
    };
    let Some(stream) = streams.iter_mut().find(has_it) else { return Ok(None) };
    let found = stream.peeked.take();
    if let Some(found) = &found {
        stream.at = found.after;
    }
    Ok(found)
}

impl<'a, 'b> Reader<'a, 'b> {
    pub(crate) const fn new(
        disks: &'a mut InSync<'b>,
        superblock: &'a Superblock,
        repairs: bool,
    ) -> Self {
        let epoch = superblock.epoch;
        Self {
            disks,
            superblock,
            epoch,
            last_epoch: epoch,
            repairs,
            resynced_blocks: 0,
            chunks: VecDeque::new(),
        }
    }

    /// Applies what the log holds after the checkpoint, up to the opening that `superblock` is of, which
    /// then says where the log goes on. What a crash kept from some devices comes back.
    pub(crate) fn replay(
        mut self,
        superblock: &mut Superblock,
        map: &mut Map,
        segments: &mut Segments,
        options: &OpenOptions,
        recovery: &mut Recovery,
    ) -> Result<Unsynced, OpenError> {
        let from = self.superblock;
        self.last_epoch = superblock.epoch;
        let mut streams = from.positions.map(StreamReader::new);
        let (mut sequence, mut found) = (from.replay_from, Vec::new());
        while let Some(next) = next_record(&mut self, &mut streams, sequence)? {
            found.push(next);
            sequence += 1;
        }
        let seen = found.iter().map(|found| found.header.durable);
        let mut durable = seen.fold(from.replay_until, u64::max);
        for stream in &streams {
            durable = durable.max(self.durable_beyond(stream.at)?);
        }
        if recovery.first_copies_lost {
            durable = durable.max(self.durable_anywhere()?);
        }
        // Torn by the crash: this record and all after it were never answered as durable.
        let torn = found
            .iter()
            .position(|found| !found.is_whole && found.header.sequence >= durable)
            .unwrap_or(found.len());
        found.truncate(torn);
        let end = from.replay_from + found.len() as u64;
        if end < durable && !options.accept_loss {
            return Err(OpenError::DamagedLog { found: end, durable });
        }
        let mut unsynced = Unsynced::default();
        for Found { header, is_whole, lacking, after } in found {
            // One that was durable was on all of them, and is damaged since.
            if header.sequence >= durable {
                unsynced.add(&header, lacking);
            }
            apply(&header, map, segments);
            segments.get_mut(header.place.segment).closed_at = header.sequence;
            superblock.positions[header.stream as usize] = after;
            recovery.records += 1;
            recovery.blocks += u64::from(header.blocks());
            recovery.damaged_blocks += if is_whole { 0 } else { u64::from(header.data_blocks()) };
        }
        recovery.resynced_blocks = self.resynced_blocks;
        superblock.replay_from = end;
        superblock.replay_until = end;
        Ok(unsynced)
    }

    /// The record at a position, or at the beginning of the segment after it.
    fn peek(&mut self, at: Position) -> Result<Option<Found>, OpenError> {
        if at.block < self.superblock.geometry.segment_blocks {
            let place = Place::new(at.segment, at.block);
            let found = self.read(place, at.generation)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let (segment, generation) = at.next;
        self.read(Place::new(segment, 0), generation)
    }

    /// The record at a place, if there is one of this opening and this use of the segment. Devices
    /// that do not have it whole get it from one that has.
    fn read(&mut self, place: Place, generation: u64) -> Result<Option<Found>, OpenError> {
        let headers = self.read_copies(place, 1)?;
        let header = headers.iter().flatten();
        let header = header
            .map(|copy| copy.pages.block(0))
            .find_map(|block| self.decode(block, place, generation, self.epoch..=self.epoch));
        let Some(header) = header else { return Ok(None) };
        let blocks = header.blocks() as usize;
        let copies = self.read_copies(place, blocks)?;
        let volume = self.superblock.volume;
        let good =
            |copy: &Option<Copy>| copy.as_ref().is_some_and(|copy| is_whole(copy, &header, volume));
        let whole = copies.iter().find(|copy| good(copy)).and_then(Option::as_ref);
        let mut lacking = 0;
        if let Some(whole) = whole {
            let offset = self.superblock.geometry.block_offset(place.segment, place.block);
            for ((device, disk), copy) in self.disks.iter_mut().zip(&copies) {
                if good(copy) {
                    continue;
                }
                lacking |= 1 << *device;
                self.resynced_blocks += blocks as u64;
                if self.repairs {
                    disk.write_at(offset, &whole.pages)
                        .map_err(cannot(*device, &***disk, "written"))?;
                    self.chunks.clear();
                }
            }
        }
        let after = Position {
            segment: place.segment,
            generation,
            block: place.block + header.blocks(),
            next: header.next,
        };
        Ok(Some(Found { is_whole: whole.is_some(), lacking, after, header }))
    }

    /// What headers beyond the end of a stream say to be durable: those of records that cannot be
    /// reached because one before them is gone.
    fn durable_beyond(&mut self, end: Position) -> Result<u64, OpenError> {
        let blocks = self.superblock.geometry.segment_blocks;
        let mut durable = 0;
        let (next, next_generation) = end.next;
        for (segment, generation, from) in
            [(end.segment, end.generation, end.block), (next, next_generation, 0)]
        {
            for block in (from..blocks).step_by(CHUNK_BLOCKS as usize) {
                let count = CHUNK_BLOCKS.min(blocks - block);
                let copies = self.read_copies(Place::new(segment, block), count as usize)?;
                for (copy, at) in
                    copies.iter().flatten().flat_map(|it| (0..count).map(move |at| (it, at)))
                {
                    let place = Place::new(segment, block + at);
                    let (block, epochs) =
                        (copy.pages.block(at as usize), self.epoch..=self.last_epoch);
                    let header = self.decode(block, place, generation, epochs);
                    durable = durable.max(header.map_or(0, |header| header.durable));
                }
            }
        }
        Ok(durable)
    }

    /// What the first header of any segment says to be durable. Where a later superblock was lost,
    /// segments of the log may have been used again: nothing leads to what they hold now.
    fn durable_anywhere(&mut self) -> Result<u64, OpenError> {
        let mut durable = 0;
        for segment in 0..self.superblock.geometry.segments {
            let place = Place::new(segment, 0);
            for copy in self.read_copies(place, 1)?.iter().flatten() {
                // After a loss that was accepted, what an earlier opening wrote says too much.
                durable = Header::decode(copy.pages.block(0), self.superblock.volume, place)
                    .filter(|header| header.epoch >= self.superblock.epoch)
                    .map_or(durable, |header| header.durable.max(durable));
            }
        }
        Ok(durable)
    }

    /// Blocks from each device; an error if none can be read, for that says nothing of the log.
    fn read_copies(&mut self, place: Place, blocks: usize) -> Result<Vec<Option<Copy>>, OpenError> {
        let end = place.block + blocks as u32;
        let holds = |chunk: &&Chunk| {
            let (first, after) = (chunk.first, chunk.first.block + chunk.blocks);
            first.segment == place.segment && first.block <= place.block && end <= after
        };
        if self.chunks.iter().find(holds).is_none() {
            let all = self.superblock.geometry.segment_blocks;
            let at_once = CHUNK_BLOCKS.min(all).max(blocks as u32);
            // Never few at a segment's end: others show whether it is the device that fails.
            let first = Place::new(place.segment, place.block.min(all - at_once));
            let chunk = self.read_chunk(first, at_once)?;
            self.chunks.truncate(CHUNKS - 1);
            self.chunks.push_front(chunk);
        }
        let Some(chunk) = self.chunks.iter().find(holds) else { return Ok(Vec::new()) };
        let from = (place.block - chunk.first.block) as usize;
        Ok(chunk.copies.iter().map(|copy| Some(copy.as_ref()?.part(from, blocks))).collect())
    }

    fn read_chunk(&mut self, first: Place, blocks: u32) -> Result<Chunk, OpenError> {
        let offset = self.superblock.geometry.block_offset(first.segment, first.block);
        let (mut copies, mut failure) = (Vec::new(), None);
        for (device, disk) in &mut *self.disks {
            match read_blocks(&mut ***disk, offset, blocks as usize) {
                Ok(copy) => copies.push(Some(copy)),
                Err(error) => {
                    copies.push(None);
                    failure = Some(cannot(*device, &***disk, "read")(error));
                }
            }
        }
        match failure {
            Some(failure) if copies.iter().all(Option::is_none) => Err(failure),
            _ => Ok(Chunk { first, blocks, copies }),
        }
    }

    /// The header in a block, if it can be the next one here.
    fn decode(
        &self,
        block: &[u8; BLOCK],
        place: Place,
        generation: u64,
        epochs: RangeInclusive<u64>,
    ) -> Option<Header> {
        let Superblock { volume, geometry, .. } = self.superblock;
        let header = Header::decode(block, *volume, place)?;
        let is_inside = |extent: &Extent| {
            let end = extent.lba.checked_add(u64::from(extent.blocks));
            end.is_some_and(|end| end <= geometry.blocks)
        };
        let is_next = header.generation == generation
            && epochs.contains(&header.epoch)
            && place.block + header.blocks() <= geometry.segment_blocks
            && header.next.0 < geometry.segments
            && header.extents.iter().all(is_inside);
        is_next.then_some(header)
    }
}

fn is_whole(Copy { pages, unreadable }: &Copy, header: &Header, volume: VolumeId) -> bool {
    let same = Header::decode(pages.block(0), volume, header.place).as_ref() == Some(header);
    let mut blocks = (1..pages.len_blocks()).zip(&header.checksums);
    same && unreadable.is_empty()
        && blocks.all(|(block, &crc)| crc32c::crc32c(pages.block(block)) == crc)
}
