//! The lane of a volume: requests in, device operations through the ring, answers out.

mod background;
mod cache;
mod order;
mod partial;

pub use background::{Left, Pace};

use crate::messages::{Answer, Ask, Change, Kind, Tag, ToNormal};
use crate::token::Token;
use background::Background;
use cache::{Cache, Origin, Ticket};
use order::Order;
use partial::Partial;
use slab::Slab;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use wattio_pages::{BLOCK, Pages, Recycler};
use wattio_ring::{Back, Completion, Handle, Reach, Ring};
use wattio_volume::{Done, Fault, Io, Op, Part, Piece, Reply, Request, Volume};

/// What a request to the volume is for.
#[derive(Debug)]
enum Flight {
    /// A flush.
    Flush(Tag),
    /// A read of blocks.
    Read { tag: Tag, lbas: Range<u64>, ticket: Ticket },
    /// A part of a read into the cache; it goes on up to `end`.
    Prefetch { tag: Tag, lbas: Range<u64>, ticket: Ticket, end: u64 },
    /// A change of whole blocks, with their data if it is worth being kept.
    Change { tag: Tag, lbas: Range<u64>, data: Option<Arc<Pages>> },
    /// The old contents of a block that a change covers in part.
    Edge { partial: usize, lba: u64 },
    /// One of the writes that a change with partial blocks has become.
    Share { partial: usize },
}

/// Longer reads and writes leave what is kept in memory alone.
const KEPT_BLOCKS_MAX: usize = 16;

/// A volume on a reactor.
pub struct VolumeLane {
    number: usize,
    volume: Volume,
    devices: Vec<Option<Handle>>,
    flights: Slab<Flight>,
    partials: Slab<Partial>,
    order: Order,
    cache: Cache,
    background: Background,
    answers: Vec<ToNormal>,
}

impl VolumeLane {
    /// The lane of volume `number` of the reactor; its devices belong to the reactor's ring.
    pub fn new(
        number: usize,
        volume: Volume,
        devices: Vec<Option<Handle>>,
        pace: Pace,
        cache_bytes: u64,
    ) -> Self {
        Self {
            number,
            volume,
            devices,
            flights: Slab::new(),
            partials: Slab::new(),
            order: Order::default(),
            cache: Cache::new(cache_bytes),
            background: Background::new(pace),
            answers: Vec::new(),
        }
    }

    /// The volume, to look at.
    pub const fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Requests that are under way.
    pub fn in_flight(&self) -> usize {
        self.flights.len() + self.order.waiting()
    }

    /// Takes a request; it begins with the next [`Self::turn`].
    pub fn ask(&mut self, tag: Tag, ask: Ask) {
        match ask {
            Ask::Read { lba, blocks } => self.read(tag, lba, blocks),
            Ask::Prefetch { lba, blocks } => {
                // More would push out its own beginning.
                self.prefetch(tag, lba, lba + blocks.min(self.cache.blocks_max() as u64 / 2));
            }
            Ask::Flush => self.submit(Flight::Flush(tag), Request::Flush),
            Ask::Change(change) => self.change(tag, change),
            Ask::Allocation { lba, blocks, runs_max } => {
                let answer = Answer::Allocation(self.volume.allocation(lba, blocks, runs_max));
                self.answers.push(ToNormal { tag, answer });
            }
        }
    }

    /// Takes memory of an answer back.
    pub fn recycle(&mut self, part: Part) {
        self.volume.recycle(Piece::Data(part));
    }

    /// Reads that were answered from memory, and others; bytes that are kept.
    pub fn cache_counts(&self) -> (u64, u64, u64) {
        let (hits, misses) = self.cache.counts();
        (hits, misses, (self.cache.len() * BLOCK) as u64)
    }

    fn read(&mut self, tag: Tag, lba: u64, blocks: u32) {
        let lbas = lba..lba + u64::from(blocks);
        if let Some(found) = self.cache.get(lbas.clone()) {
            let piece = |pages| Piece::Data(Part { pages, blocks: 0..1 });
            return self.answer(tag, Ok(found.into_iter().map(piece).collect()));
        }
        let ticket = self.cache.ticket(lbas.clone());
        self.submit(Flight::Read { tag, lbas, ticket }, Request::Read { lba, blocks });
    }

    /// Reads what is not there in short reads, one after another; then comes the answer.
    fn prefetch(&mut self, tag: Tag, lba: u64, end: u64) {
        let Some(lba) = (lba..end).find(|&lba| !self.cache.has(lba)) else {
            return self.answer(tag, Ok(Vec::new()));
        };
        let lbas = lba..end.min(lba + KEPT_BLOCKS_MAX as u64);
        let ticket = self.cache.ticket(lbas.clone());
        let blocks = (lbas.end - lba) as u32;
        self.submit(Flight::Prefetch { tag, lbas, ticket, end }, Request::Read { lba, blocks });
    }

