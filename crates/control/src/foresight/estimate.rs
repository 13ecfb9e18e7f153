//! What latency would be at full speed, and how it grows with the setting: a Kalman filter.
//!
//! A window's mean latency is taken as `L = B + a S + b Q + h D + noise`, with `S, Q, D` the
//! [`Features`] of its setting and load. `B` wanders; the weights `a` (the share of the work on
//! cores that a client waits for), `b` (waiting over the model's) and `h` (the part of those who
//! come about when a request does that are served before it) hardly do. Windows at different
//! settings, and those with more and with less of a crowd, tell them apart.

use super::choice::Features;

/// Noise of one request's latency, over the latency, before anything is known.
const NOISE_FIRST: f64 = 0.7;
/// However many requests, a window's mean is not truer than that of so many.
const REQUESTS_TRUE: f64 = 800.0;
/// Memory of the noise: weight of the last window.
const NOISE_WEIGHT: f64 = 0.08;
/// Surprises count as so many standard deviations at most.
const SURPRISE_MAX: f64 = 4.0;
/// Beyond so many the weights are less certain than they were taken for.
const SURPRISE: f64 = 2.5;
/// Two windows are alike when their settings explain less of a difference, over the latency.
const ALIKE: f64 = 0.03;
/// Standard deviation of the steps that the states take in a window: the base (relative), and the
/// weights.
const STEPS: [f64; 4] = [0.015, 0.002, 0.01, 0.005];
/// The least and the greatest weights.
const RANGES: [(f64, f64); 3] = [(0.3, 1.1), (0.2, 20.0), (0.0, 3.0)];

