//! What is known about one knob: pairs of stretches with and without it.

use crate::effect::Interval;
use std::collections::VecDeque;

/// Pairs that are kept, the newest ones.
const KEPT: usize = 64;
/// Before so many pairs nothing is said of a knob.
pub const PAIRS_MIN: usize = 8;
/// After so many, a knob whose saving cannot be told from chance is left alone.
pub const PAIRS_ENOUGH: usize = 32;
/// Rates of requests that differ by more than this share are not alike.
const ALIKE: f64 = 0.1;
/// A latency below this is none that would be worth dividing by.
const LEAST_US: f64 = 1.0;

/// Sums over windows next to each other, under one setting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stretch {
    pub windows: u32,
    span_s: f64,
    energy_j: f64,
    requests: f64,
    latency_us: f64,
}

impl Stretch {
    /// Takes in a window of which everything is known.
    pub fn add(&mut self, dt_s: f64, power_w: f64, requests: u64, latency_us_mean: f64) {
        self.windows += 1;
        self.span_s += dt_s;
        self.energy_j += power_w * dt_s;
        self.requests += requests as f64;
        self.latency_us += requests as f64 * latency_us_mean;
    }

    /// Both together.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            windows: self.windows + other.windows,
            span_s: self.span_s + other.span_s,
            energy_j: self.energy_j + other.energy_j,
            requests: self.requests + other.requests,
            latency_us: self.latency_us + other.latency_us,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        let (one, two) = (self.requests / self.span_s, other.requests / other.span_s);
        (one - two).abs() <= ALIKE * one.max(two)
    }
}

/// What is known of one knob.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    saved_w: VecDeque<f64>,
    added_us: VecDeque<f64>,
    /// Power without it less power with it.
    pub power_w_saved: Option<Interval>,
    /// Mean latency with it less that without it.
    pub latency_us_added: Option<Interval>,
}

impl Evidence {
    /// Takes in a pair, unless the loads are not alike.
    pub fn add(&mut self, with: &Stretch, without: &Stretch) {
        let is_known = with.requests > 0.0 && without.requests > 0.0;
        if !is_known || !with.is_like(without) {
            return;
        }
        let power_w = |stretch: &Stretch| stretch.energy_j / stretch.span_s;
        let latency_us = |stretch: &Stretch| stretch.latency_us / stretch.requests;
        self.power_w_saved = keep(&mut self.saved_w, power_w(without) - power_w(with));
        self.latency_us_added = keep(&mut self.added_us, latency_us(with) - latency_us(without));
    }

    /// How many pairs it rests on.
    pub fn pairs(&self) -> usize {
        self.saved_w.len()
    }

    /// Watts for each microsecond, once that is known: `saved / max(added, 1 us)`.
    pub fn value(&self) -> Option<f64> {
        let known = self.power_w_saved.zip(self.latency_us_added);
        let (saved, added) = known.filter(|_| self.pairs() >= PAIRS_MIN)?;
        Some(saved.mean / added.mean.max(LEAST_US))
    }

    /// What it adds to the mean latency, where that can be told from chance.
    pub fn cost_us(&self) -> f64 {
        let told = |added: &Interval| added.mean > 0.0 && added.is_significant();
        self.latency_us_added.filter(told).map_or(0.0, |added| added.mean)
    }

    /// Whether it was tried often enough, and what it saves cannot be told from chance.
    pub fn saves_nothing(&self) -> bool {
        let told = |saved: Interval| saved.mean > 0.0 && saved.is_significant();
        self.pairs() >= PAIRS_ENOUGH && !self.power_w_saved.is_some_and(told)
    }
}

fn keep(values: &mut VecDeque<f64>, value: f64) -> Option<Interval> {
    if values.len() == KEPT {
        values.pop_front();
    }
    values.push_back(value);
    Interval::of(values.make_contiguous())
}
