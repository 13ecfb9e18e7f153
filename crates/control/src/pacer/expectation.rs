//! The latency to expect at full speed, given the mix of a window's requests.
//!
//! Large requests take longer than small ones and reads longer than cached writes, so the mean
//! latency moves with the mix even if nothing is wrong. To the printed law that looks like
//! instability. Here a regression over windows at full speed translates latencies between mixes. If
//! the mix does not change, or the source does not report it, the factor is 1, as in the printed
//! law.

use crate::mix::Mix;

/// Sizes are told in this unit.
const SIZE_UNIT_BYTES: f64 = 65536.0;
/// Weight of the past that is kept with each window.
const MEMORY: f64 = 0.999;
/// Windows before slopes are used at all.
const WINDOWS_MIN: u32 = 8;
/// Variances that are added to the regressors', so that fluctuations of a steady mix (two points
/// in a hundred of reads, one in a hundred of the size unit) teach no slope.
const RIDGE: [f64; 2] = [0.02 * 0.02, 0.01 * 0.01];
/// A translation by more than this, either way, is not believed.
const TRANSLATION_MAX: f64 = 4.0;

/// The regressors of a mix.
fn regressors(mix: Mix) -> [f64; 2] {
    [mix.read_share, mix.bytes_mean / SIZE_UNIT_BYTES]
}

/// Decayed weighted sums of a linear regression of latency on the mix.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    windows: u32,
    weight: f64,
    mix: [f64; 2],
    mix_mix: [[f64; 2]; 2],
    latency: f64,
    mix_latency: [f64; 2],
    /// What these sums say, since the last window that they took in: it is asked for many times.
    line: Line,
}

/// A regression line: `latency_us + slope (x - mix)`.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    mix: [f64; 2],
    latency_us: f64,
    slope: [f64; 2],
}

impl Line {
    /// At least a tenth of the mean latency.
    fn at(&self, mix: Mix) -> f64 {
        let (x, mean, slope) = (regressors(mix), self.mix, self.slope);
        let expected = self.latency_us + slope[0] * (x[0] - mean[0]) + slope[1] * (x[1] - mean[1]);
        expected.max(0.1 * self.latency_us)
    }
}

impl Expectation {
    /// Takes in a window at full speed.
    pub fn learn(&mut self, mix: Mix, latency_us: f64, requests: u64) {
        let (x, weight) = (regressors(mix), requests as f64);
        self.windows = self.windows.saturating_add(1);
        self.weight = self.weight * MEMORY + weight;
        self.latency = self.latency * MEMORY + weight * latency_us;
        for i in 0..2 {
            self.mix[i] = self.mix[i] * MEMORY + weight * x[i];
            self.mix_latency[i] = self.mix_latency[i] * MEMORY + weight * x[i] * latency_us;
            for j in 0..2 {
                self.mix_mix[i][j] = self.mix_mix[i][j] * MEMORY + weight * x[i] * x[j];
            }
        }
        self.line = self.fit();
    }

    /// The expected latency of mix `to` over that of mix `from`.
    pub fn translation(&self, from: Option<Mix>, to: Option<Mix>) -> f64 {
        let (Some(from), Some(to)) = (from, to) else { return 1.0 };
        if self.windows < WINDOWS_MIN || self.weight <= 0.0 {
            return 1.0;
        }
        let ratio = self.line.at(to) / self.line.at(from);
        ratio.clamp(1.0 / TRANSLATION_MAX, TRANSLATION_MAX)
    }

    /// The line of least squares.
    fn fit(&self) -> Line {
        let mean = [self.mix[0] / self.weight, self.mix[1] / self.weight];
        let latency_us = self.latency / self.weight;
        let covariance = |i: usize, j: usize| self.mix_mix[i][j] / self.weight - mean[i] * mean[j];
        let a = covariance(0, 0) + RIDGE[0];
        let b = covariance(0, 1);
        let d = covariance(1, 1) + RIDGE[1];
        let with_latency = |i: usize| self.mix_latency[i] / self.weight - mean[i] * latency_us;
        let (p, q) = (with_latency(0), with_latency(1));
        let determinant = a * d - b * b;
        let slope = [(d * p - b * q) / determinant, (a * q - b * p) / determinant];
        Line { mix: mean, latency_us, slope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(read_share: f64, size: f64) -> Mix {
        Mix { read_share, bytes_mean: size * SIZE_UNIT_BYTES }
    }

    #[test]
    fn a_linear_dependence_is_found() {
        let mut expectation = Expectation::default();
        for step in 0..200u32 {
            let (reads, size) = (f64::from(step % 7) / 7.0, f64::from(step % 11) / 4.0);
            expectation.learn(mix(reads, size), 100.0 + 60.0 * reads + 40.0 * size, 50);
        }
        let ratio = expectation.translation(Some(mix(0.2, 0.5)), Some(mix(0.8, 2.0)));
        let truth = (100.0 + 48.0 + 80.0) / (100.0 + 12.0 + 20.0);
        assert!((ratio / truth - 1.0).abs() < 0.01, "{ratio} {truth}");
    }

    #[test]
    fn a_steady_or_unknown_mix_translates_by_one() {
        let mut expectation = Expectation::default();
        for step in 0..100u32 {
            let reads = 0.7 + 0.001 * f64::from(step % 2);
            expectation.learn(mix(reads, 0.125), 190.0 + f64::from(step % 3), 30_000);
        }
        let (from, to) = (mix(0.7, 0.125), mix(0.701, 0.125));
        assert!((expectation.translation(Some(from), Some(to)) - 1.0).abs() < 0.01);
        assert_eq!(expectation.translation(None, Some(from)), 1.0);
    }
}
