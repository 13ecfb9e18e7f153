//! The volume while it serves: it takes requests, and returns operations for the devices and
//! answers. It never waits, has no clock and starts no thread: its driver does all that.

use crate::cache::BlockCache;
use crate::checkpoint::Checkpoint;
use crate::collect::Collector;
use crate::compression::{BLOCK_SECTORS, Compression, Packed, Packer};
use crate::counters::Counters;
use crate::devices::{Devices, Done, Io, Outcome, Part};
use crate::effect;
use crate::format::{ExtentKind, Superblock};
use crate::geometry::Geometry;
use crate::log::{Ack, Flight, Log};
use crate::map::Map;
use crate::pace::Pace;
use crate::reads::Reads;
use crate::rebuild::Rebuild;
use crate::record_builder::{Moving, Pending};
use crate::request::{Fault, Piece, Reply, Request};
use crate::scrub::Scrub;
use crate::segments::{Segments, charge};
use std::collections::VecDeque;
use std::io;
use wattio_pages::{BLOCK, Recycler};

/// What something asked of the devices is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    Record(u64),
    Read {
        read: usize,
        piece: usize,
    },
    Repair {
        segment: u32,
    },
    Flush,
    Page,
    Superblock,
    Collect,
    Scrub,
    /// A read of what a rebuild copies, and the write of it.
    Rebuild,
    Copy,
}

/// Whoever waits for a flush.
#[derive(Debug)]
pub(crate) enum Waiting {
    Client(u64),
    Superblock,
}

/// A volume that serves.
#[derive(Debug)]
pub struct Volume {
    pub(crate) superblock: Superblock,
    pub(crate) geometry: Geometry,
    pub(crate) map: Map,
    pub(crate) segments: Segments,
    pub(crate) devices: Devices<Purpose>,
    pub(crate) log: Log,
    pub(crate) reads: Reads,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) collector: Collector,
    pub(crate) scrub: Scrub,
    pub(crate) rebuild: Option<Rebuild>,
    pub(crate) rebuild_failure: Option<&'static str>,
    pub(crate) cache: BlockCache,
    /// Blocks that may be answered before they are in the log.
    pub(crate) buffered_max: u64,
    /// Blocks of writes that have not taken effect: each as often as it was written, for each is in
    /// memory and takes its space in the log.
    pub(crate) buffered: u64,
    pub(crate) recycler: Recycler,
    packer: Option<Packer>,
    pub(crate) counters: Counters,
    replies: VecDeque<Reply>,
    /// Waiting for requests to take effect: how many of all, and who then waits for a flush.
    pub(crate) flush_later: VecDeque<(u64, Waiting)>,
    /// Waiting for the next flush, and for the one under way.
    pub(crate) flush_next: Vec<Waiting>,
    pub(crate) flush_now: Option<(u64, Vec<Waiting>)>,
    /// Flushed, and not answered before a superblock says that a device lacks it.
    pub(crate) flush_held: Vec<u64>,
    /// Space promised to requests that have not taken effect, in sectors.
    promised: u64,
    pub(crate) pace: Pace,
    /// Whether what could not be read was tried once more since a client was last refused space.
    has_tried_again: bool,
    pub(crate) failed: Option<String>,
}

/// Memory for reads that is kept for later use.
const RECYCLED_BYTES: usize = 8 << 20;

