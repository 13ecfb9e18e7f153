//! Opening volumes that are damaged, incomplete, or not volumes at all.

mod world;

use wattio_pages::{BLOCK, Pages};
use wattio_volume::{
    Compression, DeviceName, DeviceRole, Disk, Geometry, OpenError, OpenOptions, VolumeId, check,
    create, read_superblock, resize,
};
use world::disk::SimDisk;
use world::opening::{another_opening, open, refusal};
use world::{OPTIONS, Plan, SMALL as GEOMETRY, World, boxed};

fn world(devices: usize) -> World {
    World::new(Plan::small(devices))
}

fn overwrite(disk: &SimDisk, offset: u64, byte: u8) {
    let mut page = Pages::zeroed(1);
    page.as_bytes_mut().fill(byte);
    let mut disk = disk.clone();
    disk.write_at(offset, &page).and_then(|()| disk.flush()).expect("a healthy disk");
}

#[test]
fn one_readable_copy_of_the_superblock_is_enough_and_none_is_no_volume() {
    let world = world(1);
    let disk = &world.disks[0];
    let newest = read_superblock(&mut disk.clone(), 0).expect("a volume");
    let mut places: Vec<u64> = (0..2).flat_map(Geometry::superblock_offsets).collect();
    for _ in 0..3 {
        overwrite(disk, places.remove(1 % places.len()), 7);
        assert_eq!(read_superblock(&mut disk.clone(), 0).expect("the other copies"), newest);
    }
    (0..2).flat_map(Geometry::superblock_offsets).for_each(|at| overwrite(disk, at, 7));
    assert!(matches!(
        refusal(&world.disks, &OPTIONS),
        OpenError::NoVolume(DeviceName { number: 0, .. })
    ));
    assert!(matches!(
        refusal(&[SimDisk::new(GEOMETRY.device_bytes())], &OPTIONS),
        OpenError::NoVolume(DeviceName { number: 0, .. })
    ));
}

/// Both copies of the newest superblock rotted, and the older one said that the volume was closed before
/// it was last opened: what had been flushed since read as zeros, without a word.
#[test]
fn a_slot_of_which_both_copies_rot_costs_nothing_and_is_mended() {
    for (slot, devices) in [(0, 1), (1, 1), (0, 2), (1, 2)] {
        let mut world = world(devices);
        world.write_now(1);
        world.reopen();
        world.write_now(2);
        world.rot_superblock(devices - 1, slot);
        let found = check(boxed(&world.disks), &OPTIONS, |_, _| ()).expect("the other slot");
        assert!(found.recovery.superblock_lost && found.damaged_blocks == 0);
        let opened = open(boxed(&world.disks), &OPTIONS).expect("the other slot");
        assert!(opened.recovery.superblock_lost && !opened.recovery.was_clean);
        world.volume = opened.volume;
        assert!((1..3).all(|lba| world.read_now(lba, 1).expect("it")[0] != [0; BLOCK]));
        // The other slot is not needed any more.
        world.write_now(3);
        world.rot_superblock(devices - 1, 1 - slot);
        world.crash();
        world.close_now();
        let found = check(boxed(&world.disks), &OPTIONS, |_, _| ()).expect("a sound volume");
        assert!(found.recovery.was_clean && !found.recovery.superblock_lost);
        assert_eq!(found.damaged_blocks, 0);
    }
}

/// Which of the four places for superblocks a device has as its newest one.
fn places_with_newest(disk: &SimDisk) -> usize {
    let newest = superblock_page(disk, newest_place(disk));
    let places = (0..2).flat_map(Geometry::superblock_offsets);
    places.filter(|&at| superblock_page(disk, at) == newest).count()
}

fn newest_place(disk: &SimDisk) -> u64 {
    let newest = read_superblock(&mut disk.clone(), 0).expect("a volume");
    let has_it = |at: &u64| {
        let alone = disk.copy();
        let others = (0..2).flat_map(Geometry::superblock_offsets).filter(|other| other != at);
        others.for_each(|at| overwrite(&alone, at, 7));
        read_superblock(&mut alone.clone(), 0).is_ok_and(|found| found == newest)
    };
    (0..2).flat_map(Geometry::superblock_offsets).find(has_it).expect("one of them")
}

fn superblock_page(disk: &SimDisk, offset: u64) -> Vec<u8> {
    let mut page = Pages::zeroed(1);
    disk.read(offset, &mut page).expect("a healthy disk");
    page.as_bytes().to_vec()
}

