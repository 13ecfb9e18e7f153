//! Devices that cannot read some of what they hold, or nothing.

mod world;

use rand::RngExt;
use wattio_volume::{
    Class, Compression, DeviceName, DeviceRole, Geometry, OpenError, OpenOptions, Opened,
    read_superblock,
};
use world::opening::open;
use world::{OPTIONS, Plan, SMALL as GEOMETRY, World, boxed};

fn world(devices: usize) -> World {
    World::new(Plan::small(devices))
}

/// Where the log of a new volume begins, and a block so far behind.
fn behind(world: &World, blocks: u32) -> u64 {
    let superblock = read_superblock(&mut world.disks[0].clone(), 0).expect("a volume");
    let first = superblock.positions[0];
    GEOMETRY.block_offset(first.segment, first.block + blocks)
}

/// The blocks of a range that cannot be read.
fn damaged(world: &mut World, lbas: std::ops::Range<u64>) -> Vec<u64> {
    world.may_fail = true;
    lbas.filter(|&lba| world.read_now(lba, 1).is_err()).collect()
}

#[test]
fn a_rebuild_copies_what_lies_around_a_block_that_cannot_be_read() {
    let mut world = world(2);
    let block = behind(&world, 11);
    // Blocks 10 to 39 lie behind the header of their record.
    world.write_run_now(10, 30);
    world.disks[0].spoil(block);
    world.replace_now(1);
    assert_eq!(world.volume.roles(), [DeviceRole::InSync; 2]);
    assert!(world.volume.has_repairs(), "the scrub is to look at what was left out");
    world.disks[0].kill();
    assert_eq!(damaged(&mut world, 10..40), [20]);
}

#[test]
fn a_device_does_not_count_if_nothing_could_be_read_to_fill_it() {
    // Fewer blocks than are copied at once, and more.
    for blocks in [3, 200] {
        let mut world = world(2);
        world.write_run_now(10, blocks);
        world.disks[0].fail_reads(true);
        world.replace_now(1);
        assert_eq!(world.volume.roles(), [DeviceRole::InSync, DeviceRole::Out]);
        let why = world.volume.rebuild_failure();
        assert_eq!(why, Some("what it is copied from cannot be read"));
        world.disks[0].fail_reads(false);
        // It can be filled when the other one works again.
        world.replace_now(1);
        assert_eq!(world.volume.roles(), [DeviceRole::InSync; 2]);
        assert_eq!(world.volume.rebuild_failure(), None);
        world.disks[0].kill();
        assert_eq!(damaged(&mut world, 10..10 + blocks), [0; 0]);
    }
}

#[test]
fn it_is_told_why_a_device_is_no_longer_filled() {
    let mut world = world(2);
    world.write_run_now(10, 200);
    world.disks[1].kill();
    world.write_now(0);
    // In its place is one that fails as well.
    assert!(world.volume.begin_rebuild(1));
    while world.volume.rebuild_progress().is_some() {
        world.volume.background(Class::Rebuild);
        world.complete_one();
    }
    assert_eq!(world.volume.roles(), [DeviceRole::InSync, DeviceRole::Out]);
    assert_eq!(world.volume.rebuild_failure(), Some("it cannot be written"));
}

/// What could not be read for a while is copied once the device counts.
#[test]
fn the_scrub_fills_in_what_a_rebuild_could_not_read() {
    let mut world = world(2);
    let (header, data) = (behind(&world, 0), behind(&world, 5));
    world.write_run_now(10, 30);
    (0..40).for_each(|_| world.write_run_now(100, 40));
    let page = |offset| {
        let mut page = wattio_pages::Pages::zeroed(1);
        world.disks[0].read(offset, &mut page).expect("a healthy disk");
        page
    };
    let kept = [header, data].map(|offset| (offset, page(offset)));
    for (offset, _) in &kept {
        world.disks[0].spoil(*offset);
    }
    world.replace_now(1);
    for (offset, page) in &kept {
        world.disks[0].write(*offset, &[page.block(0)]).expect("a healthy disk");
    }
    while world.volume.has_repairs() {
        world.volume.background(Class::Scrub);
        world.complete_one();
    }
    world.flush_now();
    world.disks[0].kill();
    assert_eq!(damaged(&mut world, 10..40), [0; 0]);
}

fn opened(world: &World, options: &OpenOptions) -> Result<Opened, OpenError> {
    open(boxed(&world.disks), options)
}

