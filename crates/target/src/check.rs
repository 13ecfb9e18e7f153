//! Checks a volume that is not being served: reads everything and changes nothing.

use crate::device::{Access, Device, DeviceError, PATIENCE, refuse_same};
use crate::open::is_wrong_device;
use std::path::PathBuf;
use thiserror::Error;
use wattio_volume::{
    CheckReport, DeviceName, Disk, OpenError, OpenOptions, Superblock, check as check_volume,
    read_superblock,
};

/// Why a volume cannot be looked at.
#[derive(Debug, Error)]
pub enum CheckError {
    /// A device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It cannot be opened.
    #[error(transparent)]
    Volume(#[from] OpenError),
}

impl CheckError {
    /// Whether what was named is not the volume that it was taken for.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Device(error) => error.is_bad_input() || error.is_missing(),
            Self::Volume(error) => is_wrong_device(error),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The volume, as its first device says.
    pub superblock: Superblock,
    /// What reading it has shown.
    pub report: CheckReport,
    /// Devices that the volume has and that were left out on request.
    pub devices_left: u8,
}

impl Found {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.report.damaged_blocks == 0
            && self.report.damaged_on.iter().all(|&(_, blocks)| blocks == 0)
            && self.report.recovery.damaged_blocks == 0
            && !self.report.recovery.superblock_lost
            && self.report.recovery.devices_out <= self.devices_left
    }
}

/// Reads all of a volume. `progress` is told how many blocks of how many were read.
///
/// # Errors
/// When it cannot be opened.
pub fn check(
    paths: &[PathBuf],
    options: &OpenOptions,
    progress: impl FnMut(u64, u64),
) -> Result<Found, CheckError> {
    refuse_same(paths)?;
    let mut disks = Vec::new();
    let mut first = None;
    for (at, path) in paths.iter().enumerate() {
        let mut device = Device::open_within(path, Access::Look, PATIENCE)?;
        let superblock = read_superblock(&mut device, at)?;
        first.get_or_insert(superblock);
        disks.push(Box::new(device) as Box<dyn Disk>);
    }
    let Some(superblock) = first else {
        return Err(OpenError::NoVolume(DeviceName::default()).into());
    };
    let left = superblock.roles.len().saturating_sub(paths.len());
    let devices_left = if options.accept_missing { left as u8 } else { 0 };
    Ok(Found { superblock, report: check_volume(disks, options, progress)?, devices_left })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{Plan, make};
    use crate::resize::grow;
    use wattio_volume::Compression;

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
            spare_share: None,
            compression: Compression::None,
            is_forced: false,
        });
        let before = std::fs::read(&path).unwrap();
        let found = check(&devices, &OPTIONS, |_, _| {}).unwrap();
        assert_eq!((found.superblock.volume, found.is_whole()), (made.unwrap().volume, true));
        assert_eq!(found.report.live_blocks, 0);
        assert!(std::fs::read(&path).unwrap() == before);
        let grown = grow(&devices, 3 << 20, false, &OPTIONS).unwrap();
        assert!(grown.capacity_blocks() >= grown.blocks && grown.blocks == 768, "{grown:?}");
        assert!(check(&devices, &OPTIONS, |_, _| {}).unwrap().is_whole());
        let smaller = grow(&devices, 1 << 20, false, &OPTIONS).unwrap_err().to_string();
        assert!(smaller.ends_with("does not become smaller: it has 3 MiB"), "{smaller}");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let error = check(&devices, &OPTIONS, |_, _| {}).unwrap_err().to_string();
        assert!(error.contains("holds no volume"), "{error}");
    }
}
