//! Why a place could not be read or written.

use rustix::io::Errno;
use std::io;
use wattio_files::plain;
use wattio_governor::{Address, MachineError};

/// Why a place could not be read or written; the machine adds the address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AccessError {
    /// The place no longer exists.
    Gone,
    /// Something else has to change first.
    Busy(String),
    /// The system refuses, or the value is invalid.
    Refused(String),
}

impl AccessError {
    /// Refused for this reason.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused(message.into())
    }

    /// What the system said while `doing`.
    pub fn of_system(error: &io::Error, doing: &str) -> Self {
        let code = Errno::from_io_error(error);
        let error = plain(error);
        let gone = [Errno::NOENT, Errno::NODEV, Errno::NXIO, Errno::SRCH];
        match code {
            Some(code) if gone.contains(&code) => Self::Gone,
            Some(Errno::BUSY) => Self::Busy(format!("{doing}: {error}")),
            Some(Errno::ACCESS | Errno::PERM) => Self::refused(format!(
                "{doing}: {error}; run as root, or with the capability and the write access that \
                 the unit file names"
            )),
            _ => Self::refused(format!("{doing}: {error}")),
        }
    }

    pub fn at(self, address: &Address) -> MachineError {
        let address = address.clone();
        match self {
            Self::Gone => MachineError::Gone { address },
            Self::Busy(message) | Self::Refused(message) => {
                MachineError::Refused { address, message }
            }
        }
    }
}
