//! How the sizes of requests are distributed.

use std::collections::HashMap;

use serde::Serialize;

/// Sizes listed as the most common ones.
const COMMON_SIZES: usize = 8;
/// Different sizes kept apart; further ones are rounded up to a power of two.
const SIZES_MAX: usize = 65_536;

/// Sizes of requests, in bytes. A quantile is the smallest size that enough requests do not exceed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// Median.
    pub p50: u32,
    /// Exceeded by at most 5 % of the requests.
    pub p95: u32,
    /// Largest.
    pub max: u32,
    /// Mean.
    pub mean: f64,
    /// The most common sizes, the commonest first.
    pub common: Vec<SizeCount>,
}

/// How often a size occurs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeCount {
    /// Size of the request.
    pub bytes: u32,
    /// Requests of that size.
    pub ios: u64,
    /// Their share of all requests.
    pub share: f64,
}

/// Counts sizes, with bounded memory.
#[derive(Default)]
pub(crate) struct SizeTally {
    counts: HashMap<u32, u64>,
    ios: u64,
    bytes: u64,
}

impl SizeTally {
    pub fn add(&mut self, bytes: u32) {
        self.ios += 1;
        self.bytes = self.bytes.saturating_add(u64::from(bytes));
        self.count(bytes, 1);
    }

    /// Takes over what another tally counted.
    pub fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes = self.bytes.saturating_add(other.bytes);
        let mut counts: Vec<_> = other.counts.iter().collect();
        counts.sort_unstable();
        for (&bytes, &ios) in counts {
            self.count(bytes, ios);
        }
    }

    fn count(&mut self, bytes: u32, ios: u64) {
        let known = self.counts.len() < SIZES_MAX || self.counts.contains_key(&bytes);
        let key = if known { bytes } else { bytes.checked_next_power_of_two().unwrap_or(u32::MAX) };
        *self.counts.entry(key).or_default() += ios;
    }

    /// The distribution; absent without requests.
    pub fn sizes(&self) -> Option<Sizes> {
        if self.ios == 0 {
            return None;
        }
        let mut counts: Vec<(u32, u64)> = self.counts.iter().map(|(&b, &n)| (b, n)).collect();
        counts.sort_unstable();
        let (p50, p95, max) =
            (quantile(&counts, 0.5), quantile(&counts, 0.95), quantile(&counts, 1.0));
        // The commonest first, the smaller one among equals: the order must not depend on hashing.
        counts.sort_by_key(|&(bytes, ios)| (std::cmp::Reverse(ios), bytes));
        let ios_total = self.ios as f64;
        let common = counts.iter().take(COMMON_SIZES);
        Some(Sizes {
            p50,
            p95,
            max,
            mean: self.bytes as f64 / ios_total,
            common: common
                .map(|&(bytes, ios)| SizeCount { bytes, ios, share: ios as f64 / ios_total })
                .collect(),
        })
    }
}

/// The smallest value that at least `share` of the counted things do not exceed.
pub(crate) fn quantile<T: Copy + Default>(sorted: &[(T, u64)], share: f64) -> T {
    let total: u64 = sorted.iter().map(|&(_, count)| count).sum();
    let wanted = (total as f64 * share).ceil() as u64;
    let mut passed = 0;
    for &(value, count) in sorted {
        passed += count;
        if passed >= wanted {
            return value;
        }
    }
    sorted.last().map(|&(value, _)| value).unwrap_or_default()
}