#[test]
fn blocks_that_cannot_be_read_cost_no_more_of_the_log_than_damaged_ones() {
    let mut world = world(1);
    world.write_run_now(10, 10);
    world.write_now(30);
    let last = GEOMETRY.segment_blocks - 1;
    // In the data of the first record, behind the last one, and the last one of the segment.
    for block in [4, 33, last] {
        world.disks[0].spoil(behind(&world, block));
    }
    let found = opened(&world, &OPTIONS).expect("all but these can be read");
    assert_eq!((found.recovery.records, found.recovery.damaged_blocks), (2, 10));
    world.volume = found.volume;
    assert_eq!(damaged(&mut world, 10..31), [13]);
    // Of a log that cannot be read at all nothing is known.
    world.flush_now();
    let superblock = read_superblock(&mut world.disks[0].clone(), 0).expect("a volume");
    let segment = superblock.positions[0].segment;
    for block in 0..GEOMETRY.segment_blocks {
        world.disks[0].spoil(GEOMETRY.block_offset(segment, block));
    }
    let refused = opened(&world, &OPTIONS).err().expect("nothing is known of it");
    assert!(
        matches!(refused, OpenError::Device { device: DeviceName { number: 0, .. }, .. }),
        "{refused}"
    );
}

#[test]
fn a_header_that_cannot_be_read_is_told_from_the_end_of_the_log() {
    let mut world = world(1);
    world.write_run_now(10, 10);
    (30..33).for_each(|lba| world.write_now(lba));
    world.disks[0].spoil(behind(&world, 11));
    let refused = opened(&world, &OPTIONS).err().expect("records were durable");
    assert!(matches!(refused, OpenError::DamagedLog { found: 1, .. }), "{refused}");
    let options = OpenOptions { accept_loss: true, ..OPTIONS };
    let found = opened(&world, &options).expect("the loss is accepted");
    assert_eq!(found.recovery.records, 1);
}

#[test]
fn a_page_of_the_map_that_cannot_be_read_is_a_damaged_one() {
    let mut world = world(1);
    (0..4).for_each(|page| world.write_now(page * 508));
    world.reopen();
    let superblock = read_superblock(&mut world.disks[0].clone(), 0).expect("a volume");
    world.disks[0].spoil(GEOMETRY.page_offset(superblock.area, 1));
    let refused = opened(&world, &OPTIONS).err().expect("the map is not whole");
    assert!(matches!(refused, OpenError::DamagedMap { first: 508, last: 1015 }), "{refused}");
    let options = OpenOptions { accept_loss: true, ..OPTIONS };
    let found = opened(&world, &options).expect("the loss is accepted");
    assert_eq!(found.recovery.damaged_blocks, 508);
}

/// Fills segments, so that those before are read by the scrub.
fn close_segments(world: &mut World) {
    (0..10).for_each(|_| world.write_run_now(1000, 100));
}

/// A run was accepted from one device or from the other, whole.
#[test]
fn each_block_of_a_read_comes_from_the_device_that_has_it() {
    for is_by_bits in [true, false] {
        let mut world = world(2);
        world.write_run_now(10, 4);
        for (device, block) in [(0, 1), (1, 4)] {
            let offset = behind(&world, block);
            let disk = world.disks[device].clone();
            if is_by_bits {
                disk.flip_bit(offset, &mut world.random);
            } else {
                disk.spoil(offset);
            }
        }
        assert_eq!(world.read_now(10, 4).map(|blocks| blocks.len()), Ok(4));
        assert_eq!(damaged(&mut world, 10..14), [0; 0]);
        // Attempts counted, those that brought wrong bytes, and not what was damaged.
        let counters = world.volume.counters();
        assert_eq!(counters.damaged_blocks, counters.repaired_blocks, "by bits: {is_by_bits}");
        assert!(counters.repaired_blocks > 0 || !is_by_bits, "{counters:?}");
    }
}

/// What nobody could read counted as damaged only if bytes came, and came wrong.
#[test]
fn a_block_that_no_device_has_counts_as_damaged() {
    for is_by_bits in [false, true] {
        let mut world = world(1);
        world.write_run_now(10, 4);
        let (disk, offset) = (world.disks[0].clone(), behind(&world, 1));
        if is_by_bits {
            disk.flip_bit(offset, &mut world.random);
        } else {
            disk.spoil(offset);
        }
        assert!(world.read_now(10, 1).is_err());
        let counters = world.volume.counters();
        assert_eq!((counters.damaged_blocks, counters.repaired_blocks), (1, 0));
    }
}

#[test]
fn the_scrub_repairs_each_block_from_the_device_that_can_read_it() {
    let mut world = world(2);
    world.write_run_now(10, 30);
    close_segments(&mut world);
    for block in 0..=30 {
        let device = block as usize % 2;
        world.disks[device].spoil(behind(&world, block));
    }
    world.scrub();
    world.flush_now();
    assert_eq!((world.volume.scrub_tours(), world.volume.counters().repaired_blocks), ((1, 0), 31));
    assert_eq!(world.volume.counters().damaged_blocks, 31, "what was repaired had been damaged");
    world.disks[0].kill();
    assert_eq!(damaged(&mut world, 10..40), [0; 0]);
}

