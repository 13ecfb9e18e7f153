//! A volume on simulated disks, with clients that do whatever comes to their minds. One seed
//! replays everything.

#![allow(dead_code)]

mod clients;
pub mod disk;
pub mod model;
pub mod opening;
pub mod stories;

use clients::Asked;
use disk::{Flushing, SimDisk, random};
use model::Model;
pub use opening::{OPTIONS, boxed, open_on};
use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashMap;
use std::io;
use std::time::Duration;
use wattio_pages::BLOCK;
use wattio_volume::{
    Class, Compression, DeviceRole, Done, Geometry, Io, Op, OpenError, Part, Recovery, Volume,
    VolumeId, create,
};

/// What the world does, and how badly.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub geometry: Geometry,
    pub devices: usize,
    /// Requests under way at once, at the most.
    pub depth: usize,
    /// The share of requests that write.
    pub writes: f64,
    /// How often background work is given a slice, for each step.
    pub background: f64,
    /// Bytes of what was read that are kept, and that may be written before the log has them.
    pub memory: (u64, u64),
    /// How often a checkpoint is given its slice when it is its turn.
    pub checkpoints: f64,
    pub compression: Compression,
}

/// A small volume, for tests that look at one thing.
pub const SMALL: Geometry =
    Geometry { blocks: 2000, blocks_max: 8000, segments: 64, segment_blocks: 64 };

impl Plan {
    /// A small volume that is mostly written to.
    pub fn small(devices: usize) -> Self {
        Self {
            seed: 1,
            geometry: SMALL,
            devices,
            depth: 8,
            writes: 0.9,
            background: 1.0,
            memory: (0, 0),
            checkpoints: 1.0,
            compression: Compression::None,
        }
    }
}

/// What happened, to see that what was to be tested did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub requests: u64,
    /// Reads, writes and flushes that disks were asked for.
    pub disk_operations: u64,
    pub no_space: u64,
    pub faults: u64,
    pub crashes: u64,
    pub crashed_recoveries: u64,
    pub replayed: u64,
    pub resynced: u64,
    pub collected: u64,
    pub checkpoints: u64,
    pub repaired: u64,
    /// Openings that were refused because something durable was gone.
    pub refused: u64,
    /// Bytes that clients wrote to volumes that are compressed, and bytes that were stored of them.
    pub packed_from: u64,
    pub packed_to: u64,
}

