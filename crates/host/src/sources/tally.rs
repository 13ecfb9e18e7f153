//! Collects single requests into a sample with a histogram.

use wattio_governor::LatencySample;
use wattio_law::LatencyHistogram;
use wattio_units::Seconds;

/// Bucket edges for each doubling of the latency: a quantile is right to within a fifth.
const EDGES_PER_OCTAVE: u32 = 4;
/// The last edge is at 2^26 us, a good minute.
const OCTAVES: u32 = 26;
/// Traces have whole microseconds, truncated: a latency of zero there was not zero.
const LATENCY_US_MIN: f64 = 0.5;

/// What was counted since the last sample.
#[derive(Debug)]
pub(super) struct Tally {
    requests: u64,
    reads: u64,
    bytes: u64,
    sum_us: f64,
    buckets: Vec<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        let buckets = vec![0; (OCTAVES * EDGES_PER_OCTAVE + 1) as usize];
        Self { requests: 0, reads: 0, bytes: 0, sum_us: 0.0, buckets }
    }
}

impl Tally {
    /// Counts one request.
    pub fn add(&mut self, latency_us: f64, bytes: u64, read: bool) {
        self.requests += 1;
        self.reads += u64::from(read);
        self.bytes = self.bytes.saturating_add(bytes);
        self.sum_us += latency_us.max(LATENCY_US_MIN);
        let at = latency_us.max(1.0).log2() * f64::from(EDGES_PER_OCTAVE);
        // The last bucket takes what is beyond the last edge.
        let at = (at.ceil() as usize).min(self.buckets.len().saturating_sub(1));
        if let Some(bucket) = self.buckets.get_mut(at) {
            *bucket += 1;
        }
    }

    /// What was counted.
    pub fn sample(self, at: Seconds) -> LatencySample {
        let mean = |sum: f64| (self.requests > 0).then(|| sum / self.requests as f64);
        LatencySample {
            at,
            requests: self.requests,
            arrived: None,
            in_flight: None,
            latency_us_mean: mean(self.sum_us),
            bytes_mean: mean(self.bytes as f64),
            read_share: mean(self.reads as f64),
            histogram: Some(LatencyHistogram { buckets: edges().zip(self.buckets).collect() }),
        }
    }
}

/// The upper edges in microseconds: 1 us, a quarter octave more, ..., without end.
fn edges() -> impl Iterator<Item = f64> {
    let steps = OCTAVES * EDGES_PER_OCTAVE;
    let octave = |step| f64::from(step) / f64::from(EDGES_PER_OCTAVE);
    (0..steps).map(move |step| octave(step).exp2()).chain([f64::INFINITY])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_latency_lies_in_its_bucket(latency_us in 0.0..2e8f64) {
            let mut tally = Tally::default();
            tally.add(latency_us, 8, true);
            let buckets = tally.sample(Seconds(0.0)).histogram.unwrap().buckets;
            let at = buckets.iter().position(|bucket| bucket.1 == 1).unwrap();
            prop_assert!(latency_us.max(1.0) <= buckets[at].0 * 1.000_001);
            prop_assert!(at == 0 || latency_us >= buckets[at - 1].0 * 0.999_999);
        }
    }
}
