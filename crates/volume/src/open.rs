//! Opening a volume: the newest superblock, its map, and the log from there on.

use crate::create::{PAGES_AT_ONCE, cannot, write_map, write_superblock};
use crate::disk::{Disk, read_blocks};
use crate::entry::{Entry, Span};
use crate::error::{DeviceName, OpenError};
use crate::format::{DeviceRole, OpeningId, Openings, Superblock, decode_page};
use crate::geometry::{Geometry, PAGE_ENTRIES};
use crate::identify::{Condition, Identified, identify};
use crate::map::Map;
use crate::replay::{Reader, Unsynced};
use crate::segments::Segments;
use crate::volume::Volume;
use wattio_pages::Pages;

/// How a volume is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Memory that the map may take.
    pub map_bytes_max: u64,
    /// Whether it is opened though a device is missing, or fails while it is opened: what is written
    /// then has one copy.
    pub accept_missing: bool,
    /// Whether it is opened though durable data is lost: blocks that cannot be known read as
    /// errors, and a log that is damaged ends where the damage begins.
    pub accept_loss: bool,
}

/// What was found when a volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether it had been closed properly.
    pub was_clean: bool,
    /// Records that were replayed.
    pub records: u64,
    /// Blocks of log that were read for that.
    pub blocks: u64,
    /// Blocks whose data is known to be lost or damaged.
    pub damaged_blocks: u64,
    /// Blocks that were copied to a device which did not have them as the other one had; after a
    /// check, those that an opening would copy.
    pub resynced_blocks: u64,
    /// Devices that the volume goes on without.
    pub devices_out: u8,
    /// Whether neither copy of a superblock could be read on a device: opening the volume writes them
    /// again.
    pub superblock_lost: bool,
    /// Whether the newest superblock was in second copies only: if the power failed while its successor
    /// was written, nothing is lost; if the first copies were damaged later, blocks that were written
    /// since may be, and then reading them fails.
    pub first_copies_lost: bool,
}

/// Disks that hold the volume as it should be, by number of device.
pub(crate) type InSync<'a> = Vec<(u8, &'a mut Box<dyn Disk>)>;

/// A volume that was opened.
pub struct Opened {
    /// The volume.
    pub volume: Volume,
    /// What was found.
    pub recovery: Recovery,
    /// The disks in the order of the volume's devices, `None` for one that is not there or does
    /// not count.
    pub disks: Disks,
    /// Which of the given disks each of the volume's devices is, whether or not it counts; `None`
    /// for one that is not there.
    pub places: Places,
}

/// Disks by number of device.
pub(crate) type Disks = Vec<Option<Box<dyn Disk>>>;

/// Places among the given disks, by number of device.
pub(crate) type Places = Vec<Option<usize>>;

/// Opens a volume, and recovers it if it was not closed. The disks are those of the volume, in any
/// order; `opening` is another one each time.
///
/// # Errors
/// When there is no volume, it is damaged, of another version, incomplete, or too large.
pub fn open(
    given: Vec<Box<dyn Disk>>,
    options: &OpenOptions,
    opening: OpeningId,
) -> Result<Opened, OpenError> {
    let found = look(given, options, true)?;
    let Inspected {
        mut superblock,
        mut map,
        mut segments,
        mut recovery,
        mut disks,
        places,
        condition,
        ..
    } = found;
    while let Err(error) = condition.mend(&mut in_sync(&mut disks)) {
        go_without(error, &mut superblock, &mut disks, options)?;
    }
    if !recovery.was_clean {
        superblock.area = 1 - superblock.area;
        while let Err(error) = write_map(&mut in_sync(&mut disks), &superblock, &map) {
            go_without(error, &mut superblock, &mut disks, options)?;
        }
        (0..superblock.geometry.map_pages()).for_each(|page| map.written(page, superblock.area));
    }
    for position in superblock.positions {
        segments.mark_open(position.segment, position.generation);
        segments.mark_open(position.next.0, position.next.1);
    }
    segments.settle();
    superblock.begin_epoch(opening);
    superblock.is_clean = false;
    superblock.is_in_both_slots = true;
    while let Err(error) = write_superblock(&mut in_sync(&mut disks), &superblock) {
        go_without(error, &mut superblock, &mut disks, options)?;
        // A device may have one of this number, which says that the one that failed counts.
        superblock.number += 1;
    }
    recovery.devices_out = devices_out(&superblock);
    let volume = Volume::new(superblock, map, segments);
    Ok(Opened { volume, recovery, disks, places })
}

