//! Garbage collection while the devices take their time.

#![allow(clippy::unwrap_used, reason = "a volume that cannot go on has failed its test")]

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use wattio_pages::{BLOCK, Pages};
use wattio_volume::{
    Class, Compression, Disk, Done, Geometry, Io, Op, OpenOptions, Part, Request, Volume, VolumeId,
    create, open,
};

/// A disk in memory.
#[derive(Clone)]
struct Memory(Rc<RefCell<Vec<u8>>>);

impl Disk for Memory {
    fn bytes(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn read_at(&mut self, offset: u64, pages: &mut Pages) -> io::Result<()> {
        let range = offset as usize..offset as usize + pages.len_bytes();
        pages.as_bytes_mut().copy_from_slice(&self.0.borrow()[range]);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, pages: &Pages) -> io::Result<()> {
        let range = offset as usize..offset as usize + pages.len_bytes();
        self.0.borrow_mut()[range].copy_from_slice(pages.as_bytes());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn complete(volume: &mut Volume, disk: &mut Memory, io: Io) {
    let done = match io.op {
        Op::Read { offset, mut pages } => {
            Done::Read(disk.read_at(offset, &mut pages).map(|()| pages))
        }
        Op::Write { mut offset, parts } => {
            let mut write = |part: &Part| {
                let bytes = part.blocks.start * BLOCK..part.blocks.end * BLOCK;
                let pages = Pages::from_slice(&part.pages.as_bytes()[bytes]);
                let result = disk.write_at(offset, &pages);
                offset += pages.len_bytes() as u64;
                result
            };
            Done::Write(parts.iter().try_for_each(&mut write))
        }
        Op::Flush => Done::Flush(Ok(())),
    };
    volume.complete(io.id, done);
}

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
    let mut disk = Memory(Rc::new(RefCell::new(vec![0; geometry.device_bytes() as usize])));
    let mut devices = [Box::new(disk.clone()) as Box<dyn Disk>];
    create(&mut devices, VolumeId([1; 16]), geometry, Compression::None).unwrap();
    let options = OpenOptions { map_bytes_max: 1 << 30, accept_missing: false, accept_loss: false };
    let mut volume = open(vec![Box::new(disk.clone())], &options).unwrap().volume;
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
