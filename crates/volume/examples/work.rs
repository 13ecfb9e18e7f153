//! What a volume itself takes of a core for a block, from a request to its answer, with a device that
//! takes nothing: map, log, segments, checksums, and the list of what devices are to do. What is left of
//! a request's cost in the target is the protocol and the kernel's.
//!
//! ```text
//! cargo run --release -p wattio-volume --example work
//! ```

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::error::Error;
use std::io;
use std::time::Instant;
use wattio_pages::{BLOCK, Pages};
use wattio_volume::{
    Compression, Disk, Done, Geometry, Op, OpenOptions, OpeningId, Part, Request, SEGMENT_BLOCKS,
    Volume, VolumeId, create, open,
};

/// Blocks of the volume: 1 GiB.
const BLOCKS: u64 = 1 << 18;
/// Requests that are timed.
const REQUESTS: u64 = 200_000;
/// Requests that come together.
const BATCHES: [u64; 2] = [1, 32];

/// A device that holds a superblock and zeros.
struct Hollow(Vec<u8>, u64);

impl Disk for Hollow {
    fn bytes(&self) -> u64 {
        self.1
    }

    fn read_at(&mut self, offset: u64, pages: &mut Pages) -> io::Result<()> {
        let from = offset as usize;
        let kept = self.0.get(from..from + pages.len_bytes());
        pages.as_bytes_mut().fill(0);
        kept.map_or(Ok(()), |kept| {
            pages.as_bytes_mut().copy_from_slice(kept);
            Ok(())
        })
    }

    fn write_at(&mut self, offset: u64, pages: &Pages) -> io::Result<()> {
        let from = offset as usize;
        if let Some(kept) = self.0.get_mut(from..from + pages.len_bytes()) {
            kept.copy_from_slice(pages.as_bytes());
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Every read is of what was written: the same block everywhere.
fn complete_all(volume: &mut Volume, block: &Pages) {
    while let Some(io) = volume.next_io() {
        let done = match io.op {
            Op::Read { mut pages, .. } => {
                for at in 0..pages.len_blocks() {
                    pages.block_mut(at).copy_from_slice(block.block(0));
                }
                Done::Read(Ok(pages))
            }
            Op::Write { .. } => Done::Write(Ok(())),
            Op::Flush => Done::Flush(Ok(())),
        };
        volume.complete(io.id, done);
    }
}

/// Microseconds for each request, of so many at once.
fn time_us(is_write: bool, batch: u64) -> Result<f64, Box<dyn Error>> {
    let geometry = Geometry::for_blocks(BLOCKS * 4, SEGMENT_BLOCKS);
    let end = geometry.segment_offset(0) as usize;
    let mut disks = [Box::new(Hollow(vec![0; end], geometry.device_bytes())) as Box<dyn Disk>];
    create(&mut disks, VolumeId([1; 16]), geometry, Compression::None)?;
    let [disk] = disks;
    let options = OpenOptions { map_bytes_max: 1 << 30, accept_missing: false, accept_loss: false };
    let mut volume = open(vec![disk], &options, OpeningId([1; 8]))?.volume;
    let mut block = Pages::single();
    block.as_bytes_mut().fill(0x5a);
    let part = Part::whole(Pages::from_slice(block.as_bytes()));
    let write = |lba| Request::Write { lba, data: part.clone(), fua: false };
    for lba in 0..BLOCKS {
        volume.submit(lba, write(lba));
        volume.commit();
        complete_all(&mut volume, &block);
        while volume.next_reply().is_some() {}
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let began = Instant::now();
    for first in (0..REQUESTS).step_by(batch as usize) {
        for tag in first..first + batch {
            let lba = random.random_range(0..BLOCKS);
            let read = Request::Read { lba, blocks: 1 };
            volume.submit(tag, if is_write { write(lba) } else { read });
        }
        volume.commit();
        complete_all(&mut volume, &block);
        while let Some(reply) = volume.next_reply() {
            for piece in reply.result.map_err(|fault| format!("{fault:?}"))? {
                volume.recycle(piece);
            }
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / REQUESTS as f64)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("blocks of {BLOCK} bytes   at once   us each");
    for (name, is_write) in [("read", false), ("write", true)] {
        for batch in BATCHES {
            println!("{name:20} {batch:10}   {:7.2}", time_us(is_write, batch)?);
        }
    }
    Ok(())
}
