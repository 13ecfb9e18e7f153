//! What latency would be at full speed, and how it grows with the setting: a Kalman filter.
//!
//! A window's mean latency is taken as `L = B + a S + b Q + h D + noise`, with `S, Q, D` the
//! [`Features`] of its setting and load. `B` wanders; the weights `a` (the share of the work on
//! cores that a client waits for), `b` (waiting over the model's) and `h` (half of the requests
//! that come together) hardly do. Windows at different settings tell them apart.

use super::choice::Features;

/// Noise of one request's latency, over the latency, before anything is known.
const NOISE_FIRST: f64 = 0.7;
/// However many requests, a window's mean is not truer than that of so many.
const REQUESTS_TRUE: f64 = 2000.0;
/// Memory of the noise: weight of the last window.
const NOISE_WEIGHT: f64 = 0.03;
/// Surprises count as so many standard deviations at most.
const SURPRISE_MAX: f64 = 3.0;
/// Standard deviation of the steps that the states take in a window: the base (relative), and the
/// weights.
const STEPS: [f64; 4] = [0.01, 0.002, 0.01, 0.01];
/// The least and the greatest weights.
const RANGES: [(f64, f64); 3] = [(0.3, 1.1), (0.2, 30.0), (0.0, 300.0)];

/// The filter.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Base in microseconds, weights of the three features.
    state: [f64; 4],
    covariance: [[f64; 4]; 4],
    /// Variance of one request's latency over the square of the latency.
    noise: f64,
    known: bool,
}

/// What a window was like beside what was expected.
#[derive(Clone, Copy, Debug)]
pub struct Surprise {
    /// Measured less expected, in microseconds.
    pub us: f64,
    /// Its standard deviation.
    pub deviation_us: f64,
}

impl Estimate {
    pub fn new(weights: [f64; 3], deviations: [f64; 3]) -> Self {
        let mut covariance = [[0.0; 4]; 4];
        for (at, deviation) in deviations.into_iter().enumerate() {
            covariance[at + 1][at + 1] = deviation * deviation;
        }
        let [a, b, h] = weights;
        let noise = NOISE_FIRST * NOISE_FIRST;
        Self { state: [0.0, a, b, h], covariance, noise, known: false }
    }

    /// Whether any window was seen.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// The weights as they are believed to be.
    pub fn weights(&self) -> [f64; 3] {
        [self.state[1], self.state[2], self.state[3]]
    }

    /// The weights as they are at worst: so many standard deviations above.
    pub fn weights_at_worst(&self, deviations: f64) -> [f64; 3] {
        [1, 2, 3].map(|at| self.state[at] + deviations * self.covariance[at][at].max(0.0).sqrt())
    }

    /// Expected latency of a window, in microseconds.
    pub fn latency_us(&self, features: Features) -> f64 {
        self.state[0] + features.weighed(self.weights())
    }

    /// The standard deviation of what features tell more than others.
    pub fn deviation_us(&self, more: Features) -> f64 {
        let row = [0.0, more.0[0], more.0[1], more.0[2]];
        self.spread(row).max(0.0).sqrt()
    }

    /// The variance of one window's mean at a latency.
    fn variance(&self, latency_us: f64, requests: f64) -> f64 {
        self.noise * latency_us * latency_us * (1.0 / requests.max(1.0) + 1.0 / REQUESTS_TRUE)
    }

    fn spread(&self, row: [f64; 4]) -> f64 {
        let times = self.times(row);
        row.iter().zip(times).map(|(a, b)| a * b).sum()
    }

    fn times(&self, row: [f64; 4]) -> [f64; 4] {
        [0, 1, 2, 3].map(|at| self.covariance[at].iter().zip(row).map(|(a, b)| a * b).sum())
    }

    /// How far a window is from what was expected.
    pub fn surprise(&self, latency_us: f64, requests: f64, features: Features) -> Surprise {
        let expected_us = self.latency_us(features);
        let row = [1.0, features.0[0], features.0[1], features.0[2]];
        let variance = self.spread(row) + self.variance(expected_us.min(latency_us), requests);
        Surprise { us: latency_us - expected_us, deviation_us: variance.max(0.0).sqrt() }
    }

    /// Takes in a window of `span` windows' length.
    pub fn learn(&mut self, latency_us: f64, requests: f64, features: Features, span: f64) {
        if !self.known {
            self.known = true;
            self.state[0] = (latency_us - features.weighed(self.weights())).max(0.1 * latency_us);
            let base_us = self.state[0];
            self.covariance[0][0] = self.variance(base_us, requests) + 0.01 * base_us * base_us;
            return;
        }
        let steps = STEPS.map(|step| step * step * span.min(4.0));
        for (at, step) in steps.into_iter().enumerate() {
            let scale = [self.state[0], 1.0, self.state[2], self.state[3] + 0.5][at];
            self.covariance[at][at] += step * scale * scale;
        }
        let row = [1.0, features.0[0], features.0[1], features.0[2]];
        let expected_us = self.latency_us(features);
        let noise = self.variance(expected_us, requests);
        let spread = self.spread(row);
        let (all, off) = (spread + noise, latency_us - expected_us);
        // Of the surprise, what the states' own spread does not explain is noise.
        let share = ((off * off - spread).max(0.0) / (noise / self.noise)).min(25.0 * self.noise);
        self.noise += NOISE_WEIGHT * (share.max(0.02) - self.noise);
        let bounded = off.clamp(-SURPRISE_MAX * all.sqrt(), SURPRISE_MAX * all.sqrt());
        let times = self.times(row);
        for at in 0..4 {
            self.state[at] += times[at] / all * bounded;
        }
        for (i, a) in times.iter().enumerate() {
            for (j, b) in times.iter().enumerate() {
                self.covariance[i][j] -= a * b / all;
            }
        }
        self.state[0] = self.state[0].max(0.05 * latency_us);
        for (at, (least, most)) in RANGES.into_iter().enumerate() {
            self.state[at + 1] = self.state[at + 1].clamp(least, most);
        }
    }
}
