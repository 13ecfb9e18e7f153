//! Where lanes may run: a group's cores are seats, each a lane on a reactor.
//!
//! A reactor may have seats of several groups. Lanes that share a reactor call each other without a
//! hop, and one core does for the least that every group keeps.

use super::counters::LANES;
use std::collections::BTreeMap;
use thiserror::Error;
use wattio_law::{Action, Budget, CorePower, DriveAction, GroupLimits, Limits};
use wattio_units::Hertz;

/// The frequency of cores that no knob turns, where nobody knows it: only shares of it count.
const NOMINAL: Hertz = Hertz(1e9);

/// The seats of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Seats {
    /// The reactors that have one, in the order in which they are taken.
    pub reactors: Vec<usize>,
    /// How many always stay.
    pub seats_min: u32,
    /// Between which frequencies a knob turns those reactors' cores; `None`: none does.
    pub frequency: Option<(Hertz, Hertz)>,
}

/// The seats of every group, and the cores that they stand on.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// In the order of [`LANES`].
    groups: [Seats; LANES.len()],
    /// Whether a reactor without work sleeps, instead of looking for some.
    pub idle_cores_sleep: bool,
    /// What a core draws, if known: ascending by frequency.
    pub power: Vec<CorePower>,
}

/// Why seats cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum LayoutError {
    /// A reactor that there is not.
    #[error("{group}.reactors: there is no reactor {reactor}; allowed are 0 to {last}")]
    Reactor {
        /// The group.
        group: &'static str,
        /// What it names.
        reactor: usize,
        /// The last that there is.
        last: usize,
    },
    /// A reactor that is named twice.
    #[error("{group}.reactors: {reactor} is named twice; a reactor has one seat of a group")]
    Twice {
        /// The group.
        group: &'static str,
        /// What it names.
        reactor: usize,
    },
    /// Too few or too many stay.
    #[error("{group}.cores_min = {seats_min}: allowed is 1 to {seats}, the number of its reactors")]
    Fewest {
        /// The group.
        group: &'static str,
        /// What was asked for.
        seats_min: u32,
        /// How many there are.
        seats: usize,
    },
    /// No range.
    #[error("{group}: frequencies from {lowest} to {highest}; the first must be the lower one")]
    Frequency {
        /// The group.
        group: &'static str,
        /// The lower end.
        lowest: Hertz,
        /// The upper end.
        highest: Hertz,
    },
}

impl Layout {
    /// Seats on so many reactors.
    ///
    /// # Errors
    /// [`LayoutError`] with the group, and what is allowed.
    pub fn new(groups: [Seats; LANES.len()], reactors: usize) -> Result<Self, LayoutError> {
        for (group, seats) in LANES.into_iter().zip(&groups) {
            for (at, &reactor) in seats.reactors.iter().enumerate() {
                if reactor >= reactors {
                    let last = reactors.saturating_sub(1);
                    return Err(LayoutError::Reactor { group, reactor, last });
                }
                if seats.reactors[..at].contains(&reactor) {
                    return Err(LayoutError::Twice { group, reactor });
                }
            }
            let count = seats.reactors.len();
            if !(1..=count).contains(&(seats.seats_min as usize)) {
                let seats_min = seats.seats_min;
                return Err(LayoutError::Fewest { group, seats_min, seats: count });
            }
            let (lowest, highest) = seats.frequency.unwrap_or((NOMINAL, NOMINAL));
            if !(lowest.0 > 0.0 && lowest <= highest && highest.0.is_finite()) {
                return Err(LayoutError::Frequency { group, lowest, highest });
            }
        }
        Ok(Self { groups, idle_cores_sleep: true, power: Vec::new() })
    }

    /// Every group on every reactor, one seat of each stays: what a target does that is told nothing.
    #[must_use]
    pub fn shared(reactors: usize) -> Self {
        let reactors = (0..reactors.max(1)).collect();
        let seats = Seats { reactors, seats_min: 1, frequency: None };
        let groups = [seats.clone(), seats.clone(), seats];
        Self { groups, idle_cores_sleep: true, power: Vec::new() }
    }

