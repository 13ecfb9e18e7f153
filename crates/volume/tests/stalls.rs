//! Writes on a disk that takes long to flush, in virtual time.

#![allow(clippy::unwrap_used, reason = "a volume that cannot go on has failed its test")]

mod memory;

use memory::{Memory, complete, new_volume};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::time::Duration;
use wattio_pages::Pages;
use wattio_volume::{Class, Done, Geometry, Io, Op, Part, Request, Volume};

const SEGMENTS: u32 = 100;
const SEGMENT_BLOCKS: u32 = 256;
/// Clients wait with the next request when so many are not answered.
const DEPTH: u64 = 32;
/// What a device takes for an operation, and for each of its blocks.
const OPERATION: Duration = Duration::from_micros(20);
const BLOCK: Duration = Duration::from_micros(8);
/// Time between two slices of background work.
const SLICE: Duration = Duration::from_micros(20);

/// A volume on a device that takes its time, and clients that overwrite it at random.
struct Timed {
    volume: Volume,
    disk: Memory,
    now: Duration,
    flush: Duration,
    /// What is under way, and when it ends.
    ios: Vec<(Duration, Io)>,
    device_free_at: Duration,
    random: Xoshiro256PlusPlus,
    /// Whether the volume is told what time it is.
    tells_time: bool,
    sent: u64,
    answered: u64,
    /// When a write was last answered, and the pauses of more than a second before one was.
    answered_at: Duration,
    stalls: Vec<(Duration, Duration)>,
}

impl Timed {
    /// Every block has been written twice, while flushes took no time.
    fn filled(full: f64) -> Self {
        let (segments, segment_blocks) = (SEGMENTS, SEGMENT_BLOCKS);
        let geometry = Geometry { blocks: 1, blocks_max: 1, segments, segment_blocks };
        let blocks = (geometry.capacity_blocks() as f64 * full) as u64;
        let (volume, disk) = new_volume(Geometry { blocks, blocks_max: blocks, ..geometry });
        let mut timed = Self {
            volume,
            disk,
            now: Duration::ZERO,
            flush: Duration::from_millis(2),
            ios: Vec::new(),
            device_free_at: Duration::ZERO,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
            tells_time: true,
            sent: 0,
            answered: 0,
            answered_at: Duration::ZERO,
            stalls: Vec::new(),
        };
        while timed.answered < 2 * blocks {
            timed.turn(2 * blocks, None);
        }
        timed
    }

    /// Overwrites at a rate for a while.
    fn overwrite(&mut self, writes_per_s: f64, span: Duration) {
        let (began, before) = (self.now, self.sent);
        self.stalls.clear();
        while self.now - began < span {
            let due = before + ((self.now - began).as_secs_f64() * writes_per_s) as u64;
            let more = self.sent + 1 - before;
            // Rounded up, so that it is due then.
            let next = began + Duration::from_secs_f64(more as f64 / writes_per_s) + SLICE;
            self.turn(due, Some((next, began + span)));
        }
    }

    /// Clients send what is due, then time passes until something else happens; `times` are
    /// those of the next request and of the end.
    fn turn(&mut self, due: u64, times: Option<(Duration, Duration)>) {
        let blocks = self.volume.geometry().blocks;
        while self.sent < due && self.sent - self.answered < DEPTH {
            let lba = match self.sent {
                first if first < blocks => first,
                _ => self.random.random_range(0..blocks),
            };
            let data = Part::whole(Pages::zeroed(1));
            self.volume.submit(self.sent, Request::Write { lba, data, fua: false });
            self.sent += 1;
        }
        self.volume.commit();
        while let Some(reply) = self.volume.next_reply() {
            reply.result.unwrap();
            self.answered += 1;
            let pause = self.now - self.answered_at;
            if pause > Duration::from_secs(1) {
                self.stalls.push((self.now, pause));
            }
            self.answered_at = self.now;
        }
        let worked = [Class::Collect, Class::Checkpoint].map(|class| self.volume.background(class));
        while let Some(io) = self.volume.next_io() {
            self.begin(io);
        }
        let is_waiting = self.sent - self.answered >= DEPTH;
        let request = times.filter(|_| !is_waiting).map(|(request, _)| request);
        let request = request.map(|at| at.max(self.now + SLICE));
        let end = times.map(|(_, end)| end);
        let slice = worked.contains(&true).then_some(self.now + SLICE);
        let ends = self.ios.iter().map(|(at, _)| *at).min();
        let next = [request, end, slice, ends].into_iter().flatten().min();
        self.now = next.unwrap_or(self.now + SLICE).max(self.now);
        if self.tells_time {
            self.volume.set_time(self.now);
        }
        while let Some(at) = self.ios.iter().position(|(at, _)| *at <= self.now) {
            let (_, io) = self.ios.swap_remove(at);
            complete(&mut self.volume, &mut self.disk, io);
        }
    }

