//! Baselines: the latency at full speed, one for each load level.
//!
//! In print the baseline is learned again and again while power is being saved; each time it takes
//! in some of the loss, and latency drifts past plf without end. Here only windows at full speed
//! teach it.

use super::stability::Sample;
use std::collections::BTreeMap;
use wattio_units::Seconds;

/// A load level: octaves of the request rate and of the size, quarters of the share of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level {
    rate: i32,
    size: i32,
    reads: i32,
}

#[derive(Clone, Copy, Debug)]
struct Baseline {
    latency_us: f64,
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
        let place = self.place(load);
        Level {
            rate: place[0].round() as i32,
            size: place[1].round() as i32,
            reads: place[2].round() as i32,
        }
    }

    /// Whether a load is still at a level, with some overlap so that it does not flap.
    pub fn still_at(&self, level: Level, load: &Sample) -> bool {
        let centre = [level.rate, level.size, level.reads];
        let near = |(place, centre): (f64, i32)| (place - f64::from(centre)).abs() <= 0.5 + OVERLAP;
        self.place(load).into_iter().zip(centre).all(near)
    }

    /// Keeps a latency that was measured at full speed.
    pub fn learn(&mut self, level: Level, latency_us: f64) {
        self.learned.insert(level, Baseline { latency_us, age: Seconds(0.0) });
    }

    /// The latency at full speed of a level, unless it is unknown or too old.
    pub fn known(&self, level: Level) -> Option<f64> {
        let fresh = self.learned.get(&level).filter(|baseline| baseline.age <= self.age_max);
        fresh.map(|baseline| baseline.latency_us)
    }

    /// Lets time pass.
    pub fn grow_older(&mut self, dt: Seconds) {
        for baseline in self.learned.values_mut() {
            baseline.age = baseline.age + dt;
        }
    }

    /// Where a load lies, in widths of a level.
    fn place(&self, load: &Sample) -> [f64; 3] {
        let rate = load.rate().max(f64::MIN_POSITIVE).log2() / self.octaves;
        let size = load.bytes_mean.map_or(0.0, |bytes| bytes.max(1.0).log2());
        let reads = load.read_share.map_or(0.0, |share| share * 4.0);
        [rate, size, reads]
    }
}
