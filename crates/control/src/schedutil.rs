//! Linux's schedutil governor.

use crate::parameters::{Settings, flag, number};
use wattio_law::{Action, DriveAction, GroupAction, Law, Limits, Observation};
use wattio_units::{Hertz, Seconds};

/// Its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchedutilSettings {
    /// Least time between two changes of the frequency.
    pub rate_limit: Seconds,
    /// Frequency over utilisation.
    pub headroom: f64,
    /// Whether tasks that waited for a drive raise the frequency.
    pub io_wait_boost: bool,
}

impl SchedutilSettings {
    pub(crate) fn from_resolved(settings: &Settings) -> Self {
        Self {
            rate_limit: Seconds(number(settings, "rate_limit")),
            headroom: number(settings, "headroom"),
            io_wait_boost: flag(settings, "io_wait_boost"),
        }
    }
}

/// The governor: `f = 1.25 u f_max`, where u is the utilisation as it would be at the highest
/// frequency; a boost that doubles with every window with I/O wait and halves without.
#[derive(Clone, Debug)]
pub struct Schedutil {
    settings: SchedutilSettings,
    limits: Limits,
    /// Boost of each group as a share of its highest frequency.
    boosts: Vec<f64>,
}

/// The kernel starts a boost at an eighth of the capacity.
const BOOST_FIRST: f64 = 0.125;

impl Schedutil {
    /// For a server of these limits.
    #[must_use]
    pub fn new(settings: SchedutilSettings, limits: Limits) -> Self {
        let boosts = vec![0.0; limits.groups.len()];
        Self { settings, limits, boosts }
    }
}

impl Law for Schedutil {
    fn step(&mut self, observation: &Observation, _: Seconds) -> Action {
        let mut groups = Vec::with_capacity(self.limits.groups.len());
        for (at, limits) in self.limits.groups.iter().enumerate() {
            let Some(group) = observation.groups.get(at) else {
                groups.push(limits.full());
                continue;
            };
            let boost = &mut self.boosts[at];
            *boost = match (self.settings.io_wait_boost, group.waited_for_drives) {
                (false, _) => 0.0,
                (true, true) => (*boost * 2.0).clamp(BOOST_FIRST, 1.0),
                (true, false) if *boost > BOOST_FIRST => *boost / 2.0,
                (true, false) => 0.0,
            };
            let relative = group.frequency / limits.frequency_max;
            let demand = self.settings.headroom * group.utilisation() * relative;
            // What is no number must not look like an idle core.
            let wanted = if demand.is_nan() { 1.0 } else { demand.max(*boost) };
            let frequency = Hertz(limits.frequency_max.0 * wanted.min(1.0));
            groups.push(limits.clamp(GroupAction { cores: limits.cores_max, frequency }));
        }
        Action { groups, drives: DriveAction::Own, background: Vec::new() }
    }

    fn period(&self) -> Seconds {
        self.settings.rate_limit
    }
}
