//! The source of each window's power: one of the kernel's meters by name, or a `kind` of source
//! with its keys. The law also works without power.

mod exec;
pub mod file;
mod kernel;
mod means;
pub mod prometheus;
mod unit;

pub use unit::Unit;

use crate::Root;
use crate::Stopwatch;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use wattio_governor::{PowerSource, SourceError};
use wattio_units::Seconds;

/// `power.meter`: the name of one of the kernel's meters, or a table.
#[derive(Clone, Debug, PartialEq)]
pub enum MeterConfig {
    /// `"rapl:package-0"`, `"rapl:sum"`, `"hwmon:NAME/power1"`.
    Kernel(String),
    /// Another source.
    Source(SourceConfig),
}

/// A source of power other than the kernel's meters: `kind` and the keys of that kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SourceConfig {
    /// A file that holds one number.
    File(file::Config),
    /// A metrics page.
    Prometheus(prometheus::Config),
    /// A command that prints what it measured.
    Exec(super::exec::Config),
}

impl<'de> Deserialize<'de> for MeterConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = MeterConfig;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str(
                    "a meter's name such as \"rapl:sum\", or a table such as { kind = \"file\", \
                     path = \"/sys/...\", unit = \"uW\" }",
                )
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<MeterConfig, E> {
                Ok(MeterConfig::Kernel(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<MeterConfig, A::Error> {
                let source = SourceConfig::deserialize(MapAccessDeserializer::new(table))?;
                Ok(MeterConfig::Source(source))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl MeterConfig {
    /// Checks that do not need the host.
    ///
    /// # Errors
    /// The key below `power.meter`, and what is allowed.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match self {
            Self::Kernel(_) => Ok(()),
            Self::Source(SourceConfig::File(config)) => config.check(),
            Self::Source(SourceConfig::Prometheus(config)) => config.check(),
            Self::Source(SourceConfig::Exec(config)) => match config.command.first() {
                Some(program) if program.starts_with('/') => Ok(()),
                _ => {
                    let command = &config.command;
                    let message =
                        format!("is {command:?}; it must begin with the program's absolute path");
                    Err(("command", message))
                }
            },
        }
    }

    /// As [`super::LatencyConfig::opens_twice`].
    #[must_use]
    pub fn opens_twice(&self) -> bool {
        match self {
            Self::Source(SourceConfig::Exec(_)) => false,
            Self::Kernel(_) | Self::Source(SourceConfig::File(_) | SourceConfig::Prometheus(_)) => {
                true
            }
        }
    }

    /// Opens the source; `period` is the governor's window.
    ///
    /// # Errors
    /// [`SourceError`] if the configuration names something that does not exist or makes no sense.
    pub fn open(
        &self,
        root: &Root,
        period: Seconds,
        stopwatch: Stopwatch,
    ) -> Result<Box<dyn PowerSource>, SourceError> {
        Ok(match self {
            Self::Kernel(name) => Box::new(kernel::KernelMeter::open(root, name)?),
            Self::Source(SourceConfig::File(config)) => {
                Box::new(file::FileMeter::open(config, root))
            }
            Self::Source(SourceConfig::Prometheus(config)) => {
                Box::new(prometheus::open(config, period, stopwatch)?)
            }
            Self::Source(SourceConfig::Exec(config)) => {
                Box::new(exec::ExecMeter::open(config, root, stopwatch)?)
            }
        })
    }
}

#[cfg(test)]
mod tests;
