//! What a governor did to its host. What the law did, and how its bounds fared, is accounted by the
//! driver ([`wattio_law::Account`]).

use serde::Serialize;

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// Values written to the machine.
    pub writes: u64,
    /// Values that could not be read, written or saved.
    pub failures: u64,
    /// Samples that could not be had.
    pub source_errors: u64,
    /// Windows whose power was not known, where a source should know it.
    pub windows_unmeasured: u64,
    /// Places that somebody else took over.
    pub foreign: u64,
    /// Returns from saving to full speed.
    pub flaps: u64,
}
