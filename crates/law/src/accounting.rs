//! What a law did over a run.

use crate::OperatingState;
use wattio_units::Seconds;

/// Time in each state and number of changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accounting {
    /// Time spent in each of [`OperatingState::ALL`].
    pub span_by_state: [Seconds; 3],
    /// Time during which the law had no state to tell.
    pub span_stateless: Seconds,
    /// Changes from one state to another.
    pub transitions: u64,
    /// Steps that changed at least one knob.
    pub changes: u64,
    /// Steps whose latency was missing or too old.
    pub missing: u64,
    /// Steps in all.
    pub steps: u64,
}

impl Accounting {
    /// The share of the time in each of [`OperatingState::ALL`]; `None` before the first step and
    /// for laws without states.
    #[must_use]
    pub fn state_share(&self) -> Option<[f64; 3]> {
        let total: Seconds = self.span_by_state.iter().copied().sum();
        (total.0 > 0.0).then(|| self.span_by_state.map(|span| span / total))
    }

    pub(crate) fn spend(&mut self, state: Option<OperatingState>, dt: Seconds) {
        let span = match state {
            Some(state) => &mut self.span_by_state[state as usize],
            None => &mut self.span_stateless,
        };
        *span = *span + dt;
    }
}
