//! Opening a volume's devices, and what to do with those that are missing, stale or new.

use crate::device::{Access, Device, DeviceError, PATIENCE, is_blank};
use crate::log::{Priority, counted, log, of_export};
use crate::random;
use crate::server::{ServerError, Volume};
use crate::status::Opening;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wattio_volume::{DeviceRole, Disk, OpenError, OpeningId, Recovery, open, read_superblock};

/// A volume with its devices in its order.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) volume: wattio_volume::Volume,
    pub(crate) devices: Vec<Option<Device>>,
    pub(crate) opening: Opening,
}

/// Whether the devices that were named are not those of a volume that can be opened so, however
/// often it is tried.
#[must_use]
pub(crate) const fn is_wrong_device(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::NoVolume(_)
            | OpenError::Version { .. }
            | OpenError::Mixed { .. }
            | OpenError::Twice { .. }
            | OpenError::Memory { .. }
    )
}

/// Opens a volume, recovers it if need be, and begins to fill a device that does not count.
pub(crate) fn open_volume(wanted: &Volume) -> Result<Opened, ServerError> {
    let began = Instant::now();
    let wrong = |error| ServerError::Volume { export: wanted.export.clone(), error };
    let candidates = candidates(wanted)?;
    let disks = candidates.iter().map(|device| Box::new(device.clone()) as Box<dyn Disk>);
    let opening = OpeningId(random::draw()?);
    let opened = open(disks.collect(), &wanted.open, opening).map_err(wrong)?;
    let (took, recovery) = (began.elapsed(), opened.recovery);
    tell_recovery(&wanted.export, &recovery, took);
    let replayed_blocks = (!recovery.was_clean).then_some(recovery.blocks);
    let mut volume = opened.volume;
    let needed = volume.geometry().device_bytes();
    let mut devices: Vec<Option<Device>> = Vec::new();
    let mut candidates: Vec<Option<Device>> = candidates.into_iter().map(Some).collect();
    let known: Vec<Option<Device>> =
        opened.places.iter().map(|place| candidates.get_mut((*place)?)?.take()).collect();
    // The rest is new.
    let mut spare = candidates.into_iter().flatten();
    for (number, known) in known.into_iter().enumerate() {
        let Some(mut device) = known.or_else(|| spare.next()) else {
            devices.push(None);
            continue;
        };
        if volume.roles()[number] == DeviceRole::Out {
            match fill(&wanted.export, &mut device, needed) {
                Err(error @ (DeviceError::System { .. } | DeviceError::TooSmall { .. }))
                    if wanted.open.accept_missing =>
                {
                    goes_without(&wanted.export, &error);
                    devices.push(None);
                    continue;
                }
                Err(error) => return Err(unusable(wanted, error)),
                Ok(()) => {}
            }
            volume.begin_rebuild(number as u8);
        }
        devices.push(Some(device));
    }
    let device_paths = paths(&devices, &wanted.devices);
    let opening = Opening { took, replayed_blocks, device_paths };
    Ok(Opened { volume, devices, opening })
}

/// The devices that can be used: of the volume, or new.
fn candidates(wanted: &Volume) -> Result<Vec<Device>, ServerError> {
    let wrong = |error| ServerError::Volume { export: wanted.export.clone(), error };
    let (mut candidates, mut failure) = (Vec::new(), None);
    // How many devices the volume has, and one that does not say that it is of it.
    let (mut devices, mut other) = (None, None);
    for (at, path) in wanted.devices.iter().enumerate() {
        let mut device = match Device::open_within(path, Access::Own, PATIENCE) {
            Ok(device) => device,
            Err(error @ DeviceError::System { .. }) if wanted.open.accept_missing => {
                goes_without(&wanted.export, &error);
                other = Some(path);
                continue;
            }
            Err(error) => return Err(unusable(wanted, error)),
        };
        if !device.is_direct() {
            let why = "its file system has no direct I/O: the kernel's cache holds all data twice";
            log(Priority::Warning, &format!("{}: {why}", path.display()));
        }
        match read_superblock(&mut device, at) {
            Ok(found) => devices = Some(found.roles.len()),
            // Beside another one it may be new; alone it is a mistake, which opening tells.
            Err(OpenError::NoVolume(_)) if wanted.devices.len() > 1 => {
                refuse_foreign(&mut device)?;
                other = Some(path);
            }
            // As good as missing.
            Err(error @ OpenError::Device { .. })
                if wanted.open.accept_missing && wanted.devices.len() > 1 =>
            {
                goes_without(&wanted.export, &error);
                failure = failure.or(Some(error));
                other = Some(path);
                continue;
            }
            Err(error) => return Err(wrong(error)),
        }
        candidates.push(device);
    }
    if let (Some(devices), Some(path)) = (devices, other)
        && devices < wanted.devices.len()
    {
        let (export, path) = (wanted.export.clone(), path.clone());
        return Err(ServerError::Surplus { export, path, devices });
    }
    match failure {
        Some(error) if candidates.is_empty() => Err(wrong(error)),
        _ => Ok(candidates),
    }
}

