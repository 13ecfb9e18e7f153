//! A latency histogram with eight buckets per octave. Recording a request costs one addition.

use crate::LatencyHistogram;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of an octave, as a power of two.
const PARTS_LOG2: u32 = 3;
/// Latencies below a microsecond or so are one bucket; the last octave ends above 1000 s.
const OCTAVE_FIRST: u32 = 10;
const BUCKETS: usize = 31 << PARTS_LOG2;

/// Requests by latency, each bucket at most an eighth wide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Octaves {
    counts: Box<[u64; BUCKETS]>,
}

impl Default for Octaves {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]) }
    }
}

/// The bucket of a latency.
#[inline]
fn bucket(latency_ns: u64) -> usize {
    let latency_ns = latency_ns.max(1 << OCTAVE_FIRST);
    let octave = 63 - latency_ns.leading_zeros();
    let part = (latency_ns >> (octave - PARTS_LOG2)) as usize & ((1 << PARTS_LOG2) - 1);
    ((((octave - OCTAVE_FIRST) as usize) << PARTS_LOG2) + part).min(BUCKETS - 1)
}

/// The least latency in nanoseconds of the bucket after this one.
fn edge_ns(bucket: usize) -> u64 {
    let next = bucket + 1;
    let octave = OCTAVE_FIRST + (next >> PARTS_LOG2) as u32;
    let part = (next & ((1 << PARTS_LOG2) - 1)) as u64;
    ((1 << PARTS_LOG2) + part) << (octave - PARTS_LOG2)
}

/// [`Octaves`] that one thread counts and others read.
#[derive(Debug)]
pub struct SharedOctaves {
    counts: Box<[AtomicU64; BUCKETS]>,
}

impl Default for SharedOctaves {
    fn default() -> Self {
        Self { counts: Box::new([const { AtomicU64::new(0) }; BUCKETS]) }
    }
}

impl SharedOctaves {
    /// Counts a request; only one thread may.
    #[inline]
    pub fn record(&self, latency_ns: u64) {
        let count = &self.counts[bucket(latency_ns)];
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// What was counted so far.
    #[must_use]
    pub fn read(&self) -> Octaves {
        let mut octaves = Octaves::default();
        for (mine, theirs) in octaves.counts.iter_mut().zip(self.counts.iter()) {
            *mine = theirs.load(Ordering::Relaxed);
        }
        octaves
    }
}

impl Octaves {
    /// Counts a request.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        let count = &mut self.counts[bucket(latency_ns)];
        *count = count.wrapping_add(1);
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine = mine.wrapping_add(*theirs);
        }
    }

    /// What was counted since this one was `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> LatencyHistogram {
        let mut counts = self.counts.clone();
        for (now, then) in counts.iter_mut().zip(before.counts.iter()) {
            *now = now.wrapping_sub(*then);
        }
        histogram(&counts)
    }

    /// What was counted since the last call; buckets that stayed empty only where they lie between
    /// others.
    pub fn take(&mut self) -> LatencyHistogram {
        let taken = histogram(&self.counts);
        self.counts.fill(0);
        taken
    }
}

/// Buckets from the first to the last that is not empty, after the empty one before the first,
/// which says where that one begins.
fn histogram(counts: &[u64; BUCKETS]) -> LatencyHistogram {
    let first = counts.iter().position(|&count| count > 0);
    let last = counts.iter().rposition(|&count| count > 0);
    let Some((first, last)) = first.zip(last) else { return LatencyHistogram::default() };
    let range = first.saturating_sub(1)..=last;
    let buckets = range.map(|at| (edge_ns(at) as f64 / 1e3, counts[at]));
    LatencyHistogram { buckets: buckets.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Of a target that had run for half a day, what was counted since its start went round at 2^32.
    #[test]
    fn what_is_counted_since_is_true_of_any_number_of_requests() {
        let mut before = Octaves::default();
        before.counts[bucket(5000)] = u32::MAX.into();
        let mut now = before.clone();
        for latency_ns in [5000, 5000, 5000, 900_000] {
            now.record(latency_ns);
        }
        assert_eq!(now.since(&before).requests(), 4);
        assert_eq!(now.since(&Octaves::default()).requests(), (1 << 32) + 3);
        assert_eq!(now.since(&now), LatencyHistogram::default());
        let mut both = Octaves::default();
        both.record(5000);
        both.merge(&now);
        assert_eq!(both.since(&before).requests(), 5);
    }

    proptest! {
        #[test]
        fn a_latency_lies_in_its_bucket(latency_ns in 1u64..1_000_000_000_000) {
            let at = bucket(latency_ns);
            prop_assert!(latency_ns < edge_ns(at));
            prop_assert!(at == 0 || latency_ns >= edge_ns(at - 1));
            let wide = at == 0 || edge_ns(at) as f64 / edge_ns(at - 1) as f64 <= 1.125 + 1e-9;
            prop_assert!(wide);
        }

        #[test]
        fn quantiles_are_true_to_a_bucket(mut latencies in proptest::collection::vec(2_000u64..1 << 33, 1..300)) {
            let mut octaves = Octaves::default();
            for &latency_ns in &latencies {
                octaves.record(latency_ns);
            }
            latencies.sort_unstable();
            let shared = SharedOctaves::default();
            latencies.iter().for_each(|&latency_ns| shared.record(latency_ns));
            prop_assert_eq!(&shared.read(), &octaves);
            let taken = octaves.take();
            prop_assert_eq!(taken.requests(), latencies.len() as u64);
            let rank = (0.99 * latencies.len() as f64).ceil() as usize;
            let exact_us = latencies[rank - 1] as f64 / 1e3;
            let ratio = taken.quantile_us(0.99).unwrap() / exact_us;
            prop_assert!((0.888..=1.126).contains(&ratio), "{ratio}");
            prop_assert_eq!(octaves.take(), LatencyHistogram::default());
        }
    }
}