/// What a volume would be if it were opened.
pub(crate) struct Inspected {
    /// The newest one, gone on to where the log ends.
    pub(crate) superblock: Superblock,
    pub(crate) map: Map,
    pub(crate) segments: Segments,
    pub(crate) recovery: Recovery,
    pub(crate) disks: Disks,
    pub(crate) places: Places,
    pub(crate) condition: Condition,
    /// What is to be copied to devices that a crash kept it from.
    pub(crate) unsynced: Unsynced,
}

/// Finds out what a volume would be if it were opened, and changes nothing.
pub(crate) fn inspect(
    given: Vec<Box<dyn Disk>>,
    options: &OpenOptions,
) -> Result<Inspected, OpenError> {
    look(given, options, false)
}

/// `repairs`: whether records that only one device has whole are copied to the other.
fn look(
    given: Vec<Box<dyn Disk>>,
    options: &OpenOptions,
    repairs: bool,
) -> Result<Inspected, OpenError> {
    let Identified { mut superblock, mut disks, places, condition } = identify(given, options)?;
    let needed = superblock.geometry.map_bytes();
    if needed > options.map_bytes_max {
        return Err(OpenError::Memory { needed, limit: options.map_bytes_max });
    }
    loop {
        match recover(&superblock, &condition, &mut disks, options, repairs) {
            Ok((superblock, map, segments, recovery, unsynced)) => {
                return Ok(Inspected {
                    superblock,
                    map,
                    segments,
                    recovery,
                    disks,
                    places,
                    condition,
                    unsynced,
                });
            }
            Err(error) => go_without(error, &mut superblock, &mut disks, options)?,
        }
    }
}

/// The volume as a superblock and the log after it have it: the superblock that says so, the map,
/// its segments, what was found, and what is to be copied.
fn recover(
    from: &Superblock,
    condition: &Condition,
    disks: &mut Disks,
    options: &OpenOptions,
    repairs: bool,
) -> Result<(Superblock, Map, Segments, Recovery, Unsynced), OpenError> {
    let geometry = from.geometry;
    let (was_clean, superblock_lost) = (from.is_clean && condition.is_last, condition.has_lost);
    let devices_out = devices_out(from);
    let mut recovery = Recovery {
        was_clean,
        devices_out,
        superblock_lost,
        first_copies_lost: condition.first_copies_lost,
        ..Recovery::default()
    };
    let mut in_sync = in_sync(disks);
    let mut map = load_map(&mut in_sync, from, &condition.without_newest, options, &mut recovery)?;
    let mut superblock = from.clone();
    // What a later opening wrote is of the next epoch; nothing of the one after that is there.
    if !condition.is_last {
        superblock.epoch += 1;
        superblock.openings = Openings::default();
    }
    let mut segments = Segments::new(&geometry, superblock.epoch + 1);
    count_live(&map, &geometry, &mut segments);
    let mut unsynced = Unsynced::default();
    if !was_clean {
        let reader = Reader::new(&mut in_sync, from, repairs);
        unsynced =
            reader.replay(&mut superblock, &mut map, &mut segments, options, &mut recovery)?;
    }
    Ok((superblock, map, segments, recovery, unsynced))
}

/// Goes on without a device that fails, if that was asked for and another one is left.
fn go_without(
    error: OpenError,
    superblock: &mut Superblock,
    disks: &mut Disks,
    options: &OpenOptions,
) -> Result<(), OpenError> {
    match error {
        OpenError::Device { device, .. } | OpenError::Old(device)
            if options.accept_missing && disks.iter().flatten().count() > 1 =>
        {
            disks[device.number] = None;
            superblock.roles[device.number] = DeviceRole::Out;
            Ok(())
        }
        error => Err(error),
    }
}

fn devices_out(superblock: &Superblock) -> u8 {
    superblock.roles.iter().filter(|&&role| role != DeviceRole::InSync).count() as u8
}

