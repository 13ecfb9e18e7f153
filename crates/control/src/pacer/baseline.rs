//! Baselines: the latency at full speed, one for each load level.
//!
//! In print the baseline is learned again and again while power is being saved; each time it takes
//! in some of the loss, and latency drifts past plf without end. Here only windows at full speed
//! teach it.

use super::expectation::Mix;
use super::stability::Sample;
use std::collections::BTreeMap;
use wattio_units::Seconds;

/// A load level: a number of widths of a level on the logarithm of the request rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(i32);

/// The latency at full speed, of the mix of requests that it was learned with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    pub latency_us: f64,
    pub mix: Option<Mix>,
    age: Seconds,
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
        Level(self.place(load).round() as i32)
    }

    /// Whether a load is still at a level, with some overlap so that it does not flap.
    pub fn still_at(&self, level: Level, load: &Sample) -> bool {
        (self.place(load) - f64::from(level.0)).abs() <= 0.5 + OVERLAP
    }

    /// Keeps a latency that was measured at full speed.
    pub fn learn(&mut self, load: &Sample) -> Level {
        let level = self.level_of(load);
        let baseline =
            Baseline { latency_us: load.latency_us_mean, mix: load.mix(), age: Seconds(0.0) };
        self.learned.insert(level, baseline);
        level
    }

    /// The latency at full speed of a level, unless it is unknown or too old.
    pub fn known(&self, level: Level) -> Option<Baseline> {
        self.learned.get(&level).filter(|baseline| baseline.age <= self.age_max).copied()
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
