//! Makes a volume, and writes its checkpoint while nothing else is going on.

use crate::compression::Compression;
use crate::disk::Disk;
use crate::error::{DeviceName, OpenError};
use crate::format::{DeviceRole, Openings, Position, Superblock, VolumeId, encode_page};
use crate::geometry::Geometry;
use crate::map::Map;
use wattio_pages::Pages;

/// Pages of the map that are read or written at once.
pub(crate) const PAGES_AT_ONCE: u64 = 256;

/// Makes a volume on one device, or on two that mirror each other. What is on them is lost.
///
/// # Errors
/// When the sizes do not go together, a device is too small, or cannot be written.
pub fn create(
    disks: &mut [Box<dyn Disk>],
    volume: VolumeId,
    geometry: Geometry,
    compression: Compression,
) -> Result<(), OpenError> {
    geometry.check().map_err(OpenError::Geometry)?;
    for (device, disk) in disks.iter().enumerate() {
        let (bytes, needed) = (disk.bytes(), geometry.device_bytes());
        if bytes < needed {
            let device = DeviceName::of(device, &**disk);
            return Err(OpenError::TooSmall { device, bytes, needed });
        }
    }
    let position = |segment: u32| Position {
        segment,
        generation: u64::from(segment) + 1,
        block: 0,
        next: (segment + 2, u64::from(segment) + 3),
    };
    let superblock = Superblock {
        volume,
        compression,
        geometry,
        number: 0,
        epoch: 0,
        device: 0,
        roles: vec![DeviceRole::InSync; disks.len()],
        is_clean: true,
        area: 0,
        replay_from: 0,
        replay_until: 0,
        positions: [position(0), position(1)],
        is_in_both_slots: true,
        openings: Openings::default(),
    };
    let mut disks: Vec<(u8, &mut Box<dyn Disk>)> = (0..).zip(disks).collect();
    // What may look like a superblock of an earlier volume goes first.
    for (device, disk) in &mut disks {
        for offset in (0..2).flat_map(Geometry::superblock_offsets) {
            disk.write_at(offset, &Pages::zeroed(1))
                .map_err(cannot(*device, &***disk, "written"))?;
        }
    }
    flush(&mut disks)?;
    write_map(&mut disks, &superblock, &Map::new(geometry.blocks))?;
    write_superblock(&mut disks, &superblock)
}

/// Writes the whole map into the area that the superblock names.
pub(crate) fn write_map(
    disks: &mut [(u8, &mut Box<dyn Disk>)],
    superblock: &Superblock,
    map: &Map,
) -> Result<(), OpenError> {
    let geometry = superblock.geometry;
    let mut first = 0;
    while first < geometry.map_pages() {
        let end = (first + PAGES_AT_ONCE).min(geometry.map_pages());
        let mut pages = Pages::zeroed((end - first) as usize);
        for (at, page) in (first..end).enumerate() {
            encode_page(pages.block_mut(at), superblock.volume, page, map.entries(page));
        }
        let offset = geometry.page_offset(superblock.area, first);
        for (device, disk) in &mut *disks {
            disk.write_at(offset, &pages).map_err(cannot(*device, &***disk, "written"))?;
        }
        first = end;
    }
    Ok(())
}

/// Makes durable what was written, and then that `superblock` counts.
pub(crate) fn write_superblock(
    disks: &mut [(u8, &mut Box<dyn Disk>)],
    superblock: &Superblock,
) -> Result<(), OpenError> {
    write_superblock_where(disks, superblock, |_, _, _| true)
}

/// The same in some of its places only, by device, slot and copy.
pub(crate) fn write_superblock_where(
    disks: &mut [(u8, &mut Box<dyn Disk>)],
    superblock: &Superblock,
    is_wanted: impl Fn(u8, usize, usize) -> bool,
) -> Result<(), OpenError> {
    flush(disks)?;
    for copy in 0..2 {
        let mut has_written = false;
        for (device, disk) in &mut *disks {
            let mut page = Pages::zeroed(1);
            Superblock { device: *device, ..superblock.clone() }.encode(page.block_mut(0));
            for (slot, offset) in Geometry::superblock_copies(copy).into_iter().enumerate() {
                if is_wanted(*device, slot, copy) {
                    disk.write_at(offset, &page).map_err(cannot(*device, &***disk, "written"))?;
                    has_written = true;
                }
            }
        }
        if has_written {
            flush(disks)?;
        }
    }
    Ok(())
}

fn flush(disks: &mut [(u8, &mut Box<dyn Disk>)]) -> Result<(), OpenError> {
    for (device, disk) in disks {
        disk.flush().map_err(cannot(*device, &***disk, "flushed"))?;
    }
    Ok(())
}

pub(crate) fn cannot(
    device: u8,
    disk: &dyn Disk,
    what: &'static str,
) -> impl FnOnce(std::io::Error) -> OpenError {
    move |error| OpenError::Device { device: DeviceName::of(device.into(), disk), what, error }
}
