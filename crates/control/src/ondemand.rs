//! Linux's ondemand governor, as in the kernel and as printed in PACER.

use crate::parameters::{Settings, number};
use wattio_law::{Action, DriveAction, GroupAction, GroupLimits, Law, Limits, Observation};
use wattio_units::{Hertz, Seconds};

/// Which formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OndemandVariant {
    /// The kernel's: the highest frequency above `up_threshold`, else
    /// `f_min + load (f_max - f_min)`.
    Linux,
    /// The PACER document, section III-C: `f_max T / T_total`, where the T printed as idle time must be the
    /// busy time.
    Document,
}

/// Its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OndemandSettings {
    /// Which formula.
    pub variant: OndemandVariant,
    /// Time between two samples.
    pub period: Seconds,
    /// Load above which the highest frequency is set; the kernel's variant only.
    pub up_threshold: f64,
}

impl OndemandSettings {
    pub(crate) fn from_resolved(settings: &Settings, variant: OndemandVariant) -> Self {
        Self {
            variant,
            period: Seconds(number(settings, "sampling_rate")),
            up_threshold: match variant {
                OndemandVariant::Linux => number(settings, "up_threshold"),
                OndemandVariant::Document => 1.0,
            },
        }
    }
}

/// The governor: each group's frequency follows the load of its cores. It switches no core off and
/// knows no latency.
#[derive(Clone, Debug)]
pub struct Ondemand {
    settings: OndemandSettings,
    limits: Limits,
}

impl Ondemand {
    /// For a server of these limits.
    #[must_use]
    pub fn new(settings: OndemandSettings, limits: Limits) -> Self {
        Self { settings, limits }
    }

    fn frequency(&self, limits: &GroupLimits, load: f64) -> Hertz {
        let (least, most) = (limits.frequency_min, limits.frequency_max);
        match self.settings.variant {
            OndemandVariant::Linux if load > self.settings.up_threshold => most,
            OndemandVariant::Linux => least + (most - least) * load,
            OndemandVariant::Document => most * load,
        }
    }
}

impl Law for Ondemand {
    fn step(&mut self, observation: &Observation, _: Seconds) -> Action {
        let groups = self.limits.groups.iter().enumerate().map(|(at, limits)| {
            let load = observation.groups.get(at).map_or(1.0, |group| group.utilisation());
            let frequency = self.frequency(limits, load.clamp(0.0, 1.0));
            limits.clamp(GroupAction { cores: limits.cores_max, frequency })
        });
        Action { groups: groups.collect(), drives: DriveAction::Own, background: Vec::new() }
    }

    fn is_memoryless(&self) -> bool {
        true
    }

    fn period(&self) -> Seconds {
        self.settings.period
    }
}
