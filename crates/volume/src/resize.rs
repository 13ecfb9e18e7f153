//! Enlarges a volume while it is closed.

use crate::create::{write_map, write_superblock};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::format::{OpeningId, Superblock};
use crate::geometry::Geometry;
use crate::open::{OpenOptions, Opened, inspect, open};

/// The sizes of a volume as [`open`] would find it; nothing is changed.
///
/// # Errors
/// As for [`open`].
pub fn geometry_of(
    given: Vec<Box<dyn Disk>>,
    options: &OpenOptions,
) -> Result<Geometry, OpenError> {
    Ok(inspect(given, options)?.superblock.geometry)
}

/// Makes a volume larger: more blocks for clients, and as many segments as each disk has room for.
/// Nothing is changed unless all of it can be. `opening` is another one each time.
///
/// # Errors
/// When it would become smaller, its map has no room for so many blocks, or for the reasons of
/// [`open`]: it is recovered first.
pub fn resize(
    given: Vec<Box<dyn Disk>>,
    blocks: u64,
    options: &OpenOptions,
    opening: OpeningId,
) -> Result<Geometry, OpenError> {
    let Opened { volume, mut disks, .. } = open(given, options, opening)?;
    let before = volume.superblock;
    if blocks < before.geometry.blocks {
        let now = before.geometry.blocks;
        return Err(OpenError::Geometry(format!(
            "a volume does not become smaller: it has {now} blocks of 4096 bytes, not {blocks}"
        )));
    }
    let room = disks.iter().flatten().map(|disk| disk.bytes()).min().unwrap_or(0);
    let geometry = Geometry { blocks, ..before.geometry }.on_device(room);
    geometry.check().map_err(OpenError::Geometry)?;
    let mut after = Superblock { geometry, area: 1 - before.area, is_clean: true, ..before };
    after.begin_epoch(opening);
    let mut disks: Vec<_> =
        (0..).zip(&mut disks).filter_map(|(device, disk)| Some((device, disk.as_mut()?))).collect();
    write_map(&mut disks, &after, &volume.map.resized(blocks))?;
    write_superblock(&mut disks, &after)?;
    Ok(geometry)
}
