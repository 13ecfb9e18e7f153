//! No power saving: the upper bound on performance, with which other laws are compared.

use wattio_law::{Action, Law, Limits, Observation};
use wattio_units::Seconds;

/// All cores at the highest frequency, always.
#[derive(Clone, Debug)]
pub struct Native {
    limits: Limits,
}

impl Native {
    /// For a server of these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }
}

impl Law for Native {
    fn step(&mut self, _: &Observation, _: Seconds) -> Action {
        self.limits.full_speed()
    }

    fn is_memoryless(&self) -> bool {
        true
    }

    fn period(&self) -> Seconds {
        Seconds(0.5)
    }
}
