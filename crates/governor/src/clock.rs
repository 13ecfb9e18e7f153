//! Time, which the outermost layer passes in.

use std::time::Duration;

/// The time of a host or of a simulation.
pub trait Clock {
    /// Monotonic time since an arbitrary origin.
    fn now(&self) -> Duration;

    /// Nanoseconds since 1970 in UTC, for people and results.
    fn utc_ns(&self) -> u64;
}
