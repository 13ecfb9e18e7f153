//! What is tried, each for as many seeds as are wanted.

use super::disk::SimDisk;
use super::{OPTIONS, Plan, Tally, World, boxed};
use rand::RngExt;
use std::ops::Range;
use wattio_volume::{Class, Compression, Fault, Geometry, OpenError, check};

fn plan(seed: u64, devices: usize) -> Plan {
    let small = seed.is_multiple_of(3);
    let geometry = if small {
        Geometry { blocks: 350, blocks_max: 8000, segments: 60, segment_blocks: 16 }
    } else {
        Geometry { blocks: 2000, blocks_max: 8000, segments: 64, segment_blocks: 64 }
    };
    let depth = 1 + (seed as usize * 7) % 24;
    // None, little of each, or much.
    let memory = match seed % 6 {
        0 | 1 => (0, 0),
        2 => (20 << 12, 50 << 12),
        3 => (0, 200 << 12),
        4 => (200 << 12, 0),
        _ => (500 << 12, 500 << 12),
    };
    let compression =
        if (seed / 2).is_multiple_of(2) { Compression::None } else { Compression::Lz4 };
    Plan {
        seed,
        geometry,
        devices,
        depth,
        writes: 0.7,
        background: 1.0,
        memory,
        checkpoints: 1.0,
        compression,
    }
}

fn sum(tallies: impl Iterator<Item = Tally>) -> Tally {
    let tally = tallies.fold(Tally::default(), Tally::plus);
    println!("{tally:?}");
    assert!(0 < tally.packed_to && tally.packed_to < tally.packed_from, "{tally:?}");
    tally
}

pub fn power_fails(seeds: Range<u64>) {
    let run = |seed| {
        let mut world = World::new(plan(seed, 1));
        for round in 0..12 {
            (0..400).for_each(|_| world.step());
            if round % 4 == 3 { world.reopen() } else { world.crash() }
        }
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.replayed > 0 && tally.checkpoints > 0 && tally.collected > 0, "{tally:?}");
    assert!(tally.crashed_recoveries > 0, "{tally:?}");
}

/// The power fails again and again, before much has happened, on a volume that is nearly full: what
/// was freed is soon used again, and what was torn lies where the next record goes.
pub fn power_fails_often(seeds: Range<u64>) {
    let run = |seed| {
        let mut plan = plan(seed, 1);
        plan.geometry.segments = if plan.geometry.segment_blocks == 16 { 45 } else { 47 };
        plan.geometry.blocks = plan.geometry.capacity_blocks();
        plan.checkpoints = if seed.is_multiple_of(2) { 1.0 } else { 0.02 };
        let mut world = World::new(plan);
        (0..2000).for_each(|_| world.step());
        for _ in 0..60 {
            (0..world.random.random_range(0..150)).for_each(|_| world.step());
            world.crash();
        }
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.crashed_recoveries > 0 && tally.collected > 0, "{tally:?}");
}

/// Clients want more than fits; the rest is served as ever.
pub fn full(seeds: Range<u64>) {
    let run = |seed| {
        let mut plan = plan(seed, 1);
        plan.geometry.blocks = plan.geometry.capacity_blocks() * 5 / 4;
        plan.writes = 0.95;
        // Background work that gets little: then clients wait for it.
        plan.background = if seed.is_multiple_of(2) { 1.0 } else { 0.2 };
        let mut world = World::new(plan);
        for round in 0..10 {
            (0..1500).for_each(|_| world.step());
            match round % 3 {
                0 => world.settle(),
                1 => world.reopen(),
                _ => world.crash(),
            }
        }
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.no_space > 0 && tally.collected > 0, "{tally:?}");
}

/// Either device dies, at any time; the volume goes on with the other one.
pub fn mirror(seeds: Range<u64>) {
    let run = |seed| {
        let mut world = World::new(plan(seed, 2));
        let dies = world.random.random_range(0..8);
        for round in 0..8 {
            if round == dies {
                (0..world.random.random_range(0..400)).for_each(|_| world.step());
                let device = world.random.random_range(0..2);
                world.disks[device].kill();
            }
            (0..400).for_each(|_| world.step());
            if round % 4 == 3 { world.reopen() } else { world.crash() }
        }
        world.settle();
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.resynced > 0 && tally.faults == 0, "{tally:?}");
}

