//! Time, as the outermost edge hands it in.

use wattio_units::Seconds;

/// The time of a host or of a simulation.
pub trait Clock {
    /// Monotonic time since any origin.
    fn now(&self) -> Seconds;

    /// Nanoseconds since 1970 in UTC, for events.
    fn utc_ns(&self) -> u64;
}
