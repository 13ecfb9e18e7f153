//! The log: what clients and garbage collection write becomes records, and records take effect
//! strictly in order.

use crate::devices::Part;
use crate::entry::{Entry, Place};
use crate::format::{Extent, ExtentKind, Header, Position, RECORD_BLOCKS_MAX, Stream, VolumeId};
use crate::segments::Segments;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use wattio_pages::Pages;

/// Records under way at once. Requests that arrive meanwhile are grouped in the next one.
const FLIGHTS_MAX: usize = 4;
/// Blocks that are worth a record of their own, where writes are answered before.
const GATHERED_BLOCKS: usize = 32;
/// Blocks that one record may trim or zero, so that taking effect never takes long.
const DATALESS_BLOCKS_MAX: u32 = 65_536;
/// Moved blocks that are worth a header of their own.
pub(crate) const MOVES_MIN: usize = 32;

/// A client's request to be logged, as far as that has not happened.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) tag: u64,
    pub(crate) kind: ExtentKind,
    pub(crate) lba: u64,
    pub(crate) blocks: u64,
    pub(crate) data: Option<Part>,
    /// Of each block of data.
    pub(crate) checksums: Vec<u32>,
    pub(crate) fua: bool,
    /// The number of the write in the cache, if it is there.
    pub(crate) number: u64,
    /// Whether the client has been told already that it is done.
    pub(crate) is_answered: bool,
    /// Blocks that take space which none of the volume took before, at the most.
    pub(crate) promised: u64,
    /// Blocks that are in records already.
    taken: u64,
}

impl Pending {
    pub(crate) const fn new(tag: u64, kind: ExtentKind, lba: u64, blocks: u64, fua: bool) -> Self {
        let checksums = Vec::new();
        Self {
            tag,
            kind,
            lba,
            blocks,
            data: None,
            checksums,
            fua,
            number: 0,
            is_answered: false,
            promised: 0,
            taken: 0,
        }
    }

    pub(crate) fn with_data(mut self, data: Part, checksums: Vec<u32>, promised: u64) -> Self {
        self.data = Some(data);
        self.checksums = checksums;
        self.promised = promised;
        self
    }
}

/// A block that garbage collection found live.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) lba: u64,
    /// What the map said of it: if it says the same when the move is logged, nobody has written the
    /// block since, nor another one to its place.
    pub(crate) entry: Entry,
    /// Its data and checksum; absent if it cannot be read any more.
    pub(crate) data: Option<(Arc<Pages>, usize, u32)>,
}

/// A client's request whose last part is in a record.
#[derive(Debug)]
pub(crate) struct Ack {
    pub(crate) tag: u64,
    pub(crate) fua: bool,
    pub(crate) is_answered: bool,
    pub(crate) promised: u64,
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
}

impl Log {
    pub(crate) fn new(
        volume: VolumeId,
        epoch: u64,
        segment_blocks: u32,
        cursors: [Position; 2],
        sequence: u64,
    ) -> Self {
        Self {
            volume,
            epoch,
            segment_blocks,
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
        if self.moving.len() >= MOVES_MIN || (all_moves && !self.moving.is_empty()) {
            let record = self.moves_record(segments, is_live);
            if record.is_some() {
                return record;
            }
        }
        self.clients_record(segments)
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
        let mut room = room?;
        let (mut header, mut parts, mut used) = (self.header(Stream::Clients), vec![], 0);
        let (mut acks, mut numbers) = (Vec::new(), Vec::new());
        while let Some(pending) = self.pending.front_mut() {
            let wanted =
                (pending.blocks - pending.taken).min(u64::from(DATALESS_BLOCKS_MAX)) as u32;
            let blocks = Header::fits(pending.kind, wanted, used, room);
            if blocks == 0 {
                break;
            }
            let (from, to) = (pending.taken as usize, pending.taken as usize + blocks as usize);
            let extent = Extent { kind: pending.kind, lba: pending.lba + pending.taken, blocks };
            used += Header::taken(extent);
            header.extents.push(extent);
            numbers.push(pending.number);
            if let Some(data) = &pending.data {
                room -= blocks;
                header.checksums.extend_from_slice(&pending.checksums[from..to]);
                let first = data.blocks.start;
                push_part(&mut parts, &data.pages, first + from..first + to);
            }
            pending.taken = to as u64;
            if pending.taken < pending.blocks {
                break;
            }
            let Pending { tag, fua, is_answered, promised, .. } = *pending;
            acks.push(Ack { tag, fua, is_answered, promised });
            self.pending.pop_front();
        }
        self.written_blocks[1] += u64::from(header.data_blocks());
        Some(self.launch(segments, header, parts, (acks, numbers)))
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
        let mut room = self.room(segments, Stream::Moved, first.data.is_some())?;
        let (mut header, mut parts, mut used) = (self.header(Stream::Moved), vec![], 0);
        while let Some(moving) = self.moving.front() {
            let kind = if moving.data.is_some() { ExtentKind::Move } else { ExtentKind::Lost };
            if Header::fits(kind, 1, used, room) == 0 {
                break;
            }
            let extent = Extent { kind, lba: moving.lba, blocks: 1 };
            used += Header::taken(extent);
            header.extents.push(extent);
            header.origins.extend(moving.entry.place());
            if let Some((pages, block, checksum)) = &moving.data {
                room -= 1;
                header.checksums.push(*checksum);
                push_part(&mut parts, pages, *block..block + 1);
            }
            self.moving.pop_front();
        }
        self.written_blocks[2] += u64::from(header.data_blocks());
        Some(self.launch(segments, header, parts, (Vec::new(), Vec::new())))
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

    fn header(&self, stream: Stream) -> Header {
        let cursor = self.cursors[stream as usize];
        Header {
            volume: self.volume,
            place: Place { segment: cursor.segment, block: cursor.block },
            generation: cursor.generation,
            epoch: self.epoch,
            stream,
            sequence: self.next_sequence,
            durable: self.durable,
            next: cursor.next,
            extents: Vec::new(),
            checksums: Vec::new(),
            origins: Vec::new(),
        }
    }

    fn launch(
        &mut self,
        segments: &mut Segments,
        header: Header,
        mut parts: Vec<Part>,
        (acks, numbers): (Vec<Ack>, Vec<u64>),
    ) -> NewRecord {
        let mut head = Pages::zeroed(1);
        header.encode(head.block_mut(0));
        parts.insert(0, Part::whole(head));
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
        let first = self.applied();
        if let Some(flight) = self.flights.get_mut((sequence - first) as usize) {
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

/// Adds blocks to what a record gathers, joined with those before where they follow them.
fn push_part(parts: &mut Vec<Part>, pages: &Arc<Pages>, blocks: Range<usize>) {
    match parts.last_mut() {
        Some(last) if Arc::ptr_eq(&last.pages, pages) && last.blocks.end == blocks.start => {
            last.blocks.end = blocks.end;
        }
        _ => parts.push(Part { pages: Arc::clone(pages), blocks }),
    }
}
