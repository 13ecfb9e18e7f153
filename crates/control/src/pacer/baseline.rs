//! Baselines: the latency at full speed, one for each load level.
//!
//! As printed, the baseline is learned again and again while power is being saved. Each time it
//! absorbs some of the loss, and latency drifts past plf without limit. Here it is learned only
//! from windows at full speed.

use super::stability::Sample;
use crate::mix::Mix;
use std::collections::BTreeMap;
use wattio_units::Seconds;

/// A load level: a number of widths of a level on the logarithm of the request rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(i32);

/// What a load is like at full speed, with the mix of requests that it was learned with.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    mean: Sample,
    windows: Vec<Sample>,
    age: Seconds,
}

impl Baseline {
    /// All windows as one.
    pub fn mean(&self) -> &Sample {
        &self.mean
    }

    /// The mix of requests, where it is known.
    pub fn mix(&self) -> Option<Mix> {
        self.mean.mix()
    }

    /// How far the farthest window's value is from that of all, as a share of it.
    pub fn noise(&self, value: impl Fn(&Sample) -> Option<f64>) -> f64 {
        let Some(whole) = value(&self.mean) else { return 0.0 };
        let off = self.windows.iter().filter_map(&value).map(|one| (one - whole).abs() / whole);
        off.fold(0.0, f64::max)
    }
}

/// What was learned so far.
#[derive(Clone, Debug)]
pub struct Baselines {
    octaves: f64,
    age_max: Seconds,
    learned: BTreeMap<Level, Baseline>,
}

/// How far beyond the edge of its level, in widths of a level, a load must be to have left it.
const OVERLAP: f64 = 0.25;

impl Baselines {
    pub fn new(octaves: f64, age_max: Seconds) -> Self {
        Self { octaves, age_max, learned: BTreeMap::new() }
    }

    /// The level of a load.
    pub fn level_of(&self, load: &Sample) -> Level {
        self.level_of_slowed(load, 1.0)
    }

    /// The level of a load whose rate would be `slower` times what it is at full speed.
    pub fn level_of_slowed(&self, load: &Sample, slower: f64) -> Level {
        Level((self.place(load) + slower.log2() / self.octaves).round() as i32)
    }

    /// Whether a load is still at a level, with some overlap so that it does not flap. At full
    /// speed its rate would be up to `slower` times what it is, where clients wait for answers.
    pub fn still_at(&self, level: Level, load: &Sample, slower: f64) -> bool {
        let (from, level) = (self.place(load), f64::from(level.0));
        let to = from + slower.max(1.0).log2() / self.octaves;
        from <= level + 0.5 + OVERLAP && to >= level - 0.5 - OVERLAP
    }

    /// Keeps windows that were measured at full speed, which are one load together.
    pub fn learn(&mut self, mean: Sample, windows: Vec<Sample>) -> Level {
        let level = self.level_of(&mean);
        self.learned.insert(level, Baseline { mean, windows, age: Seconds(0.0) });
        level
    }

    /// The latency at full speed of a level, unless it is unknown or too old.
    pub fn known(&self, level: Level) -> Option<&Baseline> {
        self.learned.get(&level).filter(|baseline| baseline.age <= self.age_max)
    }

    /// Lets time pass.
    pub fn grow_older(&mut self, dt: Seconds) {
        for baseline in self.learned.values_mut() {
            baseline.age = baseline.age + dt;
        }
    }

    /// Where a load lies, in widths of a level.
    fn place(&self, load: &Sample) -> f64 {
        load.rate().max(f64::MIN_POSITIVE).log2() / self.octaves
    }
}