#[test]
fn a_copy_of_a_superblock_that_is_damaged_is_mended_without_a_word() {
    for place in 0..4 {
        for was_closed in [true, false] {
            let mut world = world(1);
            world.write_now(1);
            if was_closed {
                world.reopen();
            }
            overwrite(&world.disks[0], Geometry::superblock_offsets(place / 2)[place % 2], 7);
            let opened = open(boxed(&world.disks), &OPTIONS).expect("three are left");
            assert!(!opened.recovery.superblock_lost);
            assert_eq!(places_with_newest(&world.disks[0]), 4);
        }
    }
}

/// A superblock as earlier versions wrote it, in one slot; `None`: nothing that can be read.
fn old_slot(disk: &SimDisk, slot: usize, page: Option<&[u8]>) {
    /// Where a superblock of one device says that it is in both slots: behind all else.
    const MARK: usize = 145;
    let mut page = page.map_or_else(|| vec![7; BLOCK], <[u8]>::to_vec);
    if page.starts_with(b"WVOL") {
        assert_eq!(std::mem::take(&mut page[MARK]), 1);
        let crc = crc32c::crc32c(&page[8..]);
        page[4..8].copy_from_slice(&crc.to_le_bytes());
    }
    disk.write_page(Geometry::superblock_offsets(slot), &page);
}

/// Earlier versions wrote a superblock to one slot only. If its other one is lost, nobody knows from
/// what is left whether it was newer.
#[test]
fn a_lost_superblock_of_an_earlier_version_is_refused_and_what_can_be_found_is_served() {
    let accepting = OpenOptions { accept_loss: true, ..OPTIONS };
    for is_newest_lost in [true, false] {
        let mut world = world(1);
        let disk = world.disks[0].clone();
        (0..200).for_each(|_| world.step());
        // The end of one opening, and the next one.
        world.settle();
        world.close_now();
        let closed = superblock_page(&disk, 0);
        let found = open(boxed(&world.disks), &OPTIONS).expect("a volume");
        world.volume = found.volume;
        let opened = superblock_page(&disk, 0);
        let number = read_superblock(&mut disk.clone(), 0).expect("a volume").number as usize;
        for lba in 10..20 {
            world.write_now(lba);
        }
        let newest = Some(&opened[..]).filter(|_| !is_newest_lost);
        let older = Some(&closed[..]).filter(|_| is_newest_lost);
        old_slot(&disk, number % 2, newest);
        old_slot(&disk, 1 - number % 2, older);
        let looked = check(boxed(&world.disks), &OPTIONS, |_, _| ()).map(|_| ());
        for refused in [looked, Err(refusal(&world.disks, &OPTIONS))] {
            let refused = refused.expect_err("it may be newer").to_string();
            let says = "neither copy of a superblock on device 0 can be read, and the other one";
            assert!(refused.starts_with(says), "{refused}");
        }
        // All of it is in the log, though of a later opening than the superblock is.
        let opened = open(boxed(&world.disks), &accepting).expect("the loss is accepted");
        assert!(opened.recovery.superblock_lost && !opened.recovery.was_clean);
        assert_eq!(opened.recovery.records, 10);
        world.volume = opened.volume;
        world.check_all();
        // It is whole again, and what is written now is not taken for what was written then.
        world.write_now(10);
        world.crash();
        assert_eq!(places_with_newest(&disk), 4);
    }
}

/// What is found after an opening that is lost may have a hole: nobody is told that this is all.
#[test]
fn a_log_of_a_lost_opening_that_is_damaged_is_told_from_its_end() {
    let mut world = world(1);
    let disk = world.disks[0].clone();
    world.write_now(1);
    world.close_now();
    let closed = superblock_page(&disk, 0);
    let number = read_superblock(&mut disk.clone(), 0).expect("a volume").number as usize;
    world.volume = open(boxed(&world.disks), &OPTIONS).expect("a volume").volume;
    let first = read_superblock(&mut disk.clone(), 0).expect("a volume").positions[0];
    (2..5).for_each(|lba| world.write_now(lba));
    overwrite(&disk, GEOMETRY.block_offset(first.segment, first.block), 7);
    // Both as this version writes them, but for the lost one.
    disk.write_page(Geometry::superblock_offsets(number % 2), &closed);
    Geometry::superblock_offsets(1 - number % 2).iter().for_each(|&at| overwrite(&disk, at, 7));
    let refused = refusal(&world.disks, &OPTIONS);
    assert!(matches!(refused, OpenError::DamagedLog { .. }), "{refused}");
}