    fn submit(&mut self, flight: Flight, request: Request) {
        let number = self.flights.insert(flight) as u64;
        self.volume.submit(number, request);
    }

    fn change(&mut self, tag: Tag, change: Change) {
        let Some(change) = partial::whole_blocks_of_discard(change) else {
            return self.answer(tag, Ok(Vec::new()));
        };
        if let Some((tag, change)) = self.order.admit(tag, change) {
            self.begin(tag, change);
        }
    }

    /// Begins a change that nothing stands in the way of.
    fn begin(&mut self, tag: Tag, change: Change) {
        if !change.is_whole() {
            let partial = Partial::new(tag, change);
            let edges = partial.edges();
            let partial = self.partials.insert(partial);
            for lba in edges {
                self.submit(Flight::Edge { partial, lba }, Request::Read { lba, blocks: 1 });
            }
            return;
        }
        let (lba, end) = change.blocks();
        let (blocks, fua) = (end - lba, change.fua);
        let mut kept = None;
        let request = match change.kind {
            Kind::Write(pages) => {
                let data = Part::whole(pages);
                if self.cache.is_on() && data.blocks.len() <= KEPT_BLOCKS_MAX {
                    kept = Some(Arc::clone(&data.pages));
                }
                Request::Write { lba, data, fua }
            }
            Kind::Zero { discard } => Request::Zero { lba, blocks, discard, fua },
            Kind::Discard => Request::Zero { lba, blocks, discard: true, fua },
        };
        self.submit(Flight::Change { tag, lbas: lba..end, data: kept }, request);
    }

    fn answer(&mut self, tag: Tag, result: Result<Vec<Piece>, Fault>) {
        self.answers.push(ToNormal { tag, answer: Answer::Done(result) });
    }

    /// Commits what was asked, gives the devices what there is for them, and hands out the
    /// answers.
    pub fn turn(&mut self, ring: &mut Ring, memory: &mut Recycler, answers: &mut Vec<ToNormal>) {
        self.volume.commit();
        loop {
            let mut has_ended = false;
            while let Some(reply) = self.volume.next_reply() {
                has_ended |= self.take(reply, memory);
            }
            if !has_ended || !self.begin_waiting() {
                break;
            }
            self.volume.commit();
        }
        while let Some(io) = self.volume.next_io() {
            self.issue(ring, io);
        }
        for (pages, origin) in self.cache.freed() {
            match origin {
                Origin::Volume => {
                    let blocks = 0..pages.len_blocks();
                    self.volume.recycle(Piece::Data(Part { pages, blocks }));
                }
                Origin::Client => {
                    if let Some(pages) = Arc::into_inner(pages) {
                        memory.give(pages);
                    }
                }
            }
        }
        answers.append(&mut self.answers);
    }

    /// Takes a reply of the volume; whether a change has ended or gone on.
    fn take(&mut self, reply: Reply, memory: &mut Recycler) -> bool {
        let Some(flight) = self.flights.try_remove(reply.tag as usize) else { return false };
        match flight {
            Flight::Flush(tag) => {
                self.answer(tag, reply.result);
                false
            }
            Flight::Read { tag, lbas, ticket } => {
                if let Ok(pieces) = &reply.result {
                    self.keep_read(lbas, ticket, pieces, memory);
                }
                self.answer(tag, reply.result);
                false
            }
            Flight::Prefetch { tag, lbas, ticket, end } => {
                match reply.result {
                    Ok(pieces) => {
                        let next = lbas.end;
                        self.keep_read(lbas, ticket, &pieces, memory);
                        pieces.into_iter().for_each(|piece| self.volume.recycle(piece));
                        self.prefetch(tag, next, end);
                    }
                    Err(fault) => self.answer(tag, Err(fault)),
                }
                true
            }
            Flight::Change { tag, lbas, data } => {
                self.order.changed(lbas.start, lbas.end);
                self.cache.changed(lbas.clone());
                if let Some(data) = data.filter(|_| reply.result.is_ok()) {
                    self.keep(lbas.start, &data, 0..data.len_blocks(), Origin::Client, memory);
                }
                self.answer(tag, reply.result);
                true
            }
            Flight::Edge { partial, lba } => {
                self.partials[partial].edge_read(lba, reply.result);
                self.go_on(partial);
                true
            }
            Flight::Share { partial } => {
                self.partials[partial].share_written(reply.result.err());
                self.go_on(partial);
                true
            }
        }
    }

