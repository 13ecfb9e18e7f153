//! What garbage collection costs: blocks written to the device for each block that clients write,
//! by how full the volume is, for writes at random over all of it and for writes of which nine in
//! ten concern a tenth of it.
//!
//! ```text
//! cargo run --release -p wattio-volume --example amplification
//! ```

#[path = "../tests/memory/mod.rs"]
mod memory;

use memory::{Memory, complete, new_volume};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wattio_pages::Pages;
use wattio_volume::{Class, Geometry, Part, Request, Volume};

/// Segments of 4 MiB, for a volume that fits in memory.
const SEGMENT_BLOCKS: u32 = 1024;
const SEGMENTS: u32 = 192;
/// How many times the clients' blocks are written before anything is counted, and while it is.
const ROUNDS: u64 = 3;

fn work(volume: &mut Volume, disk: &mut Memory) {
    loop {
        let mut is_idle = true;
        while let Some(io) = volume.next_io() {
            is_idle = false;
            complete(volume, disk, io);
        }
        let worked = [Class::Collect, Class::Checkpoint].map(|class| volume.background(class));
        if is_idle && !worked.contains(&true) {
            return;
        }
    }
}

/// Blocks written for each block of clients, on a volume whose devices are `full`.
fn amplification(full: f64, hot: bool) -> Result<f64, Box<dyn std::error::Error>> {
    let segments =
        Geometry { blocks: 1, blocks_max: 1, segments: SEGMENTS, segment_blocks: SEGMENT_BLOCKS };
    let all = f64::from(SEGMENTS) * f64::from(SEGMENT_BLOCKS);
    let blocks = (all * full) as u64;
    let geometry = Geometry { blocks, blocks_max: blocks, ..segments };
    let (mut volume, mut disk) = new_volume(geometry);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut before = volume.counters();
    for written in 0..blocks * 2 * ROUNDS {
        let lba = match written {
            first if first < blocks => first,
            _ if hot && random.random_bool(0.9) => random.random_range(0..blocks / 10),
            _ => random.random_range(0..blocks),
        };
        let data = Part::whole(Pages::zeroed(1));
        volume.submit(written, Request::Write { lba, data, fua: false });
        // As many as a record holds, as under a heavy load: headers are not the question here.
        if written % 128 == 127 {
            volume.commit();
            work(&mut volume, &mut disk);
            while let Some(reply) = volume.next_reply() {
                reply.result.map_err(|fault| format!("{:?} at {full}", fault))?;
            }
        }
        if written == blocks * ROUNDS {
            before = volume.counters();
        }
    }
    let after = volume.counters();
    let clients = (after.client_blocks - before.client_blocks) as f64;
    Ok(1.0 + (after.moved_blocks - before.moved_blocks) as f64 / clients)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("full   at random   nine in ten in a tenth");
    for full in [0.5, 0.7, 0.8, 0.85, 0.9] {
        let (uniform, hot) = (amplification(full, false)?, amplification(full, true)?);
        println!("{:3.0} %  {uniform:9.2}   {hot:22.2}", full * 100.0);
    }
    Ok(())
}
