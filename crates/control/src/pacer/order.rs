//! Which adaptor goes first.
use super::settings::PacerSettings;
use wattio_law::{Limits, Observation};

/// What an adaptor turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// The number of cores.
    Cores,
    /// Their frequency.
    Frequency,
}

/// The knob that goes first when there is room: cores where idle cores poll, the frequency where
/// they sleep.
pub fn costs_less(_: f64, _: &Observation, limits: &Limits, _: &PacerSettings) -> Knob {
    let sleep = limits.groups.iter().all(|group| group.idle_cores_sleep);
    if sleep { Knob::Frequency } else { Knob::Cores }
}
