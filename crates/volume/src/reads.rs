//! Reads: looks blocks up in the map, reads them from the devices, and checks each block's
//! checksum.

use crate::cache::CachedBlock;
use crate::compression::{BLOCK_SECTORS, stored, unpack};
use crate::devices::Part;
use crate::entry::{Entry, Place, Span, State};
use crate::request::{Fault, Piece};
use crate::volume::{Purpose, Volume};
use slab::Slab;
use std::io;
use std::ops::Range;
use std::slice;
use std::sync::Arc;
use wattio_pages::{BLOCK, Pages, Recycler};

/// The reads of clients that are under way.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    all: Slab<ClientRead>,
}

#[derive(Debug)]
struct ClientRead {
    tag: u64,
    /// What was asked for, and behind that the blocks of runs that were split.
    pieces: Vec<Wanted>,
    asked: usize,
    waiting: u32,
    is_damaged: bool,
}

#[derive(Debug)]
enum Wanted {
    Ready(Piece),
    Run(Run),
    /// A run of which no device has all blocks: each is asked for by itself, as these pieces.
    Split(Range<usize>),
}

/// Blocks that lie one after another in the log.
#[derive(Debug)]
struct Run {
    /// The first block of the volume.
    lba: u64,
    /// Where they lie: as many blocks of a device as of the volume, unless some are compressed.
    span: Span,
    /// What the map says of each block.
    entries: Vec<Entry>,
    /// Devices that gave damaged data, as bits.
    bad: u8,
}

impl Volume {
    pub(crate) fn submit_read(&mut self, tag: u64, lba: u64, blocks: u32) {
        let mut pieces: Vec<Wanted> = Vec::new();
        let mut is_damaged = false;
        let is_cached = !self.cache.is_off();
        for lba in lba..lba + u64::from(blocks) {
            if is_cached && let Some(cached) = self.cache.get(lba) {
                push_cached(&mut pieces, cached);
                continue;
            }
            let entry = self.map.get(lba);
            let is_hole = match entry.state() {
                State::Data(_) | State::Packed(..) => {
                    let is_added = match pieces.last_mut() {
                        Some(Wanted::Run(run)) => run.add(lba, entry),
                        _ => false,
                    };
                    if !is_added && let Some(span) = entry.span() {
                        let entries = vec![entry];
                        pieces.push(Wanted::Run(Run { lba, span, entries, bad: 0 }));
                    }
                    continue;
                }
                State::Lost => {
                    is_damaged = true;
                    break;
                }
                state => state == State::Hole,
            };
            match pieces.last_mut() {
                Some(Wanted::Ready(Piece::Zeros(count, hole))) if *hole == is_hole => *count += 1,
                _ => pieces.push(Wanted::Ready(Piece::Zeros(1, is_hole))),
            }
        }
        if is_damaged {
            return self.answer(tag, Err(Fault::Io));
        }
        let runs = pieces.iter().filter(|piece| matches!(piece, Wanted::Run(_))).count();
        let count = pieces.len();
        let waiting = runs as u32;
        let client = ClientRead { tag, pieces, asked: count, waiting, is_damaged };
        let read = self.reads.all.insert(client);
        if waiting == 0 {
            return self.finish_read(read);
        }
        for piece in 0..count {
            self.issue_run(read, piece);
        }
    }

    /// Asks a device that has not given damaged data for a run; `false` if there is none.
    fn issue_run(&mut self, read: usize, piece: usize) -> bool {
        let Wanted::Run(run) = &self.reads.all[read].pieces[piece] else { return true };
        let (Span { first: place, blocks }, bad) = (run.span, run.bad);
        let offset = self.geometry.block_offset(place.segment, place.block);
        let pages = self.recycler.take(blocks as usize);
        let purpose = Purpose::Read { read, piece };
        let is_issued = self.devices.read(purpose, offset, pages, bad).is_ok();
        if is_issued {
            self.segments.pin(place.segment);
        }
        is_issued
    }

    pub(crate) fn piece_read(
        &mut self,
        read: usize,
        piece: usize,
        pages: io::Result<Pages>,
        device: u8,
    ) {
        let Wanted::Run(run) = &mut self.reads.all[read].pieces[piece] else { return };
        let place = run.span.first;
        let made = pages.ok().and_then(|pages| run.make(pages, &mut self.recycler));
        match made {
            Some(pages) => {
                let bad = run.bad;
                let part = Part { blocks: 0..run.entries.len(), pages: Arc::new(pages) };
                for (at, (lba, &entry)) in (run.lba..).zip(&run.entries).enumerate() {
                    // It may have been written meanwhile.
                    if self.map.get(lba) == entry {
                        self.cache.keep_read(lba, &part, at);
                    }
                }
                self.cache.freed().for_each(|pages| self.recycler.give(pages));
                if run.is_packed() {
                    // What else lies in these blocks was not looked at: the scrub does that.
                    self.scrub_soon(place.segment, bad);
                } else {
                    let blocks = u64::from(bad.count_ones()) * part.blocks.len() as u64;
                    self.counters.damaged_blocks += blocks;
                    self.repair(place, &part, bad);
                }
                self.reads.all[read].pieces[piece] = Wanted::Ready(Piece::Data(part));
                self.reads.all[read].waiting -= 1;
            }
            None => {
                run.bad |= 1 << device;
                if !self.issue_run(read, piece) && !self.split_run(read, piece) {
                    // One at least: which of them, nobody has looked.
                    self.counters.damaged_blocks += 1;
                    let read = &mut self.reads.all[read];
                    read.is_damaged = true;
                    read.waiting -= 1;
                }
            }
        }
        self.segments.unpin(place.segment);
        if self.reads.all[read].waiting == 0 {
            self.finish_read(read);
        }
    }

