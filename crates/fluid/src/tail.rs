//! How latencies spread, as an approximation: for each kind of request a gamma distribution of its
//! mean and its variance, shifted by what it takes at least.
//!
//! Sums of few tasks with constant and exponential parts are close to that; waits are not quite,
//! and the quantiles are an estimate.

use wattio_law::LatencyHistogram;

/// Buckets for each octave.
const PARTS: f64 = 8.0;
/// The first edge in microseconds; the last is 2^31 times as much.
const FIRST_US: f64 = 1.0;
/// All buckets.
pub const BUCKETS: usize = 31 * PARTS as usize;

/// The upper edge of a bucket in microseconds.
#[must_use]
pub fn edge_us(bucket: usize) -> f64 {
    FIRST_US * ((bucket + 1) as f64 / PARTS).exp2()
}

/// Latencies of one kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// Its share of the requests.
    pub share: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Standard deviation.
    pub deviation_us: f64,
    /// The least latency.
    pub least_us: f64,
}

impl Kind {
    /// The share of its requests that take no longer than this.
    fn below(&self, latency_us: f64) -> f64 {
        let least_us = self.least_us.clamp(0.0, self.mean_us * 0.999);
        let excess_us = self.mean_us - least_us;
        let variation = (self.deviation_us / excess_us).clamp(0.01, 30.0);
        let shape = 1.0 / (variation * variation);
        gamma_below(shape, (latency_us - least_us) / excess_us * shape)
    }
}

/// Shares of requests by bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// The bucket of the first share.
    pub first: usize,
    /// Shares of requests up to each bucket's edge, the last one 1.
    pub below: Vec<f64>,
}

impl Spread {
    /// Works the shares out.
    #[must_use]
    pub fn of(kinds: &[Kind]) -> Self {
        let least_us = kinds.iter().map(|kind| kind.least_us).fold(f64::INFINITY, f64::min);
        let all: f64 = kinds.iter().map(|kind| kind.share).sum();
        let first = bucket(least_us.min(1e12)).saturating_sub(1);
        let mut below = Vec::with_capacity(32);
        for at in first..BUCKETS {
            let up_to: f64 = kinds.iter().map(|kind| kind.share * kind.below(edge_us(at))).sum();
            if up_to > (1.0 - 1e-12) * all {
                break;
            }
            below.push(up_to / all);
        }
        below.push(1.0);
        Self { first, below }
    }

    /// The histogram of so many requests; shares of requests go to whole numbers so that their sum
    /// is right.
    #[must_use]
    pub fn histogram(&self, requests: u64) -> LatencyHistogram {
        let mut counted = 0;
        let bucket = |(at, &below): (usize, &f64)| {
            let up_to = (below * requests as f64).round() as u64;
            let count = up_to - counted;
            counted = up_to;
            (edge_us(self.first + at), count)
        };
        LatencyHistogram { buckets: self.below.iter().enumerate().map(bucket).collect() }
    }

    /// Adds the shares of so many requests to sums by bucket.
    pub fn add_to(&self, sums: &mut [f64], requests: f64) {
        let mut before = 0.0;
        for (at, &below) in self.below.iter().enumerate() {
            if let Some(sum) = sums.get_mut(self.first + at) {
                *sum += (below - before) * requests;
            }
            before = below;
        }
    }
}

/// The least latency in microseconds that a share of the requests of sums by bucket is not above;
/// `None` without requests. Within a bucket they are taken to lie evenly.
#[must_use]
pub fn quantile_us(sums: &[f64], quantile: f64) -> Option<f64> {
    let total: f64 = sums.iter().sum();
    let mut left = quantile * total;
    for (at, &sum) in sums.iter().enumerate() {
        if sum > 0.0 && left <= sum {
            let from_us = if at > 0 { edge_us(at - 1) } else { 0.0 };
            return Some(from_us + (edge_us(at) - from_us) * left / sum);
        }
        left -= sum;
    }
    None
}

fn bucket(latency_us: f64) -> usize {
    let octaves = (latency_us / FIRST_US).max(1.0).log2();
    ((octaves * PARTS) as usize).min(BUCKETS - 1)
}

/// The regularised incomplete gamma function `P(a, x)`: its series for small `x`, else the
/// continued fraction of its complement by the method of W. J. Lentz (1976).
fn gamma_below(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        let mut n = a;
        while term > sum * 1e-13 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        (front * sum).min(1.0)
    } else {
        let mut b = x + 1.0 - a;
        let mut c = 1e300;
        let mut d = 1.0 / b;
        let mut fraction = d;
        for i in 1..500 {
            let step = -f64::from(i) * (f64::from(i) - a);
            b += 2.0;
            d = 1.0 / (step * d + b);
            c = b + step / c;
            fraction *= d * c;
            if (d * c - 1.0).abs() < 1e-13 {
                break;
            }
        }
        (1.0 - front * fraction).clamp(0.0, 1.0)
    }
}

/// `ln Gamma(a)` by Stirling's series, after stepping up to where it is true to 1e-10.
fn ln_gamma(a: f64) -> f64 {
    let mut product = 1.0;
    let mut at = a;
    while at < 10.0 {
        product *= at;
        at += 1.0;
    }
    let inverse = 1.0 / at;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1260.0));
    (at - 0.5) * at.ln() - at + 0.918_938_533_204_672_7 + series - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_gamma_function_of_whole_numbers_is_a_factorial() {
        for (a, factorial) in [(1.0, 1.0_f64), (5.0, 24.0), (11.0, 3_628_800.0)] {
            assert!((ln_gamma(a) - factorial.ln()).abs() < 1e-9, "{a}");
        }
        // Shape 1 is the exponential distribution.
        for x in [0.1, 1.0, 3.0] {
            assert!((gamma_below(1.0, x) - (1.0 - f64::exp(-x))).abs() < 1e-9, "{x}");
        }
    }

    proptest! {
        #[test]
        fn a_spread_keeps_its_mean_and_every_request(
            mean in 5.0f64..1e6, variation in 0.05f64..3.0, least in 0.0f64..0.9, requests in 1u64..100_000,
        ) {
            let least_us = least * mean;
            let kind = Kind {
                share: 0.3,
                mean_us: mean,
                deviation_us: variation * (mean - least_us),
                least_us,
            };
            let spread = Spread::of(&[kind, Kind { share: 0.7, ..kind }]);
            let histogram = spread.histogram(requests);
            prop_assert_eq!(histogram.requests(), requests);
            let mut sums = [0.0; BUCKETS];
            spread.add_to(&mut sums, 1.0);
            let middle = |at: usize| 0.5 * (edge_us(at) + if at > 0 { edge_us(at - 1) } else { 0.0 });
            let found: f64 = sums.iter().enumerate().map(|(at, sum)| sum * middle(at)).sum();
            prop_assert!((found / mean - 1.0).abs() < 0.05, "{found} {mean}");
        }
    }
}
