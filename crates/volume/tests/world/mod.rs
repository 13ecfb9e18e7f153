//! A volume on simulated disks, with clients that do whatever comes to their minds. One seed
//! replays everything.

#![allow(dead_code)]

pub mod disk;
pub mod model;
pub mod stories;

use disk::{Flushing, SimDisk, random};
use model::{Model, Version, fill};
use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashMap;
use std::io;
use wattio_pages::{BLOCK, Pages};
use wattio_volume::{
    Class, DeviceRole, Done, Fault, Geometry, Io, Op, OpenError, OpenOptions, Part, Piece,
    Recovery, Reply, Request, Volume, VolumeId, create, open,
};

pub const OPTIONS: OpenOptions =
    OpenOptions { map_bytes_max: 1 << 30, accept_missing: true, accept_loss: false };

/// What the world does, and how badly.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub geometry: Geometry,
    pub devices: usize,
    /// Requests under way at once, at the most.
    pub depth: usize,
    /// The share of the volume that clients use.
    pub used: f64,
    /// The share of requests that write.
    pub writes: f64,
    /// How often background work is given a slice, for each step.
    pub background: f64,
    /// Bytes of what was read that are kept, and that may be written before the log has them.
    pub memory: (u64, u64),
    /// How often a checkpoint is given its slice when it is its turn.
    pub checkpoints: f64,
}

/// What a request that is under way was for.
#[derive(Debug)]
enum Asked {
    Write { blocks: Vec<(u64, Version)>, fua: bool },
    Read { lba: u64, oldest: Vec<Version> },
    Flush { answered: usize },
}

/// What happened, to see that what was to be tested did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub requests: u64,
    pub no_space: u64,
    pub faults: u64,
    pub crashes: u64,
    pub crashed_recoveries: u64,
    pub replayed: u64,
    pub resynced: u64,
    pub collected: u64,
    pub checkpoints: u64,
    pub repaired: u64,
}

impl Tally {
    fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            no_space: self.no_space + other.no_space,
            faults: self.faults + other.faults,
            crashes: self.crashes + other.crashes,
            crashed_recoveries: self.crashed_recoveries + other.crashed_recoveries,
            replayed: self.replayed + other.replayed,
            resynced: self.resynced + other.resynced,
            collected: self.collected + other.collected,
            checkpoints: self.checkpoints + other.checkpoints,
            repaired: self.repaired + other.repaired,
        }
    }
}

