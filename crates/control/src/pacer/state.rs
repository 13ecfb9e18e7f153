//! The states of the law (PACER document, figure 9). They are its own: what others need of them is
//! said in the action and in [`wattio_law::Insight`].

/// The operating state that the law believes the server is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatingState {
    /// The load changes or is not yet known: full speed, no saving.
    Unstable,
    /// The load is steady: power is saved within the latency bound.
    Stable,
    /// No client has asked for anything for a while.
    Idle,
}

impl OperatingState {
    /// The names in results and reports.
    pub const NAMES: [&'static str; 3] = ["unstable", "stable", "idle"];

    /// The name in results and reports.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