fn in_sync(disks: &mut Disks) -> InSync<'_> {
    let present = (0..).zip(disks);
    present.filter_map(|(device, disk)| Some((device, disk.as_mut()?))).collect()
}

/// Reads the map. `without_newest`: devices that lack this superblock. If a crash kept it from one, this
/// has the map nevertheless, for all devices had it before; a copy from an earlier time does not.
fn load_map(
    disks: &mut InSync<'_>,
    superblock: &Superblock,
    without_newest: &[u8],
    options: &OpenOptions,
    recovery: &mut Recovery,
) -> Result<Map, OpenError> {
    let geometry = superblock.geometry;
    let mut map = Map::new(geometry.blocks);
    let mut first = 0;
    while first < geometry.map_pages() {
        let end = (first + PAGES_AT_ONCE).min(geometry.map_pages());
        let mut copies = Vec::new();
        let mut failure = None;
        for (device, disk) in &mut *disks {
            let offset = geometry.page_offset(superblock.area, first);
            match read_blocks(&mut ***disk, offset, (end - first) as usize) {
                Ok(copy) => copies.push((*device, copy.pages)),
                Err(error) => failure = Some(cannot(*device, &***disk, "read")(error)),
            }
            // Another copy is needed only where this one is damaged.
            let is_whole = |pages: &Pages| {
                let decode =
                    |at: u64| decode_page(pages.block(at as usize), superblock.volume, first + at);
                (0..end - first).all(|at| decode(at).is_some())
            };
            let is_last = copies.last().is_some_and(|(_, pages)| is_whole(pages));
            if is_last && without_newest.is_empty() {
                break;
            }
        }
        let is_everywhere = failure.is_none();
        if let Some(failure) = failure.filter(|_| copies.is_empty()) {
            return Err(failure);
        }
        for page in first..end {
            let at = (page - first) as usize;
            let decode =
                |(_, copy): &(_, Pages)| decode_page(copy.block(at), superblock.volume, page);
            let found: Vec<Option<Vec<Entry>>> = copies.iter().map(decode).collect();
            let (older, newest): (Vec<_>, Vec<_>) = copies
                .iter()
                .map(|&(device, _)| device)
                .zip(&found)
                .filter_map(|(device, entries)| Some((device, entries.as_ref()?)))
                .partition(|(device, _)| without_newest.contains(device));
            let differs =
                |entries: &Vec<Entry>| newest.iter().any(|(_, newest)| *newest != entries);
            if let Some((old, _)) = older.iter().find(|(_, entries)| differs(entries)) {
                return Err(OpenError::Old(name_of(disks, *old)));
            }
            let is_whole = is_everywhere && found.iter().all(Option::is_some);
            let entries = found.into_iter().flatten().next();
            if let Some(entries) = entries.filter(|entries| are_inside(entries, &geometry)) {
                map.load(page, superblock.area, &entries);
                if !is_whole {
                    map.damaged(page, superblock.area);
                }
            } else {
                let blocks = page * PAGE_ENTRIES..((page + 1) * PAGE_ENTRIES).min(geometry.blocks);
                if !options.accept_loss {
                    let (first, last) = (blocks.start, blocks.end - 1);
                    return Err(OpenError::DamagedMap { first, last });
                }
                recovery.damaged_blocks += blocks.end - blocks.start;
                blocks.for_each(|lba| {
                    map.set(lba, Entry::LOST);
                });
            }
        }
        first = end;
    }
    Ok(map)
}

/// Whether every place that is named exists.
fn are_inside(entries: &[Entry], geometry: &Geometry) -> bool {
    entries.iter().filter_map(|entry| entry.span()).all(|Span { first, blocks }| {
        first.segment < geometry.segments && first.block + blocks <= geometry.segment_blocks
    })
}

fn count_live(map: &Map, geometry: &Geometry, segments: &mut Segments) {
    for page in 0..geometry.map_pages() {
        map.entries(page).iter().for_each(|&entry| segments.gain(entry));
    }
}

fn name_of(disks: &InSync<'_>, device: u8) -> DeviceName {
    let disk = disks.iter().find(|(number, _)| *number == device);
    let name = disk.and_then(|(_, disk)| disk.name());
    DeviceName { number: device.into(), name }
}
