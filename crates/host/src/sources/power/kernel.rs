//! Power from a meter that the kernel knows: energy counters (RAPL) and sensors (hwmon).

use crate::Root;
use crate::power::{Meter, Meters, PowerError};
use wattio_governor::{PowerSource, SourceError};
use wattio_units::{Seconds, Watts};

/// The meter, read when a window ends.
#[derive(Debug)]
pub(super) struct KernelMeter {
    meter: Meter,
    /// Whether the last reading failed: the next one then covers more than its window.
    missed: bool,
}

impl KernelMeter {
    /// Opens it by its name.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be read.
    pub fn open(root: &Root, name: &str) -> Result<Self, SourceError> {
        Ok(Self { meter: Meters::open(root, name).map_err(told)?, missed: false })
    }
}

fn told(error: PowerError) -> SourceError {
    SourceError::new(error.meter, error.message)
}

impl PowerSource for KernelMeter {
    fn name(&self) -> &str {
        self.meter.name()
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<Watts>, SourceError> {
        let reading = self.meter.read(now);
        let missed = std::mem::replace(&mut self.missed, reading.is_err());
        let reading = reading.map_err(told)?;
        let whole = !(missed && self.meter.counts_energy());
        Ok(reading.filter(|_| whole).map(|reading| Watts(reading.power_w)))
    }
}