/// Bits flip on one device at a time, or blocks cannot be read, and a scrub comes by before that
/// happens on the other; perhaps the power fails in between.
pub fn damaged_mirror(seeds: Range<u64>) {
    let run = |seed| {
        let mut world = World::new(plan(seed, 2));
        for round in 0..8 {
            (0..400).for_each(|_| world.step());
            world.reopen();
            world.flip_bits(round % 2, 20);
            world.spoil_blocks(round % 2, 20);
            world.damage_map(round % 2, 2);
            (0..400).for_each(|_| world.step());
            if seed % 4 < 2 {
                world.settle()
            } else {
                world.crash()
            }
            world.scrub();
        }
        world.reopen();
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.repaired > 0 && tally.faults == 0, "{tally:?}");
}

/// Bits flip on the only device: what is read is right, or an error; garbage collection goes on,
/// and a block that is written anew is well again.
pub fn damaged(seeds: Range<u64>) {
    let run = |seed| {
        let mut world = World::new(plan(seed, 1));
        for _ in 0..6 {
            (0..600).for_each(|_| world.step());
            world.reopen();
            world.may_fail = true;
            world.flip_bits(0, 10);
            (0..600).for_each(|_| world.step());
            world.settle();
        }
        // What is in memory hides damage.
        world.reopen();
        let blocks = world.plan.geometry.blocks;
        let damaged: Vec<u64> =
            (0..blocks).filter(|&lba| world.read_now(lba, 1) == Err(Fault::Io)).collect();
        assert!(damaged.len() <= 120, "seed {seed}: 60 bits damaged {} blocks", damaged.len());
        damaged.iter().for_each(|&lba| world.write_now(lba));
        world.may_fail = false;
        world.reopen();
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.faults > 0, "{tally:?}");
}

/// Both copies of a superblock rot while the volume is closed, or after the power has failed, perhaps
/// while superblocks were written; the power may fail again during the recovery. The other superblock
/// says as much.
pub fn superblocks_rot(seeds: Range<u64>) {
    let run = |seed| {
        let mut world = World::new(plan(seed, 1 + (seed / 3 % 2) as usize));
        for round in 0..12 {
            (0..world.random.random_range(0..400)).for_each(|_| world.step());
            // As far as it comes.
            world.volume.begin_checkpoint();
            for _ in 0..world.random.random_range(0..60) {
                world.volume.background(Class::Checkpoint);
                world.complete_one();
                world.take_replies();
            }
            world.superblocks_rot = world.random.random_bool(0.8);
            if round % 3 == 2 {
                world.reopen()
            } else {
                world.crash()
            }
            // Nothing is left of it.
            let copies: Vec<SimDisk> = world.disks.iter().map(SimDisk::copy).collect();
            let found = check(boxed(&copies), &OPTIONS, |_, _| ()).expect("a sound volume");
            assert!(!found.recovery.superblock_lost && found.damaged_blocks == 0, "seed {seed}");
        }
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.replayed > 0 && tally.crashed_recoveries > 0, "{tally:?}");
}

