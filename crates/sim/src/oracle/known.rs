//! What a run at full speed shows about a load, and how other runs compare with it.

use super::choice::{Rates, Targets};
use super::debts::Debts;
use super::measure::{Slot, Timeline};
use super::promises::{Excess, PROMISES_MAX, Promises, SlotStatistic};
use super::slots::{Slots, Stage};
use super::{Answer, Fared};
use wattio_law::Bound;

/// More slots than this are merged in pairs.
const SLOTS_MAX: usize = 16_384;
/// A sum that exceeds its limit by less than this share of it came from rounding.
const ROUNDING: f64 = 1e-9;

/// What is known of the load.
pub struct Known {
    /// What happened at full speed.
    pub slots: Vec<Slot>,
    /// Length of each slot.
    pub spans_s: Vec<f64>,
    /// Windows of the run in a slot.
    pub windows: usize,
    /// Which slots are alike.
    pub classes: Slots,
    /// What happened in all slots of each class.
    pub of_classes: Vec<Slot>,
    /// Where settings are tried.
    pub stage: Stage,
    /// What slots that fall behind inflict on the next ones.
    pub debts: Debts,
    /// What must be kept.
    pub promises: Promises,
    /// Events of a run.
    pub events: u64,
    /// The run at full speed.
    pub total: Total,
    /// Least background work, as a share of native's.
    pub floor: f64,
    /// Whether background work may be left out for good: nobody bounded its delay.
    pub may_skip: bool,
    /// The most background work that may be owed at once, core-seconds.
    pub owed_max_core_s: f64,
    /// The longest that a run may keep background work waiting.
    pub background_delay_s: f64,
}

/// The totals of a run.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// Length in seconds.
    pub span_s: f64,
    /// Energy of the server.
    pub energy_j: f64,
    /// Requests answered.
    pub ios: f64,
    /// The sum of their latencies.
    pub latency_s: f64,
    /// Background work done.
    pub done_core_s: f64,
    /// The longest that background work waited.
    pub background_delay_s_max: f64,
    /// How far it is from keeping each promise.
    pub excess: Excess,
}

/// A run that was simulated whole.
pub struct Whole {
    /// Its totals.
    pub total: Total,
    /// What each slot gave.
    pub rates: Vec<Rates>,
    /// Mean latency of each slot in seconds, 0 where it had no requests.
    pub latency_s: Vec<f32>,
    /// What was in force.
    pub timeline: Timeline,
    /// How to play it again.
    pub answer: Answer,
}

/// Slots that are merged in pairs whenever there are too many.
pub struct Merged<'a> {
    bounds: &'a [Bound],
    slots: Vec<Slot>,
    /// What is kept of their latencies for each bound, slot by slot.
    told: Vec<Vec<SlotStatistic>>,
    windows: usize,
    /// Windows in the last slot.
    in_last: usize,
}

impl Total {
    /// Adds a slot.
    pub fn add(&mut self, slot: &Slot, excess: &Excess) {
        self.span_s += slot.span_s;
        self.energy_j += slot.energy_j;
        self.ios += slot.ios;
        self.latency_s += slot.latency_s;
        self.done_core_s += slot.done_core_s;
        for (sum, excess) in self.excess.iter_mut().zip(excess) {
            *sum += excess;
        }
    }

    fn latency_mean_s(&self) -> Option<f64> {
        (self.ios > 0.0).then(|| self.latency_s / self.ios)
    }
}

impl Rates {
    /// What a slot gave each second.
    pub fn of(slot: &Slot, excess: &Excess) -> Self {
        Self {
            power_w: (slot.energy_j / slot.span_s) as f32,
            done_cores: (slot.done_core_s / slot.span_s) as f32,
            excess: excess.map(|excess| (excess / slot.span_s) as f32),
        }
    }
}

impl Known {
    /// Whether settings are tried on an excerpt.
    pub fn is_by_excerpt(&self) -> bool {
        matches!(self.stage, Stage::Excerpt { .. })
    }

    /// Events of a trial, about.
    pub fn events_of_trial(&self) -> u64 {
        let Stage::Excerpt { phases, .. } = &self.stage else { return self.events.max(1) };
        let excerpt_s: f64 = phases.iter().map(|phase| phase.span_s).sum();
        (self.events as f64 * excerpt_s / self.total.span_s).ceil().max(1.0) as u64
    }