impl Volume {
    /// From what was found when it was opened.
    pub(crate) fn new(superblock: Superblock, map: Map, segments: Segments) -> Self {
        let geometry = superblock.geometry;
        let log = Log::new(
            superblock.volume,
            superblock.epoch,
            geometry.segment_blocks,
            superblock.compression != Compression::None,
            superblock.positions,
            superblock.replay_from,
        );
        Self {
            geometry,
            map,
            segments,
            devices: Devices::new(superblock.roles.clone()),
            log,
            reads: Reads::default(),
            checkpoint: Checkpoint::new(superblock.area),
            collector: Collector::default(),
            scrub: Scrub::default(),
            rebuild: None,
            rebuild_failure: None,
            cache: BlockCache::new(0),
            buffered_max: 0,
            buffered: 0,
            recycler: Recycler::new(RECYCLED_BYTES),
            packer: Packer::new(superblock.compression),
            counters: Counters::default(),
            replies: VecDeque::new(),
            flush_later: VecDeque::new(),
            flush_next: Vec::new(),
            flush_now: None,
            flush_held: Vec::new(),
            promised: 0,
            pace: Pace::default(),
            has_tried_again: false,
            failed: None,
            superblock,
        }
    }

    /// Takes a request; its answer comes with [`Self::next_reply`], under its tag. Nothing is
    /// written before [`Self::commit`].
    pub fn submit(&mut self, tag: u64, request: Request) {
        let (lba, blocks) = match &request {
            Request::Read { lba, blocks } => (*lba, u64::from(*blocks)),
            Request::Write { lba, data, .. } => (*lba, data.blocks.len() as u64),
            Request::Zero { lba, blocks, .. } => (*lba, *blocks),
            Request::Flush => (0, 0),
        };
        if lba.checked_add(blocks).is_none_or(|end| end > self.geometry.blocks) {
            return self.answer(tag, Err(Fault::Beyond));
        }
        if let Request::Read { lba, blocks } = request {
            return self.submit_read(tag, lba, blocks);
        }
        if self.failed.is_some() {
            return self.answer(tag, Err(Fault::Io));
        }
        match request {
            Request::Write { lba, data, fua } => self.submit_write(tag, lba, data, fua),
            Request::Zero { lba, blocks, discard, fua } => {
                let kind = if discard { ExtentKind::Trim } else { ExtentKind::Zeros };
                if blocks == 0 {
                    return self.answer(tag, Ok(Vec::new()));
                }
                self.log.push(Pending::new(tag, kind, lba, blocks, fua));
            }
            Request::Flush => self.flush_answered(tag),
            Request::Read { .. } => {}
        }
    }

    fn submit_write(&mut self, tag: u64, lba: u64, data: Part, fua: bool) {
        let blocks = data.blocks.len() as u64;
        if blocks == 0 {
            return self.answer(tag, Ok(Vec::new()));
        }
        let checksums = data.blocks.clone().map(|block| crc32c::crc32c(data.pages.block(block)));
        let checksums: Vec<u32> = checksums.collect();
        let packed = self.packer.as_mut().map(|packer| {
            let mut packed = Packed::default();
            for (block, &crc) in data.blocks.clone().zip(&checksums) {
                packer.add(&mut packed, data.pages.block(block), crc);
            }
            packed
        });
        let capacity = self.geometry.capacity_blocks();
        let promised = if self.geometry.blocks <= capacity {
            0
        } else {
            self.more_space(lba, blocks, packed.as_ref())
        };
        let capacity = capacity * u64::from(BLOCK_SECTORS);
        if promised > 0 && self.segments.charged() + self.promised + promised > capacity {
            return self.refuse(tag);
        }
        self.promised += promised;
        let mut pending = Pending::new(tag, ExtentKind::Write, lba, blocks, fua);
        if self.buffered_max > 0 {
            pending.is_answered = !fua && self.can_buffer(blocks);
            pending.buffered = blocks;
            self.buffered += blocks;
            pending.number = self.cache.write(lba, &data);
        }
        if pending.is_answered {
            self.answer(tag, Ok(Vec::new()));
        }
        self.log.push(pending.with_data(data, checksums, packed, promised));
    }

    /// Answers a write that there is no space for.
    fn refuse(&mut self, tag: u64) {
        self.counters.refused_writes += 1;
        self.answer(tag, Err(Fault::NoSpace));
    }