/// The filter.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Base in microseconds, weights of the three features.
    state: [f64; 4],
    covariance: [[f64; 4]; 4],
    /// Variance of one request's latency over the square of the latency.
    noise: f64,
    known: bool,
    /// Latency, requests and features of the window before.
    before: Option<(f64, f64, Features)>,
    /// Surprises lately, in standard deviations.
    lean: f64,
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
        Self { state: [0.0, a, b, h], covariance, noise, known: false, before: None, lean: 0.0 }
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
        [1, 2, 3].map(|at| {
            let own = self.covariance[at][at].max(0.0).sqrt();
            self.state[at] + deviations * own.max(DEVIATIONS_MIN[at - 1])
        })
    }

    /// Latency at full speed, less waiting, in microseconds.
    pub fn base_us(&self) -> f64 {
        self.state[0].max(0.0)
    }

    /// Its standard deviation.
    pub fn base_deviation_us(&self) -> f64 {
        self.covariance[0][0].max(0.0).sqrt()
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
        self.noise * latency_us.max(1e-3).powi(2) * (1.0 / requests.max(1.0) + 1.0 / REQUESTS_TRUE)
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
    /// The base is told by windows at full speed; what the model lacks elsewhere depends on the
    /// setting and belongs to the weights.
    pub fn learn(
        &mut self,
        latency_us: f64,
        requests: f64,
        features: Features,
        at_full_speed: bool,
        span: f64,
    ) {
        if ![latency_us, requests].iter().chain(&features.0).all(|x| x.is_finite()) {
            return;
        }
        self.learn_noise(latency_us, requests, features);
        if !self.known {
            // Nothing is known of the base: the first window tells it, up to the weights.
            self.known = true;
            self.state[0] = latency_us - features.weighed(self.weights());
            self.covariance[0][0] = BASE_FIRST * BASE_FIRST * latency_us * latency_us;
        }
        let scales = [self.state[0], 1.0, self.state[2], 1.0];
        for (at, (step, scale)) in STEPS.into_iter().zip(scales).enumerate() {
            self.covariance[at][at] += step * step * scale * scale * span.min(4.0);
        }
        let row = [1.0, features.0[0], features.0[1], features.0[2]];
        let off_us = latency_us - self.latency_us(features);
        let noise = self.variance(latency_us - off_us, requests);
        let mut all = self.spread(row) + noise;
        if off_us * off_us > SURPRISE * SURPRISE * all {
            // The model is less true here than was believed: the weights that have a part in it
            // may be others.
            let factor = (off_us * off_us / (SURPRISE * SURPRISE * all)).min(INFLATION_MAX).sqrt();
            self.inflate(factor, features, off_us);
            all = self.spread(row) + noise;
        }
        let most = SURPRISE_MAX * all.sqrt();
        let mut gain = self.times(row).map(|times| times / all);
        if !at_full_speed {
            let is_lower = off_us < -LOWER * all.sqrt();
            gain[0] *= if is_lower { BASE_WHILE_SAVING } else { 0.0 };
        }
        let off_us = off_us.clamp(-most, most);
        self.lean += LEAN_WEIGHT * (off_us / all.sqrt() - self.lean);
        for (state, gain) in self.state.iter_mut().zip(gain) {
            *state += gain * off_us;
        }
        self.shrink(gain, row, noise);
        self.state[0] = self.state[0].max(0.05 * latency_us);
        for (at, (least, most)) in RANGES.into_iter().enumerate() {
            self.state[at + 1] = self.state[at + 1].clamp(least, most);
        }
    }

    /// The covariance after an update with any gain: `(I - K H) P (I - K H)' + K R K'` (Joseph).
    fn shrink(&mut self, gain: [f64; 4], row: [f64; 4], noise: f64) {
        let at = |i: usize, j: usize| f64::from(u8::from(i == j)) - gain[i] * row[j];
        let mut half = [[0.0; 4]; 4];
        for (i, line) in half.iter_mut().enumerate() {
            for (j, cell) in line.iter_mut().enumerate() {
                *cell = (0..4).map(|k| at(i, k) * self.covariance[k][j]).sum();
            }
        }
        for (i, line) in half.iter().enumerate() {
            for j in 0..4 {
                let sum: f64 = (0..4).map(|k| line[k] * at(j, k)).sum();
                self.covariance[i][j] = sum + gain[i] * noise * gain[j];
            }
        }
    }

    /// Whether windows have lately been off to one side: what is known is no longer true.
    pub fn is_leaning(&self) -> bool {
        self.lean.abs() > LEAN_MAX
    }

    /// Makes the weights less certain, as far as they may be at all, and as far as they can have
    /// been wrong by `off_us` in a window with these features: one that they hardly mattered in
    /// tells nothing of them.
    fn inflate(&mut self, factor: f64, features: Features, off_us: f64) {
        for (at, most) in DEVIATIONS_MAX.into_iter().enumerate() {
            let own = self.covariance[at + 1][at + 1].max(1e-12).sqrt();
            let part = (features.0[at] * most / off_us).powi(2).min(1.0);
            let factor = factor.powf(part).min(most / own).max(1.0);
            for other in 0..4 {
                self.covariance[at + 1][other] *= factor;
                self.covariance[other][at + 1] *= factor;
            }
        }
    }

    /// Noise is what neighbouring windows differ by that ran at like settings.
    fn learn_noise(&mut self, latency_us: f64, requests: f64, features: Features) {
        let Some((before_us, before, then)) = self.before.replace((latency_us, requests, features))
        else {
            return;
        };
        let explained_us = features.plus(then.times(-1.0)).weighed(self.weights());
        if explained_us.abs() > ALIKE * latency_us {
            return;
        }
        let off_us = latency_us - before_us - explained_us;
        let each = 1.0 / requests + 1.0 / before + 2.0 / REQUESTS_TRUE;
        let mean_us = 0.5 * (latency_us + before_us);
        let share = off_us * off_us / (mean_us * mean_us * each);
        self.noise += NOISE_WEIGHT * (share.clamp(0.02, 9.0 * self.noise) - self.noise);
    }
}

