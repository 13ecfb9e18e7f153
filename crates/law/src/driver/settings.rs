//! The driver's settings.

use wattio_units::Seconds;

/// How the driver treats the law's actions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriverSettings {
    /// After a group was sped up it is not slowed down again for this long; speeding up is never
    /// held back.
    pub dwell: Seconds,
    /// A latency sample older than this many windows is missing.
    pub stale_after_windows: f64,
    /// The most cores that one step may take off a group; putting cores back is never held back.
    pub cores_off_max: u32,
}

impl Default for DriverSettings {
    fn default() -> Self {
        Self { dwell: Seconds(0.0), stale_after_windows: 2.0, cores_off_max: u32::MAX }
    }
}