/// Earlier versions left the second slot blank until a volume was first opened.
#[test]
fn a_volume_that_an_earlier_version_made_is_opened_for_the_first_time() {
    for was_opened in [false, true] {
        let mut world = world(1);
        let disk = SimDisk::new(GEOMETRY.device_bytes());
        let disks = [disk.clone()];
        create(&mut boxed(&disks), VolumeId([5; 16]), GEOMETRY, Compression::None).expect("new");
        let made = superblock_page(&disk, 0);
        if was_opened {
            world.disks = disks.to_vec();
            world.volume = open(boxed(&disks), &OPTIONS).expect("a new volume").volume;
            (2..5).for_each(|lba| world.write_now(lba));
        }
        old_slot(&disk, 0, Some(&made));
        Geometry::superblock_offsets(1).iter().for_each(|&at| overwrite(&disk, at, 0));
        let opened = open(boxed(&disks), &OPTIONS).expect("a volume");
        let records = if was_opened { 3 } else { 0 };
        assert_eq!((opened.recovery.records, opened.recovery.superblock_lost), (records, false));
    }
}

#[test]
fn a_superblock_that_another_device_has_is_written_again() {
    let mut world = world(2);
    (0..300).for_each(|_| world.step());
    world.settle();
    for slot in 0..2 {
        world.rot_superblock(1, slot);
        let strict = OpenOptions { accept_missing: false, ..OPTIONS };
        let opened = open(boxed(&world.disks), &strict).expect("the other one has both");
        assert_eq!(opened.volume.roles(), [DeviceRole::InSync; 2]);
        world.volume = opened.volume;
        world.check_all();
        assert_eq!(world.disks.iter().map(places_with_newest).sum::<usize>(), 8);
    }
}

#[test]
fn a_map_that_takes_too_much_memory_is_refused_with_the_figures() {
    let options = OpenOptions { map_bytes_max: 1000, ..OPTIONS };
    let message = refusal(&world(1).disks, &options).to_string();
    assert!(message.contains("16256") && message.contains("1000"), "{message}");
}

#[test]
fn disks_that_do_not_belong_together_are_told_apart() {
    let mirror = world(2);
    let new_disk = || SimDisk::new(GEOMETRY.device_bytes());
    let other = new_disk();
    let mut disks = boxed(std::slice::from_ref(&other));
    create(&mut disks, VolumeId([9; 16]), GEOMETRY, Compression::None).expect("a new disk");
    let mixed = refusal(&[new_disk(), mirror.disks[0].clone(), other], &OPTIONS).to_string();
    assert!(mixed.starts_with("device 2 belongs to volume 0909"), "{mixed}");
    assert!(mixed.contains(", and device 1 to volume 0505"), "{mixed}");
}

#[test]
fn a_disk_that_is_too_small_is_refused() {
    let mut disks = boxed(&[SimDisk::new(GEOMETRY.device_bytes() - 1)]);
    let refused = create(&mut disks, VolumeId([5; 16]), GEOMETRY, Compression::None);
    assert!(matches!(
        refused,
        Err(OpenError::TooSmall { device: DeviceName { number: 0, .. }, .. })
    ));
}

/// Bits that rot are no crash: what was durable and cannot be read is said, not cut off.
#[test]
fn a_damaged_log_is_told_from_a_torn_one() {
    let mut world = world(1);
    (0..60).for_each(|_| world.step());
    world.settle();
    world.flush_now();
    world.write_now(3);
    let disk = world.disks[0].clone();
    let superblock = read_superblock(&mut disk.clone(), 0).expect("a volume");
    let first = superblock.positions[0];
    overwrite(&disk, GEOMETRY.block_offset(first.segment, first.block), 7);
    // No record after it can be reached, but they are there, and say what was durable before them.
    let refused = refusal(&world.disks, &OPTIONS);
    assert!(matches!(refused, OpenError::DamagedLog { found: 0, .. }), "{refused}");
    let options = OpenOptions { accept_loss: true, ..OPTIONS };
    let opened = open(boxed(&world.disks), &options).expect("the loss is accepted");
    assert_eq!(opened.recovery.records, 0);
}

