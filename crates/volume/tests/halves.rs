//! Mirrors of which a device is missing, old, or was used without the other one.

mod world;

use rand::RngExt;
use wattio_pages::{BLOCK, Pages};
use wattio_volume::{
    DeviceRole, Done, Io, Op, OpenError, OpenOptions, Part, Request, check, resize,
};
use world::disk::SimDisk;
use world::opening::{another_opening, open, refusal};
use world::{OPTIONS, Plan, World, boxed};

fn world(devices: usize) -> World {
    World::new(Plan::small(devices))
}

#[test]
fn a_volume_without_one_of_its_devices_must_be_asked_for() {
    let mirror = world(2);
    let strict = OpenOptions { accept_missing: false, ..OPTIONS };
    let missing = refusal(&mirror.disks[..1], &strict);
    assert!(matches!(missing, OpenError::Missing { devices: 2, given: 1 }), "{missing}");
    assert!(open(boxed(&mirror.disks[..1]), &OPTIONS).is_ok());
}

#[test]
fn a_device_that_was_left_out_does_not_come_back_by_itself() {
    let mut world = world(2);
    world.disks[1].kill();
    (0..500).for_each(|_| world.step());
    world.settle();
    assert_eq!(world.volume.roles(), [DeviceRole::InSync, DeviceRole::Out]);
    world.reopen();
    // It is there again, with what it held: nothing that counts.
    world.disks[1].revive();
    let opened = open(boxed(&world.disks), &OPTIONS).expect("the other one has everything");
    assert_eq!(opened.volume.roles(), [DeviceRole::InSync, DeviceRole::Out]);
    assert!(opened.disks[1].is_none());
    assert_eq!(opened.recovery.devices_out, 1);
}

/// It was refused with its size, and `accept_missing` did not help.
#[test]
fn a_device_that_was_cut_short_is_left_out_where_that_is_asked_for() {
    let strict = OpenOptions { accept_missing: false, ..OPTIONS };
    for device in [0, 1] {
        let mut world = world(2);
        (5..8).for_each(|lba| world.write_now(lba));
        world.close_now();
        world.disks[device].cut(4096);
        let refused = refusal(&world.disks, &strict);
        assert!(matches!(refused, OpenError::CutShort { devices: 2, .. }), "{refused}");
        let told = refused.to_string();
        assert!(told.starts_with(&format!("device {device} was cut short: it has ")), "{told}");
        let opened = open(boxed(&world.disks), &OPTIONS).expect("the other one has everything");
        assert_eq!(opened.volume.roles()[device], DeviceRole::Out);
        // It may be made longer, and is filled then.
        assert!(opened.disks[device].is_none() && opened.places[device] == Some(device));
        world.volume = opened.volume;
        (5..8).for_each(|lba| assert!(world.read_now(lba, 1).expect("it")[0] != [0; BLOCK]));
    }
    let mut alone = world(1);
    alone.close_now();
    alone.disks[0].cut(4096);
    let refused = refusal(&alone.disks, &OPTIONS);
    assert!(matches!(refused, OpenError::CutShort { devices: 1, .. }), "{refused}");
}

/// What the cut one knows is not forgotten: the other one, which was left out, lacks what it holds.
#[test]
fn a_device_that_was_cut_short_is_not_replaced_by_one_that_had_been_left_out() {
    let mut world = world(2);
    world.disks[1].kill();
    (0..500).for_each(|_| world.step());
    world.settle();
    world.disks[1].revive();
    world.write_now(5);
    world.close_now();
    world.disks[0].cut(4096);
    let refused = refusal(&world.disks, &OPTIONS);
    assert!(matches!(refused, OpenError::CutShort { devices: 2, .. }), "{refused}");
}

#[test]
fn two_devices_that_went_on_without_each_other_are_refused() {
    let world = world(2);
    for alone in 0..2 {
        let opened = open(boxed(&world.disks[alone..=alone]), &OPTIONS).expect("one is enough");
        assert_eq!(opened.recovery.devices_out, 1);
    }
    assert!(matches!(refusal(&world.disks, &OPTIONS), OpenError::SplitBrain));
}

