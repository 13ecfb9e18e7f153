//! The difference between two conditions measured in pairs, and whether it is more than chance.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The probability that an interval is made for.
const CONFIDENCE: f64 = 0.95;

/// A mean over pairs with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval around it.
    pub half_width: f64,
}

impl Interval {
    /// The mean of differences of pairs, with Student's interval: `t sqrt(s^2 / n)` with `n - 1`
    /// degrees of freedom. `None` for fewer than two.
    #[must_use]
    pub fn of(differences: &[f64]) -> Option<Self> {
        if differences.len() < 2 {
            return None;
        }
        let count = differences.len() as f64;
        let mean = differences.iter().sum::<f64>() / count;
        let squares: f64 = differences.iter().map(|one| (one - mean).powi(2)).sum();
        let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
        let quantile = student.inverse_cdf(0.5 + CONFIDENCE / 2.0);
        Some(Self { mean, half_width: quantile * (squares / (count - 1.0) / count).sqrt() })
    }

    /// Whether the interval leaves zero out: the two conditions differ.
    #[must_use]
    pub fn is_significant(&self) -> bool {
        self.mean.abs() > self.half_width
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Against a table of Student's distribution, and arithmetic by hand.
    #[test]
    fn the_interval_is_student_s() {
        let found = Interval::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(found.mean, 2.5);
        // t(0.975, 3) = 3.1824; s = 1.29099, so 3.1824 * 1.29099 / 2.
        assert!((found.half_width - 2.0542).abs() < 1e-3, "{found:?}");
        assert!(found.is_significant());
        assert!(!Interval::of(&[-1.0, 1.0]).unwrap().is_significant());
        assert_eq!(Interval::of(&[1.0]), None);
    }

    /// Of pairs without any difference but noise about one in twenty is called different.
    #[test]
    fn chance_is_seldom_called_a_difference() {
        let mut state = 1u64;
        let mut noise = || {
            // A sum of uniform numbers is nearly normal.
            let sum: f64 = (0..12)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 11) as f64 / (1u64 << 53) as f64
                })
                .sum();
            sum - 6.0
        };
        let called = (0..4000)
            .filter(|_| {
                let pairs: Vec<f64> = (0..6).map(|_| noise()).collect();
                Interval::of(&pairs).unwrap().is_significant()
            })
            .count();
        assert!((120..280).contains(&called), "{called} of 4000");
    }

    proptest! {
        #[test]
        fn the_interval_follows_scale_and_shift(
            values in prop::collection::vec(-1e3..1e3f64, 2..20),
            by in 0.1..10.0f64,
            shift in -1e3..1e3f64,
        ) {
            let found = Interval::of(&values).unwrap();
            let moved: Vec<f64> = values.iter().map(|one| one * by + shift).collect();
            let other = Interval::of(&moved).unwrap();
            prop_assert!((other.mean - (found.mean * by + shift)).abs() < 1e-6);
            prop_assert!((other.half_width - found.half_width * by).abs() < 1e-6);
        }
    }
}
