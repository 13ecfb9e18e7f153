//! Volumes whose data is compressed: what they save, and what they must not lose.

mod world;

use wattio_pages::{BLOCK, Pages};
use wattio_volume::{Class, Compression, Disk, Fault, Geometry, Part, Request, read_superblock};
use world::{Plan, SMALL as GEOMETRY, World};

fn world(compression: Compression, devices: usize, geometry: Geometry) -> World {
    World::new(Plan { geometry, compression, ..Plan::small(devices) })
}

/// Blocks that repeat, or none that does.
fn contents(blocks: u64, is_noise: bool) -> Part {
    let mut pages = Pages::zeroed(blocks as usize);
    let mut word = 1_u64;
    for chunk in pages.as_bytes_mut().chunks_exact_mut(8) {
        if is_noise {
            word = word.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        }
        chunk.copy_from_slice(&word.rotate_left(32).to_le_bytes());
    }
    Part::whole(pages)
}

/// Asks for something while all background work goes on.
fn ask(world: &mut World, request: Request) -> Result<(), Fault> {
    world.volume.submit(0, request);
    for _ in 0..100_000 {
        if let Some(reply) = world.volume.next_reply() {
            return reply.result.map(|_| ());
        }
        for class in [Class::Collect, Class::Checkpoint] {
            world.volume.background(class);
        }
        world.complete_one();
    }
    panic!("wedged: {:?}", world.volume.counters());
}

/// Writes all blocks, four at a time; the number of writes that there was no space for.
fn write_all(world: &mut World, is_noise: bool) -> u64 {
    let mut refused = 0;
    for lba in (0..world.plan.geometry.blocks - 3).step_by(4) {
        let data = contents(4, is_noise);
        match ask(world, Request::Write { lba, data, fua: false }) {
            Ok(_) => {}
            Err(Fault::NoSpace) => refused += 1,
            Err(fault) => panic!("block {lba}: {fault:?}"),
        }
    }
    refused
}

#[test]
fn the_format_says_whether_a_volume_is_compressed() {
    for (compression, format) in [(Compression::None, 1_u32), (Compression::Lz4, 2)] {
        let world = world(compression, 1, GEOMETRY);
        let mut disk = world.disks[0].clone();
        assert_eq!(read_superblock(&mut disk, 0).map(|it| it.compression).ok(), Some(compression));
        let mut page = Pages::zeroed(1);
        disk.read_at(Geometry::superblock_offsets(0)[0], &mut page).expect("a healthy disk");
        assert_eq!(page.as_bytes()[8..12], format.to_le_bytes(), "who knows 1 only refuses 2");
    }
}

/// A block that becomes smaller lies in the block of its record's header.
#[test]
fn a_small_block_that_is_written_alone_costs_one_block_of_the_device() {
    for (compression, is_noise, expected) in
        [(Compression::None, false, 2), (Compression::Lz4, true, 2), (Compression::Lz4, false, 1)]
    {
        let mut world = world(compression, 1, GEOMETRY);
        for lba in 0..10 {
            let data = contents(1, is_noise);
            ask(&mut world, Request::Write { lba, data, fua: true }).expect("it is written");
        }
        let counters = world.volume.counters();
        assert_eq!(counters.header_blocks + counters.client_data_blocks, 10 * expected);
        assert_eq!(counters.client_blocks, 10);
        let stored = counters.stored_bytes;
        assert_eq!(stored < 10 * BLOCK as u64, expected == 1, "{stored} bytes");
        assert_eq!(world.volume.stored_bytes(), stored);
    }
}

/// A volume that promises more than its device holds: what is compressed fits, and when it is
/// overwritten with what cannot be, there is an end, and no wedge.
#[test]
fn more_fits_and_what_grows_is_refused_in_time() {
    let mut geometry = GEOMETRY;
    geometry.blocks = geometry.capacity_blocks() * 5 / 4;
    assert!(write_all(&mut world(Compression::None, 1, geometry), false) > 0);
    let mut world = world(Compression::Lz4, 1, geometry);
    assert_eq!(write_all(&mut world, false), 0);
    let refused = write_all(&mut world, true);
    assert!(refused > 0, "noise takes its space");
    assert_eq!(world.volume.counters().refused_writes, refused);
    assert!(refused * 4 < geometry.blocks, "and most of it fits");
    assert_eq!(write_all(&mut world, false), 0, "what becomes smaller always fits");
}

/// Two blocks in one block of the devices, one of them damaged here and one there: whoever reads one
/// of them must not write its copy over the only good one of the other.
#[test]
fn a_repair_does_not_spread_the_damage_of_its_neighbours() {
    let readable = |lbas: &mut dyn Iterator<Item = u64>| {
        let mut world = world(Compression::Lz4, 2, GEOMETRY);
        let mut disk = world.disks[0].clone();
        let first = read_superblock(&mut disk, 0).expect("a volume").positions[0];
        world.write_run_now(0, 24);
        world.reopen();
        world.may_fail = true;
        for block in 1..8 {
            let offset = GEOMETRY.block_offset(first.segment, first.block + block);
            for (disk, bytes) in world.disks.iter().zip([0..BLOCK / 2, BLOCK / 2..BLOCK]) {
                let (mut disk, mut page) = (disk.clone(), Pages::zeroed(1));
                disk.read_at(offset, &mut page).expect("a healthy disk");
                page.as_bytes_mut()[bytes].iter_mut().for_each(|byte| *byte ^= 0x55);
                disk.write_at(offset, &page).and_then(|()| disk.flush()).expect("a healthy disk");
            }
        }
        let mut found: Vec<u64> = lbas
            .filter(|&lba| {
                let is_read = world.read_now(lba, 1).is_ok();
                (0..200).for_each(|_| {
                    world.volume.background(Class::Scrub);
                    world.complete_one();
                });
                is_read
            })
            .collect();
        found.sort_unstable();
        found
    };
    let (up, down) = (readable(&mut (0..24)), readable(&mut (0..24).rev()));
    assert_eq!(up, down);
    assert!((10..24).contains(&up.len()), "{up:?}");
}

/// Everything rots on one of two devices but the headers of records, and garbage collection, which
/// does not look into what it moves, moves nothing of that.
#[test]
fn garbage_collection_moves_no_damaged_block() {
    let mut geometry = GEOMETRY;
    geometry.blocks = geometry.capacity_blocks() * 5 / 4;
    let mut world = world(Compression::Lz4, 2, geometry);
    (0..geometry.blocks - 16).step_by(16).for_each(|lba| world.write_run_now(lba, 16));
    world.reopen();
    let mut disk = world.disks[0].clone();
    for segment in 0..geometry.segments {
        for block in 0..geometry.segment_blocks {
            let offset = geometry.block_offset(segment, block);
            let mut page = Pages::zeroed(1);
            disk.read_at(offset, &mut page).expect("a healthy disk");
            if !page.as_bytes().starts_with(b"WREC") {
                page.as_bytes_mut().iter_mut().for_each(|byte| *byte ^= 0x55);
                disk.write_at(offset, &page).expect("a healthy disk");
            }
        }
    }
    disk.flush().expect("a healthy disk");
    // Every other block is overwritten, so that what is left has to be moved.
    for lba in (0..geometry.blocks - 16).step_by(2) {
        let data = contents(1, false);
        ask(&mut world, Request::Write { lba, data, fua: false }).expect("there is space");
    }
    assert!(world.volume.counters().collected_segments > 10);
    for lba in (1..geometry.blocks - 16).step_by(2) {
        assert!(world.read_now(lba, 1).is_ok(), "block {lba}");
    }
}