/// A device that had been replaced and filled again came back beside the other one: the volume was
/// opened with its map, and what had been durable since was gone from both.
#[test]
fn an_old_device_beside_one_that_went_on_does_not_count() {
    let strict = OpenOptions { accept_missing: false, ..OPTIONS };
    for device in [0, 1] {
        let mut world = world(2);
        world.write_now(5);
        world.close_now();
        let old = world.disks[device].copy();
        world.reopen();
        (5..8).for_each(|lba| world.write_now(lba));
        world.close_now();
        let mut disks = world.disks.clone();
        disks[device] = old;
        let before: Vec<SimDisk> = disks.iter().map(SimDisk::copy).collect();
        let looked = check(boxed(&disks), &strict, |_, _| ()).map(|_| ());
        let resized = resize(boxed(&disks), 3000, &strict, another_opening()).map(|_| ());
        for refused in [looked, resized, Err(refusal(&disks, &strict))] {
            let refused = refused.expect_err("one of them is old").to_string();
            assert!(refused.starts_with(&format!("device {device} is out of date")), "{refused}");
        }
        assert!(disks.iter().zip(&before).all(|(now, before)| now.holds_what(before)));
        let looked = check(boxed(&disks), &OPTIONS, |_, _| ()).expect("the other one is enough");
        assert_eq!((looked.recovery.devices_out, looked.damaged_blocks), (1, 0));
        let opened = open(boxed(&disks), &OPTIONS).expect("the other one has everything");
        assert_eq!(opened.volume.roles()[device], DeviceRole::Out);
        assert!(opened.disks[device].is_none() && opened.places[device] == Some(device));
        world.disks = disks;
        world.volume = opened.volume;
        (5..8).for_each(|lba| assert!(world.read_now(lba, 1).expect("it")[0] != [0; BLOCK]));
    }
}

/// The same where the old device had been used alone meanwhile: each has what the other one lacks.
#[test]
fn an_old_device_that_was_used_alone_is_refused_beside_the_one_that_went_on() {
    let mut world = world(2);
    world.close_now();
    let old = world.disks[0].copy();
    let alone = open(boxed(std::slice::from_ref(&old)), &OPTIONS).expect("one is enough");
    assert_eq!(alone.recovery.devices_out, 1);
    for _ in 0..3 {
        world.reopen();
        world.close_now();
    }
    let disks = [old, world.disks[1].clone()];
    assert!(matches!(refusal(&disks, &OPTIONS), OpenError::SplitBrain));
}

/// The numbers of superblocks count up on each half for itself: the old one, which was used alone for
/// longer, had the higher one, and the other one was filled from it without a word.
#[test]
fn an_old_device_that_was_used_alone_for_longer_is_refused_beside_the_one_that_went_on() {
    // As often, once more, and many times.
    for openings in [1, 2, 5] {
        for device in [0, 1] {
            let mut world = world(2);
            world.close_now();
            let old = world.disks[device].copy();
            world.reopen();
            world.write_now(5);
            world.close_now();
            let went_on = world.disks.clone();
            world.disks[device] = old;
            world.disks[1 - device].kill();
            for _ in 0..openings {
                let alone = std::slice::from_ref(&world.disks[device]);
                world.volume = open(boxed(alone), &OPTIONS).expect("one is enough").volume;
                world.write_now(6);
                world.close_now();
            }
            world.disks[1 - device].revive();
            world.disks[1 - device] = went_on[1 - device].clone();
            let refused = check(boxed(&world.disks), &OPTIONS, |_, _| ()).map(|_| ());
            for refused in [refused, Err(refusal(&world.disks, &OPTIONS))] {
                let refused = refused.expect_err("both have changed");
                assert!(matches!(refused, OpenError::SplitBrain), "{refused}");
            }
        }
    }
}

