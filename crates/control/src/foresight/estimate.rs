//! Latency at full speed, and how it grows with the setting: a Kalman filter.
//!
//! A window's mean latency is modelled as `L = B + c·(x - x̄) + a S + b Q + h D + noise`. `S, Q, D`
//! are the [`Features`] that its setting adds; `x` is what distinguishes it from other windows at
//! full speed: crowds and the mix of its requests ([`Window`]). `B` drifts; the weights hardly do:
//! `a` (the share of the work on cores that a client waits for), `b` (waiting relative to the
//! model's), `h` (of the requests that arrive together with a request, the part served before it)
//! and `c`. `x̄` is the mean of `x` over the windows from which `B` was learned, so that the
//! uncertainties of `B` and `c` are separate.
//!
//! Without the mix, dense stretches of a load whose requests differ from those of sparse stretches
//! looked slow, or quick: the cost of a setting in them was wrong by a third of a promise.

use super::choice::Features;
use crate::mix::Mix;

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

/// The states: the base, the weights of the three features, and of what windows at full speed differ in.
const STATES: usize = 7;
/// The first of the latter: crowds, then the mix.
const CROWD: usize = 4;
const MIX: usize = 5;
/// A number for each state.
pub type Row = [f64; STATES];

/// Standard deviation of the steps that the states take in a window: of the base and of what the mix does
/// relative to the base, of the others as they are.
const STEPS: Row = [0.015, 0.002, 0.01, 0.005, 0.005, 0.002, 0.002];
/// The least and the greatest weights, but for the mix.
const RANGES: [(f64, f64); 4] = [(0.3, 1.1), (0.2, 20.0), (0.0, 3.0), (0.0, 3.0)];
/// What the mix does before it is known, over the latency, as standard deviations: all being reads in
/// place of all being writes, and twice the size (of large requests).
const MIX_FIRST: [f64; 2] = [0.3, 0.2];
/// How alike crowds are to be expected to weigh at full speed and in what a setting adds: the correlation.
/// Over 122 excerpts of recorded traces 0.9 saves a little more than 0.8, and 0.7 a little less; but at 0.9
/// bursts of 10 ms cost one seed in two more than half of its saving.
const CROWDS_ALIKE: f64 = 0.8;
/// Below this size, in bytes, the time of a request hardly depends on it.
const SIZE_BYTES: f64 = 8192.0;

/// What the latency depends on of a mix: the share of reads, and the size in doublings.
fn regressors(mix: Mix) -> [f64; 2] {
    [mix.read_share, (mix.bytes_mean / SIZE_BYTES).ln_1p() / std::f64::consts::LN_2]
}

/// What the latency of a window depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// What the setting adds to the features at full speed.
    pub more: Features,
    /// The feature of crowds at full speed, in microseconds.
    pub crowd_us: f64,
    /// The mix of its requests, where it is told.
    pub mix: Option<Mix>,
}

impl Window {
    /// The same at full speed.
    fn at_full_speed(&self) -> Self {
        Self { more: Features::default(), ..*self }
    }
}

/// The filter.
#[derive(Clone, Debug)]
pub struct Estimate {
    state: Row,
    covariance: [Row; STATES],
    /// What the windows were like that have told the base: crowds and mix.
    usual: Option<[f64; STATES - CROWD]>,
    /// Variance of one request's latency over the square of the latency.
    noise: f64,
    known: bool,
    /// Latency and requests of the window before, and what it was like.
    before: Option<(f64, f64, Window)>,
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
        let mut covariance = [[0.0; STATES]; STATES];
        for (at, deviation) in deviations.into_iter().enumerate() {
            covariance[at + 1][at + 1] = deviation * deviation;
        }
        let crowds = covariance[3][3];
        covariance[CROWD][CROWD] = crowds;
        covariance[CROWD][3] = CROWDS_ALIKE * crowds;
        covariance[3][CROWD] = CROWDS_ALIKE * crowds;
        let [a, b, h] = weights;
        Self {
            state: [0.0, a, b, h, h, 0.0, 0.0],
            covariance,
            usual: None,
            noise: NOISE_FIRST * NOISE_FIRST,
            known: false,
            before: None,
            lean: 0.0,
        }
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

    /// Latency at full speed of the usual mix without a crowd, less waiting, in microseconds.
    pub fn base_us(&self) -> f64 {
        let crowd_us = self.usual.map_or(0.0, |usual| self.crowd_us(usual[0]));
        (self.state[0] - crowd_us).max(0.0)
    }

    /// What a crowd with this feature adds at full speed, in microseconds.
    pub fn crowd_us(&self, feature_us: f64) -> f64 {
        self.state[CROWD] * feature_us
    }

