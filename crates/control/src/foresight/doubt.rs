//! The loss that settings may have caused without being charged for it: requests that were unlike
//! those from which full-speed latency was learned.
//!
//! A window that differs from them in crowds or mix is compared with a full-speed latency that is
//! as uncertain as the effects of crowds and mix. Over windows, these errors do not average out
//! like noise, because they are all the same error; and they cancel if windows differ in both
//! directions. So the differences are summed, and the standard deviation of the sum is computed
//! from what is known now: it shrinks as more is learned.

use super::estimate::{Estimate, Row, Window};

/// Sums over windows: lately, and since the start, in requests times what they differed in.
#[derive(Clone, Debug, Default)]
pub struct Doubt {
    lately: Row,
    ever: Row,
}

/// What is unknown of what was spent, in request-microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unknown {
    pub lately: f64,
    pub ever: f64,
}

impl Doubt {
    /// Takes in a window that was not at full speed. None of its requests can have lost more than
    /// `room_us` besides what was charged; so many `deviations` are.
    pub fn add(
        &mut self,
        estimate: &Estimate,
        window: &Window,
        requests: f64,
        room_us: f64,
        deviations: f64,
    ) {
        let odd = estimate.odd(window);
        let own_us = deviations * estimate.deviation_of(odd);
        let part = if own_us > room_us { room_us / own_us } else { 1.0 };
        for ((lately, ever), odd) in self.lately.iter_mut().zip(&mut self.ever).zip(odd) {
            *lately += odd * part * requests;
            *ever += odd * part * requests;
        }
    }

    /// What was lately counts for less.
    pub fn forget(&mut self, keep: f64) {
        self.lately.iter_mut().for_each(|sum| *sum *= keep);
    }

    /// So many standard deviations of the sums.
    pub fn unknown(&self, estimate: &Estimate, deviations: f64) -> Unknown {
        let us = |sum| deviations * estimate.deviation_of(sum);
        Unknown { lately: us(self.lately), ever: us(self.ever) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::Features;
    use super::*;
    use crate::mix::Mix;

    fn window(read_share: f64) -> Window {
        Window { mix: Mix::of(Some(read_share), Some(8192.0)), ..Window::default() }
    }

    /// An estimate that has seen full speed with requests of this mix.
    fn estimate(read_shares: &[f64]) -> Estimate {
        let mut estimate = Estimate::new([0.95, 1.0, 0.5], [0.1, 0.5, 0.4]);
        for &read_share in read_shares {
            let latency_us = 100.0 + 40.0 * read_share;
            estimate.learn(latency_us, 1000.0, &window(read_share), true, 1.0);
        }
        estimate
    }

    fn ever(doubt: &Doubt, estimate: &Estimate) -> f64 {
        doubt.unknown(estimate, 1.0).ever
    }

    #[test]
    fn other_requests_than_those_at_full_speed_are_in_doubt_until_they_were_seen_there() {
        let (reads, both) = (estimate(&[1.0, 1.0, 1.0]), estimate(&[1.0, 0.0, 1.0, 0.0]));
        let mut doubt = Doubt::default();
        doubt.add(&reads, &window(1.0), 100.0, 1e9, 1.0);
        assert!(ever(&doubt, &reads) < 1.0, "{}", ever(&doubt, &reads));
        doubt.add(&reads, &window(0.0), 100.0, 1e9, 1.0);
        let (before, after) = (ever(&doubt, &reads), ever(&doubt, &both));
        assert!(before > 100.0 * 20.0 && after < 0.3 * before, "{before} {after}");
    }

    #[test]
    fn what_differs_to_both_sides_cancels_and_what_differs_to_one_side_adds_up() {
        let even = estimate(&[0.5; 4]);
        let sum = |read_shares: [f64; 2]| {
            let mut doubt = Doubt::default();
            for read_share in read_shares {
                doubt.add(&even, &window(read_share), 100.0, 1e9, 1.0);
            }
            ever(&doubt, &even)
        };
        assert!(sum([0.3, 0.7]) < 1e-6 * sum([0.3, 0.3]));
        assert!((sum([0.3, 0.3]) / sum([0.4, 0.4]) - 2.0).abs() < 1e-6);
    }

    /// A burst's crowd alone was in doubt by more than all its requests took.
    #[test]
    fn no_more_is_in_doubt_than_requests_can_have_lost() {
        let estimate = estimate(&[1.0]);
        let burst = Window { crowd_us: 5000.0, more: Features([5.0, 5.0, 500.0]), ..window(1.0) };
        let mut doubt = Doubt::default();
        doubt.add(&estimate, &burst, 1000.0, 30.0, 1.4);
        let unknown = doubt.unknown(&estimate, 1.4);
        assert!((unknown.ever - 30e3).abs() < 1.0, "{unknown:?}");
        doubt.forget(0.5);
        let unknown = doubt.unknown(&estimate, 1.4);
        assert!((unknown.lately - 15e3).abs() < 1.0 && (unknown.ever - 30e3).abs() < 1.0);
    }
}