#[test]
fn data_that_rots_in_the_log_is_lost_and_the_records_after_it_are_not() {
    let mut world = world(1);
    world.write_now(1);
    world.write_now(2);
    world.write_now(3);
    let disk = world.disks[0].clone();
    let first = read_superblock(&mut disk.clone(), 0).expect("a volume").positions[0];
    // The data of the first record: the later ones say that it was durable.
    overwrite(&disk, GEOMETRY.block_offset(first.segment, first.block + 1), 7);
    let opened = open(boxed(&world.disks), &OPTIONS).expect("only data is damaged");
    assert_eq!(opened.recovery.records, 3);
    assert_eq!(opened.recovery.damaged_blocks, 1);
    world.volume = opened.volume;
    world.may_fail = true;
    assert!(world.read_now(1, 1).is_err());
    assert!(world.read_now(2, 2).is_ok());
}

#[test]
fn a_damaged_map_is_refused_unless_the_loss_is_accepted_and_then_only_its_blocks_are_lost() {
    let mut world = world(1);
    (0..4).for_each(|page| world.write_now(page * 508));
    world.reopen();
    let disk = world.disks[0].clone();
    let superblock = read_superblock(&mut disk.clone(), 0).expect("a volume");
    overwrite(&disk, GEOMETRY.page_offset(superblock.area, 1), 7);
    let refused = refusal(&world.disks, &OPTIONS);
    assert!(matches!(refused, OpenError::DamagedMap { first: 508, last: 1015 }), "{refused}");
    let options = OpenOptions { accept_loss: true, ..OPTIONS };
    let opened = open(boxed(&world.disks), &options).expect("the loss is accepted");
    assert_eq!(opened.recovery.damaged_blocks, 508);
    world.volume = opened.volume;
    world.may_fail = true;
    assert!(world.read_now(508, 1).is_err());
    assert!(world.read_now(0, 508).is_ok() && world.read_now(1016, 500).is_ok());
    world.write_now(508);
    assert!(world.read_now(508, 1).is_ok(), "what is written anew is well again");
}

/// The map of a volume that is open, damaged in one page of the area that counts.
fn damage_map(world: &World, device: usize) {
    let superblock = read_superblock(&mut world.disks[0].clone(), 0).expect("a volume");
    overwrite(&world.disks[device], GEOMETRY.page_offset(superblock.area, 1), 7);
}

/// Whether a device has the map after each of two checkpoints, so that either area counts once.
fn has_map(world: &mut World, device: usize) -> bool {
    (0..2).all(|_| {
        world.checkpoint();
        check(boxed(&world.disks[device..=device]), &OPTIONS, |_, _| ()).is_ok()
    })
}

/// Another device had the page, and nobody wrote it again where it was damaged.
#[test]
fn a_page_of_the_map_that_was_damaged_on_a_device_is_written_again() {
    let mut world = world(2);
    (0..4).for_each(|page| world.write_now(page * 508));
    world.reopen();
    damage_map(&world, 0);
    world.volume = open(boxed(&world.disks), &OPTIONS).expect("the other one has it").volume;
    assert!(has_map(&mut world, 0));
}

#[test]
fn the_scrub_finds_damaged_pages_of_the_map() {
    for (devices, damaged) in [(1, 0), (2, 0), (2, 1)] {
        let mut world = world(devices);
        (0..4).for_each(|page| world.write_now(page * 508));
        world.reopen();
        damage_map(&world, damaged);
        world.scrub();
        let counters = world.volume.counters();
        assert_eq!((counters.damaged_blocks, counters.repaired_blocks), (1, 1));
        assert!(has_map(&mut world, damaged));
        world.scrub();
        assert_eq!(world.volume.counters().repaired_blocks, 1, "it is repaired");
    }
}

#[test]
fn a_check_finds_what_is_damaged_and_changes_nothing() {
    let mut world = world(2);
    world.write_now(5);
    world.write_now(6);
    let sound = check(boxed(&world.disks), &OPTIONS, |_, _| ()).expect("a volume");
    assert!(!sound.recovery.was_clean && sound.recovery.records > 0);
    assert_eq!((sound.damaged_blocks, sound.live_blocks), (0, world.volume.live_blocks()));
    let superblock = read_superblock(&mut world.disks[0].clone(), 0).expect("a volume");
    let first = superblock.positions[0];
    let damage = |disk| overwrite(disk, GEOMETRY.block_offset(first.segment, first.block + 1), 7);
    damage(&world.disks[0]);
    let again = check(boxed(&world.disks), &OPTIONS, |done, all| assert!(done <= all));
    let again = again.expect("the same volume");
    assert_eq!(again.damaged, [], "the other device has everything");
    assert_eq!(again.damaged_on, [(0, 1), (1, 0)]);
    damage(&world.disks[1]);
    world.may_fail = true;
    let both = check(boxed(&world.disks), &OPTIONS, |_, _| ()).expect("the same volume");
    assert_eq!((both.damaged.as_slice(), both.damaged_blocks), ([5].as_slice(), 1));
    world.crash();
    assert!(world.read_now(5, 1).is_err());
    assert!(world.read_now(6, 1).is_ok());
}

