//! Units of meters.

use serde::Deserialize;

/// The unit of a meter's number: of current power, or of counted energy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Unit {
    /// Watts.
    #[serde(rename = "W")]
    Watts,
    /// Milliwatts.
    #[serde(rename = "mW")]
    Milliwatts,
    /// Microwatts, as hwmon has them.
    #[serde(rename = "uW")]
    Microwatts,
    /// Joules.
    #[serde(rename = "J")]
    Joules,
    /// Millijoules.
    #[serde(rename = "mJ")]
    Millijoules,
    /// Microjoules, as powercap has them.
    #[serde(rename = "uJ")]
    Microjoules,
}

impl Unit {
    /// Watts or joules of one unit.
    #[must_use]
    pub const fn scale(self) -> f64 {
        match self {
            Self::Watts | Self::Joules => 1.0,
            Self::Milliwatts | Self::Millijoules => 1e-3,
            Self::Microwatts | Self::Microjoules => 1e-6,
        }
    }

    /// Whether it counts energy.
    #[must_use]
    pub const fn is_energy(self) -> bool {
        matches!(self, Self::Joules | Self::Millijoules | Self::Microjoules)
    }
}