    /// Requests a second that native answers in a class.
    pub fn ios_of(&self, class: usize) -> f64 {
        let all = &self.of_classes[class];
        if all.span_s > 0.0 { all.ios / all.span_s } else { 0.0 }
    }

    /// Background work that may be owed at the end of the run.
    pub fn owed_core_s(&self) -> f64 {
        (1.0 - self.floor) * self.total.done_core_s
    }

    /// The targets of a run that goes as its slots do.
    pub fn targets(&self) -> Targets {
        Targets { excess: [0.0; PROMISES_MAX], owed_core_s: self.owed_core_s() }
    }

    /// Whether a run keeps everything.
    pub fn is_kept(&self, total: &Total) -> bool {
        let sums = total.excess.iter().zip(&self.promises.scale);
        let floor_core_s = self.floor * self.total.done_core_s * (1.0 - ROUNDING);
        sums.into_iter().all(|(excess, scale)| *excess <= ROUNDING * scale)
            && total.done_core_s >= floor_core_s
            && total.background_delay_s_max <= self.background_delay_s
    }

    /// How a run fared beside native's.
    pub fn fared(&self, total: &Total) -> Fared {
        let latencies = total.latency_mean_s().zip(self.total.latency_mean_s());
        let due = self.total.done_core_s;
        Fared {
            power_w: total.energy_j / total.span_s,
            latency_us_mean: total.latency_mean_s().map(|seconds| seconds * 1e6),
            latency_ratio: latencies.map(|(ours, theirs)| ours / theirs),
            background_ratio: (due > 0.0).then(|| total.done_core_s / due),
            is_kept: self.is_kept(total),
        }
    }
}

impl<'a> Merged<'a> {
    /// Slots of so many windows, or of more.
    pub fn new(windows: usize, bounds: &'a [Bound]) -> Self {
        Self { bounds, slots: Vec::new(), told: Vec::new(), windows, in_last: windows }
    }

    /// Adds a window.
    pub fn push(&mut self, mut window: Slot) {
        let told: Vec<_> =
            self.bounds.iter().map(|bound| SlotStatistic::of(&mut window, bound)).collect();
        window.buckets = Vec::new();
        if self.in_last == self.windows && self.slots.len() == SLOTS_MAX {
            self.halve();
        }
        if self.in_last == self.windows {
            self.slots.push(window);
            self.told.push(told);
            self.in_last = 1;
        } else if let (Some(slot), Some(known)) = (self.slots.last_mut(), self.told.last_mut()) {
            slot.merge(&window);
            merge(known, &told);
            self.in_last += 1;
        }
    }

    /// The slots, what is kept of their latencies, and the windows in each slot.
    pub fn finish(self) -> (Vec<Slot>, Vec<Vec<SlotStatistic>>, usize) {
        (self.slots, self.told, self.windows)
    }

    fn halve(&mut self) {
        for at in 0..self.slots.len() / 2 {
            let (mut slot, next) = (self.slots[2 * at].clone(), &self.slots[2 * at + 1]);
            slot.merge(next);
            self.slots[at] = slot;
            let mut known = self.told[2 * at].clone();
            merge(&mut known, &self.told[2 * at + 1]);
            self.told[at] = known;
        }
        self.slots.truncate(SLOTS_MAX / 2);
        self.told.truncate(SLOTS_MAX / 2);
        self.windows *= 2;
        self.in_last = self.windows;
    }
}

/// Where slots are merged, the strictest of their limits holds.
fn merge(known: &mut [SlotStatistic], more: &[SlotStatistic]) {
    for (mine, theirs) in known.iter_mut().zip(more) {
        mine.statistic_s = match (mine.statistic_s, theirs.statistic_s) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        mine.above += theirs.above;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_merged_so_that_there_are_never_too_many() {
        let mut merged = Merged::new(1, &[]);
        for at in 0..100_000 {
            merged.push(Slot { span_s: 0.5, ios: f64::from(at % 3), ..Slot::default() });
        }
        let (slots, _, windows) = merged.finish();
        assert_eq!((windows, slots.len()), (8, 12_500));
        assert!(slots.iter().all(|slot| slot.span_s == 4.0));
        assert_eq!(slots.iter().map(|slot| slot.ios).sum::<f64>(), 99_999.0);
    }
}
