//! Power meters of the kernel: energy counters of the processor (RAPL) and sensors (hwmon).
//!
//! RAPL counts energy, so a reading is the mean power since the previous one; hwmon shows current
//! power, or its own mean, and energy is that power held until the next reading.

mod attribute;
mod counter;
mod hwmon;
mod rapl;
pub mod sampler;

pub use attribute::parse_number;

use crate::Root;
use thiserror::Error;
use wattio_units::Seconds;

/// A meter found on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterInfo {
    /// Its name, by which it is opened: `rapl:package-0`, `hwmon:power_meter/power1`.
    pub name: String,
    /// What it measures.
    pub what: String,
    /// Why it cannot be read now, and how to fix it.
    pub problem: Option<String>,
}

/// A reading of a meter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerReading {
    /// Mean power since the reading before in watts, or the sensor's own value.
    pub power_w: f64,
    /// Energy since the meter was opened in joules.
    pub energy_j_since_open: f64,
    /// When it was read.
    pub at: Seconds,
}

/// Why there is no reading.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{meter}: {message}")]
pub struct PowerError {
    /// Which meter.
    pub meter: String,
    /// What was wrong, and how to fix it.
    pub message: String,
}

/// The meters of a host.
#[derive(Debug)]
pub enum Meters {}

/// An open meter.
#[derive(Debug)]
pub struct Meter {
    name: String,
    root: Root,
    kind: Kind,
    last: Option<Seconds>,
}

#[derive(Debug)]
enum Kind {
    Rapl(rapl::Zones),
    Hwmon(hwmon::Sensor),
}

impl Meters {
    /// All meters of the host, also those that cannot be read now.
    #[must_use]
    pub fn find(root: &Root) -> Vec<MeterInfo> {
        let mut meters = rapl::find(root);
        meters.extend(hwmon::find(root));
        meters
    }

    /// Opens a meter by its name.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be read.
    pub fn open(root: &Root, name: &str) -> Result<Meter, PowerError> {
        let failed = |message: String| PowerError { meter: name.to_owned(), message };
        let found = Self::find(root);
        let Some(info) = found.iter().find(|meter| meter.name == name) else {
            let names: Vec<_> = found.iter().map(|meter| meter.name.as_str()).collect();
            let there = if names.is_empty() {
                "this host has none that the kernel knows".to_owned()
            } else {
                format!("there are {}", names.join(", "))
            };
            return Err(failed(format!("no such meter; {there}")));
        };
        if let Some(problem) = &info.problem {
            return Err(failed(problem.clone()));
        }
        let kind = match rapl::open(root, name) {
            Some(zones) => Kind::Rapl(zones),
            None => Kind::Hwmon(
                hwmon::open(root, name).ok_or_else(|| failed("it was removed".to_owned()))?,
            ),
        };
        Ok(Meter { name: name.to_owned(), root: root.clone(), kind, last: None })
    }
}

impl Meter {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it counts energy rather than showing current power.
    #[must_use]
    pub const fn counts_energy(&self) -> bool {
        matches!(self.kind, Kind::Rapl(_))
    }

    /// Reads it at the time `now`. The first reading of an energy counter opens the first span and
    /// has no power yet: it answers `None`.
    ///
    /// # Errors
    /// When the meter cannot be read, makes no sense, or never advances.
    pub fn read(&mut self, now: Seconds) -> Result<Option<PowerReading>, PowerError> {
        if self.last.is_some_and(|last| now.0 <= last.0 || now.0.is_nan()) {
            return Ok(None);
        }
        let span = self.last.map(|last| now - last);
        let read = match &mut self.kind {
            Kind::Rapl(zones) => zones.read(&self.root, span),
            Kind::Hwmon(sensor) => sensor.read(&self.root, span),
        };
        let failed = |message| PowerError { meter: self.name.clone(), message };
        let reading = read.map_err(failed)?;
        self.last = Some(now);
        Ok(reading.map(|(power_w, energy_j_since_open)| PowerReading {
            power_w,
            energy_j_since_open,
            at: now,
        }))
    }
}

#[cfg(test)]
mod tests;