    /// Asks for each block of a run by itself: of two devices each may have what the other one does
    /// not. `false` if that is no help.
    fn split_run(&mut self, read: usize, piece: usize) -> bool {
        let ClientRead { pieces, waiting, .. } = &mut self.reads.all[read];
        let Wanted::Run(run) = &pieces[piece] else { return false };
        if run.entries.len() < 2 || run.bad.count_ones() < 2 {
            return false;
        }
        let single = |(lba, &entry): (u64, &Entry)| {
            let entries = vec![entry];
            Some(Wanted::Run(Run { lba, span: entry.span()?, entries, bad: 0 }))
        };
        let singles: Vec<Wanted> = (run.lba..).zip(&run.entries).filter_map(single).collect();
        let parts = pieces.len()..pieces.len() + singles.len();
        *waiting += singles.len() as u32 - 1;
        pieces[piece] = Wanted::Split(parts.clone());
        pieces.extend(singles);
        for part in parts {
            if !self.issue_run(read, part) {
                let read = &mut self.reads.all[read];
                read.is_damaged = true;
                read.waiting -= 1;
            }
        }
        true
    }

    fn finish_read(&mut self, read: usize) {
        let read = self.reads.all.remove(read);
        if read.is_damaged {
            return self.answer(read.tag, Err(Fault::Io));
        }
        let asked = read.pieces[..read.asked].iter().flat_map(|piece| match piece {
            Wanted::Split(parts) => &read.pieces[parts.clone()],
            piece => slice::from_ref(piece),
        });
        let pieces = asked.filter_map(|piece| match piece {
            Wanted::Ready(piece) => Some(piece.clone()),
            Wanted::Run(_) | Wanted::Split(_) => None,
        });
        let pieces = pieces.collect();
        self.answer(read.tag, Ok(pieces));
    }

    /// Writes good data over what devices in `bad` gave instead, in the same place.
    pub(crate) fn repair(&mut self, place: Place, part: &Part, bad: u8) {
        let offset = self.geometry.block_offset(place.segment, place.block);
        for device in (0..8).filter(|device| bad & 1 << device != 0) {
            self.segments.pin(place.segment);
            let purpose = Purpose::Repair { segment: place.segment };
            self.devices.write_to(purpose, device, offset, vec![part.clone()]);
            self.counters.repaired_blocks += part.blocks.len() as u64;
        }
    }
}

fn push_cached(pieces: &mut Vec<Wanted>, CachedBlock { pages, block }: CachedBlock) {
    match pieces.last_mut() {
        Some(Wanted::Ready(Piece::Data(part)))
            if Arc::ptr_eq(&part.pages, &pages) && part.blocks.end == block =>
        {
            part.blocks.end += 1;
        }
        _ => pieces.push(Wanted::Ready(Piece::Data(Part { pages, blocks: block..block + 1 }))),
    }
}

impl Run {
    /// Adds a block that follows it, in the volume and in the log; `false` if it does not.
    fn add(&mut self, lba: u64, entry: Entry) -> bool {
        let (Some(last), Some(span)) = (self.entries.last(), entry.span()) else { return false };
        let end = self.span.first.plus(self.span.blocks);
        // It begins where the last one ends, or in the block after that one.
        let follows = match (last.place(), entry.place()) {
            (Some(last_place), Some(place)) => {
                place == last_place.plus_sectors(last.sectors()) || place == end
            }
            _ => false,
        };
        if self.lba + self.entries.len() as u64 != lba || !follows {
            return false;
        }
        self.entries.push(entry);
        self.span.blocks = span.first.block + span.blocks - self.span.first.block;
        true
    }

    /// Whether any of it is compressed.
    fn is_packed(&self) -> bool {
        self.entries.iter().any(|entry| entry.sectors() < BLOCK_SECTORS)
    }

    /// Its blocks, from what was read; `None` if any is damaged.
    fn make(&self, pages: Pages, recycler: &mut Recycler) -> Option<Pages> {
        if !self.is_packed() {
            let mut entries = self.entries.iter().enumerate();
            let is_good = entries.all(|(at, entry)| entry.matches(crc32c::crc32c(pages.block(at))));
            return is_good.then_some(pages);
        }
        let mut made = recycler.take(self.entries.len());
        for (at, &entry) in self.entries.iter().enumerate() {
            let first = (entry.span()?.first.block - self.span.first.block) as usize * BLOCK;
            let bytes = stored(entry, &pages.as_bytes()[first..])?;
            let block = made.block_mut(at);
            let crc = match entry.state() {
                State::Packed(..) => unpack(bytes, block)?,
                _ => {
                    block.copy_from_slice(bytes);
                    crc32c::crc32c(bytes)
                }
            };
            if !entry.matches(crc) {
                return None;
            }
        }
        recycler.give(pages);
        Some(made)
    }
}
