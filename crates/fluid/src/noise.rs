//! How much more or less than the mean comes in a window.

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Binomial, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Draws counts and errors of means from a seed.
#[derive(Clone, Debug)]
pub struct Noise {
    rng: Xoshiro256PlusPlus,
}

/// Means above this are drawn from the normal distribution of the same mean and variance.
const NORMAL_FROM: f64 = 30.0;
/// A slot's rate is told to this grain (natural logarithm), so that like slots are one.
const GRAIN: f64 = 0.02;
/// The greatest variance of a slot's rate over the square of its mean.
const VARIATION_MAX: f64 = 25.0;

impl Noise {
    /// Of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// A standard normal number.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        self.rng.sample(StandardNormal)
    }

    /// A Poisson number of a mean.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        if mean > NORMAL_FROM {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        // Multiplying uniform numbers until their product is below e^-mean (D. Knuth).
        let least = (-mean).exp();
        let (mut product, mut count) = (1.0, 0.0);
        loop {
            product *= (self.rng.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0);
            if product <= least {
                return count;
            }
            count += 1.0;
        }
    }

    /// How many of `n` do what each does with a chance of `share`.
    pub fn binomial(&mut self, n: u32, share: f64) -> f64 {
        let drawn = Binomial::new(u64::from(n), share.clamp(0.0, 1.0));
        drawn.map_or(0.0, |binomial| self.rng.sample(binomial) as f64)
    }

    /// The rate of a slot over its mean, when `expected` requests are to come in it with an index
    /// of dispersion above 1: a lognormal number of mean 1.
    pub fn slot(&mut self, expected: f64, dispersion: f64) -> f64 {
        let normal = self.normal();
        if expected <= 0.0 || dispersion <= 1.0 {
            return 1.0;
        }
        let variance = (1.0 + ((dispersion - 1.0) / expected).min(VARIATION_MAX)).ln();
        let grains = (variance.sqrt() * normal - 0.5 * variance) / GRAIN;
        (grains.round() * GRAIN).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_many_who_do_it_have_their_mean_and_their_variance() {
        for (n, share) in [(4, 0.3), (256, 0.01), (256, 0.9), (256, 1.0), (256, 0.0)] {
            let mut noise = Noise::new(7);
            let draws = 100_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..draws {
                let count = noise.binomial(n, share);
                sum += count;
                squares += count * count;
            }
            let found = sum / f64::from(draws);
            let variance = squares / f64::from(draws) - found * found;
            let (mean, expected) = (f64::from(n) * share, f64::from(n) * share * (1.0 - share));
            assert!((found - mean).abs() <= 0.01 * mean, "{n} {share}: {found}");
            assert!(
                (variance - expected).abs() <= 0.03 * expected + 1e-6,
                "{n} {share}: {variance}"
            );
        }
    }

    #[test]
    fn counts_have_their_mean_and_their_variance() {
        for (mean, dispersion) in [(0.3, 1.0), (12.0, 1.0), (400.0, 1.0), (400.0, 20.0)] {
            let mut noise = Noise::new(7);
            let draws = 200_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..draws {
                let factor = noise.slot(mean, dispersion);
                let count = noise.poisson(mean * factor);
                sum += count;
                squares += count * count;
            }
            let found = sum / f64::from(draws);
            let variance = squares / f64::from(draws) - found * found;
            assert!((found / mean - 1.0).abs() < 0.01, "{mean}: {found}");
            assert!((variance / found / dispersion - 1.0).abs() < 0.05, "{mean}: {variance}");
        }
    }
}
