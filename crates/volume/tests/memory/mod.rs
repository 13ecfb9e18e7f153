//! A volume on a disk in memory.

#![allow(dead_code, reason = "each test uses some of it")]

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use wattio_pages::{BLOCK, Pages};
use wattio_volume::{
    Compression, Disk, Done, Geometry, Io, Op, OpenOptions, OpeningId, Part, Recovery, Volume,
    VolumeId, create, open,
};

/// A disk in memory.
#[derive(Clone)]
pub struct Memory(Rc<RefCell<Vec<u8>>>);

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

/// Does what was asked of the disk, and says so.
pub fn complete(volume: &mut Volume, disk: &mut Memory, io: Io) {
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

/// A new volume, and its disk.
pub fn new_volume(geometry: Geometry) -> (Volume, Memory) {
    let disk = Memory(Rc::new(RefCell::new(vec![0; geometry.device_bytes() as usize])));
    let mut devices = [Box::new(disk.clone()) as Box<dyn Disk>];
    create(&mut devices, VolumeId([1; 16]), geometry, Compression::None)
        .expect("a disk in memory is written");
    (open(vec![Box::new(disk.clone())], &OPTIONS, OPENING).expect("it is read").volume, disk)
}

const OPENING: OpeningId = OpeningId([1; 8]);
const OPTIONS: OpenOptions =
    OpenOptions { map_bytes_max: 1 << 30, accept_missing: false, accept_loss: false };

impl Memory {
    /// What is found when a copy of it is opened.
    pub fn recovery(&self) -> Recovery {
        let copy = Self(Rc::new(RefCell::new(self.0.borrow().clone())));
        open(vec![Box::new(copy)], &OPTIONS, OPENING).expect("it is read").recovery
    }
}
