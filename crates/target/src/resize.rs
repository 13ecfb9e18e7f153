//! Enlarges a volume while it is not being served.

use crate::create::CreateError;
use crate::device::{Access, Device, PATIENCE};
use std::path::PathBuf;
use wattio_volume::{BLOCK_BYTES, Disk, Geometry, OpenOptions, read_superblock, resize};

/// Makes the volume on `devices` as large as `size_bytes`; files grow with it.
///
/// # Errors
/// When it would become smaller, a device is in use or too small, or it cannot be opened.
pub fn grow(
    devices: &[PathBuf],
    size_bytes: u64,
    options: &OpenOptions,
) -> Result<Geometry, CreateError> {
    if !size_bytes.is_multiple_of(BLOCK_BYTES) {
        let message = format!("a size of {size_bytes} bytes is no multiple of 4096");
        return Err(CreateError::Sizes(message));
    }
    let mut disks = Vec::new();
    for (at, path) in devices.iter().enumerate() {
        let mut device = Device::open_within(path, Access::Own, PATIENCE)?;
        let before = read_superblock(&mut device, at)?.geometry;
        let blocks = size_bytes / BLOCK_BYTES;
        if blocks < before.blocks {
            return Err(CreateError::Sizes(format!(
                "a volume does not become smaller: it has {} bytes",
                before.blocks * BLOCK_BYTES
            )));
        }
        // A file gets the room that a new volume of that size would have.
        let wanted = Geometry::for_blocks(blocks, before.segment_blocks).segments;
        let geometry = Geometry { blocks, segments: wanted.max(before.segments), ..before };
        geometry.check().map_err(CreateError::Sizes)?;
        device.reserve(geometry.device_bytes())?;
        disks.push(Box::new(device) as Box<dyn Disk>);
    }
    Ok(resize(disks, size_bytes / BLOCK_BYTES, options)?)
}