/// A crash keeps a device from the newest superblock at most, and so does a copy of just before: what was
/// in the map by then was gone from both.
#[test]
fn a_copy_of_one_superblock_before_is_told_by_its_map() {
    let strict = OpenOptions { accept_missing: false, ..OPTIONS };
    for device in [0, 1] {
        let mut world = world(2);
        world.write_now(5);
        world.checkpoint();
        let old = world.disks[device].copy();
        (6..8).for_each(|lba| world.write_now(lba));
        world.cut_off();
        // The recovery writes the map, and the next superblock.
        world.volume = open(boxed(&world.disks), &strict).expect("both are there").volume;
        world.write_now(8);
        world.cut_off();
        world.disks[device] = old;
        let looked = check(boxed(&world.disks), &strict, |_, _| ()).map(|_| ());
        for refused in [looked, Err(refusal(&world.disks, &strict))] {
            let refused = refused.expect_err("one of them is old").to_string();
            assert!(refused.starts_with(&format!("device {device} is out of date")), "{refused}");
        }
        let opened = open(boxed(&world.disks), &OPTIONS).expect("the other one has everything");
        assert_eq!(opened.volume.roles()[device], DeviceRole::Out);
        world.volume = opened.volume;
        (5..9).for_each(|lba| assert!(world.read_now(lba, 1).expect("it")[0] != [0; BLOCK]));
    }
}

/// What happened to a device, in its order.
type History = Vec<Event>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// An opening in which it counted.
    Opened(u64),
    /// A block that was written and made durable.
    Written(u64),
}

/// Devices go missing, come back, are copied, swapped for copies, cleared, filled, and fail; the volume is
/// closed, or the power fails. What counts holds all that any device holds which is there: if each of
/// two has something of its own, the volume is refused, and only then.
#[test]
fn of_two_devices_none_is_taken_that_lacks_what_the_other_one_holds() {
    let (mut opened, mut refused, mut old, mut filled) = (0, 0, 0, 0);
    for seed in 0..150 {
        let mut world = World::new(Plan { seed, ..Plan::small(2) });
        let mut histories: [History; 2] = Default::default();
        let mut copies: Vec<(usize, SimDisk, History)> = Vec::new();
        let mut next = 0;
        world.close_now();
        for round in 0..16 {
            let at = format!("seed {seed}, round {round}");
            let device = world.random.random_range(0..2);
            if world.random.random_bool(0.4) {
                copies.push((device, world.disks[device].copy(), histories[device].clone()));
            }
            if world.random.random_bool(0.3) && !copies.is_empty() {
                let (device, copy, history) = &copies[world.random.random_range(0..copies.len())];
                world.disks[*device] = copy.copy();
                histories[*device].clone_from(history);
            }
            // At times a device of the two.
            let is_there = match world.random.random_range(0..5) {
                0 => [true, false],
                1 => [false, true],
                _ => [true, true],
            };
            for (disk, is_there) in world.disks.iter().zip(is_there) {
                if is_there { disk.revive() } else { disk.kill() }
            }
            let are_one =
                histories[0].starts_with(&histories[1]) || histories[1].starts_with(&histories[0]);
            let there: Vec<usize> = (0..2).filter(|&device| is_there[device]).collect();
            let disks: Vec<SimDisk> = there.iter().map(|&at| world.disks[at].clone()).collect();
            let accept_missing = there.len() < 2 || world.random.random_bool(0.5);
            match open(boxed(&disks), &OpenOptions { accept_missing, ..OPTIONS }) {
                Ok(found) => world.volume = found.volume,
                Err(OpenError::SplitBrain) => {
                    assert!(there.len() == 2 && !are_one, "{at}: {histories:?}");
                    refused += 1;
                    // Somebody decides for one of them.
                    world.disks[device].replace();
                    histories[device].clear();
                    continue;
                }
                Err(OpenError::Old(_) | OpenError::Missing { .. }) if !accept_missing => {
                    old += 1;
                    continue;
                }
                // Nothing but devices that were cleared.
                Err(OpenError::NoVolume(_)) => {
                    assert!(there.iter().all(|&device| histories[device].is_empty()), "{at}");
                    continue;
                }
                Err(error) => panic!("{at}: {error}"),
            }
            let counts =
                |world: &World, device: usize| world.volume.roles()[device] == DeviceRole::InSync;
            let best: Vec<usize> =
                there.iter().copied().filter(|&one| counts(&world, one)).collect();
            let longest = best.iter().max_by_key(|&&device| histories[device].len());
            let history = histories[*longest.expect("one that counts")].clone();
            for &device in &there {
                assert!(history.starts_with(&histories[device]), "{at}: {histories:?}");
            }
            opened += 1;
            let history = [&history[..], &[Event::Opened(opened)]].concat();
            best.iter().for_each(|&device| histories[device].clone_from(&history));
            for lba in 0..next {
                let contents = world.read_now(lba, 1).expect("nothing is damaged");
                assert_eq!(
                    contents[0] != [0; BLOCK],
                    history.contains(&Event::Written(lba)),
                    "{at}: {lba}"
                );
            }
            let left_out = there.iter().copied().find(|&device| !counts(&world, device));
            if let Some(device) = left_out.filter(|_| world.random.random_bool(0.6)) {
                world.fill_now(device);
                histories[device].clone_from(&history);
                filled += 1;
            }
            for _ in 0..world.random.random_range(1..4) {
                let are_both = (0..2).all(|device| counts(&world, device));
                if are_both && world.random.random_bool(0.1) {
                    world.disks[device].kill();
                }
                world.write_now(next);
                for (device, history) in histories.iter_mut().enumerate() {
                    if counts(&world, device) {
                        history.push(Event::Written(next));
                    }
                }
                next += 1;
                if world.random.random_bool(0.3) && world.volume.failure().is_none() {
                    world.checkpoint();
                }
            }
            if world.random.random_bool(0.5) { world.close_now() } else { world.cut_off() }
        }
    }
    println!("{opened} opened, {refused} refused, {old} old, {filled} filled");
    assert!(opened > 500 && refused > 50 && old > 50 && filled > 50);
}

