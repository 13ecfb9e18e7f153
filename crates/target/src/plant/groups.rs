//! The groups of reactors that a law governs: the cores of a group are reactors.
//!
//! A reactor belongs to one group. With one group, every reactor runs every lane. With two, the
//! connections (Normal) and the volumes (KV and RV, which are one lane) have separate reactors.

use std::collections::BTreeSet;
use std::ops::Range;
use wattio_host::groups::Speeds;
use wattio_host::ledger::with_power;
use wattio_law::{Action, Budget, DriveAction, GroupLimits, Limits};
use wattio_plant::PowerModel;
use wattio_target_config::{GroupsError, check_groups};
use wattio_units::Hertz;

/// The frequency of cores where no knob turns it: only shares of it count.
const NOMINAL: Hertz = Hertz(1e9);

/// A group of reactors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// Its reactors; the law takes the last ones first.
    pub reactors: Range<usize>,
    /// How many always stay.
    pub reactors_min: u32,
}

/// The groups, which together have each reactor once.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    groups: Vec<Group>,
    /// Of each group.
    limits: Vec<GroupLimits>,
    /// Whether a reactor without work sleeps, instead of looking for some.
    pub idle_cores_sleep: bool,
}

impl Layout {
    /// All reactors as one group, of which `reactors_min` always stay; or with the last `volumes`
    /// of them, if any, for volumes alone.
    ///
    /// # Errors
    /// [`GroupsError`] with the key, and what is allowed.
    pub fn new(reactors: usize, volumes: usize, reactors_min: usize) -> Result<Self, GroupsError> {
        check_groups(reactors, volumes, reactors_min)?;
        let connections = reactors - volumes;
        let group = |name, reactors| Group { name, reactors, reactors_min: reactors_min as u32 };
        let groups = match volumes {
            0 => vec![group("reactors", 0..reactors)],
            _ => vec![group("normal", 0..connections), group("volumes", connections..reactors)],
        };
        let limits = groups.iter().map(|group| GroupLimits {
            cores_min: group.reactors_min,
            cores_max: group.reactors.len() as u32,
            frequency_min: NOMINAL,
            frequency_max: NOMINAL,
            frequency_steps: Vec::new(),
            idle_cores_sleep: true,
            power: Vec::new(),
            frequency_bound_share: None,
        });
        Ok(Self { limits: limits.collect(), groups, idle_cores_sleep: true })
    }

    /// The same with cores whose frequency is turned: what that of each group can be, and what they
    /// then draw by a model, if there is one.
    #[must_use]
    pub fn with_speeds(mut self, speeds: &[Speeds], model: Option<&PowerModel>) -> Self {
        for (limits, speeds) in self.limits.iter_mut().zip(speeds) {
            let turned = GroupLimits {
                frequency_min: speeds.lowest,
                frequency_max: speeds.highest,
                frequency_steps: speeds.steps.clone(),
                ..limits.clone()
            };
            *limits = with_power(turned, model);
        }
        self
    }

    /// Whether the frequency of each group's cores is turned.
    pub fn turns_frequency(&self) -> impl Iterator<Item = bool> {
        self.limits.iter().map(|limits| limits.frequency_min < limits.frequency_max)
    }

    /// The groups, in the order of actions.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The limits of actions.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let idle_cores_sleep = self.idle_cores_sleep;
        let group = |limits: &GroupLimits| GroupLimits { idle_cores_sleep, ..limits.clone() };
        Limits::of(self.limits.iter().map(group).collect())
    }

    /// What an action within the limits asks of the reactors.
    #[must_use]
    pub fn setting(&self, action: &Action) -> Setting {
        let asked = self.groups.iter().zip(&action.groups);
        let active = asked.map(|(group, asked)| group.reactors.clone().take(asked.cores as usize));
        let active: Vec<BTreeSet<usize>> = active.map(Iterator::collect).collect();
        // Of one group, both are the same.
        let volumes = active.last().cloned().unwrap_or_default();
        let connections = active.into_iter().next().unwrap_or_default();
        let budgets = std::array::from_fn(|class| match action.background_of(class).budget {
            Budget::AsDue => None,
            Budget::CoreSecondsPerSecond(rate) => Some(rate),
        });
        Setting { connections, volumes, budgets, drives: action.drives }
    }
}

/// What reactors are to do until the next action. Those that have neither connections nor volumes
/// hand over what they have, and sleep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// Reactors that may have connections.
    pub connections: BTreeSet<usize>,
    /// Reactors that may have volumes.
    pub volumes: BTreeSet<usize>,
    /// Core-seconds in a second that each class of background work may take, over all reactors, in
    /// the order of [`super::CLASSES`]; `None`: as it becomes due. What is urgent does not wait.
    pub budgets: [Option<f64>; super::CLASSES.len()],
    /// What drives without a request do.
    pub drives: DriveAction,
}

impl Setting {
    /// The reactors that are on.
    #[must_use]
    pub fn active(&self) -> BTreeSet<usize> {
        &self.connections | &self.volumes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_law::{BackgroundAction, GroupAction};

    #[test]
    fn each_reactor_is_in_one_group_and_the_last_are_taken_first() {
        for (reactors, volumes) in [(4, 0), (4, 1), (5, 2)] {
            let layout = Layout::new(reactors, volumes, 1).unwrap();
            let all: Vec<usize> =
                layout.groups().iter().flat_map(|group| group.reactors.clone()).collect();
            assert_eq!(all, (0..reactors).collect::<Vec<_>>());
            let limits = layout.limits();
            let full = layout.setting(&limits.full_speed());
            assert_eq!(full.active().len(), reactors);
            let groups: Vec<GroupAction> = limits.groups.iter().map(GroupLimits::least).collect();
            let least = layout.setting(&Action { groups, ..limits.full_speed() });
            let first: BTreeSet<usize> =
                layout.groups().iter().map(|group| group.reactors.start).collect();
            assert_eq!(least.active(), first);
        }
    }

    #[test]
    fn lanes_share_reactors_or_have_their_own() {
        let one = Layout::new(3, 0, 1).unwrap();
        let full = one.setting(&one.limits().full_speed());
        assert_eq!(full.connections, full.volumes);
        let apart = Layout::new(3, 1, 1).unwrap();
        let background = vec![BackgroundAction::AS_DUE, BackgroundAction::of(0.5)];
        let full = apart.setting(&Action { background, ..apart.limits().full_speed() });
        let sets = (BTreeSet::from([0, 1]), BTreeSet::from([2]));
        assert_eq!((full.connections, full.volumes), sets);
        assert_eq!(full.budgets[..3], [None, Some(0.5), None]);
    }
}