    /// Sectors that blocks count for once they are written, more than they do now.
    fn more_space(&self, lba: u64, blocks: u64, packed: Option<&Packed>) -> u64 {
        let more = (lba..lba + blocks).enumerate().map(|(at, lba)| {
            let after = packed.map_or(BLOCK_SECTORS, |packed| u32::from(packed.sectors[at]));
            charge(after).saturating_sub(charge(self.map.get(lba).sectors()))
        });
        more.map(u64::from).sum()
    }

    /// Whether a write may be answered before it is in the log: not if too many are, nor if there
    /// might be no space for it when its turn comes.
    fn can_buffer(&self, blocks: u64) -> bool {
        let buffered = self.buffered + blocks;
        let free = self.segments.free().saturating_sub(Segments::held() + 2);
        let room = u64::from(free) * u64::from(self.geometry.segment_blocks / 2);
        buffered <= self.buffered_max.min(room)
    }

    /// Gives memory to a volume that has just been opened: bytes of what was read that are kept,
    /// and bytes that clients may write before the log has them, as into the write cache of a disk.
    /// Such writes are answered at once; a flush waits for them, and a loss of power loses them.
    pub fn set_memory(&mut self, read_bytes: u64, write_bytes: u64) {
        self.cache = BlockCache::new(read_bytes);
        self.buffered_max = write_bytes / BLOCK as u64;
        self.log.gathers = self.buffered_max > 0;
    }

    /// What was submitted goes to the log with the next [`Self::commit`], even if more might share
    /// its record. Writes that were answered wait for others no longer than until this is called,
    /// a flush comes, or there are enough: whoever drives the volume calls it after some
    /// milliseconds in which [`Self::buffered_blocks`] were not zero.
    pub fn hurry(&mut self) {
        self.log.hurried_until = self.log.requests().0;
    }

    /// Makes records of what was submitted; call it once for each batch of requests, so that they
    /// share a record.
    pub fn commit(&mut self) {
        if self.failed.is_some() {
            return;
        }
        let all_moves = self.wants_all_moves();
        while let Some(record) = {
            let map = &self.map;
            let is_live = |moving: &Moving| map.get(moving.lba) == moving.entry;
            self.log.next_record(&mut self.segments, all_moves, is_live)
        } {
            let offset = self.geometry.block_offset(record.place.segment, record.place.block);
            self.devices.write(Purpose::Record(record.sequence), offset, &record.parts);
        }
        self.refuse_if_wedged();
        self.note_starving();
    }

    /// The next thing that a device should do.
    pub fn next_io(&mut self) -> Option<Io> {
        self.devices.next_io()
    }

    /// Says what became of an [`Io`]; a number that is not under way is ignored.
    pub fn complete(&mut self, id: u64, done: Done) {
        let finished = self.devices.complete(id, done);
        if self.devices.take_lost_one() {
            self.checkpoint.roles_changed = true;
            self.write_superblock_if_needed();
        }
        let Some((purpose, outcome)) = finished else { return };
        match (purpose, outcome) {
            (Purpose::Record(sequence), Outcome::Written(result)) => {
                self.record_written(sequence, result);
            }
            (Purpose::Read { read, piece }, Outcome::Read { pages, device }) => {
                self.piece_read(read, piece, pages, device);
            }
            (Purpose::Repair { segment }, _) => self.segments.unpin(segment),
            (Purpose::Flush, Outcome::Flushed(result)) => self.flushed(result),
            (Purpose::Page, Outcome::Written(result)) => self.page_written(result),
            (Purpose::Superblock, Outcome::Written(result)) => self.superblock_written(result),
            (Purpose::Collect, Outcome::Read { pages, device }) => self.chunk_read(pages, device),
            (Purpose::Scrub, Outcome::Read { pages, device }) => self.scrub_read(pages, device),
            (Purpose::Rebuild, Outcome::Read { pages, .. }) => self.rebuild_read(pages),
            (Purpose::Copy, Outcome::Written(result)) => self.copy_written(result),
            (purpose, outcome) => debug_assert!(false, "{outcome:?} for {purpose:?}"),
        }
        self.commit();
    }

