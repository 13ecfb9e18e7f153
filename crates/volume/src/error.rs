//! Why a volume cannot be made or opened.

use crate::disk::Disk;
use crate::format::VolumeId;
use std::fmt;
use std::io;
use thiserror::Error;

/// A device, as messages call it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceName {
    /// Which one: of those that were given, or of the volume's once these are known.
    pub number: usize,
    /// What [`Disk::name`] says.
    pub name: Option<String>,
}

impl DeviceName {
    pub(crate) fn of(number: usize, disk: &dyn Disk) -> Self {
        Self { number, name: disk.name() }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "device {}", self.number),
        }
    }
}

/// Why a volume cannot be made or opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The sizes do not go together.
    #[error("{0}")]
    Geometry(String),
    /// A device is too small.
    #[error("{device} has {bytes} bytes, and the volume needs {needed}")]
    TooSmall {
        /// Which one.
        device: DeviceName,
        /// Its size.
        bytes: u64,
        /// What is needed.
        needed: u64,
    },
    /// A device that holds the volume is smaller than it was.
    #[error(
        "{device} was cut short: it has {bytes} of the {needed} bytes that the volume has on it"
    )]
    CutShort {
        /// Which one.
        device: DeviceName,
        /// Its size.
        bytes: u64,
        /// What it had, at least.
        needed: u64,
        /// How many devices the volume has.
        devices: usize,
    },
    /// A device could not be read or written.
    #[error("{device} could not be {what}: {error}")]
    Device {
        /// Which one.
        device: DeviceName,
        /// What was tried: read, written, flushed.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
    /// There is no volume on a device.
    #[error("{0} holds no volume, or none of its four superblocks is readable")]
    NoVolume(DeviceName),
    /// It was made by another version.
    #[error("{device} holds a volume of format {found}; this version reads 1 to {known}")]
    Version {
        /// Which one.
        device: DeviceName,
        /// Its format.
        found: u32,
        /// The newest format that is known.
        known: u32,
    },
    /// The devices are of different volumes.
    #[error("{device} belongs to volume {found}, and {other} to volume {first}")]
    Mixed {
        /// Which one.
        device: DeviceName,
        /// Whose it is.
        found: VolumeId,
        /// Another one.
        other: DeviceName,
        /// Whose that is.
        first: VolumeId,
    },
    /// Two devices say that they are the same one.
    #[error(
        "{first} and {second} are both device {number} of the volume: one is a copy of the \
         other; clear the copy, or leave it out"
    )]
    Twice {
        /// One of them.
        first: DeviceName,
        /// The other.
        second: DeviceName,
        /// Which of the volume's devices each says that it is.
        number: u8,
    },
    /// Each of the two devices was used without the other.
    #[error(
        "each device was used without the other, and both have changed: serve one of them alone, or \
         clear the other one, which is filled then"
    )]
    SplitBrain,
    /// A device holds what the volume was some time ago.
    #[error(
        "{0} is out of date: it is an old copy, or the other device went on without it; opening \
         the volume without it must be asked for"
    )]
    Old(DeviceName),
    /// A device is missing, and nobody said that this is all right.
    #[error(
        "the volume has {devices} devices and {given} of those in sync are here; \
         opening it with fewer must be asked for"
    )]
    Missing {
        /// How many the volume has.
        devices: usize,
        /// How many of those that count are there.
        given: usize,
    },
    /// The map is larger than allowed.
    #[error(
        "the map of this volume takes {needed} bytes of memory (8 for each 4096 of the volume), \
         and {limit} are allowed"
    )]
    Memory {
        /// What it takes.
        needed: u64,
        /// What is allowed.
        limit: u64,
    },
    /// Neither copy of a superblock can be read, and the other one may be older.
    #[error(
        "neither copy of a superblock on {0} can be read, and the other one may be older: nobody \
         knows what was written since; a configuration with `accept_loss` serves what can be found \
         from the older one"
    )]
    LostSuperblock(DeviceName),
    /// A page of the map is damaged on every device.
    #[error(
        "the map of blocks {first} to {last} is damaged: their data is lost; \
         a configuration with `accept_loss` serves the rest"
    )]
    DamagedMap {
        /// The first block of it.
        first: u64,
        /// The last block of it.
        last: u64,
    },
    /// Records that were durable are damaged or gone.
    #[error(
        "the log is damaged: record {found} cannot be read, and records up to {durable} were \
         durable; a configuration with `accept_loss` serves what was written before that"
    )]
    DamagedLog {
        /// The first record that is missing.
        found: u64,
        /// The sequence number before which all was durable.
        durable: u64,
    },
}

impl OpenError {
    /// Whether a device of several is what is wrong: the volume may be opened without it, where that is
    /// asked for.
    #[must_use]
    pub const fn is_of_one_device(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Old(_) => true,
            Self::CutShort { devices, .. } => *devices > 1,
            _ => false,
        }
    }
}