/// Why a device cannot be used, which another one may make up for.
fn unusable(wanted: &Volume, error: DeviceError) -> ServerError {
    match error {
        DeviceError::System { .. } if wanted.devices.len() > 1 => {
            ServerError::Half { export: wanted.export.clone(), error }
        }
        error => error.into(),
    }
}

/// What the devices are called: those that are not there have the paths that are left.
fn paths(devices: &[Option<Device>], wanted: &[PathBuf]) -> Vec<Option<String>> {
    let used: Vec<&Path> = devices.iter().flatten().map(Device::path).collect();
    let mut left = wanted.iter().map(PathBuf::as_path).filter(|path| !used.contains(path));
    let devices = devices.iter().map(|device| device.as_ref().map(Device::path));
    let paths = devices.map(|path| path.or_else(|| left.next()));
    paths.map(|path| path.map(|path| path.display().to_string())).collect()
}

fn goes_without(export: &str, error: &dyn std::error::Error) {
    log(Priority::Warning, &format!("{}: goes on without: {error}", of_export(export)));
}

/// What somebody else has on a device is not overwritten.
fn refuse_foreign(device: &mut Device) -> Result<(), ServerError> {
    let path = device.path().to_owned();
    match is_blank(device) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ServerError::Foreign(path)),
        Err(error) => Err(DeviceError::System { path, what: "read it", error }.into()),
    }
}

fn fill(export: &str, device: &mut Device, needed: u64) -> Result<(), DeviceError> {
    device.reserve(needed)?;
    let path = device.path().display();
    log(
        Priority::Warning,
        &format!("{}: {path} is filled from the other device", of_export(export)),
    );
    Ok(())
}

fn tell_recovery(export: &str, recovery: &Recovery, took: Duration) {
    let Recovery { was_clean, records, blocks, .. } = *recovery;
    let took = took.as_secs_f64();
    let how = if was_clean {
        "it had been closed".to_owned()
    } else {
        format!("recovered: {}, {} KiB of log", counted(records, "record"), 4 * blocks)
    };
    log(Priority::Info, &format!("{}: opened in {took:.2} s; {how}", of_export(export)));
    for what in losses(recovery) {
        log(Priority::Warning, &format!("{}: {what}", of_export(export)));
    }
}

/// What is told of a superblock that is lost.
const SUPERBLOCK_LOST: &str = "neither copy of a superblock could be read: the volume was opened from the other one, and both \
     are written again";

/// What is told where only second copies of superblocks were left.
const FIRST_COPIES_LOST: &str = "no first copy of a superblock could be read, and a second one counts: nothing is lost if the \
     power failed while they were written; if they were damaged, blocks written shortly before may \
     be lost, and a scrub finds which";

/// What a recovery could not make good without anybody's notice.
fn losses(recovery: &Recovery) -> Vec<String> {
    let Recovery {
        damaged_blocks,
        resynced_blocks,
        devices_out,
        superblock_lost,
        first_copies_lost,
        ..
    } = *recovery;
    let mut told = Vec::new();
    if damaged_blocks > 0 {
        let (is, them) = if damaged_blocks == 1 { ("is", "it") } else { ("are", "them") };
        let blocks = counted(damaged_blocks, "block");
        told.push(format!("{blocks} {is} damaged: reading {them} fails"));
    }
    if resynced_blocks > 0 {
        let were = if resynced_blocks == 1 { "was" } else { "were" };
        let blocks = counted(resynced_blocks, "block");
        told.push(format!("{blocks} {were} copied from one device to the other"));
    }
    if devices_out > 0 {
        let (were, are) = if devices_out == 1 { ("was", "it is") } else { ("were", "they are") };
        let devices = counted(devices_out.into(), "device");
        told.push(format!("{devices} {were} left out: {are} missing, out of date or cut short"));
    }
    if superblock_lost {
        told.push(SUPERBLOCK_LOST.into());
    }
    if first_copies_lost {
        told.push(FIRST_COPIES_LOST.into());
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_is_one() {
        let told = |damaged_blocks, resynced_blocks, devices_out| {
            losses(&Recovery {
                damaged_blocks,
                resynced_blocks,
                devices_out,
                ..Recovery::default()
            })
        };
        assert_eq!(told(0, 0, 0), [""; 0]);
        let lost = Recovery { superblock_lost: true, ..Recovery::default() };
        assert_eq!(losses(&lost), [SUPERBLOCK_LOST]);
        let lost = Recovery { first_copies_lost: true, ..Recovery::default() };
        assert_eq!(losses(&lost), [FIRST_COPIES_LOST]);
        assert_eq!(
            told(1, 1, 1),
            [
                "1 block is damaged: reading it fails",
                "1 block was copied from one device to the other",
                "1 device was left out: it is missing, out of date or cut short",
            ]
        );
        assert_eq!(
            told(2, 3, 2),
            [
                "2 blocks are damaged: reading them fails",
                "3 blocks were copied from one device to the other",
                "2 devices were left out: they are missing, out of date or cut short",
            ]
        );
    }
}