pub struct World {
    pub plan: Plan,
    pub random: Xoshiro256PlusPlus,
    pub disks: Vec<SimDisk>,
    pub volume: Volume,
    pub model: Model,
    pub tally: Tally,
    /// Whether something was broken on purpose, so that a request may fail.
    pub may_fail: bool,
    ios: Vec<Io>,
    /// Reads that take long, and the step at which each ends.
    slow: Vec<(u64, Io)>,
    steps: u64,
    /// Things that the last recovery asked of a disk.
    recovery_steps: u64,
    flushes: HashMap<u64, Flushing>,
    asked: HashMap<u64, Asked>,
    next_tag: u64,
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let disks: Vec<_> =
            (0..plan.devices).map(|_| SimDisk::new(plan.geometry.device_bytes())).collect();
        let mut boxed = boxed(&disks);
        create(&mut boxed, VolumeId([5; 16]), plan.geometry).expect("new disks");
        let (mut volume, recovery) = open_on(&disks).expect("a new volume");
        volume.set_memory(plan.memory.0, plan.memory.1);
        assert!(recovery.was_clean);
        Self {
            plan,
            random: random(plan.seed),
            disks,
            volume,
            model: Model::new(plan.geometry.blocks),
            tally: Tally::default(),
            may_fail: false,
            ios: Vec::new(),
            slow: Vec::new(),
            steps: 0,
            recovery_steps: 20,
            flushes: HashMap::new(),
            asked: HashMap::new(),
            next_tag: 0,
        }
    }

    /// Does one thing at random.
    pub fn step(&mut self) {
        let (asking, working) = (0.4, 0.4 + self.plan.background * 0.3);
        let chance = self.random.random::<f64>();
        if chance < asking && self.asked.len() < self.plan.depth {
            self.ask();
        } else if chance < working {
            self.work();
        } else {
            self.complete_one();
        }
        self.take_replies();
    }

    /// A client asks for something.
    fn ask(&mut self) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.tally.requests += 1;
        let used = ((self.plan.geometry.blocks as f64 * self.plan.used) as u64).max(1);
        // Half of what is asked concerns a tenth of the blocks.
        let hot = if self.random.random_bool(0.5) { used.div_ceil(10) } else { used };
        let lba = self.random.random_range(0..hot);
        let long = self.random.random_bool(0.05);
        let longest = if long { 300 } else { 12 };
        let blocks = self.random.random_range(1..=longest).min(self.plan.geometry.blocks - lba);
        let fua = self.random.random_bool(0.1);
        let chance = self.random.random::<f64>();
        if chance < self.plan.writes * 0.8 {
            self.ask_write(tag, lba, blocks, fua);
        } else if chance < self.plan.writes * 0.9 {
            let written = self.begin_write(lba, blocks, true);
            self.asked.insert(tag, Asked::Write { blocks: written, fua });
            let discard = self.random.random_bool(0.5);
            self.volume.submit(tag, Request::Zero { lba, blocks, discard, fua });
        } else if chance < self.plan.writes {
            let answered = self.model.answered();
            self.asked.insert(tag, Asked::Flush { answered });
            self.volume.submit(tag, Request::Flush);
        } else {
            let oldest = (lba..lba + blocks).map(|lba| self.model.oldest_for_read(lba)).collect();
            self.asked.insert(tag, Asked::Read { lba, oldest });
            self.volume.submit(tag, Request::Read { lba, blocks: blocks as u32 });
        }
        if self.random.random_bool(0.5) {
            self.volume.commit();
        }
    }

    fn ask_write(&mut self, tag: u64, lba: u64, blocks: u64, fua: bool) {
        let written = self.begin_write(lba, blocks, false);
        let mut pages = Pages::zeroed(blocks as usize);
        for (at, &(lba, version)) in written.iter().enumerate() {
            fill(pages.block_mut(at), lba, version);
        }
        self.asked.insert(tag, Asked::Write { blocks: written, fua });
        self.volume.submit(tag, Request::Write { lba, data: Part::whole(pages), fua });
    }

    fn begin_write(&mut self, lba: u64, blocks: u64, zeros: bool) -> Vec<(u64, Version)> {
        (lba..lba + blocks).map(|lba| (lba, self.model.begin_write(lba, zeros))).collect()
    }

    fn work(&mut self) {
        let class = Class::ALL[self.random.random_range(0..Class::ALL.len())];
        if class == Class::Scrub && self.random.random_bool(0.05) {
            let drawn = self.random.next_u64();
            self.volume.begin_scrub(drawn);
        }
        if class != Class::Checkpoint || self.random.random_bool(self.plan.checkpoints) {
            self.volume.background(class);
        }
    }

    /// One of the things that the devices were asked for is done.
    pub fn complete_one(&mut self) {
        self.volume.commit();
        self.take_ios();
        if self.ios.is_empty() {
            // Time passes.
            self.ios.extend(self.slow.pop().map(|(_, io)| io));
        }
        if self.ios.is_empty() {
            return;
        }
        let io = self.ios.swap_remove(self.random.random_range(0..self.ios.len()));
        let disk = self.disks[usize::from(io.device)].clone();
        let done = match io.op {
            Op::Read { offset, mut pages } => {
                Done::Read(disk.read(offset, &mut pages).map(|()| pages))
            }
            Op::Write { offset, parts } => Done::Write(write(&disk, offset, &parts)),
            Op::Flush => {
                let flushing = self.flushes.remove(&io.id).expect("it was begun");
                Done::Flush(disk.end_flush(&flushing))
            }
        };
        self.volume.complete(io.id, done);
    }

    fn take_ios(&mut self) {
        while let Some(io) = self.volume.next_io() {
            if matches!(io.op, Op::Flush) {
                self.flushes.insert(io.id, self.disks[usize::from(io.device)].begin_flush());
            }
            if matches!(io.op, Op::Read { .. }) && self.random.random_bool(0.02) {
                self.slow.push((self.steps + self.random.random_range(0..2000), io));
            } else {
                self.ios.push(io);
            }
        }
        self.steps += 1;
        let steps = self.steps;
        self.ios.extend(self.slow.extract_if(.., |(until, _)| *until <= steps).map(|(_, io)| io));
    }

    pub fn take_replies(&mut self) {
        while let Some(Reply { tag, result }) = self.volume.next_reply() {
            let asked = self.asked.remove(&tag).expect("an answer to something that was asked");
            match (asked, result) {
                (Asked::Write { blocks, fua }, Ok(_)) => {
                    for &(lba, version) in &blocks {
                        self.model.answer(lba, version);
                        if fua {
                            self.model.durable_write(lba, version);
                        }
                    }
                }
                (Asked::Flush { answered }, Ok(_)) => self.model.durable(answered),
                (Asked::Read { lba, oldest }, Ok(pieces)) => self.check_read(lba, &oldest, pieces),
                (Asked::Write { .. }, Err(Fault::NoSpace)) => self.tally.no_space += 1,
                (asked, Err(fault)) => {
                    assert!(
                        self.may_fail || self.volume.failure().is_some(),
                        "seed {}: {asked:?}: {fault:?}",
                        self.plan.seed
                    );
                    self.tally.faults += 1;
                }
            }
        }
    }

    fn check_read(&self, lba: u64, oldest: &[Version], pieces: Vec<Piece>) {
        let mut at = 0;
        let mut check = |contents: &[u8; BLOCK]| {
            self.model.check(lba + at as u64, contents, oldest[at], self.plan.seed);
            at += 1;
        };
        for piece in pieces {
            match piece {
                Piece::Zeros(blocks, _) => (0..blocks).for_each(|_| check(&[0; BLOCK])),
                Piece::Data(part) => part.blocks.for_each(|block| check(part.pages.block(block))),
            }
        }
        assert_eq!(at, oldest.len(), "seed {}: a read of another length", self.plan.seed);
    }

    /// Finishes everything that was asked.
    pub fn settle(&mut self) {
        let mut idle = 0;
        while !self.asked.is_empty() {
            self.volume.commit();
            self.take_ios();
            if self.ios.is_empty() && self.slow.is_empty() {
                let worked = Class::ALL.map(|class| self.volume.background(class));
                idle = if worked.contains(&true) { 0 } else { idle + 1 };
                assert!(idle < 5, "seed {}: wedged: {:?}", self.plan.seed, self.asked);
            } else {
                idle = 0;
                self.complete_one();
            }
            self.take_replies();
        }
    }

    /// The power fails, and the volume is opened again; perhaps the power fails while it recovers.
    pub fn crash(&mut self) {
        self.take_ios();
        self.slow.clear();
        // Writes that were under way may have happened, in part.
        for io in std::mem::take(&mut self.ios) {
            if let Op::Write { offset, parts } = io.op
                && self.random.random_bool(0.5)
            {
                let _ = write(&self.disks[usize::from(io.device)], offset, &parts);
            }
        }
        self.add_counters();
        let recovery = loop {
            self.disks.iter().for_each(|disk| disk.lose_power(&mut self.random));
            self.tally.crashes += 1;
            let longest = self.recovery_steps + 5;
            let power = self.random.random_bool(0.3).then(|| self.random.random_range(0..longest));
            self.disks.iter().for_each(|disk| disk.fail_power_after(power));
            let before = self.disks[0].done();
            let opened = open_on(&self.disks);
            self.disks.iter().for_each(|disk| disk.fail_power_after(None));
            match opened {
                Ok((volume, recovery)) => {
                    self.volume = volume;
                    self.recovery_steps = self.disks[0].done() - before;
                    self.tally.replayed += recovery.records;
                    self.tally.resynced += recovery.resynced_blocks;
                    break recovery;
                }
                Err(error) if power.is_some() => {
                    assert!(
                        matches!(error, OpenError::Device { .. }),
                        "seed {}: {error}",
                        self.plan.seed
                    );
                    self.tally.crashed_recoveries += 1;
                }
                Err(error) => panic!("seed {}: {error}", self.plan.seed),
            }
        };
        self.after_open(recovery);
    }

    /// Closes the volume and opens it again.
    pub fn reopen(&mut self) {
        self.settle();
        self.volume.close();
        let mut steps = 0;
        while !self.volume.is_closed() {
            Class::ALL.iter().for_each(|&class| {
                self.volume.background(class);
            });
            self.complete_one();
            steps += 1;
            assert!(steps < 1_000_000, "seed {}: it cannot be closed", self.plan.seed);
        }
        self.add_counters();
        let failed = self.volume.failure().is_some();
        let (volume, recovery) = open_on(&self.disks).expect("a closed volume");
        assert!(recovery.was_clean || failed, "seed {}", self.plan.seed);
        self.volume = volume;
        self.ios.clear();
        self.slow.clear();
        self.after_open(recovery);
    }

    /// Damages blocks of a device where it is closed to all else: in the segments, at random.
    pub fn flip_bits(&mut self, device: usize, bits: u32) {
        let geometry = self.plan.geometry;
        for _ in 0..bits {
            let segment = self.random.random_range(0..geometry.segments);
            let block = self.random.random_range(0..geometry.segment_blocks);
            let offset = geometry.block_offset(segment, block);
            self.disks[device].flip_bit(offset, &mut self.random);
        }
    }

    /// A whole tour of the scrub.
    pub fn scrub(&mut self) {
        let (tours, _) = self.volume.scrub_tours();
        while self.volume.scrub_tours().0 == tours {
            let drawn = self.random.next_u64();
            self.volume.begin_scrub(drawn);
            self.volume.background(Class::Scrub);
            self.complete_one();
            self.take_replies();
        }
    }

    /// Writes a block and waits for it.
    pub fn write_now(&mut self, lba: u64) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.ask_write(tag, lba, 1, true);
        self.settle();
    }

    /// Flushes and waits for it.
    pub fn flush_now(&mut self) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let answered = self.model.answered();
        self.asked.insert(tag, Asked::Flush { answered });
        self.volume.submit(tag, Request::Flush);
        self.settle();
    }

    /// The volume was made larger while it was closed.
    pub fn grow(&mut self, geometry: Geometry) {
        self.model.grow(geometry.blocks);
        self.plan.geometry = geometry;
    }

    /// Goes on until every device counts.
    pub fn finish_rebuild(&mut self) {
        let mut steps = 0;
        while self.volume.roles().iter().any(|&role| role != DeviceRole::InSync) {
            self.volume.background(Class::Rebuild);
            self.step();
            steps += 1;
            assert!(steps < 100_000, "seed {}: {:?}", self.plan.seed, self.volume.roles());
        }
        // The superblock says so too.
        self.settle();
        self.reopen();
    }

    fn add_counters(&mut self) {
        let counters = self.volume.counters();
        self.tally.collected += counters.collected_segments;
        self.tally.checkpoints += counters.checkpoints;
        self.tally.repaired += counters.repaired_blocks;
    }

    /// Every block holds what it may hold; from now on it holds just that.
    fn after_open(&mut self, recovery: Recovery) {
        self.volume.set_memory(self.plan.memory.0, self.plan.memory.1);
        self.flushes.clear();
        self.asked.clear();
        self.model.forget_answers();
        let blocks = self.plan.geometry.blocks;
        for first in (0..blocks).step_by(64) {
            let count = (blocks - first).min(64) as u32;
            match self.read_now(first, count) {
                Ok(contents) => {
                    for (lba, contents) in (first..).zip(&contents) {
                        let oldest = self.model.oldest_after_crash(lba);
                        let version = self.model.check(lba, contents, oldest, self.plan.seed);
                        self.model.settle(lba, version);
                    }
                }
                Err(fault) => assert!(
                    self.may_fail,
                    "seed {}: blocks from {first}: {fault:?}, {recovery:?}",
                    self.plan.seed
                ),
            }
        }
    }

    /// Reads blocks, with nothing else going on.
    pub fn read_now(&mut self, lba: u64, blocks: u32) -> Result<Vec<[u8; BLOCK]>, Fault> {
        let tag = u64::MAX;
        self.volume.submit(tag, Request::Read { lba, blocks });
        loop {
            if let Some(reply) = self.volume.next_reply() {
                assert_eq!(reply.tag, tag);
                let mut contents = Vec::new();
                for piece in reply.result? {
                    match piece {
                        Piece::Zeros(count, _) => {
                            contents.extend((0..count).map(|_| [0; BLOCK]));
                        }
                        Piece::Data(part) => {
                            contents.extend(part.blocks.map(|block| *part.pages.block(block)));
                        }
                    }
                }
                return Ok(contents);
            }
            self.complete_one();
        }
    }
}

fn write(disk: &SimDisk, offset: u64, parts: &[Part]) -> io::Result<()> {
    let blocks: Vec<&[u8; BLOCK]> = parts
        .iter()
        .flat_map(|part| part.blocks.clone().map(|block| part.pages.block(block)))
        .collect();
    disk.write(offset, &blocks)
}

pub fn boxed(disks: &[SimDisk]) -> Vec<Box<dyn wattio_volume::Disk>> {
    disks.iter().map(|disk| Box::new(disk.clone()) as Box<dyn wattio_volume::Disk>).collect()
}

pub fn open_on(disks: &[SimDisk]) -> Result<(Volume, Recovery), OpenError> {
    let alive: Vec<_> = disks.iter().filter(|disk| !disk.is_dead()).cloned().collect();
    open(boxed(&alive), &OPTIONS).map(|opened| (opened.volume, opened.recovery))
}
