//! How much of a core's time background work may take.

use crate::plant::CLASSES;
use std::time::{Duration, Instant};
use wattio_volume::Class;

/// Core-seconds in a second that each class may take, in the order of [`CLASSES`]; `None`: as it
/// becomes due.
pub type Rates = [Option<f64>; CLASSES.len()];

/// What was not used is kept for so long: work that waited for a device may catch up.
const KEPT: Duration = Duration::from_secs(1);
/// Nobody waits longer than this for a class whose budget is as good as nothing.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A bucket for each class: it fills at the class's rate, and slices are taken out of it after they
/// are done, so that one may leave a debt.
#[derive(Debug)]
pub(super) struct Budgets {
    rates: Rates,
    core_s: [f64; CLASSES.len()],
    filled_at: Option<Instant>,
}

impl Budgets {
    /// No limits.
    pub(super) const fn new() -> Self {
        Self { rates: [None; CLASSES.len()], core_s: [0.0; CLASSES.len()], filled_at: None }
    }

    pub(super) fn set(&mut self, rates: Rates, now: Instant) {
        self.fill(now);
        self.rates = rates;
    }

    fn fill(&mut self, now: Instant) {
        let span =
            self.filled_at.map_or(Duration::ZERO, |then| now.saturating_duration_since(then));
        self.filled_at = Some(now);
        for (core_s, rate) in self.core_s.iter_mut().zip(self.rates) {
            let rate = rate.unwrap_or(0.0).max(0.0);
            *core_s = (*core_s + rate * span.as_secs_f64()).min(rate * KEPT.as_secs_f64());
        }
    }

    /// Whether a slice of a class may be done.
    pub(super) fn may(&mut self, class: Class, now: Instant) -> bool {
        if self.rates[class as usize].is_none() {
            return true;
        }
        self.fill(now);
        self.core_s[class as usize] > 0.0
    }

    /// When the next slice may be done.
    pub(super) fn next(&self, class: Class, now: Instant) -> Instant {
        let Some(rate) = self.rates[class as usize] else { return now };
        let debt = (-self.core_s[class as usize]).max(0.0);
        let wait_s = (debt / rate).clamp(1e-3, WAIT_MAX.as_secs_f64());
        now + Duration::from_secs_f64(if wait_s.is_nan() { WAIT_MAX.as_secs_f64() } else { wait_s })
    }

    /// A slice was done.
    pub(super) fn spend(&mut self, class: Class, took: Duration) {
        if self.rates[class as usize].is_some() {
            self.core_s[class as usize] -= took.as_secs_f64();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates(collect: Option<f64>) -> Rates {
        let mut rates = Rates::default();
        rates[Class::Collect as usize] = collect;
        rates
    }

    #[test]
    fn without_a_budget_everything_may_be_done() {
        let (now, mut budgets) = (Instant::now(), Budgets::new());
        budgets.spend(Class::Scrub, Duration::from_secs(9));
        assert!(CLASSES.into_iter().all(|class| budgets.may(class, now)));
        budgets.set(rates(Some(0.0)), now);
        assert!(!budgets.may(Class::Collect, now + WAIT_MAX));
        assert_eq!(budgets.next(Class::Collect, now), now + WAIT_MAX);
        assert!(budgets.may(Class::Checkpoint, now));
    }

    proptest! {
        /// Over any time, a class takes what its rate gives and one slice more at most; and it takes
        /// that if it has work all the time.
        #[test]
        fn work_takes_what_it_may(
            rate in 0.001..2.0_f64,
            slices_us in prop::collection::vec(1_u64..2000, 1..300),
        ) {
            let start = Instant::now();
            let mut budgets = Budgets::new();
            budgets.set(rates(Some(rate)), start);
            let (mut now, mut done) = (start, Duration::ZERO);
            for slice_us in slices_us {
                if !budgets.may(Class::Collect, now) {
                    now = budgets.next(Class::Collect, now) + Duration::from_micros(1);
                    prop_assert!(budgets.may(Class::Collect, now));
                }
                let slice = Duration::from_micros(slice_us);
                budgets.spend(Class::Collect, slice);
                now += slice;
                done += slice;
                let may_s = rate * (now - start).as_secs_f64();
                prop_assert!(done.as_secs_f64() <= may_s + slice.as_secs_f64() + 1e-9);
            }
            // It never waits longer than it has to, but for the millisecond that it always waits.
            let waited_s = (now - start).saturating_sub(done).as_secs_f64();
            prop_assert!(rate > 1.0 || waited_s <= done.as_secs_f64() / rate + 2e-3 * 300.0);
        }
    }
}