impl Tally {
    fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            disk_operations: self.disk_operations + other.disk_operations,
            no_space: self.no_space + other.no_space,
            faults: self.faults + other.faults,
            crashes: self.crashes + other.crashes,
            crashed_recoveries: self.crashed_recoveries + other.crashed_recoveries,
            replayed: self.replayed + other.replayed,
            resynced: self.resynced + other.resynced,
            collected: self.collected + other.collected,
            checkpoints: self.checkpoints + other.checkpoints,
            repaired: self.repaired + other.repaired,
            refused: self.refused + other.refused,
            packed_from: self.packed_from + other.packed_from,
            packed_to: self.packed_to + other.packed_to,
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
    /// Whether both copies of a superblock of a device rot before the volume is opened again.
    pub superblocks_rot: bool,
    /// Whether second copies of superblocks take long to be written.
    pub second_copies_are_slow: bool,
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
        create(&mut boxed, VolumeId([5; 16]), plan.geometry, plan.compression).expect("new disks");
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
            superblocks_rot: false,
            second_copies_are_slow: false,
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
            self.volume.hurry();
            self.volume.commit();
            self.take_ios();
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
            let is_second_copy = |offset: u64| Geometry::superblock_copies(1).contains(&offset);
            let is_slow = match io.op {
                Op::Read { .. } => self.random.random_bool(0.02),
                Op::Write { offset, .. } => self.second_copies_are_slow && is_second_copy(offset),
                Op::Flush => false,
            };
            if is_slow {
                self.slow.push((self.steps + self.random.random_range(0..2000), io));
            } else {
                self.ios.push(io);
            }
        }
        self.steps += 1;
        let steps = self.steps;
        // On every other volume checkpoints take long.
        if self.plan.seed % 4 < 2 {
            self.volume.set_time(Duration::from_millis(100 * steps));
        }
        self.ios.extend(self.slow.extract_if(.., |(until, _)| *until <= steps).map(|(_, io)| io));
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

    /// The power fails for all that was under way: writes may have happened, in part.
    fn fail(&mut self) {
        self.take_ios();
        self.slow.clear();
        for io in std::mem::take(&mut self.ios) {
            if let Op::Write { offset, parts } = io.op
                && self.random.random_bool(0.5)
            {
                let _ = write(&self.disks[usize::from(io.device)], offset, &parts);
            }
        }
        self.add_counters();
    }

    /// The power fails, and nobody opens the volume again.
    pub fn cut_off(&mut self) {
        self.fail();
        self.disks.iter().for_each(|disk| disk.lose_power(&mut self.random));
    }

    /// The power fails, and the volume is opened again; perhaps the power fails while it recovers.
    pub fn crash(&mut self) {
        self.fail();
        let mut is_first = true;
        let recovery = loop {
            self.disks.iter().for_each(|disk| disk.lose_power(&mut self.random));
            // A recovery that is cut off writes what the next one needs: it does not rot as well.
            if is_first {
                self.rot_superblocks();
            }
            is_first = false;
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

    /// The power fails, and the first copies of both superblocks are gone on each device; whether the
    /// volume could be opened. If so, it is told, and what was flushed is there or cannot be read.
    pub fn crash_and_lose_first_copies(&mut self) -> Result<Recovery, OpenError> {
        self.fail();
        self.tally.crashes += 1;
        for disk in &self.disks {
            disk.lose_power(&mut self.random);
            for offset in Geometry::superblock_copies(0) {
                disk.flip_bit(offset, &mut self.random);
            }
        }
        let (volume, recovery) = open_on(&self.disks)?;
        assert!(recovery.first_copies_lost, "seed {}: {recovery:?}", self.plan.seed);
        self.volume = volume;
        self.may_fail = true;
        self.after_open(recovery);
        self.may_fail = false;
        Ok(recovery)
    }

    /// Closes the volume.
    pub fn close_now(&mut self) {
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
    }

    /// Closes the volume and opens it again.
    pub fn reopen(&mut self) {
        self.close_now();
        self.add_counters();
        let failed = self.volume.failure().is_some();
        self.rot_superblocks();
        let (volume, recovery) = open_on(&self.disks).expect("a closed volume");
        assert!(recovery.was_clean || failed || self.superblocks_rot, "seed {}", self.plan.seed);
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

    /// Blocks of a device's segments cannot be read any more, at random.
    pub fn spoil_blocks(&mut self, device: usize, blocks: u32) {
        let geometry = self.plan.geometry;
        for _ in 0..blocks {
            let segment = self.random.random_range(0..geometry.segments);
            let block = self.random.random_range(0..geometry.segment_blocks);
            self.disks[device].spoil(geometry.block_offset(segment, block));
        }
    }

    /// Pages of the map, in both areas, are damaged or cannot be read any more, at random.
    pub fn damage_map(&mut self, device: usize, pages: u32) {
        let geometry = self.plan.geometry;
        for _ in 0..pages {
            let area = self.random.random_range(0..2);
            let page = self.random.random_range(0..geometry.map_pages());
            let offset = geometry.page_offset(area, page);
            if self.random.random_bool(0.5) {
                self.disks[device].flip_bit(offset, &mut self.random);
            } else {
                self.disks[device].spoil(offset);
            }
        }
    }

    /// Both copies of a slot are damaged or cannot be read any more, on one device, or of any slot on
    /// each.
    fn rot_superblocks(&mut self) {
        if !self.superblocks_rot {
            return;
        }
        let one = self.random.random_range(0..self.disks.len());
        let all = self.random.random_bool(0.5);
        for device in 0..self.disks.len() {
            let slot = self.random.random_range(0..2);
            if all || device == one {
                self.rot_superblock(device, slot);
            }
        }
    }

    /// Both copies of a slot are damaged, or cannot be read any more.
    pub fn rot_superblock(&mut self, device: usize, slot: usize) {
        for offset in Geometry::superblock_offsets(slot) {
            if self.random.random_bool(0.5) {
                self.disks[device].flip_bit(offset, &mut self.random);
            } else {
                self.disks[device].spoil(offset);
            }
        }
    }

    /// A whole checkpoint.
    pub fn checkpoint(&mut self) {
        let before = self.volume.counters().checkpoints;
        self.volume.begin_checkpoint();
        while self.volume.counters().checkpoints == before {
            self.volume.background(Class::Checkpoint);
            self.complete_one();
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

    /// The volume was made larger while it was closed.
    pub fn grow(&mut self, geometry: Geometry) {
        self.model.grow(geometry.blocks);
        self.plan.geometry = geometry;
    }

    /// Goes on until every device counts.
    pub fn finish_rebuild(&mut self) {
        let mut steps = 0;
        while self.volume.roles().iter().any(|&role| role != DeviceRole::InSync) {
            // It was given up if what it copied from could not be read.
            (0..2).for_each(|device| {
                self.volume.begin_rebuild(device);
            });
            self.rebuild_step();
            steps += 1;
            assert!(steps < 100_000, "seed {}: {:?}", self.plan.seed, self.volume.roles());
        }
        while self.volume.has_repairs() {
            self.volume.background(Class::Scrub);
            self.step();
        }
        // The superblock says so too.
        self.settle();
        self.reopen();
    }

    /// One thing at random, and one slice of a rebuild.
    pub fn rebuild_step(&mut self) {
        self.volume.background(Class::Rebuild);
        self.step();
    }

    /// A device dies, and another one in its place is filled, with nothing else going on.
    pub fn replace_now(&mut self, device: usize) {
        self.disks[device].kill();
        self.write_now(0);
        self.disks[device].replace();
        self.fill_now(device);
    }

    /// A device that does not count is filled, with nothing else going on.
    pub fn fill_now(&mut self, device: usize) {
        assert!(self.volume.begin_rebuild(device as u8));
        while self.volume.rebuild_progress().is_some() {
            self.volume.background(Class::Rebuild);
            self.complete_one();
        }
        // The superblock says so too.
        self.flush_now();
    }

    /// What has happened so far.
    pub fn told(&self) -> Tally {
        let disk_operations = self.disks.iter().map(SimDisk::done).sum();
        Tally { disk_operations, ..self.tally }
    }

    fn add_counters(&mut self) {
        let counters = self.volume.counters();
        self.tally.collected += counters.collected_segments;
        self.tally.checkpoints += counters.checkpoints;
        self.tally.repaired += counters.repaired_blocks;
        let (from, to) = (counters.client_blocks * BLOCK as u64, counters.stored_bytes);
        match self.plan.compression {
            Compression::None => assert_eq!(from, to),
            Compression::Lz4 => {
                self.tally.packed_from += from;
                self.tally.packed_to += to;
            }
        }
    }

    /// Every block holds what it may hold; from now on it holds just that.
    fn after_open(&mut self, recovery: Recovery) {
        self.volume.set_memory(self.plan.memory.0, self.plan.memory.1);
        self.flushes.clear();
        self.asked.clear();
        self.model.forget_answers();
        self.check_blocks(&recovery);
    }

    /// Every block of a volume that was opened by hand holds what it may hold.
    pub fn check_all(&mut self) {
        self.after_open(Recovery::default());
    }

    fn check_blocks(&mut self, recovery: &Recovery) {
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
                Err(fault) => {
                    self.tally.faults += 1;
                    assert!(
                        self.may_fail,
                        "seed {}: blocks from {first}: {fault:?}, {recovery:?}",
                        self.plan.seed
                    );
                }
            }
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