    /// Latency of a window had it been at full speed, less waiting, in microseconds.
    pub fn full_us(&self, window: &Window) -> f64 {
        self.latency_us(&window.at_full_speed()).max(LEAST * self.state[0])
    }

    /// The standard deviation of that of a window without a crowd.
    pub fn full_deviation_us(&self, mix: Option<Mix>) -> f64 {
        self.deviation_of(self.row(&Window { mix, ..Window::default() }))
    }

    /// What a window differs in, at full speed, from those that have told the base.
    pub fn odd(&self, window: &Window) -> Row {
        let mut row = self.row(&window.at_full_speed());
        row[0] = 0.0;
        row
    }

    /// The standard deviation of a sum of states.
    pub fn deviation_of(&self, row: Row) -> f64 {
        self.spread(row).max(0.0).sqrt()
    }

    fn row(&self, window: &Window) -> Row {
        let [s, q, d] = window.more.0;
        let [crowd_us, reads, size] = self.usual.unwrap_or_default();
        let off = window.mix.map(regressors).map_or([0.0; 2], |[r, z]| [r - reads, z - size]);
        [1.0, s, q, d, window.crowd_us - crowd_us, off[0], off[1]]
    }

    /// The base becomes that of windows nearer to this one, by this part of the way.
    fn follow(&mut self, row: Row, part: f64) {
        let Some(usual) = &mut self.usual else { return };
        for (at, usual) in usual.iter_mut().enumerate() {
            let (at, step) = (CROWD + at, part * row[CROWD + at]);
            *usual += step;
            self.state[0] += step * self.state[at];
            for other in 0..STATES {
                self.covariance[0][other] += step * self.covariance[at][other];
            }
            for line in &mut self.covariance {
                line[0] += step * line[at];
            }
        }
    }

    /// Expected latency of a window, in microseconds.
    pub fn latency_us(&self, window: &Window) -> f64 {
        self.row(window).iter().zip(self.state).map(|(a, b)| a * b).sum()
    }

    /// The standard deviation of what features tell more than others.
    pub fn deviation_us(&self, more: Features) -> f64 {
        let [s, q, d] = more.0;
        self.deviation_of([0.0, s, q, d, 0.0, 0.0, 0.0])
    }

    /// The variance of one window's mean at a latency.
    fn variance(&self, latency_us: f64, requests: f64) -> f64 {
        self.noise * latency_us.max(1e-3).powi(2) * (1.0 / requests.max(1.0) + 1.0 / REQUESTS_TRUE)
    }

    fn spread(&self, row: Row) -> f64 {
        let times = self.times(row);
        row.iter().zip(times).map(|(a, b)| a * b).sum()
    }

    fn times(&self, row: Row) -> Row {
        std::array::from_fn(|at| self.covariance[at].iter().zip(row).map(|(a, b)| a * b).sum())
    }

    /// How far a window is from what was expected.
    pub fn surprise(&self, latency_us: f64, requests: f64, window: &Window) -> Surprise {
        let expected_us = self.latency_us(window);
        let variance =
            self.spread(self.row(window)) + self.variance(expected_us.min(latency_us), requests);
        Surprise { us: latency_us - expected_us, deviation_us: variance.max(0.0).sqrt() }
    }

