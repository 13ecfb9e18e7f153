//! What a driver drives: a simulated server, a live host, a storage target, a member of a fleet.

use crate::{Action, InFlight, Observation};
use std::time::Duration;
use wattio_units::Seconds;

/// A server that a law governs.
///
/// A plant neither cuts windows nor judges what it measures: it advances, reports what it sees, and
/// applies actions. All else is the [`crate::Driver`]'s, and so the same for every plant.
pub trait Plant {
    /// Why it cannot advance.
    type Error;

    /// Advances to `until`, on the clock that the driver was started with. A simulation runs to
    /// that time; a host, whose time passes by itself, takes in what happened until then.
    ///
    /// # Errors
    /// When it cannot advance at all. A failing source is not an error here: see [`Seen::forced`].
    fn advance(&mut self, until: Duration) -> Result<Glimpse, Self::Error>;

    /// What happened since the last call, over a window of length `dt`; `alarm` tells whether an
    /// alarm closed it.
    fn observe(&mut self, dt: Seconds, alarm: bool) -> Seen;

    /// Puts an action into force; returns what is in force now, which is full speed where the
    /// action could not be brought about.
    fn apply(&mut self, action: &Action) -> Action;

    /// How often there is something new to see, if known; looking more often is pointless.
    fn interval(&self) -> Option<Seconds> {
        None
    }
}

/// What a plant reports between two steps of the law: what happened since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Glimpse {
    /// The time it covers.
    pub span: Seconds,
    /// Requests that arrived, if known.
    pub arrived: Option<u64>,
    /// Requests that completed.
    pub completed: u64,
    /// Their mean latency in microseconds; `None` when there were none.
    pub latency_us_mean: Option<f64>,
    /// The requests under way now.
    pub in_flight: Option<InFlight>,
    /// Whether the law can be stepped: there is a sample of the running window, a problem, or a
    /// sample is overdue.
    pub is_ready: bool,
}

/// A window as the plant saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// What the law should see.
    pub observation: Observation,
    /// Why full speed must follow regardless of the law, if so: a failing source, a guard, a pause.
    pub forced: Option<String>,
}

impl Glimpse {
    /// This look and a later one as one.
    #[must_use]
    pub fn merge(self, later: Self) -> Self {
        let completed = self.completed.saturating_add(later.completed);
        let share = if completed > 0 { later.completed as f64 / completed as f64 } else { 0.0 };
        Self {
            span: self.span + later.span,
            arrived: self.arrived.zip(later.arrived).map(|(a, b)| a.saturating_add(b)),
            completed,
            latency_us_mean: match (self.latency_us_mean, later.latency_us_mean) {
                (Some(a), Some(b)) => Some(a + (b - a) * share),
                (a, b) => a.or(b),
            },
            in_flight: later.in_flight,
            is_ready: later.is_ready,
        }
    }

    /// Requests that arrived, or if unknown, that completed.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.arrived.unwrap_or(self.completed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_looks_weigh_by_requests_and_keep_what_both_know() {
        let look = |completed: u64, latency_us: f64| Glimpse {
            span: Seconds(0.025),
            arrived: Some(completed + 1),
            completed,
            latency_us_mean: (completed > 0).then_some(latency_us),
            in_flight: Some(InFlight { requests: completed, oldest: None }),
            is_ready: true,
        };
        let both = look(10, 100.0).merge(look(30, 200.0));
        assert_eq!((both.completed, both.latency_us_mean), (40, Some(175.0)));
        assert_eq!((both.arrived, both.in_flight.unwrap().requests), (Some(42), 30));
        assert_eq!(look(10, 100.0).merge(look(0, 0.0)).latency_us_mean, Some(100.0));
        let blind = Glimpse { arrived: None, ..look(5, 1.0) };
        assert_eq!(look(5, 1.0).merge(blind).offered(), 10);
    }
}
