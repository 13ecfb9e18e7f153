//! Checking a volume without changing it: it is opened, and everything is read.

use crate::device::{Access, Device, DeviceError, PATIENCE};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use thiserror::Error;
use wattio_pages::{BLOCK, Pages};
use wattio_volume::{
    Class, Counters, Disk, Done, Geometry, Io, Op, OpenError, OpenOptions, Recovery, VolumeId,
    open, read_superblock,
};

/// Why a volume is not whole, or cannot be looked at.
#[derive(Debug, Error)]
pub enum CheckError {
    /// A device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It cannot be opened.
    #[error("{0}")]
    Volume(#[from] OpenError),
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Its identity.
    pub volume: VolumeId,
    /// Its sizes.
    pub geometry: Geometry,
    /// What opening it takes.
    pub recovery: Recovery,
    /// Bytes of data that it holds.
    pub live_bytes: u64,
    /// Counts of reading it.
    pub counters: Counters,
    /// Damaged blocks that no device has as they should be.
    pub unrepairable_blocks: u64,
}

impl Found {
    /// Whether everything is as it should be.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.recovery.damaged_blocks == 0
            && self.counters.damaged_blocks == 0
            && self.counters.repaired_blocks == 0
            && self.unrepairable_blocks == 0
            && self.recovery.devices_out == 0
    }
}

/// Reads all of a volume that nobody serves. What would be written is kept in memory: nothing on
/// the devices changes.
///
/// # Errors
/// When it cannot be opened.
pub fn check(paths: &[PathBuf], options: &OpenOptions) -> Result<Found, CheckError> {
    let mut disks = Vec::new();
    let mut numbered = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let mut device = Device::open_within(path, Access::Look, PATIENCE)?;
        let superblock = read_superblock(&mut device, at)?;
        let disk = Shadow { device, written: Arc::default() };
        numbered.push((superblock.device, disk.clone()));
        disks.push(Box::new(disk) as Box<dyn Disk>);
    }
    let opened = open(disks, options)?;
    let mut volume = opened.volume;
    let mut disks: Vec<Option<Shadow>> = Vec::new();
    for (number, disk) in opened.disks.iter().enumerate() {
        let mut all = numbered.iter().filter(|_| disk.is_some());
        let found = all.find(|(at, _)| usize::from(*at) == number);
        disks.push(found.map(|(_, disk)| disk.clone()));
    }
    volume.begin_scrub(0);
    while volume.scrub_progress().is_some() && volume.failure().is_none() {
        volume.background(Class::Scrub);
        while let Some(Io { id, device, op }) = volume.next_io() {
            let done = carry_out(disks.get_mut(usize::from(device)).and_then(Option::as_mut), op);
            volume.complete(id, done);
        }
    }
    let identity = numbered.first().map(|(_, disk)| disk.clone());
    let volume_id = identity
        .map(|mut disk| read_superblock(&mut disk, 0).map(|superblock| superblock.volume))
        .transpose()?
        .unwrap_or_default();
    Ok(Found {
        volume: volume_id,
        geometry: *volume.geometry(),
        recovery: opened.recovery,
        live_bytes: volume.live_blocks() * BLOCK as u64,
        counters: volume.counters(),
        unrepairable_blocks: volume.scrub_tours().1,
    })
}

fn carry_out(disk: Option<&mut Shadow>, op: Op) -> Done {
    let gone = || io::Error::other("the device is not there");
    match (op, disk) {
        (Op::Read { offset, mut pages }, Some(disk)) => {
            Done::Read(disk.read_at(offset, &mut pages).map(|()| pages))
        }
        (Op::Read { .. }, None) => Done::Read(Err(gone())),
        (Op::Write { offset, parts }, Some(disk)) => {
            let mut at = offset;
            for part in parts {
                for block in part.blocks.clone() {
                    disk.keep(at, part.pages.block(block));
                    at += BLOCK as u64;
                }
            }
            Done::Write(Ok(()))
        }
        (Op::Write { .. }, None) => Done::Write(Err(gone())),
        (Op::Flush, disk) => Done::Flush(disk.map(drop).ok_or_else(gone)),
    }
}

/// A device that is only read; what is written lies over it.
#[derive(Clone, Debug)]
struct Shadow {
    device: Device,
    written: Arc<Mutex<HashMap<u64, Box<[u8; BLOCK]>>>>,
}

impl Shadow {
    fn keep(&self, offset: u64, block: &[u8; BLOCK]) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(offset, Box::new(*block));
    }
}

impl Disk for Shadow {
    fn bytes(&self) -> u64 {
        self.device.bytes()
    }

    fn read_at(&mut self, offset: u64, pages: &mut Pages) -> io::Result<()> {
        self.device.read_at(offset, pages)?;
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for at in 0..pages.len_blocks() {
            if let Some(block) = written.get(&(offset + (at * BLOCK) as u64)) {
                pages.block_mut(at).copy_from_slice(&block[..]);
            }
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, pages: &Pages) -> io::Result<()> {
        (0..pages.len_blocks())
            .for_each(|at| self.keep(offset + (at * BLOCK) as u64, pages.block(at)));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{Plan, make};

    const OPTIONS: OpenOptions =
        OpenOptions { map_bytes_max: 1 << 30, accept_missing: false, accept_loss: false };

    #[test]
    fn a_check_finds_what_is_there_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let devices = vec![path.clone()];
        let made = make(&Plan {
            devices: devices.clone(),
            size_bytes: Some(1 << 20),
            segment_bytes: 64 << 10,
            is_forced: false,
        });
        let before = std::fs::read(&path).unwrap();
        let found = check(&devices, &OPTIONS).unwrap();
        assert_eq!((found.volume, found.is_whole()), (made.unwrap().volume, true));
        assert_eq!(found.live_bytes, 0);
        assert!(std::fs::read(&path).unwrap() == before);
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let error = check(&devices, &OPTIONS).unwrap_err().to_string();
        assert!(error.contains("holds no volume"), "{error}");
    }
}
