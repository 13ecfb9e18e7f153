//! Sums that the kernel shows in whole milliseconds.

/// Two truncated counters are added up.
const TRUNCATED_MS: f64 = 2.0;

/// A sum of milliseconds of which only whole ones are known, interpolated in between.
///
/// The true sum lies between what the kernel prints and [`TRUNCATED_MS`] more. Ten requests of 80 us
/// would look like a latency of zero in one window and of 100 us in the next; so the sum is
/// expected to grow by the last mean, and the kernel's number only says within which limits.
#[derive(Debug, Default)]
pub(super) struct InterpolatedSum {
    requests: u64,
    sum_ms: f64,
    mean_ms: Option<f64>,
}

impl InterpolatedSum {
    /// The sum in milliseconds after so many requests, when the kernel prints so many.
    pub(super) fn sum_ms(&mut self, printed_ms: u64, requests: u64) -> f64 {
        let least = printed_ms as f64;
        let more = requests.saturating_sub(self.requests);
        if more == 0 {
            // Requests that went back: the device is a new one, and so is the mean.
            self.mean_ms = self.mean_ms.filter(|_| requests == self.requests);
            self.requests = requests;
            return self.sum_ms;
        }
        // Never all of the range, so that some is left for the next window.
        let most = (self.sum_ms + (least + TRUNCATED_MS)) / 2.0;
        let expected = self
            .mean_ms
            .map_or(least + TRUNCATED_MS / 2.0, |mean_ms| self.sum_ms + mean_ms * more as f64);
        let sum_ms = expected.min(most.max(least)).max(least.max(self.sum_ms));
        self.mean_ms = Some((sum_ms - self.sum_ms) / more as f64);
        self.requests = requests;
        self.sum_ms = sum_ms;
        sum_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fast_requests_have_a_latency_in_every_window() {
        let (mut fine, mut truth_ms, mut requests, mut last_ms) =
            (InterpolatedSum::default(), 0.0, 0, 0.0);
        for at in 0..2_000 {
            requests += 10;
            truth_ms += 10.0 * 0.08;
            let sum_ms = fine.sum_ms(truth_ms as u64, requests);
            assert!((sum_ms - truth_ms).abs() <= TRUNCATED_MS, "{sum_ms} against {truth_ms}");
            let mean_us = (sum_ms - last_ms) * 100.0;
            assert!(at < 50 || (40.0..160.0).contains(&mean_us), "{at}: {mean_us} us");
            last_ms = sum_ms;
        }
    }

    proptest! {
        #[test]
        fn the_fine_sum_grows_with_requests_and_stays_near(
            steps in proptest::collection::vec((0u64..50, 0.0..3.0f64), 1..200)
        ) {
            let (mut fine, mut truth_ms, mut requests, mut last_ms) = (InterpolatedSum::default(), 0.0, 0, 0.0);
            for (more, ms) in steps {
                requests += more;
                truth_ms += ms * more as f64;
                let sum_ms = fine.sum_ms(truth_ms as u64, requests);
                prop_assert_eq!(sum_ms > last_ms, more > 0);
                prop_assert!(sum_ms >= last_ms);
                prop_assert!((sum_ms - truth_ms).abs() <= TRUNCATED_MS);
                last_ms = sum_ms;
            }
        }
    }
}
