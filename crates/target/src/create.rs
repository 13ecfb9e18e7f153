//! Makes volumes.

use crate::device::{Access, Device, DeviceError, is_blank, refuse_same};
use crate::open::is_wrong_device;
use crate::random;
use std::path::PathBuf;
use thiserror::Error;
use wattio_units::Bytes;
use wattio_volume::{
    BLOCK_BYTES, Compression, Disk, Geometry, OpenError, SEGMENT_BLOCKS, SEGMENT_BLOCKS_MIN,
    VolumeId, create, read_superblock,
};

/// What is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// On which devices: one, or two that mirror each other.
    pub devices: Vec<PathBuf>,
    /// What clients see, in bytes; the most that a device holds if it is not said.
    pub size_bytes: Option<u64>,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Share of the segments that stays free when all is written; a fifth and some segments that
    /// are held back if it is not said.
    pub spare_share: Option<f64>,
    /// Whether its data is compressed.
    pub compression: Compression,
    /// Whether what is there is overwritten.
    pub is_forced: bool,
}

/// Why a volume was not made.
#[derive(Debug, Error)]
pub enum CreateError {
    /// A device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The sizes do not fit.
    #[error("{0}")]
    Sizes(String),
    /// It cannot be written.
    #[error(transparent)]
    Volume(#[from] OpenError),
}

impl CreateError {
    /// Whether what was asked for cannot be done, however often it is tried.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Device(error) => error.is_bad_input() || error.is_missing(),
            Self::Volume(error) => is_wrong_device(error),
            Self::Sizes(_) => true,
        }
    }
}

/// What was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its identity.
    pub volume: VolumeId,
    /// Its sizes.
    pub geometry: Geometry,
}

/// Makes a volume.
///
/// # Errors
/// When a device is in use or holds something, or the sizes do not fit.
pub fn make(plan: &Plan) -> Result<Made, CreateError> {
    let segment_blocks = segment_blocks(plan.segment_bytes)?;
    if let Some(size) = plan.size_bytes.filter(|size| !size.is_multiple_of(BLOCK_BYTES)) {
        let below = Bytes((size / BLOCK_BYTES * BLOCK_BYTES).max(BLOCK_BYTES) as f64);
        let message = format!("--size: {size} bytes is not a multiple of 4096; {below} is");
        return Err(CreateError::Sizes(message));
    }
    let mut devices = Vec::new();
    for (at, path) in plan.devices.iter().enumerate() {
        // The ones before it exist by now.
        refuse_same(&plan.devices[..=at])?;
        let is_new = !path.exists();
        let made = Device::open(path, Access::Create).map_err(CreateError::from);
        let checked = made.and_then(|mut device| {
            if !plan.is_forced {
                refuse_occupied(&mut device)?;
            }
            Ok(device)
        });
        devices.push(Fresh { device: Some(checked?), is_new });
    }
    let all = devices.iter_mut().filter_map(|fresh| fresh.device.as_mut());
    let mut all: Vec<&mut Device> = all.collect();
    let smallest = all.iter().map(|device| device.bytes()).min().unwrap_or(0);
    let geometry = match (plan.size_bytes, plan.spare_share) {
        (Some(size), None) => Geometry::for_blocks(size / BLOCK_BYTES, segment_blocks),
        (Some(size), Some(spare)) => with_spare(size / BLOCK_BYTES, segment_blocks, spare)?,
        (None, None) => largest(smallest, segment_blocks)?,
        (None, Some(_)) => {
            return Err(CreateError::Sizes("--spare needs a --size, too".to_owned()));
        }
    };
    geometry.check().map_err(|wrong| CreateError::Sizes(of_size(&wrong)))?;
    for device in &mut all {
        if device.is_block() && device.bytes() < geometry.device_bytes() {
            return Err(CreateError::Sizes(too_small(device, &geometry, segment_blocks)));
        }
        device.reserve(geometry.device_bytes())?;
    }
    let volume = VolumeId(random::draw()?);
    let disks = all.into_iter().map(|device| Box::new(device.clone()) as Box<dyn Disk>);
    let mut disks: Vec<_> = disks.collect();
    create(&mut disks, volume, geometry, plan.compression)?;
    devices.iter_mut().for_each(|fresh| fresh.is_new = false);
    Ok(Made { volume, geometry })
}