/// A copy that was made with the disk's bytes was taken for the disk, and served instead of it.
#[test]
fn a_disk_beside_a_copy_of_it_is_refused_and_neither_is_written() {
    for devices in [1, 2] {
        let mut world = world(devices);
        world.write_now(5);
        let old = world.disks[0].copy();
        world.write_now(6);
        let new = world.disks[0].clone();
        let rest = &world.disks[1..];
        for pair in [[new.clone(), old.clone()], [old.clone(), new.clone()]] {
            let disks = [&pair[..], rest].concat();
            let before: Vec<SimDisk> = disks.iter().map(SimDisk::copy).collect();
            let strict = OpenOptions { accept_missing: false, ..OPTIONS };
            let looked = check(boxed(&disks), &strict, |_, _| ()).map(|_| ());
            let resized = resize(boxed(&disks), 3000, &strict, another_opening()).map(|_| ());
            for refused in [looked, resized, Err(refusal(&disks, &OPTIONS))] {
                let refused = refused.expect_err("one of them is a copy").to_string();
                let says = "device 0 and device 1 are both device 0 of the volume";
                assert!(refused.starts_with(says), "{refused}");
            }
            assert!(disks.iter().zip(&before).all(|(now, before)| now.holds_what(before)));
        }
    }
    // Of one that does not count, too: which of the two is to be filled?
    let mut world = world(2);
    let old = world.disks[1].copy();
    world.disks[1].kill();
    world.write_now(5);
    world.disks[1].revive();
    let disks = [world.disks[0].clone(), old, world.disks[1].clone()];
    let refused = refusal(&disks, &OPTIONS).to_string();
    assert!(refused.starts_with("device 1 and device 2 are both device 1 of the"), "{refused}");
}

/// A flush was done on both devices; then writes failed on one and on the other. Nothing will ever say that
/// the first one failed, for which the answer waited.
#[test]
fn a_flush_that_ends_when_nothing_can_be_written_any_more_is_answered() {
    let mut volume = open(boxed(&world(2).disks), &OPTIONS).expect("both are there").volume;
    let data = Part::whole(Pages::zeroed(1));
    volume.submit(1, Request::Flush);
    volume.submit(2, Request::Write { lba: 0, data, fua: false });
    volume.commit();
    let ios: Vec<Io> = std::iter::from_fn(|| volume.next_io()).collect();
    let id = |device: u8, is_flush: bool| {
        let is_it = |io: &&Io| io.device == device && matches!(io.op, Op::Flush) == is_flush;
        ios.iter().find(is_it).expect("each is asked for both").id
    };
    let failure = || Done::Write(Err(std::io::Error::other("broken")));
    volume.complete(id(1, true), Done::Flush(Ok(())));
    volume.complete(id(0, false), failure());
    volume.complete(id(1, false), failure());
    assert!(volume.failure().is_some());
    volume.complete(id(0, true), Done::Flush(Ok(())));
    let answers = std::iter::from_fn(|| volume.next_reply()).map(|reply| reply.tag);
    assert!(answers.collect::<Vec<_>>().contains(&1));
}
