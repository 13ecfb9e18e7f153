//! Opening volumes on simulated disks.

use super::disk::SimDisk;
use std::sync::atomic::{AtomicU64, Ordering};
use wattio_volume::{Disk, OpenError, OpenOptions, Opened, OpeningId, Recovery, Volume};

pub const OPTIONS: OpenOptions =
    OpenOptions { map_bytes_max: 1 << 30, accept_missing: true, accept_loss: false };

pub fn boxed(disks: &[SimDisk]) -> Vec<Box<dyn Disk>> {
    disks.iter().map(|disk| Box::new(disk.clone()) as Box<dyn Disk>).collect()
}

/// Opens a volume as [`wattio_volume::open`] does, each time another opening.
pub fn open(given: Vec<Box<dyn Disk>>, options: &OpenOptions) -> Result<Opened, OpenError> {
    wattio_volume::open(given, options, another_opening())
}

/// One that nothing else has.
pub fn another_opening() -> OpeningId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    OpeningId(NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes())
}

pub fn open_on(disks: &[SimDisk]) -> Result<(Volume, Recovery), OpenError> {
    let alive: Vec<_> = disks.iter().filter(|disk| !disk.is_dead()).cloned().collect();
    // A loss of power, which disks tell of one after another, costs no device.
    let options = OpenOptions { accept_missing: alive.len() < disks.len(), ..OPTIONS };
    open(boxed(&alive), &options).map(|opened| (opened.volume, opened.recovery))
}

/// Why they are not opened.
pub fn refusal(disks: &[SimDisk], options: &OpenOptions) -> OpenError {
    match open(boxed(disks), options) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}