/// What is wrong with sizes, with the option that gave them.
pub(crate) fn of_size(wrong: &str) -> String {
    format!("--size: {wrong}")
}

/// A device, whose file is removed again if it is new and no volume is made on it.
struct Fresh {
    device: Option<Device>,
    is_new: bool,
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(device) = self.device.as_ref().filter(|_| self.is_new) {
            let _ = std::fs::remove_file(device.path());
        }
    }
}

/// The volume of `blocks` of whose segments a share is free when all is written.
fn with_spare(blocks: u64, segment_blocks: u32, spare: f64) -> Result<Geometry, CreateError> {
    if !(0.0..1.0).contains(&spare) {
        let message = format!("--spare: is {spare}; allowed is 0 to less than 1");
        return Err(CreateError::Sizes(message));
    }
    let filled = f64::from(segment_blocks) * (1.0 - spare);
    // A count beyond what a volume may have is refused by the check of the geometry.
    let segments = (blocks as f64 / filled).ceil() as u32;
    let geometry = Geometry { segments, ..Geometry::for_blocks(blocks, segment_blocks) };
    let capacity = geometry.capacity_blocks();
    if capacity < blocks {
        let smaller = match segment_blocks {
            SEGMENT_BLOCKS_MIN => "",
            _ => ", or a smaller --segment-size",
        };
        return Err(CreateError::Sizes(format!(
            "--spare: with {spare} of {segments} segments to spare there is room for {} of {} bytes; \
             allowed is a greater share{smaller}",
            capacity * BLOCK_BYTES,
            blocks * BLOCK_BYTES,
        )));
    }
    Ok(geometry)
}

fn segment_blocks(bytes: u64) -> Result<u32, CreateError> {
    let allowed = SEGMENT_BLOCKS_MIN..=SEGMENT_BLOCKS;
    match u32::try_from(bytes / BLOCK_BYTES) {
        Ok(blocks) if bytes.is_multiple_of(BLOCK_BYTES) && allowed.contains(&blocks) => Ok(blocks),
        _ => Err(CreateError::Sizes(format!(
            "--segment-size: is {bytes} bytes; allowed are multiples of 4096 from 64 KiB to 32 MiB"
        ))),
    }
}

fn refuse_occupied(device: &mut Device) -> Result<(), CreateError> {
    let occupied =
        |device: &Device, what| DeviceError::Occupied { path: device.path().to_owned(), what };
    if device.bytes() == 0 {
        return Ok(());
    }
    match read_superblock(device, 0) {
        Ok(found) => {
            return Err(occupied(device, format!("volume {}", found.volume)).into());
        }
        Err(error @ OpenError::Version { .. }) => {
            return Err(occupied(device, format!("a volume ({error})")).into());
        }
        Err(_) => {}
    }
    let is_blank = is_blank(device).map_err(|error| DeviceError::System {
        path: device.path().to_owned(),
        what: "read it",
        error,
    })?;
    if !device.is_block() || !is_blank {
        return Err(occupied(device, "data".to_owned()).into());
    }
    Ok(())
}

/// The largest volume for a device.
fn largest(bytes: u64, segment_blocks: u32) -> Result<Geometry, CreateError> {
    if bytes == 0 {
        return Err(CreateError::Sizes("a new file needs a --size".to_owned()));
    }
    let fits = |blocks: u64| Geometry::for_blocks(blocks, segment_blocks).device_bytes() <= bytes;
    let (mut low, mut high) = (0, bytes / BLOCK_BYTES);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    if low == 0 {
        let least = Bytes(Geometry::for_blocks(1, segment_blocks).device_bytes() as f64);
        let segment = Bytes((u64::from(segment_blocks) * BLOCK_BYTES) as f64);
        return Err(CreateError::Sizes(format!(
            "a device of {bytes} bytes is too small: a volume with segments of {segment} needs at \
             least {least}"
        )));
    }
    Ok(Geometry::for_blocks(low, segment_blocks))
}

