//! What a governor did to its host. What the law did, and how well its bounds were kept, is counted
//! by the driver ([`wattio_law::Account`]).

use serde::Serialize;

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// Values written to the machine.
    pub writes: u64,
    /// Values that could not be read, written or saved.
    pub failures: u64,
    /// Samples that sources failed to deliver.
    pub source_errors: u64,
    /// Windows without a power reading although a meter is configured.
    pub windows_unmeasured: u64,
    /// Places that somebody else took over.
    pub foreign: u64,
    /// Returns from saving to full speed, but for those that a pause or alternation wanted.
    pub flaps: u64,
}
