//! A law's decision.

use crate::observation::BackgroundObservation;
use wattio_units::{Hertz, Seconds};

/// The setting of everything a law controls, until the next step.
#[derive(Debug, PartialEq)]
pub struct Action {
    /// One entry for each core group, in the order of the observation.
    pub groups: Vec<GroupAction>,
    /// What the drives do while they have no request.
    pub drives: DriveAction,
    /// One entry for each class of background work, in the order of the observation. A class
    /// without an entry runs as its work becomes due.
    pub background: Vec<BackgroundAction>,
}

/// The setting of one core group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupAction {
    /// How many cores should be on.
    pub cores: u32,
    /// At which frequency.
    pub frequency: Hertz,
}

/// What drives without a request do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriveAction {
    /// What they are configured to do by themselves.
    #[default]
    Own,
    /// They stay awake, so that no request waits for one.
    Awake,
    /// They go to their deepest state as soon as they have nothing to do.
    Asleep,
}

/// The budget and priority of one class of background work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundAction {
    /// How much of it may run.
    pub budget: Budget,
    /// Who goes first when cores are scarce.
    pub priority: BackgroundPriority,
}

/// How much background work may run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// As it becomes due: what a server without a law does.
    AsDue,
    /// At most this many core-seconds (at the highest frequency) per second: 0 pauses the class;
    /// more than becomes due works off a backlog.
    CoreSecondsPerSecond(f64),
}

/// Whether background tasks wait for client tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundPriority {
    /// Client tasks go first.
    Low,
    /// Background tasks go first.
    High,
}

impl Budget {
    /// Whether nothing may run.
    #[must_use]
    pub fn is_pause(self) -> bool {
        self == Self::CoreSecondsPerSecond(0.0)
    }

    /// The budget as a share of the rate at which the work becomes due, for knobs that can only
    /// slow down what runs by itself: 1 if nothing is to be slowed.
    #[must_use]
    pub fn share_of(self, due_rate: Option<f64>) -> f64 {
        let Self::CoreSecondsPerSecond(rate) = self else { return 1.0 };
        let due = due_rate.filter(|&due| due > 0.0);
        if rate == 0.0 {
            0.0
        } else {
            // A value that is not a number fails towards running undisturbed.
            due.map(|due| rate / due).filter(|&share| share >= 0.0).map_or(1.0, |s| s.min(1.0))
        }
    }
}

impl BackgroundAction {
    /// What a server without power saving does.
    pub const AS_DUE: Self = Self { budget: Budget::AsDue, priority: BackgroundPriority::Low };
    /// Nothing runs.
    pub const PAUSED: Self =
        Self { budget: Budget::CoreSecondsPerSecond(0.0), priority: BackgroundPriority::Low };

    /// This many core-seconds per second, behind clients.
    #[must_use]
    pub const fn of(core_s_per_s: f64) -> Self {
        Self {
            budget: Budget::CoreSecondsPerSecond(core_s_per_s),
            priority: BackgroundPriority::Low,
        }
    }
}

/// By hand, for a law that keeps what it said last writes it over what it said before.
impl Clone for Action {
    fn clone(&self) -> Self {
        let Self { groups, drives, background } = self;
        Self { groups: groups.clone(), drives: *drives, background: background.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.groups.clone_from(&source.groups);
        self.drives = source.drives;
        self.background.clone_from(&source.background);
    }
}

impl Action {
    /// Whether cores, frequencies or drives are set otherwise. Budgets of background work do not count:
    /// they follow the work from window to window.
    #[must_use]
    pub fn sets_otherwise(&self, before: &Self) -> bool {
        self.groups != before.groups || self.drives != before.drives
    }

    /// What a class of background work may do.
    #[must_use]
    pub fn background_of(&self, class: usize) -> BackgroundAction {
        self.background.get(class).copied().unwrap_or(BackgroundAction::AS_DUE)
    }

    /// The least share of what became due in a window that any class may do, for knobs that do not
    /// tell classes apart, and for reports.
    #[must_use]
    pub fn background_share(&self, seen: &[BackgroundObservation], dt: Seconds) -> f64 {
        let share = |(at, class): (usize, &BackgroundAction)| {
            class.budget.share_of(seen.get(at).map(|class| class.due_core_s / dt.0))
        };
        self.background.iter().enumerate().map(share).fold(1.0, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_share_of_what_becomes_due_and_never_more() {
        let rate = Budget::CoreSecondsPerSecond;
        assert_eq!(rate(1.0).share_of(Some(4.0)), 0.25);
        assert_eq!(rate(8.0).share_of(Some(4.0)), 1.0);
        assert_eq!(rate(0.0).share_of(None), 0.0);
        assert_eq!(rate(1.0).share_of(None), 1.0, "nobody knows what share that is");
        assert_eq!(rate(f64::NAN).share_of(Some(4.0)), 1.0);
        assert_eq!(Budget::AsDue.share_of(Some(4.0)), 1.0);
    }
}
