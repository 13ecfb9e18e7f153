//! The volume under clients and disks that do what they like, from seeds.

mod world;

use wattio_volume::Geometry;
use world::{Plan, World};

fn plan(seed: u64) -> Plan {
    let small = seed.is_multiple_of(3);
    let geometry = if small {
        Geometry { blocks: 700, segments: 60, segment_blocks: 16 }
    } else {
        Geometry { blocks: 3000, segments: 64, segment_blocks: 64 }
    };
    Plan {
        seed,
        geometry,
        devices: 1,
        depth: 1 + (seed as usize * 7) % 24,
        used: 1.0,
        writes: 0.7,
        background: 1.0,
    }
}

/// After every loss of power each block holds what was durable, or a later write to it.
#[test]
fn nothing_durable_is_lost_when_the_power_fails() {
    for seed in 0..12 {
        let mut world = World::new(plan(seed));
        for round in 0..12 {
            (0..400).for_each(|_| world.step());
            if round % 4 == 3 { world.reopen() } else { world.crash() }
        }
        assert!(world.tally.replayed > 0 && world.tally.checkpoints > 0, "{:?}", world.tally);
    }
}
