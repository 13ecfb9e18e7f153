//! What a law says.

use wattio_units::Hertz;

/// The setting of every knob until the next step.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// One entry for each core group, in the order of the observation.
    pub groups: Vec<GroupAction>,
    /// What the background work may do.
    pub background: BackgroundDirective,
}

/// The setting of one core group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupAction {
    /// How many cores shall be on.
    pub cores: u32,
    /// At which frequency.
    pub frequency: Hertz,
}

/// The pace and priority of background work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundDirective {
    /// Released work as a multiple of the rate at which it becomes due: 0 pauses, 1 keeps up,
    /// above 1 works a backlog off.
    pub pace: f64,
    /// Who goes first when cores are scarce.
    pub priority: BackgroundPriority,
}

/// Whether background tasks wait for client tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundPriority {
    /// Client tasks go first.
    Low,
    /// Background tasks go first.
    High,
}

impl BackgroundDirective {
    /// What a server without power saving does.
    pub const AS_DUE: Self = Self { pace: 1.0, priority: BackgroundPriority::Low };
    /// Nothing runs.
    pub const PAUSED: Self = Self { pace: 0.0, priority: BackgroundPriority::Low };
}
