//! Clients that the watched latency series does not cover: clients of another service, or requests
//! that the source does not count. They are visible only in the use of the cores.

use wattio_law::{Limits, Observation};

/// Whether clients' tasks keep cores busy: at full speed they would need more than `share_max` of
/// some group's cores, or they fill more than `utilisation_max` of those that it has now. What is no
/// number is much.
pub fn keep_cores_busy(
    seen: &Observation,
    limits: &Limits,
    share_max: f64,
    utilisation_max: f64,
) -> bool {
    !seen.groups.iter().zip(&limits.groups).all(|(group, limits)| {
        let cores = group.utilisation_clients * f64::from(group.cores);
        let share = cores * (group.frequency / limits.frequency_max) / f64::from(limits.cores_max);
        share <= share_max && group.utilisation_clients <= utilisation_max
    })
}
