//! Steps that were tried and went too far.
//!
//! If steps are coarse (two P-states, a host with few cores), there may be no setting between one
//! that leaves room and one that breaks the bound. An integrator then alternates between the two
//! for ever. Here a step that overshoots is undone, and not repeated for `retry_after`. A slow frequency
//! with nothing between it and a far higher one is kept while the bound itself is, even where that is
//! beyond what the law steers at.

use super::settings::PacerSettings;
use wattio_law::{GroupAction, GroupLimits, Limits};
use wattio_units::{Hertz, Seconds};

/// The last step down, and the settings below which the law does not go for now.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    last: Option<Last>,
    /// The time that a sample takes.
    span: Seconds,
    /// For each group, as many cores as this and at this frequency.
    floors: Vec<Floor>,
}

/// Which steps down can have made a window go too far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Only one that is coarse.
    CoarseStep,
    /// Any: enough windows have shown it.
    AnyStep,
}

/// What blaming the last step down came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There was none, or long ago.
    NoStep,
    /// There was one, too small to have gone too far.
    NotToBlame,
    /// It is not taken as far again for a while.
    Blamed,
}

impl Blame {
    fn holds(self, before: u32, after: u32) -> bool {
        self == Self::AnyStep || f64::from(after) <= f64::from(before) * (1.0 - COARSE)
    }
}

#[derive(Clone, Debug)]
struct Last {
    before: Vec<GroupAction>,
    after: Vec<GroupAction>,
    /// Samples since.
    samples: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    /// Cores, and for how long still.
    cores: Option<(u32, Seconds)>,
    /// The frequency as a share of the highest, likewise.
    frequency_share: Option<(f64, Seconds)>,
}

/// A floor stands for as long as so many samples take at least: at a few requests a second it takes
/// four of them to learn anew after a step that went too far.
const SAMPLES_MIN: f64 = 30.0;
/// The share of a group's cores whose loss can overshoot; fewer come and go with every window.
const COARSE: f64 = 0.1;
/// The distance between two frequencies, as a share of the highest, beyond which there is nothing between
/// them to steer by.
const LEAP: f64 = 0.1;

impl Tried {
    /// Forgets everything: the load is another one.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Lets time pass.
    pub fn grow_older(&mut self, dt: Seconds) {
        for floor in &mut self.floors {
            floor.cores = older(floor.cores, dt);
            floor.frequency_share = older(floor.frequency_share, dt);
        }
    }

    /// Takes in what is asked for now, after what was in force.
    pub fn ask(&mut self, before: &[GroupAction], after: &[GroupAction], span: Seconds) {
        self.span = span;
        let pairs = || before.iter().zip(after);
        if pairs().any(|(b, a)| a.cores < b.cores || a.frequency < b.frequency) {
            let (before, after) = (before.to_vec(), after.to_vec());
            self.last = Some(Last { before, after, samples: 0 });
        } else if let Some(last) = &mut self.last {
            last.samples += 1;
        }
    }

    /// The frequency that giving back a little leaps to, as a share of the highest, where there is none
    /// between it and what is held.
    pub fn leap(share: f64, held: &[GroupAction], limits: &Limits) -> Option<f64> {
        let leap = |(held, limits): (&GroupAction, &GroupLimits)| {
            let most = limits.frequency_max;
            let wanted = GroupAction { frequency: Hertz(most.0 * share), ..*held };
            let (to, from) = (limits.clamp(wanted).frequency / most, held.frequency / most);
            // Whoever asks for as much has more than rounding up in mind.
            (to - from > LEAP && share - from <= 0.5 * (to - from)).then_some(to)
        };
        held.iter().zip(&limits.groups).filter_map(leap).reduce(f64::max)
    }

    /// Lower frequencies than this share of the highest break the bound, if by little.
    pub fn leave_alone(
        &mut self,
        share: f64,
        span: Seconds,
        limits: &Limits,
        settings: &PacerSettings,
    ) {
        let left = Seconds(settings.retry_after.0.max(span.0 * SAMPLES_MIN));
        self.floors.resize(limits.groups.len(), Floor::default());
        for floor in &mut self.floors {
            floor.frequency_share = Some((share, left));
        }
    }

    /// A window not long after went too far: what was lowered last is not lowered as far again for a
    /// while, where it is to blame.
    pub fn blame(&mut self, blames: Blame, limits: &Limits, settings: &PacerSettings) -> Verdict {
        let recent = |last: &mut Last| last.samples <= settings.windows + 1;
        let Some(last) = self.last.take_if(recent) else { return Verdict::NoStep };
        let for_s = settings.retry_after.0.max(self.span.0 * SAMPLES_MIN);
        let left = Seconds(for_s);
        self.floors.resize(limits.groups.len(), Floor::default());
        let pairs = || last.before.iter().zip(&last.after);
        // A frequency bears on every task; beside it, the cores are not to blame.
        let slower = pairs().any(|(before, after)| after.frequency < before.frequency);
        let mut verdict = Verdict::NotToBlame;
        let floors = self.floors.iter_mut().zip(&limits.groups);
        for ((floor, limits), (before, after)) in floors.zip(pairs()) {
            if slower {
                let share = before.frequency / limits.frequency_max;
                floor.frequency_share = Some((share, left));
                verdict = Verdict::Blamed;
            } else if after.cores < before.cores && blames.holds(before.cores, after.cores) {
                floor.cores = Some((before.cores, left));
                verdict = Verdict::Blamed;
            }
        }
        verdict
    }

    /// The fewest cores of a group for now.
    pub fn cores_floor(&self, group: usize) -> u32 {
        let floor = self.floors.get(group).and_then(|floor| floor.cores);
        floor.map_or(0, |(cores, _)| cores)
    }

    /// The lowest frequency for now, as a share of the highest.
    pub fn frequency_floor(&self) -> f64 {
        let shares = self.floors.iter().filter_map(|floor| floor.frequency_share);
        shares.fold(0.0, |most, (share, _)| share.max(most))
    }
}

fn older<T>(floor: Option<(T, Seconds)>, dt: Seconds) -> Option<(T, Seconds)> {
    floor.map(|(of, left)| (of, left - dt)).filter(|(_, left)| left.0 > 0.0)
}
