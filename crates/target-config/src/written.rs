//! Values that are written as text.

use serde::{Deserialize, Deserializer};
use std::time::Duration;
use wattio_units::Seconds;

/// A value from its text; the error is what the reader says of it.
pub fn text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    read(&text).map_err(serde::de::Error::custom)
}

/// A time from 0 on, with its unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let span: Seconds = text.parse().map_err(|error| format!("{error}"))?;
    Duration::try_from_secs_f64(span.0).map_err(|_| format!("{text:?} is not a time from 0 on"))
}
