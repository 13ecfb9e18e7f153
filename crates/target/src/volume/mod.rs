//! The lane of a volume: requests in, device operations through the ring, answers out.

mod background;
mod budget;
mod faults;
mod order;
mod partial;
mod roles;
mod stall;

pub use background::{Left, Pace};
pub use budget::Rates;

use crate::messages::{Answer, Ask, Change, Kind, Tag, ToNormal};
use crate::status::Opening;
use crate::token::Token;
use background::Background;
use faults::Logged;
use order::Order;
use partial::Partial;
use slab::Slab;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use wattio_pages::{BLOCK, Recycler};
use wattio_ring::{Back, Completion, Handle, Reach, Ring};
use wattio_volume::{DeviceRole, Done, Fault, Io, Op, Part, Piece, Reply, Request, Volume};

/// What a request to the volume is for.
#[derive(Debug)]
enum Flight {
    /// A flush.
    Flush(Tag),
    /// A read of blocks.
    Read(Tag),
    /// A part of a read into memory; it goes on from `next` up to `end`.
    Prefetch { tag: Tag, next: u64, end: u64 },
    /// A change of whole blocks.
    Change { tag: Tag, lba: u64, end: u64 },
    /// The old contents of a block that a change covers in part.
    Edge { partial: usize, lba: u64 },
    /// One of the writes that a change with partial blocks has become.
    Share { partial: usize },
}

/// Reads into memory are no longer than this: the volume does not keep what longer ones read.
const PREFETCH_BLOCKS: u64 = 16;

/// Memory of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeMemory {
    /// For what was read or written and may be read again.
    pub cache_bytes: u64,
    /// For what clients wrote and were answered before the log has it.
    pub write_buffer_bytes: u64,
}

/// A volume on a reactor.
pub struct VolumeLane {
    number: usize,
    volume: Volume,
    opening: Opening,
    devices: Vec<Option<Handle>>,
    flights: Slab<Flight>,
    partials: Slab<Partial>,
    order: Order,
    memory: VolumeMemory,
    /// Operations that the devices are at, and how many these may be.
    at_devices: usize,
    device_depth: usize,
    /// Those of them that are flushes, by number.
    flushes: Vec<u64>,
    /// Flushes that wait until the volume has moved.
    held_flushes: Vec<Io>,
    /// Since when writes that were answered wait for others to share their record.
    waiting_since: Option<Instant>,
    background: Background,
    answers: Vec<ToNormal>,
    /// Whether the volume is about to move: no flush begins, which could take long.
    is_leaving: bool,
    /// Whether devices are given nothing more, as nobody asks for anything until it has moved.
    is_paused: bool,
    /// Requests so far.
    requests: u64,
    /// What the volume counts time from.
    epoch: Instant,
    /// Since when clients wait for space, if that was told.
    stalled_since: Option<Instant>,
    /// What was last told of each device.
    roles_told: Vec<DeviceRole>,
    /// What else was told.
    logged: Logged,
}

impl VolumeLane {
    /// The lane of the volume of export `number`; its devices belong to the reactor's ring.
    pub fn new(
        number: usize,
        (mut volume, opening): (Volume, Opening),
        devices: Vec<Option<Handle>>,
        pace: Pace,
        memory: VolumeMemory,
    ) -> Self {
        volume.set_memory(memory.cache_bytes, memory.write_buffer_bytes);
        let roles = volume.roles().to_vec();
        Self {
            number,
            volume,
            opening,
            devices,
            flights: Slab::new(),
            partials: Slab::new(),
            order: Order::default(),
            memory,
            at_devices: 0,
            device_depth: pace.device_depth,
            flushes: Vec::new(),
            held_flushes: Vec::new(),
            waiting_since: None,
            background: Background::new(pace),
            answers: Vec::new(),
            is_leaving: false,
            is_paused: false,
            requests: 0,
            epoch: Instant::now(),
            stalled_since: None,
            roles_told: roles,
            logged: Logged::default(),
        }
    }

    /// The volume, to look at.
    pub const fn volume(&self) -> &Volume {
        &self.volume
    }

    /// How it was opened.
    pub const fn opening(&self) -> &Opening {
        &self.opening
    }

    /// A turn of the reactor begins.
    pub fn begin_turn(&mut self, now: Instant) {
        self.volume.set_time(now.saturating_duration_since(self.epoch));
    }

    /// Requests that are under way.
    pub fn in_flight(&self) -> usize {
        self.flights.len() + self.order.waiting()
    }

