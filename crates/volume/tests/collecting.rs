//! Garbage collection while the devices take their time.

#![allow(clippy::unwrap_used, reason = "a volume that cannot go on has failed its test")]

mod memory;

use memory::{complete, new_volume};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;
use wattio_pages::Pages;
use wattio_volume::{Class, Geometry, Op, Part, Request};

const BLOCKS: u64 = 2048;
const WRITE_BLOCKS: u64 = 4;
/// Slices of background work that a write takes.
const WRITE_SLICES: u64 = 20;
/// Slices after which a request that is not answered never will be.
const SLICES_MAX: u64 = 20_000;

/// A full volume of small segments was collected for ever: a segment whose blocks were on their way
/// was collected again, and what was moved twice took the space that was gained.
#[test]
fn what_is_being_moved_is_not_moved_again() {
    let geometry = Geometry::for_blocks(BLOCKS, 64);
    let (mut volume, mut disk) = new_volume(geometry);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut writes = VecDeque::new();
    let mut slice = 0_u64;
    for number in 0..3 * BLOCKS / WRITE_BLOCKS {
        let lba = match number * WRITE_BLOCKS {
            first if first < BLOCKS => first,
            _ => random.random_range(0..BLOCKS / WRITE_BLOCKS) * WRITE_BLOCKS,
        };
        let data = Part::whole(Pages::zeroed(WRITE_BLOCKS as usize));
        volume.submit(number, Request::Write { lba, data, fua: false });
        volume.commit();
        let until = slice + SLICES_MAX;
        while volume.next_reply().map(|reply| reply.result.unwrap()).is_none() {
            assert!(slice < until, "write {number} is not answered: {:?}", volume.counters());
            slice += 1;
            while let Some(io) = volume.next_io() {
                match io.op {
                    Op::Write { .. } => writes.push_back((slice + WRITE_SLICES, io)),
                    _ => complete(&mut volume, &mut disk, io),
                }
            }
            while writes.front().is_some_and(|&(at, _)| at <= slice) {
                let (_, io) = writes.pop_front().unwrap();
                complete(&mut volume, &mut disk, io);
            }
            for class in [Class::Collect, Class::Checkpoint] {
                volume.background(class);
            }
        }
    }
    let counters = volume.counters();
    assert!(counters.moved_blocks < 10 * counters.client_blocks, "{counters:?}");
}
