//! Enlarges a volume while it is not being served.

use crate::create::{CreateError, of_size};
use crate::device::{Access, Device, DeviceError, PATIENCE, refuse_same};
use crate::random;
use std::path::PathBuf;
use wattio_units::Bytes;
use wattio_volume::{BLOCK_BYTES, Disk, Geometry, OpenOptions, OpeningId, geometry_of, resize};

/// Makes the volume on `devices` as large as `size_bytes`. Files grow with it, unless the volume is to
/// be thin: then devices stay as they are, and may hold less than that.
///
/// # Errors
/// When it would become smaller or too large for its map, a device is in use or too small, or it
/// cannot be opened.
pub fn grow(
    devices: &[PathBuf],
    size_bytes: u64,
    is_thin: bool,
    options: &OpenOptions,
) -> Result<Geometry, CreateError> {
    if !size_bytes.is_multiple_of(BLOCK_BYTES) {
        let message = format!("--size: {size_bytes} bytes is not a multiple of 4096");
        return Err(CreateError::Sizes(message));
    }
    refuse_same(devices)?;
    let own = |path: &PathBuf| Device::open_within(path, Access::Own, PATIENCE);
    let mut owned = devices.iter().map(own).collect::<Result<Vec<Device>, _>>()?;
    // Clones keep the lock, too.
    let disks = |owned: &[Device]| -> Vec<Box<dyn Disk>> {
        owned.iter().map(|device| Box::new(device.clone()) as Box<dyn Disk>).collect()
    };
    let before = geometry_of(disks(&owned), options)?;
    let blocks = size_bytes / BLOCK_BYTES;
    if blocks < before.blocks {
        return Err(CreateError::Sizes(format!(
            "--size: a volume does not become smaller: it has {}",
            Bytes((before.blocks * BLOCK_BYTES) as f64)
        )));
    }
    if blocks > before.blocks_max {
        let most = Bytes((before.blocks_max * BLOCK_BYTES) as f64);
        let message = format!("--size: {most} is the most that this volume was made to grow to");
        return Err(CreateError::Sizes(message));
    }
    if !is_thin {
        // A file gets the room that a new volume of that size would have.
        let wanted = Geometry::for_blocks(blocks, before.segment_blocks).segments;
        let geometry = Geometry { blocks, segments: wanted.max(before.segments), ..before };
        geometry.check().map_err(|wrong| CreateError::Sizes(of_size(&wrong)))?;
        reserve_all(&mut owned, geometry.device_bytes())?;
    }
    let opening = OpeningId(random::draw()?);
    Ok(resize(disks(&owned), blocks, options, opening)?)
}

/// Gives each device that is a file `bytes`, or none of them.
fn reserve_all(devices: &mut [Device], bytes: u64) -> Result<(), DeviceError> {
    let before: Vec<u64> = devices.iter().map(Device::bytes).collect();
    // What cannot grow is looked at first.
    let (blocks, files): (Vec<_>, Vec<_>) =
        devices.iter_mut().zip(before).partition(|(device, _)| device.is_block());
    let mut all: Vec<(&mut Device, u64)> = blocks.into_iter().chain(files).collect();
    for at in 0..all.len() {
        if let Err(error) = all[at].0.reserve(bytes) {
            for (device, bytes) in &mut all[..=at] {
                device.give_back(*bytes)?;
            }
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{Plan, make};
    use wattio_volume::Compression;

    const OPTIONS: OpenOptions =
        OpenOptions { map_bytes_max: 1 << 30, accept_missing: false, accept_loss: false };

    /// One half of a mirror was refused, and had grown; so had those that were beside a device which
    /// could not grow.
    #[test]
    fn what_is_refused_has_not_grown() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["one", "two"].map(|name| folder.path().join(name));
        let plan = Plan {
            devices: paths.to_vec(),
            size_bytes: Some(1 << 20),
            segment_bytes: 64 << 10,
            spare_share: None,
            compression: Compression::None,
            is_forced: false,
        };
        make(&plan).unwrap();
        let bytes = || paths.each_ref().map(|path| std::fs::metadata(path).unwrap().len());
        let before = bytes();
        let refused = grow(&paths[..1], 3 << 20, false, &OPTIONS).unwrap_err().to_string();
        assert!(refused.contains("opening it with fewer must be asked for"), "{refused}");
        assert_eq!(bytes(), before);
        let mut owned = paths.each_ref().map(|path| Device::open(path, Access::Own).unwrap());
        // More than any file may have.
        assert!(reserve_all(&mut owned, u64::MAX >> 1).is_err());
        drop(owned);
        assert_eq!(bytes(), before);
        grow(&paths, 3 << 20, false, &OPTIONS).unwrap();
        assert!(bytes().iter().zip(&before).all(|(now, before)| now > before));
    }
    /// The documentation said how a volume becomes larger than its devices, and there was no way.
    #[test]
    fn a_thin_volume_is_larger_than_its_devices() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("thin")];
        let plan = Plan {
            devices: paths.to_vec(),
            size_bytes: Some(1 << 20),
            segment_bytes: 64 << 10,
            spare_share: None,
            compression: Compression::Lz4,
            is_forced: false,
        };
        let made = make(&plan).unwrap().geometry;
        let bytes = || std::fs::metadata(&paths[0]).unwrap().len();
        let before = bytes();
        let thin = grow(&paths, 4 << 20, true, &OPTIONS).unwrap();
        assert_eq!((thin.segments, thin.blocks, bytes()), (made.segments, 1024, before));
        assert!(thin.capacity_blocks() < thin.blocks);
        let refused = grow(&paths, 5 << 20, true, &OPTIONS).unwrap_err().to_string();
        assert!(refused.starts_with("--size: 4 MiB is the most"), "{refused}");
        let full = grow(&paths, 4 << 20, false, &OPTIONS).unwrap();
        assert!(full.capacity_blocks() >= full.blocks && bytes() > before);
    }
}
