//! Power from a file that holds one number: a driver's counter or sensor, or the output of your own
//! program.

use super::means::Means;
use super::unit::Unit;
use crate::Root;
use serde::Deserialize;
use wattio_governor::{PowerSource, SourceError};
use wattio_units::{Seconds, Watts};

/// The longest text that is a number.
const TEXT_BYTES_MAX: usize = 64;

/// The table `kind = "file"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file. It must be quick to read, because reading it holds up the control loop. Allowed:
    /// an absolute path.
    pub path: String,
    /// The unit of the number. Allowed: `"uW"`, `"mW"`, `"W"` for power; `"uJ"`, `"mJ"`, `"J"` for
    /// a counter of energy.
    pub unit: Unit,
    /// The value at which an energy counter wraps around to zero, in its unit. Without it, a
    /// counter that goes back counts as reset. Allowed: a number above 0, only with a unit of
    /// energy.
    pub range: Option<f64>,
}

impl Config {
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if !self.path.starts_with('/') {
            return Err(("path", format!("is {:?}; it must be absolute", self.path)));
        }
        match self.range {
            Some(_) if !self.unit.is_energy() => {
                Err(("range", "is for counters of energy: unit = \"uJ\", \"mJ\" or \"J\"".into()))
            }
            Some(range) if !(range.is_finite() && range > 0.0) => {
                Err(("range", format!("is {range}; allowed is any number above 0")))
            }
            _ => Ok(()),
        }
    }
}

/// The file, read when a window ends.
#[derive(Debug)]
pub struct FileMeter {
    name: String,
    root: Root,
    path: String,
    means: Means,
}

impl FileMeter {
    /// A meter of this file, which need not exist yet.
    #[must_use]
    pub fn open(config: &Config, root: &Root) -> Self {
        let (scale, at_once) = (config.unit.scale(), Seconds(0.0));
        let means = if config.unit.is_energy() {
            Means::of_energy(scale, config.range, at_once)
        } else {
            Means::of_power(scale, at_once)
        };
        let path = config.path.clone();
        Self { name: format!("file {path}"), root: root.clone(), path, means }
    }

    fn number(&self) -> Result<f64, String> {
        let text = self.root.read(&self.path).map_err(|error| error.to_string())?;
        parse(&text)
    }
}

/// The number in a file.
///
/// # Errors
/// Its content, if that is not a number.
pub fn parse(text: &str) -> Result<f64, String> {
    let digits = text.trim();
    let number = (digits.len() <= TEXT_BYTES_MAX).then(|| digits.parse().ok()).flatten();
    number.filter(|number: &f64| number.is_finite()).ok_or_else(|| {
        let text: String = digits.chars().take(TEXT_BYTES_MAX).collect();
        format!("holds {text:?}, which is not a number")
    })
}

impl PowerSource for FileMeter {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<Watts>, SourceError> {
        let failed = |message| SourceError::new(&self.name, message);
        let value = match self.number() {
            Ok(value) => value,
            Err(message) => {
                self.means.miss();
                return Err(failed(message));
            }
        };
        self.means.take(now, value).and_then(|()| self.means.tell(now)).map_err(failed)
    }
}
