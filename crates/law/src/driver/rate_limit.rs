//! Limits on how fast a law may slow things down: the dwell after a speed-up, and the most cores
//! turned off in one step.

use super::settings::DriverSettings;
use crate::action::Action;
use wattio_units::Seconds;

/// How long ago each group was sped up.
#[derive(Clone, Debug)]
pub(super) struct RateLimit {
    since_speed_up: Vec<Seconds>,
}

impl RateLimit {
    pub fn new(groups: usize) -> Self {
        Self { since_speed_up: vec![Seconds(f64::INFINITY); groups] }
    }

    /// The part of `wanted` that may come into force after `held`.
    pub fn hold_back(
        &mut self,
        mut wanted: Action,
        held: &Action,
        settings: &DriverSettings,
        dt: Seconds,
    ) -> Action {
        let pairs = wanted.groups.iter_mut().zip(&held.groups).zip(&mut self.since_speed_up);
        for ((group, held), since) in pairs {
            *since = *since + dt;
            let faster = group.cores > held.cores || group.frequency > held.frequency;
            if *since < settings.dwell {
                group.cores = group.cores.max(held.cores);
                if group.frequency < held.frequency {
                    group.frequency = held.frequency;
                }
            }
            group.cores = group.cores.max(held.cores.saturating_sub(settings.cores_off_max));
            if faster {
                *since = Seconds(0.0);
            }
        }
        wanted
    }
}