/// Each ordinary crash of a mirror left a check that said "not ok".
#[test]
fn what_a_crash_kept_from_one_device_is_no_damage() {
    let mut world = world(2);
    world.write_now(5);
    world.write_unflushed(6);
    let log = read_superblock(&mut world.disks[0].clone(), 0).expect("a volume").positions[0];
    // Of the second record, this device has the header and not the data, or neither.
    for block in [3, 2] {
        overwrite(&world.disks[1], GEOMETRY.block_offset(log.segment, log.block + block), 0);
        let found = check(boxed(&world.disks), &OPTIONS, |_, _| ()).expect("a volume");
        assert_eq!((found.damaged_blocks, found.damaged_on), (0, vec![(0, 0), (1, 0)]));
        assert_eq!((found.recovery.records, found.recovery.resynced_blocks), (2, 2));
    }
    // What was durable it should have.
    overwrite(&world.disks[1], GEOMETRY.block_offset(log.segment, log.block + 1), 0);
    let found = check(boxed(&world.disks), &OPTIONS, |_, _| ()).expect("a volume");
    assert_eq!((found.damaged_blocks, found.damaged_on), (0, vec![(0, 0), (1, 1)]));
    world.crash();
    assert_eq!(check(boxed(&world.disks), &OPTIONS, |_, _| ()).expect("it").damaged_on[1], (1, 0));
}

#[test]
fn a_volume_grows_and_keeps_what_it_holds() {
    let mut world = world(1);
    (0..400).for_each(|_| world.step());
    world.settle();
    let smaller = resize(boxed(&world.disks), 1999, &OPTIONS, another_opening());
    assert!(matches!(smaller, Err(OpenError::Geometry(_))));
    let too_large = resize(boxed(&world.disks), 8001, &OPTIONS, another_opening());
    assert!(matches!(too_large, Err(OpenError::Geometry(_))));
    let geometry =
        resize(boxed(&world.disks), 8000, &OPTIONS, another_opening()).expect("its map has room");
    assert_eq!((geometry.blocks, geometry.segments), (8000, GEOMETRY.segments));
    world.grow(geometry);
    world.crash();
    (0..400).for_each(|_| world.step());
    world.reopen();
    world.write_now(7999);
}

/// What lies beyond the end of the log may be just what would come next, but for the opening of the
/// volume in which it was written.
#[test]
fn a_record_that_a_crash_cut_off_never_comes_back() {
    let mut world = world(1);
    (1..=3).for_each(|lba| world.write_unflushed(lba));
    // The second record was lost, and the third was not.
    overwrite(&world.disks[0], GEOMETRY.block_offset(0, 2), 0);
    let opened = open(boxed(&world.disks), &OPTIONS).expect("the log ends after one record");
    assert_eq!(opened.recovery.records, 1);
    world.volume = opened.volume;
    world.write_unflushed(4);
    let opened = open(boxed(&world.disks), &OPTIONS).expect("the log ends after the new record");
    assert_eq!(opened.recovery.records, 1);
    world.volume = opened.volume;
    assert!(world.read_now(3, 1).is_ok_and(|read| read[0] == [0; wattio_pages::BLOCK]));
}

/// The first copies were lost after the log had gone round: from a second copy of long ago the volume
/// was opened as if nothing had been written since.
#[test]
fn a_second_copy_that_is_older_than_the_log_is_not_taken_for_the_newest() {
    let mut world = world(1);
    let disk = world.disks[0].clone();
    world.write_now(1);
    world.checkpoint();
    let older = superblock_page(&disk, newest_place(&disk));
    // Until all segments were used again, some three times; nothing is collected meanwhile.
    for _ in 0..150 {
        (0..50).for_each(|lba| world.write_now(lba));
        world.checkpoint();
    }
    world.flush_now();
    for at in (0..2).flat_map(Geometry::superblock_offsets) {
        overwrite(&disk, at, 7);
    }
    disk.write_page([Geometry::superblock_copies(1)[0]; 2], &older);
    disk.write_page([Geometry::superblock_copies(1)[1]; 2], &older);
    let refused = refusal(&world.disks, &OPTIONS);
    assert!(matches!(refused, OpenError::DamagedLog { .. }), "{refused}");
}