    /// Takes in a window of `span` windows' length.
    /// The base is told by windows at full speed; what the model lacks elsewhere depends on the
    /// setting and belongs to the weights. Crowds and the mix show in windows at any setting.
    pub fn learn(
        &mut self,
        latency_us: f64,
        requests: f64,
        window: &Window,
        at_full_speed: bool,
        span: f64,
    ) {
        let told = [latency_us, requests, window.crowd_us];
        if !told.iter().chain(&window.more.0).all(|x| x.is_finite()) {
            return;
        }
        if self.usual.is_none() {
            let [reads, size] = window.mix.map(regressors).unwrap_or_default();
            self.usual = Some([window.crowd_us, reads, size]);
            for (at, first) in MIX_FIRST.into_iter().enumerate() {
                self.covariance[MIX + at][MIX + at] = (first * latency_us).powi(2);
            }
        }
        self.learn_noise(latency_us, requests, window);
        if !self.known {
            // Nothing is known of the base: the first window tells it, up to the weights.
            self.known = true;
            self.state[0] += latency_us - self.latency_us(window);
            self.covariance[0][0] = BASE_FIRST * BASE_FIRST * latency_us * latency_us;
        }
        let scales = [self.state[0], 1.0, self.state[2], 1.0, 1.0, self.state[0], self.state[0]];
        for (at, (step, scale)) in STEPS.into_iter().zip(scales).enumerate() {
            self.covariance[at][at] += step * step * scale * scale * span.min(4.0);
        }
        let row = self.row(window);
        let off_us = latency_us - self.latency_us(window);
        let noise = self.variance(latency_us - off_us, requests);
        let mut all = self.spread(row) + noise;
        if off_us * off_us > SURPRISE * SURPRISE * all {
            // The model is less true here than was believed: the weights that have a part in it
            // may be others.
            let factor = (off_us * off_us / (SURPRISE * SURPRISE * all)).min(INFLATION_MAX).sqrt();
            self.inflate(factor, row, off_us);
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
        if at_full_speed {
            self.follow(row, gain[0].clamp(0.0, 1.0));
        }
        self.state[0] = self.state[0].max(LEAST * latency_us);
        self.keep_in_ranges();
    }

    fn keep_in_ranges(&mut self) {
        for (at, (least, most)) in RANGES.into_iter().enumerate() {
            self.state[at + 1] = self.state[at + 1].clamp(least, most);
        }
    }

    /// The covariance after an update with any gain: `(I - K H) P (I - K H)' + K R K'` (Joseph).
    fn shrink(&mut self, gain: Row, row: Row, noise: f64) {
        let at = |i: usize, j: usize| f64::from(u8::from(i == j)) - gain[i] * row[j];
        let mut half = [[0.0; STATES]; STATES];
        for (i, line) in half.iter_mut().enumerate() {
            for (j, cell) in line.iter_mut().enumerate() {
                *cell = (0..STATES).map(|k| at(i, k) * self.covariance[k][j]).sum();
            }
        }
        for (i, line) in half.iter().enumerate() {
            for j in 0..STATES {
                let sum: f64 = (0..STATES).map(|k| line[k] * at(j, k)).sum();
                self.covariance[i][j] = sum + gain[i] * noise * gain[j];
            }
        }
    }

    /// The weight of crowds at full speed is no more than this. What is known of other weights follows as
    /// far as they go together.
    pub fn limit_crowds(&mut self, most: f64) {
        let off = most - self.state[CROWD];
        if off.is_nan() || off >= 0.0 {
            return;
        }
        let mut row = [0.0; STATES];
        row[CROWD] = 1.0;
        let noise = (LIMIT_NOISE * most).powi(2) + 1e-6;
        let all = self.spread(row) + noise;
        let mut gain = self.times(row).map(|times| times / all);
        gain[0] = 0.0;
        for (state, gain) in self.state.iter_mut().zip(gain) {
            *state += gain * off;
        }
        self.shrink(gain, row, noise);
        self.keep_in_ranges();
    }

    /// Whether windows have lately been off to one side: what is known is no longer true.
    pub fn is_leaning(&self) -> bool {
        self.lean.abs() > LEAN_MAX
    }

    /// Makes the weights less certain, as far as they may be at all, and as far as they can have
    /// been wrong by `off_us` in a window with these features: one that they hardly mattered in
    /// tells nothing of them.
    fn inflate(&mut self, factor: f64, row: Row, off_us: f64) {
        for (at, most) in DEVIATIONS_MAX.into_iter().enumerate() {
            let own = self.covariance[at + 1][at + 1].max(1e-12).sqrt();
            let part = (row[at + 1] * most / off_us).powi(2).min(1.0);
            let factor = factor.powf(part).min(most / own).max(1.0);
            for other in 0..STATES {
                self.covariance[at + 1][other] *= factor;
                self.covariance[other][at + 1] *= factor;
            }
        }
    }

    /// Noise is what neighbouring windows differ by that ran at like settings.
    fn learn_noise(&mut self, latency_us: f64, requests: f64, window: &Window) {
        let Some((before_us, before, then)) = self.before.replace((latency_us, requests, *window))
        else {
            return;
        };
        let explained_us = self.latency_us(window) - self.latency_us(&then);
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

/// How exactly a limit of a weight is told, over it.
const LIMIT_NOISE: f64 = 0.3;
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
/// The base is no less than this part of a latency that was measured.
const LEAST: f64 = 0.05;
/// No weight is more certain: what many cores do to a crowd tells little of what few would.
const DEVIATIONS_MIN: [f64; 3] = [0.0, 0.0, 0.05];
/// Growth of the weights' variance by one surprise, and the greatest deviations that it may lead to.
const INFLATION_MAX: f64 = 4.0;
const DEVIATIONS_MAX: [f64; 4] = [0.2, 2.0, 0.5, 0.5];

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate() -> Estimate {
        Estimate::new([0.95, 1.0, 0.5], [0.1, 0.5, 0.4])
    }

    /// A window whose setting adds this to the features.
    fn at(more: [f64; 3]) -> Window {
        Window { more: Features(more), ..Window::default() }
    }

    /// A server whose clients wait for 0.8 of the work, and three times as long as the model says.
    #[test]
    fn windows_at_different_settings_tell_the_weights() {
        let mut estimate = estimate();
        for round in 0..300_u32 {
            let (s, q) = ([0.0, 20.0, 10.0, 30.0][round as usize % 4], f64::from(round % 3) * 5.0);
            let full = round % 4 == 0;
            let features = if full { Features::default() } else { Features([s, q, 0.0]) };
            let noise_us = f64::from(round * 7919 % 11) / 5.0 - 1.0;
            let latency_us = 100.0 + features.weighed([0.8, 3.0, 0.0]) + noise_us;
            estimate.learn(latency_us, 5000.0, &at(features.0), full, 1.0);
        }
        let [a, b, _] = estimate.weights();
        assert!((estimate.base_us() - 100.0).abs() < 3.0, "{}", estimate.base_us());
        assert!((a - 0.8).abs() < 0.15 && (b - 3.0).abs() < 0.5, "{a} {b}");
    }

    /// What crowds weigh was a guess until windows with unlike crowds had come, though one window alone
    /// limits it.
    #[test]
    fn crowds_weigh_no_more_than_what_was_waited() {
        let mut estimate = estimate();
        let window = Window { crowd_us: 400.0, ..Window::default() };
        estimate.learn(130.0, 5000.0, &window, true, 1.0);
        let before = estimate.clone();
        estimate.limit_crowds(2.0);
        assert_eq!(estimate.crowd_us(1.0), before.crowd_us(1.0), "a limit above what is believed");
        estimate.limit_crowds(0.1);
        assert!(estimate.crowd_us(1.0) < 0.15, "{}", estimate.crowd_us(1.0));
        // Where a setting adds to crowds they are likely to weigh less, too; the base is what it was.
        assert!(estimate.weights()[2] < before.weights()[2] - 0.1);
        assert!((estimate.full_us(&window) - before.full_us(&window)).abs() < 1e-9);
        let deviation = |of: &Estimate| of.deviation_us(Features([0.0, 0.0, 1.0]));
        assert!(deviation(&estimate) < deviation(&before));
    }

    /// The base used to take in what the model lacked at slow settings, and the loss looked small.
    #[test]
    fn what_a_setting_costs_does_not_become_the_latency_at_full_speed() {
        let mut estimate = estimate();
        estimate.learn(100.0, 5000.0, &Window::default(), true, 1.0);
        for _ in 0..60 {
            estimate.learn(180.0, 5000.0, &at([10.0, 5.0, 5.0]), false, 1.0);
        }
        assert!(estimate.base_us() < 120.0, "{}", estimate.base_us());
    }

    /// The base crept up while the model lacked something, until nothing seemed to be lost any more.
    #[test]
    fn the_base_rises_at_full_speed_only() {
        let mut estimate = estimate();
        estimate.learn(100.0, 5000.0, &Window::default(), true, 1.0);
        let before_us = estimate.base_us();
        for _ in 0..200 {
            estimate.learn(150.0, 5000.0, &at([10.0, 5.0, 5.0]), false, 1.0);
        }
        assert!(estimate.base_us() <= before_us, "{}", estimate.base_us());
        for _ in 0..20 {
            estimate.learn(150.0, 5000.0, &Window::default(), true, 1.0);
        }
        assert!(estimate.base_us() > 1.3 * before_us, "{}", estimate.base_us());
    }

    /// It sank while the load was steady, as noise was followed downwards only; what a setting cost
    /// seemed to be more than it was, and a fifth of the promise was left.
    #[test]
    fn the_base_does_not_sink_by_noise() {
        let mut estimate = estimate();
        estimate.learn(100.0, 5000.0, &Window::default(), true, 1.0);
        for round in 0..400_u32 {
            let noise_us = f64::from(round * 7919 % 11) / 2.5 - 2.0;
            let latency_us =
                100.0 + Features([10.0, 5.0, 0.0]).weighed([0.95, 1.0, 0.5]) + noise_us;
            estimate.learn(latency_us, 5000.0, &at([10.0, 5.0, 0.0]), false, 1.0);
        }
        assert!(estimate.base_us() > 99.0, "{}", estimate.base_us());
    }

    /// Late windows in which hardly anybody waited made the weight of waiting less and less certain,
    /// and what is certain of it was not saved by.
    #[test]
    fn a_surprise_leaves_the_weights_alone_that_had_no_part_in_it() {
        let mut estimate = estimate();
        for round in 0..400_u32 {
            let features = if round % 2 == 0 { [0.0; 3] } else { [10.0, 30.0, 0.0] };
            let latency_us = 100.0 + Features(features).weighed([0.9, 0.5, 0.5]);
            estimate.learn(latency_us, 5000.0, &at(features), round % 2 == 0, 1.0);
        }
        let waiting = Features([0.0, 30.0, 0.0]);
        let known_us = estimate.deviation_us(waiting);
        for _ in 0..5 {
            estimate.learn(300.0, 5000.0, &at([0.0, 0.1, 0.0]), false, 1.0);
        }
        let after_us = estimate.deviation_us(waiting);
        assert!(after_us < 1.2 * known_us, "{known_us} {after_us}");
        for _ in 0..5 {
            estimate.learn(300.0, 5000.0, &at([0.0, 60.0, 0.0]), false, 1.0);
        }
        assert!(estimate.weights()[1] > 1.0, "{:?}", estimate.weights());
    }

    #[test]
    fn what_cannot_be_is_not_taken_in() {
        let mut estimate = estimate();
        estimate.learn(100.0, 5000.0, &Window::default(), true, 1.0);
        estimate.learn(f64::NAN, 5000.0, &Window::default(), true, 1.0);
        estimate.learn(100.0, 5000.0, &at([f64::INFINITY, 0.0, 0.0]), true, 1.0);
        assert!((estimate.base_us() - 100.0).abs() < 1e-6);
    }

    /// A window at full speed with so many reads of this size.
    fn mixed(read_share: f64, bytes: f64) -> Window {
        Window { mix: Mix::of(Some(read_share), Some(bytes)), ..Window::default() }
    }

    /// Sparse stretches were of reads, dense ones of writes; windows at full speed fell on the sparse
    /// ones, and the dense ones were taken to be as late by themselves.
    #[test]
    fn what_the_mix_does_is_told_apart_from_what_full_speed_is() {
        let mut estimate = estimate();
        let truth = |read_share: f64| 90.0 + 45.0 * read_share;
        for round in 0..40_u32 {
            let read_share = [0.9, 0.8, 0.7, 0.4][round as usize % 4];
            let window = mixed(read_share, 8192.0);
            estimate.learn(truth(read_share), 2000.0, &window, true, 1.0);
        }
        for read_share in [1.0, 0.6, 0.2] {
            let (known_us, true_us) =
                (estimate.full_us(&mixed(read_share, 8192.0)), truth(read_share));
            assert!((known_us / true_us - 1.0).abs() < 0.03, "{read_share}: {known_us} {true_us}");
        }
        let near_us = estimate.full_deviation_us(Mix::of(Some(0.7), Some(8192.0)));
        let far_us = estimate.full_deviation_us(Mix::of(Some(0.7), Some(1e6)));
        assert!(far_us > 3.0 * near_us, "sizes that were never seen: {near_us} {far_us}");
    }

    /// A source that does not tell the mix is followed as before there was one.
    #[test]
    fn a_mix_that_is_not_told_is_the_usual_one() {
        let (mut told, mut untold) = (estimate(), estimate());
        for round in 0..20_u32 {
            let latency_us = 100.0 + f64::from(round % 3);
            told.learn(latency_us, 2000.0, &mixed(0.7, 8192.0), true, 1.0);
            untold.learn(latency_us, 2000.0, &Window::default(), true, 1.0);
        }
        assert!((told.base_us() - untold.base_us()).abs() < 1e-6);
    }

    /// What the base is of moves with the windows that tell it; what is expected of a window does not.
    #[test]
    fn the_base_of_another_mix_expects_the_same() {
        let mut estimate = estimate();
        for (read_share, latency_us) in [(0.9, 130.0), (0.2, 100.0), (0.9, 131.0)] {
            estimate.learn(latency_us, 2000.0, &mixed(read_share, 4096.0), true, 1.0);
        }
        let windows = [mixed(0.1, 2048.0), mixed(1.0, 65536.0)];
        let expected =
            |e: &Estimate| windows.map(|w| (e.latency_us(&w), e.full_deviation_us(w.mix)));
        let before = expected(&estimate);
        let row = estimate.row(&mixed(0.4, 16384.0));
        estimate.follow(row, 0.7);
        for (before, after) in before.iter().zip(expected(&estimate)) {
            assert!((before.0 - after.0).abs() < 1e-9 && (before.1 - after.1).abs() < 1e-6);
        }
    }
}
