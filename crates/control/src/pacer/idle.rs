//! The idle check (section IV-B): when a server is idle, and the setting it then gets.
//!
//! As printed, a server is idle when the counted requests have stopped. Here it must also have none
//! in flight and do little other work for clients: clients of another service, or requests that the
//! source does not count, show in the use of the cores.

use super::settings::PacerSettings;
use crate::uncovered::keep_cores_busy;
use wattio_law::{GroupAction, GroupLimits, GroupObservation, Limits, Observation};

/// An idle group is given cores for twice the clients' work that is seen.
const ROOM: f64 = 2.0;

/// Whether the cores have so little to do for clients that nobody waits: at full speed it would be
/// less than `idle_utilisation_max`, and an idle server's few cores are not overrun by it. What is
/// no number is much.
pub fn is_idle(seen: &Observation, idles: bool, limits: &Limits, settings: &PacerSettings) -> bool {
    let utilisation_max = if idles { settings.burst_utilisation } else { f64::INFINITY };
    !keep_cores_busy(seen, limits, settings.idle_utilisation_max, utilisation_max)
}

/// The fewest cores at the lowest frequency that what clients' tasks are left need.
pub fn at_rest(seen: &Observation, limits: &Limits, settings: &PacerSettings) -> Vec<GroupAction> {
    let rest = limits.groups.iter().enumerate().map(|(at, limits)| {
        let mut rest = limits.full();
        if settings.adapt_frequency {
            rest.frequency = limits.frequency_min;
        }
        if settings.adapt_cores {
            rest.cores = seen
                .groups
                .get(at)
                .map_or(limits.cores_min, |group| cores_for(group, rest, limits, settings));
        }
        rest
    });
    rest.collect()
}

fn cores_for(
    group: &GroupObservation,
    rest: GroupAction,
    limits: &GroupLimits,
    settings: &PacerSettings,
) -> u32 {
    let slower = (group.frequency / rest.frequency).max(1.0);
    let cores = core_seconds(group) * slower * ROOM / settings.utilisation_clients_max;
    (cores.ceil() as u32).clamp(limits.cores_min, limits.cores_max)
}

/// Clients' work in cores' worth.
fn core_seconds(group: &GroupObservation) -> f64 {
    group.utilisation_clients * f64::from(group.cores)
}
