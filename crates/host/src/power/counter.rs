//! A counter that wraps at a known range.

/// A counter is stuck after this many readings in a row without any advance. Virtual machines and
/// some platforms show zones that never count.
const STUCK_READINGS: u32 = 10;

/// The sum over a counter's wraps.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    range: u64,
    last: Option<u64>,
    sum: u64,
    readings_without_advance: u32,
}

impl Counter {
    /// `range` is the value after which it starts at zero again; zero where it is not known.
    pub fn new(range: u64) -> Self {
        Self { range, last: None, sum: 0, readings_without_advance: 0 }
    }

    /// Takes a reading; the sum since the first one.
    ///
    /// A counter that went back has wrapped once: readings must come at least once in the time
    /// that a wrap takes (at 200 W about 20 minutes for the usual range of 262 kJ).
    ///
    /// # Errors
    /// When it went back without a known range, is beyond its range, or never advances.
    pub fn take(&mut self, value: u64) -> Result<u64, String> {
        if self.range > 0 && value > self.range {
            self.last = None;
            return Err(format!("counts {value}, beyond its range of {}", self.range));
        }
        let Some(last) = self.last.replace(value) else { return Ok(self.sum) };
        let advance = match value.checked_sub(last) {
            Some(advance) => advance,
            None if self.range > 0 => (self.range - last).saturating_add(value),
            None => {
                return Err(format!("went back from {last} to {value}, and its range is unknown"));
            }
        };
        self.sum = self.sum.saturating_add(advance);
        self.readings_without_advance =
            if advance == 0 { self.readings_without_advance.saturating_add(1) } else { 0 };
        if self.readings_without_advance >= STUCK_READINGS {
            return Err(format!(
                "did not advance over {STUCK_READINGS} readings: it does not count on this machine \
                 (virtual machines show such zones)"
            ));
        }
        Ok(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stuck_counter_is_refused_until_it_advances() {
        let mut counter = Counter::new(100);
        for _ in 0..STUCK_READINGS {
            assert_eq!(counter.take(5), Ok(0));
        }
        assert!(counter.take(5).unwrap_err().contains("did not advance over 10 readings"));
        assert_eq!(counter.take(6), Ok(1));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let mut counter = Counter::new(100);
        assert!(counter.take(101).unwrap_err().contains("beyond its range"));
        let mut counter = Counter::new(0);
        assert_eq!(counter.take(9), Ok(0));
        assert!(counter.take(8).unwrap_err().contains("range is unknown"));
    }

    proptest! {
        #[test]
        fn wraps_are_unwrapped(range in 10u64..1_000, steps in proptest::collection::vec(1u64..9, 1..500)) {
            let mut counter = Counter::new(range);
            let (mut truth, mut value) = (0, 0);
            counter.take(0).unwrap();
            for step in steps {
                truth += step;
                value += step;
                // The value after the range is zero: it is the same place as the range itself.
                if value >= range {
                    value -= range;
                }
                prop_assert_eq!(counter.take(value), Ok(truth));
            }
        }
    }
}
