//! A scripted plant for tests of laws and of drivers.

use crate::{Action, Glimpse, LatencyObservation, Observation, Plant, Seen};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use wattio_units::Seconds;

/// Plays one observation after the other, and records the actions applied.
#[derive(Debug)]
pub struct Scripted {
    /// The next windows; the last one repeats.
    pub windows: VecDeque<Observation>,
    /// The next glimpses; a quiet, ready one after the last.
    pub looks: VecDeque<Glimpse>,
    /// Why full speed is forced in the next window.
    pub forced: Option<String>,
    /// What was applied.
    pub applied: Vec<Action>,
    now: Duration,
}

impl Scripted {
    /// Plays these windows.
    #[must_use]
    pub fn new(windows: impl IntoIterator<Item = Observation>) -> Self {
        Self {
            windows: windows.into_iter().collect(),
            looks: VecDeque::new(),
            forced: None,
            applied: Vec::new(),
            now: Duration::ZERO,
        }
    }
}

impl Plant for Scripted {
    type Error = Infallible;

    fn advance(&mut self, until: Duration) -> Result<Glimpse, Infallible> {
        let span = Seconds(until.saturating_sub(self.now).as_secs_f64());
        self.now = until;
        let quiet = Glimpse { is_ready: true, ..Glimpse::default() };
        Ok(Glimpse { span, ..self.looks.pop_front().unwrap_or(quiet) })
    }

    fn observe(&mut self, _: Seconds, alarm: bool) -> Seen {
        let nothing = || Observation {
            latency: Some(LatencyObservation::quiet(Seconds(0.0))),
            groups: Vec::new(),
            background: Vec::new(),
            power: None,
            alarm: false,
        };
        let shown = match self.windows.len() {
            0 => nothing(),
            1 => self.windows[0].clone(),
            _ => self.windows.pop_front().unwrap_or_else(nothing),
        };
        let observation = Observation { alarm: alarm || shown.alarm, ..shown };
        Seen { observation, forced: self.forced.take() }
    }

    fn apply(&mut self, action: &Action) -> Action {
        self.applied.push(action.clone());
        action.clone()
    }
}