    /// Requests that it was asked so far.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Its devices.
    pub fn devices(&self) -> &[Option<Handle>] {
        &self.devices
    }

    /// Begins no flush until it has moved, and gives the devices nothing more at all if it is paused.
    pub const fn leave(&mut self, is_paused: bool) {
        self.is_leaving = true;
        self.is_paused = is_paused;
    }

    /// Whether the devices are at a flush.
    pub const fn is_flushing(&self) -> bool {
        !self.flushes.is_empty()
    }

    /// Whether it is paused, and the devices are at nothing.
    pub const fn is_still(&self) -> bool {
        self.is_paused && self.at_devices == 0
    }

    /// Goes on at another reactor, to whose ring these devices belong.
    pub fn moved(&mut self, devices: Vec<Option<Handle>>) {
        self.devices = devices;
        self.is_leaving = false;
        self.is_paused = false;
    }

    /// Takes a request; it begins with the next [`Self::turn`].
    pub fn ask(&mut self, tag: Tag, ask: Ask) {
        self.requests += 1;
        match ask {
            Ask::Read { lba, blocks } => {
                self.submit(Flight::Read(tag), Request::Read { lba, blocks });
            }
            Ask::Prefetch { lba, blocks } => {
                // More would push out its own beginning.
                let most = self.memory.cache_bytes / BLOCK as u64 / 2;
                self.prefetch(tag, lba, lba + blocks.min(most));
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

    /// Reads what is wanted in short reads, one after another; then comes the answer.
    fn prefetch(&mut self, tag: Tag, lba: u64, end: u64) {
        if lba >= end {
            return self.answer(tag, Ok(Vec::new()));
        }
        let next = end.min(lba + PREFETCH_BLOCKS);
        let blocks = (next - lba) as u32;
        self.submit(Flight::Prefetch { tag, next, end }, Request::Read { lba, blocks });
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
        let request = match change.kind {
            Kind::Write(pages) => Request::Write { lba, data: Part::whole(pages), fua },
            Kind::Zero { discard } => Request::Zero { lba, blocks, discard, fua },
            Kind::Discard => Request::Zero { lba, blocks, discard: true, fua },
        };
        self.submit(Flight::Change { tag, lba, end }, request);
    }

    fn answer(&mut self, tag: Tag, result: Result<Vec<Piece>, Fault>) {
        self.answers.push(ToNormal { tag, answer: Answer::Done(result) });
    }

    /// Commits what was asked, gives the devices what there is for them, and hands out the
    /// answers.
    pub fn turn(&mut self, ring: &mut Ring, answers: &mut Vec<ToNormal>) {
        self.volume.commit();
        loop {
            let mut has_ended = false;
            while let Some(reply) = self.volume.next_reply() {
                has_ended |= self.take(reply);
            }
            if !has_ended || !self.begin_waiting() {
                break;
            }
            self.volume.commit();
        }
        while self.at_devices < self.device_depth && !self.is_paused {
            let held = if self.is_leaving { None } else { self.held_flushes.pop() };
            match held.or_else(|| self.volume.next_io()) {
                Some(io) if self.is_leaving && matches!(io.op, Op::Flush) => {
                    self.held_flushes.push(io);
                }
                Some(io) => self.issue(ring, io),
                None => break,
            }
        }
        answers.append(&mut self.answers);
    }

    /// Takes a reply of the volume; whether a change has ended or gone on.
    fn take(&mut self, reply: Reply) -> bool {
        let Some(flight) = self.flights.try_remove(reply.tag as usize) else { return false };
        match flight {
            Flight::Flush(tag) | Flight::Read(tag) => {
                self.answer(tag, reply.result);
                false
            }
            Flight::Prefetch { tag, next, end } => {
                match reply.result {
                    Ok(pieces) => {
                        pieces.into_iter().for_each(|piece| self.volume.recycle(piece));
                        self.prefetch(tag, next, end);
                    }
                    Err(fault) => self.answer(tag, Err(fault)),
                }
                true
            }
            Flight::Change { tag, lba, end } => {
                self.order.changed(lba, end);
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
        self.at_devices += 1;
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
            Op::Flush => {
                self.flushes.push(io.id);
                ring.fdatasync(token, device);
            }
        }
    }

    /// A device operation has ended.
    pub fn completed(&mut self, io: u64, completion: Completion, memory: &mut Recycler) {
        self.at_devices -= 1;
        self.flushes.retain(|&flush| flush != io);
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
                    let pages = Arc::into_inner(part.into_pages());
                    if let Some(pages) = pages.and_then(|pages| self.volume.take_back(pages)) {
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
