//! Looking through a volume that nobody serves, and changing nothing.

use crate::disk::Disk;
use crate::entry::{Entry, Place, State};
use crate::error::OpenError;
use crate::open::{OpenOptions, Recovery, inspect};
use wattio_pages::Pages;

/// Blocks that are read at once.
const RUN_BLOCKS: usize = 256;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What a recovery would do.
    pub recovery: Recovery,
    /// Blocks with data.
    pub live_blocks: u64,
    /// Blocks of the volume whose data is damaged, or cannot be read, on every device: the first
    /// thousand.
    pub damaged: Vec<u64>,
    /// How many there are.
    pub damaged_blocks: u64,
    /// For each device that was there: blocks that are damaged or cannot be read on it.
    pub damaged_on: Vec<(u8, u64)>,
}

/// Reads all data of a volume and holds it against its checksums. `progress` is told how many
/// blocks of how many were read.
///
/// # Errors
/// As for [`crate::open`].
pub fn check(
    given: Vec<Box<dyn Disk>>,
    options: &OpenOptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<CheckReport, OpenError> {
    let mut found = inspect(given, options)?;
    let geometry = found.superblock.geometry;
    let mut live: Vec<(Place, Entry, u64)> = Vec::new();
    let mut report = CheckReport { recovery: found.recovery, ..CheckReport::default() };
    for (lba, entry) in found.map.present(0..geometry.blocks) {
        match entry.state() {
            State::Data(place) => live.push((place, entry, lba)),
            State::Lost => report.damage(lba),
            State::Hole | State::Zeros => {}
        }
    }
    live.sort_unstable_by_key(|(place, ..)| (place.segment, place.block));
    report.live_blocks = live.len() as u64;
    let disks = found.disks.iter_mut().enumerate();
    let mut disks: Vec<_> =
        disks.filter_map(|(at, disk)| Some((at as u8, disk.as_mut()?))).collect();
    report.damaged_on = disks.iter().map(|(device, _)| (*device, 0)).collect();
    let mut done = 0;
    for run in live.chunk_by(|a, b| a.0.plus(1) == b.0).flat_map(|run| run.chunks(RUN_BLOCKS)) {
        let mut good = vec![false; run.len()];
        let offset = geometry.block_offset(run[0].0.segment, run[0].0.block);
        for ((_, disk), (_, damaged)) in disks.iter_mut().zip(&mut report.damaged_on) {
            let read = read_run(&mut ***disk, offset, run.len());
            for ((page, (_, entry, _)), good) in read.iter().zip(run).zip(&mut good) {
                let is_good =
                    page.as_ref().is_some_and(|page| entry.matches(crc32c::crc32c(page.block(0))));
                *good |= is_good;
                *damaged += u64::from(!is_good);
            }
        }
        for (_, (.., lba)) in good.iter().zip(run).filter(|(good, _)| !**good) {
            report.damage(*lba);
        }
        done += run.len() as u64;
        progress(done, report.live_blocks);
    }
    Ok(report)
}

/// Each block of a run; `None` for one that cannot be read.
fn read_run(disk: &mut dyn Disk, offset: u64, blocks: usize) -> Vec<Option<Pages>> {
    let mut pages = Pages::zeroed(blocks);
    let whole = disk.read_at(offset, &mut pages).is_ok();
    let mut block = |at: usize| {
        if whole {
            return Some(Pages::from_slice(pages.block(at)));
        }
        let mut page = Pages::zeroed(1);
        disk.read_at(offset + (at * wattio_pages::BLOCK) as u64, &mut page).ok().map(|()| page)
    };
    (0..blocks).map(&mut block).collect()
}

impl CheckReport {
    fn damage(&mut self, lba: u64) {
        self.damaged_blocks += 1;
        if self.damaged.len() < 1000 {
            self.damaged.push(lba);
        }
    }
}