    /// The next answer.
    pub fn next_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    pub(crate) fn answer(&mut self, tag: u64, result: Result<Vec<Piece>, Fault>) {
        self.replies.push_back(Reply { tag, result });
    }

    fn record_written(&mut self, sequence: u64, result: io::Result<()>) {
        if let Err(error) = result {
            return self.fail(format!("a record could not be written: {error}"));
        }
        self.log.record_written(sequence);
        while let Some(flight) = self.log.next_effect() {
            effect::apply(&flight.header, &mut self.map, &mut self.segments);
            flight.header.origins.iter().for_each(|origin| self.segments.end_move(origin.segment));
            self.settle_cache(&flight);
            self.segments.land(flight.header.place.segment);
            for Ack { tag, fua, is_answered, promised, buffered } in flight.acks {
                self.promised -= promised;
                self.buffered -= buffered;
                if fua {
                    self.flush(Waiting::Client(tag));
                } else if !is_answered {
                    self.answer(tag, Ok(Vec::new()));
                }
            }
        }
        self.flush_due();
    }

    /// What was in memory for the log is in the map; what is kept of other blocks is out of date.
    fn settle_cache(&mut self, flight: &Flight) {
        if self.cache.is_off() {
            return;
        }
        for (extent, &number) in flight.header.extents.iter().zip(&flight.numbers) {
            match extent.kind {
                ExtentKind::Write => self.cache.applied(extent.lba, extent.blocks, number),
                _ => self.cache.forget(extent.lba, u64::from(extent.blocks)),
            }
        }
        self.cache.freed().for_each(|pages| self.recycler.give(pages));
    }

    /// Nothing can be written any more: what was not answered is answered with an error, and only
    /// reads go on.
    pub(crate) fn fail(&mut self, why: String) {
        if self.failed.is_some() {
            return;
        }
        self.failed = Some(why);
        self.buffered = 0;
        let later = std::mem::take(&mut self.flush_later).into_iter().map(|(_, waiting)| waiting);
        let waiting = std::mem::take(&mut self.flush_next).into_iter().chain(later);
        let flushes = waiting.filter_map(|waiting| match waiting {
            Waiting::Client(tag) => Some(tag),
            Waiting::Superblock => None,
        });
        let held = std::mem::take(&mut self.flush_held);
        let tags: Vec<u64> = self.log.abandon().into_iter().chain(flushes).chain(held).collect();
        for tag in tags {
            self.answer(tag, Err(Fault::Io));
        }
    }

    /// Has segments collected that a device could not read from, once before a client is refused
    /// space: the device may work again; whether there are such.
    fn try_again(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.has_tried_again, true);
        is_first
            && self.segments.unstick()
            && self.segments.victim(self.log.next_sequence()).is_some()
    }

    /// Clients wait for space that nothing can free: better they hear of it.
    fn refuse_if_wedged(&mut self) {
        if !self.log.is_starved {
            self.has_tried_again = false;
            return;
        }
        let can_help = self.segments.has_room_for_clients()
            || self.segments.empty() > 0
            || self.collector.is_busy()
            || !self.log.moving.is_empty()
            || self.log.applied() != self.log.next_sequence()
            || self.checkpoint.is_busy()
            || self.segments.victim(self.log.next_sequence()).is_some();
        if can_help || self.try_again() {
            return;
        }
        self.has_tried_again = false;
        if self.log.first_pending().is_some_and(|pending| pending.is_answered) {
            return self.fail("there is no space for what was answered already".into());
        }
        if let Some(pending) = self.log.refuse_first() {
            self.promised -= pending.promised;
            self.buffered -= pending.buffered;
            self.cache.applied(pending.lba, pending.blocks as u32, pending.number);
            self.cache.forget(pending.lba, pending.blocks);
            self.refuse(pending.tag);
        }
        self.log.is_starved = self.log.first_pending().is_some();
        self.flush_due();
    }
}
