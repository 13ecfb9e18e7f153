//! The log: what clients and garbage collection write becomes records, and records take effect
//! strictly in order.

use crate::compression::BLOCK_SECTORS;
use crate::devices::Part;
use crate::entry::Place;
use crate::format::{
    Extent, ExtentKind, Fragments, Header, Position, RECORD_BLOCKS_MAX, Stream, VolumeId,
};
use crate::record_builder::{Building, Moving, Pending, Stored};
use crate::segments::Segments;
use std::collections::VecDeque;

/// Records under way at once. Requests that arrive meanwhile are grouped in the next one.
const FLIGHTS_MAX: usize = 4;
/// Blocks that are worth a record of their own, where writes are answered before.
const GATHERED_BLOCKS: usize = 32;
/// Blocks that one record may trim or zero, so that taking effect never takes long.
const DATALESS_BLOCKS_MAX: u32 = 65_536;
/// Moved blocks that are worth a header of their own.
pub(crate) const MOVES_MIN: usize = 32;
/// Moved blocks that fill a header, however small they are.
pub(crate) const MOVES_FULL: usize = RECORD_BLOCKS_MAX as usize;

/// A client's request whose last part is in a record.
#[derive(Debug)]
pub(crate) struct Ack {
    pub(crate) tag: u64,
    pub(crate) fua: bool,
    pub(crate) is_answered: bool,
    pub(crate) promised: u64,
    pub(crate) buffered: u64,
}

/// A record that has been given to the devices.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) header: Header,
    pub(crate) acks: Vec<Ack>,
    /// For each extent that a client wrote, the number of the write in the cache.
    pub(crate) numbers: Vec<u64>,
    is_written: bool,
}

/// A record to be written.
#[derive(Debug)]
pub(crate) struct NewRecord {
    pub(crate) sequence: u64,
    pub(crate) place: Place,
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug)]
pub(crate) struct Log {
    volume: VolumeId,
    epoch: u64,
    segment_blocks: u32,
    /// Whether there are fragments.
    packs: bool,
    /// Where each stream writes next.
    cursors: [Position; 2],
    pending: VecDeque<Pending>,
    /// Requests that were ever pending, and those of them that have taken effect.
    submitted: u64,
    finished: u64,
    /// Whether records wait for more to share them, as long as nobody waits for the record.
    pub(crate) gathers: bool,
    /// Somebody waits until so many requests have taken effect.
    pub(crate) hurried_until: u64,
    pub(crate) moving: VecDeque<Moving>,
    flights: VecDeque<Flight>,
    next_sequence: u64,
    /// Every record before this one is durable.
    pub(crate) durable: u64,
    /// Whether clients wait for a free segment.
    pub(crate) is_starved: bool,
    /// Blocks written since the volume was opened: headers, clients' data, moved data.
    pub(crate) written_blocks: [u64; 3],
    /// Blocks that clients wrote since then, and sectors that were stored of them.
    pub(crate) client_blocks: u64,
    pub(crate) client_sectors: u64,
}

impl Log {
    pub(crate) fn new(
        volume: VolumeId,
        epoch: u64,
        segment_blocks: u32,
        packs: bool,
        cursors: [Position; 2],
        sequence: u64,
    ) -> Self {
        Self {
            volume,
            epoch,
            segment_blocks,
            packs,
            cursors,
            pending: VecDeque::new(),
            submitted: 0,
            finished: 0,
            gathers: false,
            hurried_until: 0,
            moving: VecDeque::new(),
            flights: VecDeque::new(),
            next_sequence: sequence,
            durable: sequence,
            is_starved: false,
            written_blocks: [0; 3],
            client_blocks: 0,
            client_sectors: 0,
        }
    }

    /// Takes a request, after all that were taken before.
    pub(crate) fn push(&mut self, pending: Pending) {
        self.pending.push_back(pending);
        self.submitted += 1;
    }

    /// The request that has waited longest to be logged.
    pub(crate) fn first_pending(&self) -> Option<&Pending> {
        self.pending.front()
    }

    /// Takes that request back.
    pub(crate) fn refuse_first(&mut self) -> Option<Pending> {
        self.finished += 1;
        self.pending.pop_front()
    }

    /// Requests that were taken, and how many of them, from the first, have taken effect.
    pub(crate) const fn requests(&self) -> (u64, u64) {
        (self.submitted, self.finished)
    }