/// What is never overwritten may lie for years in a segment that is not full.
#[test]
fn the_scrub_reads_what_lies_in_a_segment_that_is_still_written_to() {
    for compression in Compression::ALL {
        let mut world = World::new(Plan { compression, ..Plan::small(2) });
        world.write_run_now(10, 10);
        world.write_now(30);
        [1, 4].map(|block| behind(&world, block)).iter().for_each(|&at| world.disks[0].spoil(at));
        world.scrub();
        world.flush_now();
        assert_eq!(world.volume.counters().repaired_blocks, 2);
        world.disks[1].kill();
        assert_eq!(damaged(&mut world, 10..31), [0; 0]);
    }
}

/// One header that no device has ended the scrub of its segment, and nobody was told.
#[test]
fn the_scrub_goes_on_behind_a_header_that_is_lost_and_tells_of_it() {
    let mut world = world(2);
    world.write_run_now(10, 10);
    world.write_run_now(30, 10);
    close_segments(&mut world);
    // The header of the first record, and data of the second.
    [(0, 0), (1, 0), (0, 15)].iter().for_each(|&(device, block): &(usize, u32)| {
        world.disks[device].spoil(behind(&world, block));
    });
    world.scrub();
    world.flush_now();
    assert_eq!((world.volume.scrub_tours(), world.volume.counters().repaired_blocks), ((1, 1), 1));
    world.disks[1].kill();
    assert_eq!(damaged(&mut world, 10..40), [0; 0]);
}

#[test]
fn the_scrub_tells_of_blocks_that_no_device_can_read() {
    for is_closed in [true, false] {
        // In the data of a record; all that is written of the segment.
        for spoiled in [3..4, 0..11] {
            let mut world = world(1);
            world.write_run_now(10, 10);
            if is_closed {
                close_segments(&mut world);
            }
            spoiled.for_each(|block| world.disks[0].spoil(behind(&world, block)));
            world.scrub();
            assert_eq!(world.volume.scrub_tours(), (1, 1));
        }
    }
}

/// What could not be read for a while was never collected again: the volume was full for ever.
#[test]
fn a_full_volume_goes_on_once_its_device_can_be_read_again() {
    let mut geometry = Geometry { segments: 47, ..GEOMETRY };
    geometry.blocks = geometry.capacity_blocks();
    let mut world = World::new(Plan { geometry, ..Plan::small(1) });
    (0..geometry.blocks / 10).for_each(|run| world.write_run_now(run * 10, 10));
    world.disks[0].fail_reads(true);
    let overwrite = |world: &mut World| {
        let lba = world.random.random_range(0..geometry.blocks);
        world.write_now(lba);
        world.tally.no_space
    };
    let refused = (0..4000).map(|_| overwrite(&mut world)).find(|&refused| refused > 0);
    let refused = refused.expect("nothing can be collected");
    world.disks[0].fail_reads(false);
    assert!((0..4000).all(|_| overwrite(&mut world) == refused), "there is space again");
}

#[test]
fn a_mirror_is_opened_without_a_device_that_cannot_be_read() {
    let mut world = world(2);
    world.write_now(5);
    world.disks[1].kill();
    let strict = OpenOptions { accept_missing: false, ..OPTIONS };
    let refused = opened(&world, &strict).err().expect("this must be asked for");
    assert!(
        matches!(refused, OpenError::Device { device: DeviceName { number: 1, .. }, .. }),
        "{refused}"
    );
    let found = opened(&world, &OPTIONS).expect("the other one has everything");
    assert_eq!(found.volume.roles(), [DeviceRole::InSync, DeviceRole::Out]);
    assert!(found.disks[1].is_none() && found.recovery.devices_out == 1);
    world.disks[0].kill();
    let refused = opened(&world, &OPTIONS).err().expect("none can be read");
    assert!(matches!(refused, OpenError::Device { .. }), "{refused}");
}

/// Either device fails while a mirror is opened, after each thing that is asked of it: nothing is
/// lost, and it does not count when it is there again.
#[test]
fn a_mirror_is_opened_without_a_device_that_fails_meanwhile() {
    for (failing, was_closed) in [(0, false), (1, false), (0, true), (1, true)] {
        let (mut things, mut dropped) = (0, 0);
        loop {
            let mut world = world(2);
            (0..100).for_each(|_| world.step());
            world.settle();
            world.flush_now();
            if was_closed {
                world.reopen();
            }
            world.disks[failing].fail_power_after(Some(things));
            let found = opened(&world, &OPTIONS).expect("the other one has everything");
            world.disks[failing].fail_power_after(None);
            if found.recovery.devices_out == 0 {
                break;
            }
            let mut roles = [DeviceRole::InSync; 2];
            roles[failing] = DeviceRole::Out;
            assert_eq!(found.volume.roles(), roles);
            world.volume = found.volume;
            world.write_now(5);
            let found = opened(&world, &OPTIONS).expect("the other one says so");
            assert_eq!(found.volume.roles(), roles, "after {things} things");
            (things, dropped) = (things + 1, dropped + 1);
            world.disks[failing].kill();
            world.crash();
        }
        assert!(dropped > 5, "{dropped}");
    }
}