/// The power fails soon after a checkpoint, while the second copies of its superblock may be under way,
/// and then the first copies rot. What was used for something else since may be needed: then opening
/// fails, or says what may have happened, and blocks that are lost cannot be read. None is as it was
/// before it was flushed.
pub fn first_copies_rot(seeds: Range<u64>) {
    let run = |seed| {
        let mut plan = plan(seed, 1 + (seed / 3 % 2) as usize);
        plan.geometry.segments = if plan.geometry.segment_blocks == 16 { 45 } else { 47 };
        plan.geometry.blocks = plan.geometry.capacity_blocks();
        let mut world = World::new(plan);
        (0..2000).for_each(|_| world.step());
        for _ in 0..20 {
            (0..world.random.random_range(0..300)).for_each(|_| world.step());
            world.second_copies_are_slow = world.random.random_bool(0.7);
            world.checkpoint();
            (0..world.random.random_range(0..300)).for_each(|_| world.step());
            world.second_copies_are_slow = false;
            match world.crash_and_lose_first_copies() {
                Ok(recovery) => world.tally.replayed += recovery.records,
                // Of a device whose second copies were torn nothing is left that says what it is.
                Err(
                    OpenError::DamagedLog { .. }
                    | OpenError::DamagedMap { .. }
                    | OpenError::Missing { .. }
                    | OpenError::NoVolume(_),
                ) => {
                    world.tally.refused += 1;
                    break;
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
            if world.tally.faults > 0 {
                break;
            }
        }
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.replayed > 0 && tally.refused > 0 && tally.faults > 0, "{tally:?}");
}

/// The only device fails for a while: writes end with errors, and what was durable is there again
/// when it works again.
pub fn dying_disk(seeds: Range<u64>) {
    let run = |seed| {
        let mut world = World::new(plan(seed, 1));
        for _ in 0..4 {
            (0..500).for_each(|_| world.step());
            world.disks[0].fail_power_after(Some(3));
            world.may_fail = true;
            (0..200).for_each(|_| world.step());
            world.may_fail = false;
            world.disks[0].fail_power_after(None);
            world.crash();
        }
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.faults > 0, "{tally:?}");
}

/// A device dies and another one takes its place, perhaps while the power fails; when it is filled,
/// the first one dies.
pub fn rebuild(seeds: Range<u64>) {
    let run = |seed| {
        let mut world = World::new(plan(seed, 2));
        for round in 0..6 {
            (0..300).for_each(|_| world.step());
            let device = round % 2;
            world.disks[device].kill();
            (0..300).for_each(|_| world.step());
            // Whether or not anything was written: it is left out by now.
            world.write_now(0);
            world.disks[device].replace();
            world.volume.begin_rebuild(device as u8);
            (0..world.random.random_range(0..600)).for_each(|_| world.step());
            if seed.is_multiple_of(2) && round % 3 == 1 {
                // It does not count yet: all is on the other one, and it begins anew.
                world.crash();
                world.volume.begin_rebuild(device as u8);
            }
            world.finish_rebuild();
            if round % 3 == 2 {
                world.reopen();
            }
        }
        world.settle();
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.faults == 0, "{tally:?}");
}

/// While a device that was filled begins to count, the other one fails for a while, and then so does
/// the power: what was durable is on one that counts.
pub fn rebuild_ends_as_the_other_device_fails(seeds: Range<u64>) {
    let run = |seed| {
        let mut world = World::new(plan(seed, 2));
        for round in 0..6 {
            (0..100).for_each(|_| world.step());
            let device = round % 2;
            world.disks[device].kill();
            (0..50).for_each(|_| world.step());
            world.write_now(0);
            world.disks[device].replace();
            world.volume.begin_rebuild(device as u8);
            // Until the map is written, and a little longer.
            while world.volume.rebuild_progress().is_some_and(|done| done < 1.0) {
                world.rebuild_step();
            }
            (0..world.random.random_range(0..200)).for_each(|_| world.rebuild_step());
            world.disks[1 - device].kill();
            world.may_fail = true;
            (0..world.random.random_range(0..60)).for_each(|_| world.step());
            world.disks[1 - device].revive();
            world.may_fail = false;
            world.crash();
            (0..2).for_each(|device| {
                world.volume.begin_rebuild(device);
            });
            world.finish_rebuild();
        }
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.faults > 0, "{tally:?}");
}

/// A device that was replaced, or has come back with what it had, is filled from one that cannot be
/// read for a while, again and again; when it counts, and what was left out is repaired, the other one
/// dies.
pub fn rebuild_from_a_failing_device(seeds: Range<u64>) {
    let run = |seed| {
        let mut world = World::new(plan(seed, 2));
        for round in 0..6 {
            (0..300).for_each(|_| world.step());
            let device = round % 2;
            world.disks[device].kill();
            (0..100).for_each(|_| world.step());
            // Whether or not anything was written: it is left out by now.
            world.write_now(0);
            if world.random.random_bool(0.5) {
                world.disks[device].replace();
            } else {
                world.disks[device].revive();
            }
            world.volume.begin_rebuild(device as u8);
            for _ in 0..world.random.random_range(0..30) {
                (0..world.random.random_range(0..40)).for_each(|_| world.rebuild_step());
                world.may_fail = true;
                world.disks[1 - device].fail_reads(true);
                (0..world.random.random_range(0..40)).for_each(|_| world.rebuild_step());
                world.disks[1 - device].fail_reads(false);
                world.settle();
                world.may_fail = false;
            }
            world.finish_rebuild();
        }
        world.told()
    };
    let tally = sum(seeds.map(run));
    assert!(tally.faults > 0 && tally.repaired > 0, "{tally:?}");
}