    /// Keeps what was read, unless it has changed since.
    fn keep_read(
        &mut self,
        lbas: Range<u64>,
        ticket: Ticket,
        pieces: &[Piece],
        memory: &mut Recycler,
    ) {
        let is_short = lbas.end - lbas.start <= KEPT_BLOCKS_MAX as u64;
        if !self.cache.is_on() || !is_short || !self.cache.is_valid(ticket, lbas.clone()) {
            return;
        }
        let mut lba = lbas.start;
        for piece in pieces {
            match piece {
                Piece::Zeros(blocks, _) => lba += u64::from(*blocks),
                Piece::Data(part) => {
                    let blocks = part.blocks.clone();
                    self.keep(lba, &part.pages, blocks.clone(), Origin::Volume, memory);
                    lba += blocks.len() as u64;
                }
            }
        }
    }

    /// Keeps blocks: one that is alone as it is, others as copies, so that no block holds the
    /// memory of others.
    fn keep(
        &mut self,
        lba: u64,
        pages: &Arc<Pages>,
        blocks: Range<usize>,
        origin: Origin,
        memory: &mut Recycler,
    ) {
        if pages.capacity_blocks() == 1 {
            return self.cache.put(lba, Arc::clone(pages), origin);
        }
        for (lba, block) in (lba..).zip(blocks) {
            let mut copy = memory.take(1);
            copy.block_mut(0).copy_from_slice(pages.block(block));
            self.cache.put(lba, Arc::new(copy), Origin::Client);
        }
    }

    /// Begins the changes that waited and need not any more; whether the volume was asked for
    /// anything.
    fn begin_waiting(&mut self) -> bool {
        while let Some((tag, change)) = self.order.next() {
            self.begin(tag, change);
        }
        true
    }

    /// A change with partial blocks has come one step further.
    fn go_on(&mut self, number: usize) {
        let Some(shares) = self.partials[number].next() else { return };
        if shares.is_empty() {
            let partial = self.partials.remove(number);
            let (first, end) = partial.change().blocks();
            self.order.changed(first, end);
            self.cache.changed(first..end);
            self.answer(partial.tag(), partial.result());
            return;
        }
        for request in shares {
            self.submit(Flight::Share { partial: number }, request);
        }
    }

    fn issue(&mut self, ring: &mut Ring, io: Io) {
        let Some(&Some(device)) = self.devices.get(usize::from(io.device)) else {
            let gone = || io::Error::other("the device is not there");
            let done = match io.op {
                Op::Read { .. } => Done::Read(Err(gone())),
                Op::Write { .. } => Done::Write(Err(gone())),
                Op::Flush => Done::Flush(Err(gone())),
            };
            return self.volume.complete(io.id, done);
        };
        let token = Token::Device { volume: self.number, io: io.id }.pack();
        match io.op {
            Op::Read { offset, pages } => {
                let blocks = 0..pages.len_blocks();
                ring.read(token, device, offset, pages, blocks);
            }
            Op::Write { offset, parts } => {
                let parts = parts.into_iter();
                let parts = parts.map(|part| wattio_ring::Part::blocks(part.pages, part.blocks));
                ring.write(token, device, offset, parts.collect(), Reach::Device);
            }
            Op::Flush => ring.fdatasync(token, device),
        }
    }

    /// A device operation has ended.
    pub fn completed(&mut self, io: u64, completion: Completion, memory: &mut Recycler) {
        let result = completion.result;
        let done = match completion.back {
            Back::Pages(pages) => Done::Read(match result {
                Ok(bytes) if bytes == pages.len_bytes() => Ok(pages),
                Ok(bytes) => Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("{bytes} of {} bytes could be read", pages.len_bytes()),
                )),
                Err(error) => Err(error),
            }),
            Back::Gathered { parts, .. } => {
                for part in parts {
                    if let Some(pages) = Arc::into_inner(part.into_pages()) {
                        memory.give(pages);
                    }
                }
                Done::Write(result.map(drop))
            }
            _ => Done::Flush(result.map(drop)),
        };
        self.volume.complete(io, done);
    }
}

impl Change {
    /// The first block that it touches, and the one after the last.
    fn blocks(&self) -> (u64, u64) {
        let block = BLOCK as u64;
        (self.offset_bytes / block, (self.offset_bytes + self.length_bytes).div_ceil(block))
    }

    /// Whether it covers all blocks that it touches.
    fn is_whole(&self) -> bool {
        let block = BLOCK as u64;
        self.offset_bytes.is_multiple_of(block) && self.length_bytes.is_multiple_of(block)
    }
}
