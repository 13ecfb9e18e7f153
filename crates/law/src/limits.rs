//! What an action may ask for.

use crate::action::{Action, Budget, DriveAction, GroupAction};
use wattio_units::{Hertz, Seconds, Watts};

/// The limits of one core group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupLimits {
    /// The fewest cores that may stay on.
    pub cores_min: u32,
    /// The number of cores in the group.
    pub cores_max: u32,
    /// The lowest frequency.
    pub frequency_min: Hertz,
    /// The highest frequency.
    pub frequency_max: Hertz,
    /// The frequencies that the cores can run at, ascending; empty if any within the limits will
    /// do.
    pub frequency_steps: Vec<Hertz>,
    /// Whether a core without a task sleeps and draws little; taking it off then saves little.
    pub idle_cores_sleep: bool,
    /// What a core draws, if known: ascending by frequency.
    pub power: Vec<CorePower>,
    /// The share of a task's time that scales with `1 / frequency`, if known.
    pub frequency_bound_share: Option<f64>,
}

/// What one core draws at a frequency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorePower {
    /// The frequency.
    pub frequency: Hertz,
    /// While running a task.
    pub running: Watts,
    /// While on, without a task.
    pub idle: Watts,
}

/// The deepest state of sleep of the drives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveSleep {
    /// How many drives there are: each is woken by itself, by a request of its own.
    pub count: u32,
    /// What all of them together save in it against being awake without a request, if known.
    pub saves: Option<Watts>,
    /// The longest that the request that ends it waits.
    pub wake: Seconds,
    /// Time without a request after which they enter it by themselves.
    pub after: Seconds,
}

/// The limits of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// One entry for each core group.
    pub groups: Vec<GroupLimits>,
    /// How the drives sleep, if known.
    pub drives: Option<DriveSleep>,
    /// How long cores take to come on.
    pub gate_on: Seconds,
}

impl GroupLimits {
    /// All cores at the highest frequency.
    #[must_use]
    pub fn full(&self) -> GroupAction {
        GroupAction { cores: self.cores_max, frequency: self.frequency_max }
    }

    /// The fewest cores at the lowest frequency.
    #[must_use]
    pub fn least(&self) -> GroupAction {
        GroupAction { cores: self.cores_min, frequency: self.frequency_min }
    }

    /// The nearest permitted setting that is no slower than `wanted`, if there is one. A frequency
    /// that is not a number fails towards full speed.
    #[must_use]
    pub fn clamp(&self, wanted: GroupAction) -> GroupAction {
        let asked = if wanted.frequency.0.is_nan() { self.frequency_max } else { wanted.frequency };
        let within = asked.0.clamp(self.frequency_min.0, self.frequency_max.0);
        // Rounding tolerance, so that a step computed as 0.3 * 2.6 GHz matches itself.
        let reached = |step: &&Hertz| step.0 >= within * (1.0 - 1e-9);
        let frequency = self.frequency_steps.iter().find(reached).copied().unwrap_or(Hertz(within));
        GroupAction { cores: wanted.cores.clamp(self.cores_min, self.cores_max), frequency }
    }
}

impl Limits {
    /// Limits of groups alone: nothing is known of the drives, and cores come on at once.
    #[must_use]
    pub const fn of(groups: Vec<GroupLimits>) -> Self {
        Self { groups, drives: None, gate_on: Seconds(0.0) }
    }

    /// All cores at the highest frequency, background work as it becomes due.
    #[must_use]
    pub fn full_speed(&self) -> Action {
        Action {
            groups: self.groups.iter().map(GroupLimits::full).collect(),
            drives: DriveAction::Own,
            background: Vec::new(),
        }
    }

    /// The nearest permitted action. A budget that is not a number is dropped. Groups that the
    /// action does not name run at full speed.
    #[must_use]
    pub fn clamp(&self, wanted: &Action) -> Action {
        self.clamped(wanted.clone())
    }

    /// The same of an action that is given away.
    #[must_use]
    pub fn clamped(&self, mut wanted: Action) -> Action {
        wanted.groups.truncate(self.groups.len());
        for (group, limits) in wanted.groups.iter_mut().zip(&self.groups) {
            *group = limits.clamp(*group);
        }
        let unnamed = self.groups.iter().skip(wanted.groups.len());
        wanted.groups.extend(unnamed.map(GroupLimits::full));
        for class in &mut wanted.background {
            if let Budget::CoreSecondsPerSecond(rate) = class.budget
                && !(rate.is_finite() && rate >= 0.0)
            {
                class.budget = Budget::AsDue;
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackgroundAction;
    use proptest::prelude::*;

    fn limits() -> GroupLimits {
        GroupLimits {
            cores_min: 2,
            cores_max: 16,
            frequency_min: Hertz(0.8e9),
            frequency_max: Hertz(2.6e9),
            frequency_steps: vec![Hertz(0.8e9), Hertz(1.7e9), Hertz(2.6e9)],
            idle_cores_sleep: false,
            power: vec![],
            frequency_bound_share: None,
        }
    }

    #[test]
    fn a_frequency_between_two_steps_goes_to_the_faster_one() {
        let clamped = limits().clamp(GroupAction { cores: 5, frequency: Hertz(0.9e9) });
        assert_eq!(clamped, GroupAction { cores: 5, frequency: Hertz(1.7e9) });
    }

    #[test]
    fn what_is_not_a_number_or_not_named_runs_at_full_speed() {
        let whole = Limits::of(vec![limits(), limits()]);
        let odd = Action {
            groups: vec![GroupAction { cores: 4, frequency: Hertz(f64::NAN) }],
            drives: DriveAction::Own,
            background: vec![BackgroundAction::of(f64::NAN), BackgroundAction::of(2.0)],
        };
        let clamped = whole.clamp(&odd);
        assert_eq!(clamped.groups[0].frequency, Hertz(2.6e9));
        assert_eq!(clamped.groups[1], limits().full());
        assert_eq!(clamped.background, [BackgroundAction::AS_DUE, BackgroundAction::of(2.0)]);
    }

    proptest! {
        #[test]
        fn every_action_ends_within_the_limits(cores: u32, frequency in -1e12f64..1e12) {
            let clamped = limits().clamp(GroupAction { cores, frequency: Hertz(frequency) });
            prop_assert!((2..=16).contains(&clamped.cores));
            prop_assert!(limits().frequency_steps.contains(&clamped.frequency));
        }
    }
}