fn too_small(device: &Device, geometry: &Geometry, segment_blocks: u32) -> String {
    let size = geometry.blocks * BLOCK_BYTES;
    let needed = geometry.device_bytes();
    let (path, bytes) = (device.path().display(), device.bytes());
    let room = largest(bytes, segment_blocks).map(|largest| largest.blocks * BLOCK_BYTES);
    let most = room.map_or_else(
        |_| "it is too small for any volume".to_owned(),
        |room| format!("the largest volume for it has {room}"),
    );
    format!("{path}: has {bytes} bytes, and a volume of {size} bytes needs {needed}; {most}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(path: PathBuf, size_bytes: Option<u64>) -> Plan {
        Plan {
            devices: vec![path],
            size_bytes,
            segment_bytes: 64 << 10,
            spare_share: None,
            compression: Compression::None,
            is_forced: false,
        }
    }

    #[test]
    fn what_is_there_is_not_overwritten_unless_it_is_forced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let first = plan(path.clone(), Some(1 << 20));
        let made = make(&first).unwrap();
        assert_eq!(made.geometry.blocks, 256);
        let refused = make(&first).unwrap_err().to_string();
        assert!(refused.contains(&format!("holds volume {}; --force", made.volume)), "{refused}");
        let again = make(&Plan { is_forced: true, ..first.clone() }).unwrap();
        assert_ne!(made.volume, again.volume);
        let text = folder.path().join("text");
        std::fs::write(&text, vec![b'x'; 10_000]).unwrap();
        let refused = make(&plan(text, Some(1 << 20))).unwrap_err().to_string();
        assert!(refused.contains("holds data; --force overwrites it"), "{refused}");
    }

    #[test]
    fn sizes_that_do_not_fit_are_told_with_figures_and_leave_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        for (plan, says) in [
            (plan(path.clone(), Some(4097)), "4097 bytes is not a multiple of 4096; 4 KiB is"),
            (plan(path.clone(), Some(1024)), "1024 bytes is not a multiple of 4096; 4 KiB is"),
            (plan(path.clone(), None), "needs a --size"),
            (
                Plan { segment_bytes: 5000, ..plan(path.clone(), Some(1 << 20)) },
                "--segment-size: is 5000 bytes",
            ),
        ] {
            let message = make(&plan).unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
            assert!(!path.exists());
        }
        // A debug build panicked at the small ones.
        for segment_bytes in [4 << 10, 8 << 10, 12 << 10, 60 << 10, (32 << 20) + 4096, 1 << 30] {
            for size in [Some(1 << 20), None] {
                let plan = Plan { segment_bytes, ..plan(path.clone(), size) };
                let message = make(&plan).unwrap_err().to_string();
                let says = "allowed are multiples of 4096 from 64 KiB to 32 MiB";
                assert!(message.contains(says), "{message}");
                assert!(!path.exists());
            }
        }
    }

    #[test]
    fn the_largest_volume_for_a_device_fits_and_no_larger_one() {
        for bytes in [8 << 20, 100 << 20, 3 << 30] {
            let largest = largest(bytes, 64).unwrap();
            assert!(largest.device_bytes() <= bytes);
            let larger = Geometry::for_blocks(largest.blocks + 1, 64);
            assert!(larger.device_bytes() > bytes);
        }
        assert!(largest(1 << 20, 64).unwrap_err().to_string().contains("at least"));
    }

    #[test]
    fn as_much_is_to_spare_as_is_asked_for_or_a_message_says_what_fits() {
        let folder = tempfile::tempdir().unwrap();
        let made = |spare: f64| {
            let path = folder.path().join(format!("disk-{spare}"));
            let plan = Plan { segment_bytes: 1 << 20, ..plan(path, Some(64 << 20)) };
            make(&Plan { spare_share: Some(spare), ..plan })
        };
        for spare in [0.3, 0.2] {
            let geometry = made(spare).unwrap().geometry;
            let segments = f64::from(geometry.segments) * f64::from(geometry.segment_blocks);
            let free = 1.0 - geometry.blocks as f64 / segments;
            assert!((free - spare).abs() < 1.0 / f64::from(geometry.segments), "{free}");
            assert!(geometry.capacity_blocks() >= geometry.blocks);
        }
        for (spare, says) in [
            (0.01, "--spare: with 0.01 of 65 segments to spare there is room for"),
            (1.0, "--spare: is 1; allowed is 0 to less than 1"),
            (-0.1, "--spare: is -0.1; "),
            (f64::NAN, "--spare: is NaN; "),
        ] {
            let message = made(spare).unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
            assert!(!folder.path().join(format!("disk-{spare}")).exists());
        }
        let sizeless = Plan { spare_share: Some(0.2), ..plan(folder.path().join("none"), None) };
        assert!(make(&sizeless).unwrap_err().to_string().contains("--spare needs a --size"));
    }
}