    /// Records that have been given to the devices and have not taken effect.
    pub(crate) fn flights(&self) -> usize {
        self.flights.len()
    }

    /// The sequence number before which every record has taken effect.
    pub(crate) fn applied(&self) -> u64 {
        self.flights.front().map_or(self.next_sequence, |flight| flight.header.sequence)
    }

    /// The sequence number that the next record gets.
    pub(crate) const fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// How many blocks of their segments the streams have given to the devices.
    pub(crate) fn written(&self) -> Vec<(u32, u32)> {
        let cursors = self.cursors.iter();
        cursors.flat_map(|at| [(at.segment, at.block), (at.next.0, 0)]).collect()
    }

    /// Whether nothing waits to be logged or to take effect.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.moving.is_empty() && self.flights.is_empty()
    }

    /// Where each stream goes on once everything before [`Self::applied`] is covered.
    pub(crate) fn positions(&self) -> [Position; 2] {
        Stream::ALL.map(|stream| {
            let first = self.flights.iter().find(|flight| flight.header.stream == stream);
            first.map_or(self.cursors[stream as usize], |Flight { header, .. }| Position {
                segment: header.place.segment,
                generation: header.generation,
                block: header.place.block,
                next: header.next,
            })
        })
    }

    /// The next record, if something is to be logged and may be now.
    pub(crate) fn next_record(
        &mut self,
        segments: &mut Segments,
        all_moves: bool,
        is_live: impl Fn(&Moving) -> bool,
    ) -> Option<NewRecord> {
        if self.flights.len() >= FLIGHTS_MAX {
            return None;
        }
        if self.are_moves_worth_it() || (all_moves && !self.moving.is_empty()) {
            let record = self.moves_record(segments, is_live);
            if record.is_some() {
                return record;
            }
        }
        self.clients_record(segments)
    }

    /// Whether what is to be moved is worth a header.
    fn are_moves_worth_it(&self) -> bool {
        let sectors = |moving: &Moving| u64::from(moving.entry.sectors());
        self.moving.len() >= MOVES_FULL
            || (self.moving.len() >= MOVES_MIN
                && self.moving.iter().map(sectors).sum::<u64>()
                    >= MOVES_MIN as u64 * u64::from(BLOCK_SECTORS))
    }

    /// Whether nobody waits for a record, and more may come to share it.
    fn may_wait(&self) -> bool {
        let blocks = self.pending.iter().map(|pending| pending.blocks);
        // Each has a block at least: few are looked at.
        self.pending.len() < GATHERED_BLOCKS
            && blocks.sum::<u64>() < GATHERED_BLOCKS as u64
            && self.hurried_until <= self.finished
            && self.pending.iter().all(|pending| pending.is_answered)
    }

    fn clients_record(&mut self, segments: &mut Segments) -> Option<NewRecord> {
        let first = self.pending.front()?;
        if self.gathers && self.may_wait() {
            return None;
        }
        let room = self.room(segments, Stream::Clients, first.kind.has_data());
        self.is_starved = room.is_none();
        let mut building = self.building(Stream::Clients, room?);
        let (mut acks, mut numbers) = (Vec::new(), Vec::new());
        while let Some(pending) = self.pending.front_mut() {
            let wanted =
                (pending.blocks - pending.taken).min(u64::from(DATALESS_BLOCKS_MAX)) as u32;
            let from = pending.taken as usize;
            let sectors = |at: u32| pending.sectors(from + at as usize);
            let blocks = building.filling.add(pending.kind, wanted, sectors);
            if blocks == 0 {
                break;
            }
            let to = from + blocks as usize;
            let extent = Extent { kind: pending.kind, lba: pending.lba + pending.taken, blocks };
            building.header.extents.push(extent);
            numbers.push(pending.number);
            pending.take(&mut building, from, to);
            pending.taken = to as u64;
            if pending.taken < pending.blocks {
                break;
            }
            let Pending { tag, fua, is_answered, promised, buffered, .. } = *pending;
            acks.push(Ack { tag, fua, is_answered, promised, buffered });
            self.pending.pop_front();
        }
        let sectors = building.header.fragments.sectors.iter();
        self.client_blocks += sectors.len() as u64;
        self.client_sectors += sectors.map(|&sectors| u64::from(sectors)).sum::<u64>();
        Some(self.launch(segments, building, (acks, numbers)))
    }

    fn moves_record(
        &mut self,
        segments: &mut Segments,
        is_live: impl Fn(&Moving) -> bool,
    ) -> Option<NewRecord> {
        self.moving.retain(|moving| {
            let stays = is_live(moving);
            if let Some(place) = moving.entry.place().filter(|_| !stays) {
                segments.end_move(place.segment);
            }
            stays
        });
        let first = self.moving.front()?;
        let room = self.room(segments, Stream::Moved, first.data.is_some())?;
        let mut building = self.building(Stream::Moved, room);
        while let Some(moving) = self.moving.front() {
            let kind = if moving.data.is_some() { ExtentKind::Move } else { ExtentKind::Lost };
            if building.filling.add(kind, 1, |_| moving.entry.sectors()) == 0 {
                break;
            }
            building.header.extents.push(Extent { kind, lba: moving.lba, blocks: 1 });
            building.header.origins.extend(moving.entry.place());
            match &moving.data {
                Some(stored) if stored.sectors < BLOCK_SECTORS => {
                    building.fragment(stored.bytes(), stored.crc);
                }
                Some(Stored { pages, sector, crc, .. }) => {
                    building.plain(pages, sector / BLOCK_SECTORS as usize, *crc);
                }
                None => {}
            }
            self.moving.pop_front();
        }
        Some(self.launch(segments, building, (Vec::new(), Vec::new())))
    }

    /// Blocks of data that the next record of a stream may hold; `None` if there is no segment.
    fn room(&mut self, segments: &mut Segments, stream: Stream, has_data: bool) -> Option<u32> {
        let needed = 1 + u32::from(has_data);
        let cursor = &mut self.cursors[stream as usize];
        if self.segment_blocks - cursor.block < needed {
            // A segment is begun only with another one set aside, so that all its records can say
            // where the stream goes on.
            let after = segments.open(stream == Stream::Moved)?;
            segments.close(cursor.segment, self.next_sequence);
            let (segment, generation) = cursor.next;
            *cursor = Position { segment, generation, block: 0, next: after };
        }
        Some((self.segment_blocks - cursor.block - 1).min(RECORD_BLOCKS_MAX))
    }

    /// An empty record that so many blocks may follow.
    fn building(&self, stream: Stream, room: u32) -> Building {
        let cursor = self.cursors[stream as usize];
        let header = Header {
            volume: self.volume,
            place: Place::new(cursor.segment, cursor.block),
            generation: cursor.generation,
            epoch: self.epoch,
            stream,
            sequence: self.next_sequence,
            durable: self.durable,
            next: cursor.next,
            extents: Vec::new(),
            checksums: Vec::new(),
            fragments: Fragments::default(),
            origins: Vec::new(),
        };
        Building::new(header, room, self.packs)
    }

    fn launch(
        &mut self,
        segments: &mut Segments,
        building: Building,
        (acks, numbers): (Vec<Ack>, Vec<u64>),
    ) -> NewRecord {
        let (header, parts) = building.finish();
        let data = 1 + header.stream as usize;
        self.written_blocks[data] += u64::from(header.data_blocks());
        self.cursors[header.stream as usize].block += header.blocks();
        self.next_sequence += 1;
        self.written_blocks[0] += 1;
        segments.launch(header.place.segment);
        let record = NewRecord { sequence: header.sequence, place: header.place, parts };
        self.flights.push_back(Flight { header, acks, numbers, is_written: false });
        record
    }

    /// A record has been written.
    pub(crate) fn record_written(&mut self, sequence: u64) {
        // One that was given up when the volume failed is not among them.
        let place = sequence.checked_sub(self.applied());
        if let Some(flight) = place.and_then(|place| self.flights.get_mut(place as usize)) {
            flight.is_written = true;
        }
    }

    /// The next record that is to take effect.
    pub(crate) fn next_effect(&mut self) -> Option<Flight> {
        let flight = self.flights.front().filter(|flight| flight.is_written)?;
        self.finished += flight.acks.len() as u64;
        self.flights.pop_front()
    }

    /// Gives up everything that has not taken effect; returns the requests that wait for answers.
    pub(crate) fn abandon(&mut self) -> Vec<u64> {
        self.moving.clear();
        let flying = self.flights.drain(..).flat_map(|flight| flight.acks);
        let flying = flying.filter(|ack| !ack.is_answered).map(|ack| ack.tag);
        let waiting = self.pending.drain(..).filter(|pending| !pending.is_answered);
        flying.chain(waiting.map(|pending| pending.tag)).collect()
    }
}
