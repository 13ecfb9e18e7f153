//! Events for the operator.

use serde::{Deserialize, Serialize};
use wattio_units::Seconds;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A change that was wanted.
    Info,
    /// Something was not as expected, and was dealt with.
    Warning,
    /// Something failed.
    Error,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, on the governor's clock.
    pub at: Seconds,
    /// How much it matters.
    pub severity: Severity,
    /// What.
    pub message: String,
}