    /// The limits of actions.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let group = |seats: &Seats| {
            let (lowest, highest) = seats.frequency.unwrap_or((NOMINAL, NOMINAL));
            GroupLimits {
                cores_min: seats.seats_min,
                cores_max: seats.reactors.len() as u32,
                frequency_min: lowest,
                frequency_max: highest,
                frequency_steps: Vec::new(),
                idle_cores_sleep: self.idle_cores_sleep,
                power: self.power.clone(),
                frequency_bound_share: None,
            }
        };
        Limits::of(self.groups.iter().map(group).collect())
    }

    /// Whether a knob turns the frequency of each group.
    #[must_use]
    pub fn turns_frequency(&self) -> [bool; LANES.len()] {
        self.groups.each_ref().map(|seats| seats.frequency.is_some())
    }

    /// What an action within the limits asks of the reactors.
    #[must_use]
    pub fn setting(&self, action: &Action) -> Setting {
        let mut reactors = BTreeMap::<usize, ReactorSetting>::new();
        for (lane, (seats, group)) in self.groups.iter().zip(&action.groups).enumerate() {
            for &reactor in seats.reactors.iter().take(group.cores as usize) {
                let setting = reactors.entry(reactor).or_default();
                setting.lanes[lane] = true;
                // One core has one frequency: that of its most demanding lane.
                let asked = seats.frequency.map(|_| group.frequency);
                let fastest = setting.frequency.zip(asked).map(|(a, b)| Hertz(a.0.max(b.0)));
                setting.frequency = fastest.or(setting.frequency).or(asked);
            }
        }
        let budgets = std::array::from_fn(|class| match action.background_of(class).budget {
            Budget::AsDue => None,
            Budget::CoreSecondsPerSecond(rate) => Some(rate),
        });
        Setting { reactors, budgets, drives: action.drives }
    }
}

/// What reactors are to do until the next action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// The reactors that run a lane; the others finish what they have, hand over what they own, and
    /// sleep.
    pub reactors: BTreeMap<usize, ReactorSetting>,
    /// Core-seconds in a second that each class of background work may take, over all reactors, in
    /// the order of [`super::CLASSES`]; `None`: as it becomes due. What is urgent does not wait.
    pub budgets: [Option<f64>; super::CLASSES.len()],
    /// What drives without a request do.
    pub drives: DriveAction,
}

/// What one reactor is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReactorSetting {
    /// Which lanes it runs, in the order of [`LANES`].
    pub lanes: [bool; LANES.len()],
    /// The frequency of its core, where a knob turns it.
    pub frequency: Option<Hertz>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_law::{BackgroundAction, GroupAction};

    fn seats(reactors: &[usize], seats_min: u32) -> Seats {
        Seats { reactors: reactors.to_vec(), seats_min, frequency: None }
    }

    #[test]
    fn what_cannot_be_used_is_told_with_what_can() {
        let ok = || seats(&[0, 1], 1);
        for (normal, says) in [
            (seats(&[0, 4], 1), "normal.reactors: there is no reactor 4; allowed are 0 to 3"),
            (seats(&[1, 1], 1), "normal.reactors: 1 is named twice"),
            (seats(&[0, 1], 3), "normal.cores_min = 3: allowed is 1 to 2"),
            (seats(&[0, 1], 0), "normal.cores_min = 0: allowed is 1 to 2"),
            (Seats { frequency: Some((Hertz(2e9), Hertz(1e9))), ..ok() }, "the lower one"),
        ] {
            let error = Layout::new([normal, ok(), ok()], 4).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(Layout::new([ok(), ok(), ok()], 4).is_ok());
    }

    #[test]
    fn the_least_of_every_group_needs_one_reactor_where_they_share_it() {
        let layout = Layout::shared(4);
        let limits = layout.limits();
        let groups = limits.groups.iter().map(GroupLimits::least).collect();
        let setting = layout.setting(&Action { groups, ..limits.full_speed() });
        let all = ReactorSetting { lanes: [true; 3], frequency: None };
        assert_eq!(setting.reactors, BTreeMap::from([(0, all)]));
        assert_eq!(layout.setting(&limits.full_speed()).reactors.len(), 4);
    }

    #[test]
    fn a_core_runs_as_fast_as_its_most_demanding_lane_asks() {
        let turned = |reactors: &[usize]| Seats {
            frequency: Some((Hertz(1e9), Hertz(3e9))),
            ..seats(reactors, 1)
        };
        let groups = [turned(&[0, 1]), turned(&[1, 0]), seats(&[2], 1)];
        let layout = Layout::new(groups, 3).unwrap();
        let group = |cores, frequency| GroupAction { cores, frequency: Hertz(frequency) };
        let action = Action {
            groups: vec![group(2, 1.5e9), group(1, 2e9), group(1, 1e9)],
            drives: DriveAction::Asleep,
            background: vec![BackgroundAction::AS_DUE, BackgroundAction::of(0.5)],
        };
        let setting = layout.setting(&action);
        let asked = |reactor: usize| setting.reactors[&reactor].frequency.map(|f| f.0);
        assert_eq!((asked(0), asked(1), asked(2)), (Some(1.5e9), Some(2e9), None));
        assert_eq!(setting.reactors[&1].lanes, [true, true, false]);
        assert_eq!(setting.budgets[..3], [None, Some(0.5), None]);
        assert_eq!(layout.turns_frequency(), [true, true, false]);
    }
}
