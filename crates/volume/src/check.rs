//! Checks a volume that is not being served, without changing it.

use crate::compression::{SECTOR, is_sound};
use crate::disk::Disk;
use crate::entry::{Entry, Span, State};
use crate::error::OpenError;
use crate::open::{OpenOptions, Recovery, inspect};
use std::borrow::Cow;
use wattio_pages::{BLOCK, Pages};

/// Blocks that are read at once.
const RUN_BLOCKS: usize = 256;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What a recovery would do.
    pub recovery: Recovery,
    /// Blocks with data.
    pub live_blocks: u64,
    /// Bytes that their data takes on a device.
    pub stored_bytes: u64,
    /// Blocks of the volume whose data is damaged, or cannot be read, on every device: the first
    /// thousand.
    pub damaged: Vec<u64>,
    /// How many there are.
    pub damaged_blocks: u64,
    /// How many of them were lost before, and are known as such.
    pub lost_blocks: u64,
    /// For each of the given disks that counts, by its place among them: blocks that are damaged or
    /// cannot be read on it. Those that only a crash kept from it are not among them: opening the
    /// volume copies them.
    pub damaged_on: Vec<(usize, u64)>,
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
    let mut live: Vec<(Span, Entry, u64)> = Vec::new();
    let mut report = CheckReport { recovery: found.recovery, ..CheckReport::default() };
    for (lba, entry) in found.map.present(0..geometry.blocks) {
        match entry.state() {
            State::Lost => {
                report.damage(lba);
                report.lost_blocks += 1;
            }
            _ => live.extend(entry.span().map(|span| (span, entry, lba))),
        }
    }
    live.sort_unstable_by_key(|(span, entry, _)| {
        (span.first.segment, span.first.block, entry.place().map(|place| place.sector))
    });
    report.live_blocks = live.len() as u64;
    report.stored_bytes =
        live.iter().map(|(_, entry, _)| u64::from(entry.sectors())).sum::<u64>() * SECTOR as u64;
    let disks = found.disks.iter_mut().enumerate();
    let mut disks: Vec<_> =
        disks.filter_map(|(at, disk)| Some((at as u8, disk.as_mut()?))).collect();
    let place = |device: u8| found.places[usize::from(device)].unwrap_or(device.into());
    report.damaged_on = disks.iter().map(|(device, _)| (place(*device), 0)).collect();
    let mut done = 0;
    for run in live.chunk_by(|a, b| is_next(a.0, b.0)).flat_map(|run| run.chunks(RUN_BLOCKS)) {
        let mut good = vec![false; run.len()];
        let (first, last) = (run[0].0.first, run[run.len() - 1].0);
        let offset = geometry.block_offset(first.segment, first.block);
        let blocks = (last.first.block + last.blocks - first.block) as usize;
        for ((device, disk), (_, damaged)) in disks.iter_mut().zip(&mut report.damaged_on) {
            let read = read_run(&mut ***disk, offset, blocks);
            for ((span, entry, _), good) in run.iter().zip(&mut good) {
                let from = (span.first.block - first.block) as usize;
                let is_good = together(&read[from..from + span.blocks as usize])
                    .is_some_and(|bytes| is_sound(*entry, &bytes));
                *good |= is_good;
                let is_to_come = || found.unsynced.has(*device, span.first);
                *damaged += u64::from(!is_good && !is_to_come());
            }
        }
        for (_, (.., lba)) in good.iter().zip(run).filter(|(good, _)| !**good) {
            report.damage(*lba);
        }
        done += run.len() as u64;
        progress(done, report.live_blocks);
    }
    report.damaged_on.sort_unstable();
    Ok(report)
}

/// Whether nothing lies between the blocks of a device that two blocks of the volume lie in.
fn is_next(a: Span, b: Span) -> bool {
    a.first.segment == b.first.segment && b.first.block <= a.first.block + a.blocks
}

/// One or two blocks as one; `None` if one of them could not be read.
fn together(pages: &[Option<Pages>]) -> Option<Cow<'_, [u8]>> {
    match pages {
        [Some(page)] => Some(Cow::Borrowed(page.as_bytes())),
        pages => {
            let mut bytes = Vec::with_capacity(pages.len() * BLOCK);
            for page in pages {
                bytes.extend_from_slice(page.as_ref()?.as_bytes());
            }
            Some(Cow::Owned(bytes))
        }
    }
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
