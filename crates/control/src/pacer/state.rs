//! The states of the law (PACER, figure 9). They are private to it: other code learns what it needs
//! from the action and from [`wattio_law::Insight`].

/// The operating state that the law believes the server is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatingState {
    /// Unstable in print: full speed since the last step. The window that runs mixes both speeds
    /// and teaches nothing.
    Settling,
    /// The load changes or is not yet known: full speed, no saving.
    Unstable,
    /// The load is steady: power is saved within the latency bound.
    Stable,
    /// No client has asked for anything for a while.
    Idle,
}

impl OperatingState {
    /// The names in results and reports: the document's three states.
    pub const NAMES: [&'static str; 3] = ["unstable", "stable", "idle"];

    /// The name in results and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Settling | Self::Unstable => Self::NAMES[0],
            Self::Stable => Self::NAMES[1],
            Self::Idle => Self::NAMES[2],
        }
    }

    /// Whether nothing is saved.
    pub const fn is_at_full_speed(self) -> bool {
        matches!(self, Self::Settling | Self::Unstable)
    }
}
