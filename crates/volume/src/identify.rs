//! Which disks hold a volume, and what its newest superblock says of them.

use crate::disk::Disk;
use crate::error::{DeviceName, OpenError};
use crate::format::{DeviceRole, FORMAT_MAX, Flaw, Superblock};
use crate::geometry::Geometry;
use crate::open::{Disks, OpenOptions, Places};
use wattio_pages::Pages;

/// Reads the newest superblock of a device; what it holds, nothing is changed.
///
/// # Errors
/// When there is none, it is of another version, or the device cannot be read.
pub fn read_superblock(disk: &mut dyn Disk, device: usize) -> Result<Superblock, OpenError> {
    let mut newest: Option<Superblock> = None;
    let mut version = None;
    let mut failure = None;
    for offset in (0..2).flat_map(Geometry::superblock_offsets) {
        let mut page = Pages::zeroed(1);
        if let Err(error) = disk.read_at(offset, &mut page) {
            failure = Some(error);
            continue;
        }
        match Superblock::decode(page.block(0)) {
            Ok(found) if newest.as_ref().is_none_or(|best| found.number > best.number) => {
                newest = Some(found);
            }
            Err(Flaw::Version(found)) => version = Some(found),
            Ok(_) | Err(Flaw::NotOne) => {}
        }
    }
    let device = || DeviceName::of(device, disk);
    match (newest, version, failure) {
        (Some(superblock), _, _) => Ok(superblock),
        (_, Some(found), _) => {
            Err(OpenError::Version { device: device(), found, known: FORMAT_MAX })
        }
        (_, _, Some(error)) => Err(OpenError::Device { device: device(), what: "read", error }),
        _ => Err(OpenError::NoVolume(device())),
    }
}

/// A disk that holds a volume: its place among those given, and what it says.
struct Found {
    place: usize,
    superblock: Superblock,
    disk: Box<dyn Disk>,
}

impl Found {
    fn name(&self) -> DeviceName {
        DeviceName::of(self.place, &*self.disk)
    }
}

/// The superblock that counts, the disks that hold what it says, and the places of all that are of
/// the volume.
pub(crate) fn identify(
    given: Vec<Box<dyn Disk>>,
    options: &OpenOptions,
) -> Result<(Superblock, Disks, Places), OpenError> {
    let found = read_superblocks(given, options)?;
    let mut best = newest(&found)?;
    let devices = best.roles.len();
    let places = places(&found, devices)?;
    let counts = |superblock: &Superblock| {
        best.roles.get(usize::from(superblock.device)) == Some(&DeviceRole::InSync)
    };
    // One that does not count, and says of the newest one that this does not count.
    let says_otherwise = |superblock: &Superblock| {
        superblock.roles.get(usize::from(best.device)) == Some(&DeviceRole::Out)
    };
    if found.iter().any(|one| !counts(&one.superblock) && says_otherwise(&one.superblock)) {
        return Err(OpenError::SplitBrain);
    }
    let mut disks: Disks = std::iter::repeat_with(|| None).take(devices).collect();
    let in_sync = best.roles.iter().filter(|&&role| role == DeviceRole::InSync).count();
    for Found { superblock, disk, .. } in found {
        if counts(&superblock) {
            disks[usize::from(superblock.device)] = Some(disk);
        }
    }
    let given = disks.iter().flatten().count();
    if given == 0 || (given < in_sync && !options.accept_missing) {
        return Err(OpenError::Missing { devices, given });
    }
    for (role, disk) in best.roles.iter_mut().zip(&disks) {
        *role = if disk.is_some() { DeviceRole::InSync } else { DeviceRole::Out };
    }
    Ok((best, disks, places))
}

/// The disks that hold a volume, at least one.
fn read_superblocks(
    given: Vec<Box<dyn Disk>>,
    options: &OpenOptions,
) -> Result<Vec<Found>, OpenError> {
    let (mut found, mut blank, mut failure) = (Vec::new(), None, None);
    for (place, mut disk) in given.into_iter().enumerate() {
        let superblock = match read_superblock(&mut *disk, place) {
            Ok(superblock) => superblock,
            // A new device beside one that holds the volume: it is to be filled.
            Err(OpenError::NoVolume(device)) => {
                blank = blank.or(Some(device));
                continue;
            }
            // As good as missing.
            Err(error @ OpenError::Device { .. }) if options.accept_missing => {
                failure = failure.or(Some(error));
                continue;
            }
            Err(error) => return Err(error),
        };
        let (bytes, needed) = (disk.bytes(), superblock.geometry.device_bytes());
        if bytes < needed {
            let device = DeviceName::of(place, &*disk);
            return Err(OpenError::TooSmall { device, bytes, needed });
        }
        found.push(Found { place, superblock, disk });
    }
    if found.is_empty() {
        return Err(failure.unwrap_or(OpenError::NoVolume(blank.unwrap_or_default())));
    }
    Ok(found)
}

/// The newest superblock; all have to be of one volume.
fn newest(found: &[Found]) -> Result<Superblock, OpenError> {
    let newest = found.iter().max_by_key(|one| one.superblock.number);
    let (Some(first), Some(newest)) = (found.first(), newest) else {
        return Err(OpenError::NoVolume(DeviceName::default()));
    };
    let whose = |one: &Found| one.superblock.volume;
    if let Some(other) = found.iter().find(|other| whose(other) != whose(first)) {
        let (device, other, found) = (other.name(), first.name(), whose(other));
        return Err(OpenError::Mixed { device, found, other, first: whose(first) });
    }
    Ok(newest.superblock.clone())
}

/// Where each device of the volume is. Of two that are the same one, one is a copy that was made
/// some time ago: nobody can say which of them clients mean.
fn places(found: &[Found], devices: usize) -> Result<Places, OpenError> {
    let mut known: Vec<Option<&Found>> = vec![None; devices];
    for one in found {
        let number = one.superblock.device;
        let Some(known) = known.get_mut(usize::from(number)) else { continue };
        if let Some(first) = known.replace(one) {
            let (first, second) = (first.name(), one.name());
            return Err(OpenError::Twice { first, second, number });
        }
    }
    Ok(known.into_iter().map(|one| one.map(|one| one.place)).collect())
}
