//! A law that does what a test has laid down.

use wattio_law::{Action, Law, Observation};
use wattio_units::Seconds;

/// Follows a plan that was made beforehand.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The actions, each until a time in seconds since the start.
    pub plan: Vec<(Seconds, Action)>,
    /// The action afterwards.
    pub last: Action,
    /// How often it is asked.
    pub period: Seconds,
    /// Time that passed.
    pub elapsed: Seconds,
}

impl Law for Schedule {
    fn step(&mut self, _: &Observation, dt: Seconds) -> Action {
        self.elapsed = self.elapsed + dt;
        // Half a period of tolerance, so that the step that falls on a boundary takes it.
        let now = self.elapsed + self.period * 0.5;
        let at = self.plan.partition_point(|&(until, _)| until < now);
        self.plan.get(at).map_or_else(|| self.last.clone(), |(_, action)| action.clone())
    }
    fn period(&self) -> Seconds {
        self.period
    }
}
