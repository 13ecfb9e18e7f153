//! What a law sets a server to, as rates need it.

use wattio_law::DriveAction;
use wattio_plant::GROUPS_MAX;

/// What a server is set to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Cores of each group that take tasks.
    pub cores: [f64; GROUPS_MAX],
    /// Time of a task over its time at the highest frequency, by group.
    pub stretch: [f64; GROUPS_MAX],
    /// Background work that is released, in cores' worth at the highest frequency, by group.
    pub released: [f64; GROUPS_MAX],
    /// What idle drives do.
    pub drives: DriveAction,
}