/// What of a surprise's part of the base is believed where the setting may be to blame, if the base
/// is lower than it was taken for by more than noise is: one that follows noise downwards only would
/// sink. That it is higher is learned at full speed only: what a setting costs must not become the base,
/// however slowly.
const BASE_WHILE_SAVING: f64 = 0.1;
/// Standard deviations that noise goes below what is expected.
const LOWER: f64 = 2.0;
/// Weight of the last surprise, and how far they may lean to one side.
const LEAN_WEIGHT: f64 = 0.25;
const LEAN_MAX: f64 = 1.0;
/// Standard deviation of the base at first, over the latency.
const BASE_FIRST: f64 = 3.0;
/// No weight is more certain: what many cores do to a crowd tells little of what few would.
const DEVIATIONS_MIN: [f64; 3] = [0.0, 0.0, 0.05];
/// Growth of the weights' variance by one surprise, and the greatest deviations that it may lead to.
const INFLATION_MAX: f64 = 4.0;
const DEVIATIONS_MAX: [f64; 3] = [0.2, 2.0, 0.5];

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate() -> Estimate {
        Estimate::new([0.95, 1.0, 0.5], [0.1, 0.5, 0.4])
    }

    /// A server whose clients wait for 0.8 of the work, and three times as long as the model says.
    #[test]
    fn windows_at_different_settings_tell_the_weights() {
        let mut estimate = estimate();
        for at in 0..300_u32 {
            let (s, q) = ([0.0, 20.0, 10.0, 30.0][at as usize % 4], f64::from(at % 3) * 5.0);
            let full = at % 4 == 0;
            let features = if full { Features::default() } else { Features([s, q, 0.0]) };
            let noise_us = f64::from(at * 7919 % 11) / 5.0 - 1.0;
            let latency_us = 100.0 + features.weighed([0.8, 3.0, 0.0]) + noise_us;
            estimate.learn(latency_us, 5000.0, features, full, 1.0);
        }
        let [a, b, _] = estimate.weights();
        assert!((estimate.base_us() - 100.0).abs() < 3.0, "{}", estimate.base_us());
        assert!((a - 0.8).abs() < 0.15 && (b - 3.0).abs() < 0.5, "{a} {b}");
    }

    /// The base used to take in what the model lacked at slow settings, and the loss looked small.
    #[test]
    fn what_a_setting_costs_does_not_become_the_latency_at_full_speed() {
        let mut estimate = estimate();
        estimate.learn(100.0, 5000.0, Features::default(), true, 1.0);
        for _ in 0..60 {
            estimate.learn(180.0, 5000.0, Features([10.0, 5.0, 5.0]), false, 1.0);
        }
        assert!(estimate.base_us() < 120.0, "{}", estimate.base_us());
    }

    /// The base crept up while the model lacked something, until nothing seemed to be lost any more.
    #[test]
    fn the_base_rises_at_full_speed_only() {
        let mut estimate = estimate();
        estimate.learn(100.0, 5000.0, Features::default(), true, 1.0);
        let before_us = estimate.base_us();
        for _ in 0..200 {
            estimate.learn(150.0, 5000.0, Features([10.0, 5.0, 5.0]), false, 1.0);
        }
        assert!(estimate.base_us() <= before_us, "{}", estimate.base_us());
        for _ in 0..20 {
            estimate.learn(150.0, 5000.0, Features::default(), true, 1.0);
        }
        assert!(estimate.base_us() > 1.3 * before_us, "{}", estimate.base_us());
    }

    /// It sank while the load was steady, as noise was followed downwards only; what a setting cost
    /// seemed to be more than it was, and a fifth of the promise was left.
    #[test]
    fn the_base_does_not_sink_by_noise() {
        let mut estimate = estimate();
        estimate.learn(100.0, 5000.0, Features::default(), true, 1.0);
        for at in 0..400_u32 {
            let noise_us = f64::from(at * 7919 % 11) / 2.5 - 2.0;
            let latency_us =
                100.0 + Features([10.0, 5.0, 0.0]).weighed([0.95, 1.0, 0.5]) + noise_us;
            estimate.learn(latency_us, 5000.0, Features([10.0, 5.0, 0.0]), false, 1.0);
        }
        assert!(estimate.base_us() > 99.0, "{}", estimate.base_us());
    }

    /// Late windows in which hardly anybody waited made the weight of waiting less and less certain,
    /// and what is certain of it was not saved by.
    #[test]
    fn a_surprise_leaves_the_weights_alone_that_had_no_part_in_it() {
        let mut estimate = estimate();
        for at in 0..400_u32 {
            let features = if at % 2 == 0 { [0.0; 3] } else { [10.0, 30.0, 0.0] };
            let latency_us = 100.0 + Features(features).weighed([0.9, 0.5, 0.5]);
            estimate.learn(latency_us, 5000.0, Features(features), at % 2 == 0, 1.0);
        }
        let waiting = Features([0.0, 30.0, 0.0]);
        let known_us = estimate.deviation_us(waiting);
        for _ in 0..5 {
            estimate.learn(300.0, 5000.0, Features([0.0, 0.1, 0.0]), false, 1.0);
        }
        let after_us = estimate.deviation_us(waiting);
        assert!(after_us < 1.2 * known_us, "{known_us} {after_us}");
        for _ in 0..5 {
            estimate.learn(300.0, 5000.0, Features([0.0, 60.0, 0.0]), false, 1.0);
        }
        assert!(estimate.weights()[1] > 1.0, "{:?}", estimate.weights());
    }

    #[test]
    fn what_cannot_be_is_not_taken_in() {
        let mut estimate = estimate();
        estimate.learn(100.0, 5000.0, Features::default(), true, 1.0);
        estimate.learn(f64::NAN, 5000.0, Features::default(), true, 1.0);
        estimate.learn(100.0, 5000.0, Features([f64::INFINITY, 0.0, 0.0]), true, 1.0);
        assert!((estimate.base_us() - 100.0).abs() < 1e-6);
    }
}