    /// One thing after another, but for flushes.
    fn begin(&mut self, io: Io) {
        let blocks = match &io.op {
            Op::Read { pages, .. } => pages.len_blocks(),
            Op::Write { parts, .. } => parts.iter().map(|part| part.blocks.len()).sum(),
            Op::Flush => return self.ios.push((self.now + self.flush, io)),
        };
        self.device_free_at = self.device_free_at.max(self.now) + OPERATION + BLOCK * blocks as u32;
        self.ios.push((self.device_free_at, io));
    }
}

/// On a disk that others saturated, where a flush took 10 s, writes stood still for nearly all of the
/// time: each checkpoint of two flushes freed the few segments that were empty when it began.
#[test]
fn clients_need_not_wait_for_checkpoints_where_there_is_room_for_what_they_write_meanwhile() {
    let mut timed = Timed::filled(0.5);
    timed.flush = Duration::from_secs(10);
    timed.overwrite(400.0, Duration::from_secs(18));
    // The first time nobody could know; it says what it waits for.
    let volume = &timed.volume;
    assert!(volume.starved().unwrap() > Duration::from_secs(1), "{:?}", volume.counters());
    assert_eq!(volume.checkpoint_stage(), Some("flushing the map"));
    let (what, span) = volume.oldest_operation().unwrap();
    assert_eq!(what, "flush");
    assert!(span > Duration::from_secs(5) && span < timed.flush, "{span:?}");
    // A recovery would begin before the checkpoint that is under way.
    let (told, found) = (volume.replay_blocks(), timed.disk.recovery().blocks);
    assert!(told > 256 && told.abs_diff(found) < told / 10, "{told} of {found}");
    timed.overwrite(40.0, Duration::from_secs(200));
    assert_eq!(timed.volume.last_checkpoint().unwrap().as_secs(), 20);
    // It is learned from the first ones.
    timed.overwrite(40.0, Duration::from_secs(400));
    assert_eq!(timed.stalls, [], "{:?}", timed.volume.counters());
}

/// What is kept free is missing where dead blocks could gather.
#[test]
fn nothing_more_is_kept_free_where_checkpoints_take_no_time() {
    let counters = |tells_time: bool| {
        let mut timed = Timed::filled(0.7);
        timed.tells_time = tells_time;
        timed.overwrite(400.0, Duration::from_secs(30));
        timed.volume.counters()
    };
    assert_eq!(counters(true), counters(false));
}

/// A checkpoint whose budget was spent got no slice until as much was written again as had made it
/// urgent: a recovery could come to read twice as much.
#[test]
fn a_recovery_stays_bounded_where_checkpoints_get_only_what_is_urgent() {
    const MIB_256: u64 = 65_536;
    /// Records that are written while the device flushes.
    const FLUSH: u64 = 10_000;
    let (blocks, segment_blocks) = (2000, 256);
    let geometry = Geometry { blocks, blocks_max: blocks, segments: 2500, segment_blocks };
    let (mut volume, _) = new_volume(geometry);
    // What is done when: writes at once (nothing is read, so nothing need be kept), flushes later.
    let mut flushes: Vec<(u64, u64)> = Vec::new();
    let mut most = 0;
    for record in 0..5 * MIB_256 {
        let zeros = Request::Zero { lba: record % blocks, blocks: 1, discard: false, fua: false };
        volume.submit(record, zeros);
        volume.commit();
        while volume.backlog(Class::Checkpoint).urgency >= 1.0
            && volume.background(Class::Checkpoint)
        {}
        while let Some(io) = volume.next_io() {
            match io.op {
                Op::Flush => flushes.push((record + FLUSH, io.id)),
                _ => volume.complete(io.id, Done::Write(Ok(()))),
            }
        }
        for (_, id) in flushes.extract_if(.., |(at, _)| *at <= record) {
            volume.complete(id, Done::Flush(Ok(())));
        }
        while let Some(reply) = volume.next_reply() {
            reply.result.unwrap();
        }
        most = most.max(volume.replay_blocks());
    }
    assert!(volume.counters().checkpoints >= 2, "{:?}", volume.counters());
    // Twice what makes one due, and two flushes until it is durable.
    let bound = 2 * MIB_256 + 2 * FLUSH;
    assert!((2 * MIB_256..bound + 100).contains(&most), "{most} blocks");
}
