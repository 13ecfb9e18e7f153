//! What a plan must keep, as sums over slots: bounds on latency and the floor on I/O.

use super::measure::Slot;
use wattio_law::{Bound, Limit, Scope, Statistic};

/// The most promises: three bounds and the floor on I/O.
pub const PROMISES_MAX: usize = 4;

/// For each promise by how much it is broken: what sums to 0 or less over the run is kept.
pub type Excess = [f64; PROMISES_MAX];

/// Everything that a plan must keep but background work.
#[derive(Clone, Debug)]
pub struct Promises {
    bounds: Vec<Kept>,
    floor: f64,
    ios: Vec<f64>,
    /// The size of each promise's sum, to compare excesses by; 0 where there is no promise, or no
    /// request.
    pub scale: Excess,
}

/// A bound with its limits in seconds: one for the run, or one for each slot.
#[derive(Clone, Debug)]
struct Kept {
    bound: Bound,
    limits_s: Vec<f64>,
}

/// What is kept of a slot's latencies for a bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotStatistic {
    /// The bound's statistic in seconds, where it is known.
    pub statistic_s: Option<f64>,
    /// Requests over the limit, where that is known beforehand.
    pub above: f64,
}

impl SlotStatistic {
    /// What a bound needs of a slot's latencies.
    pub fn of(slot: &mut Slot, bound: &Bound) -> Self {
        let above = match bound.limit {
            Limit::Absolute(limit) => slot.above(limit.0),
            Limit::Relative(_) => 0.0,
        };
        Self { statistic_s: slot.statistic_s(bound.statistic), above }
    }
}

impl Promises {
    /// What the bounds mean on a load that fares like `native` at full speed, where each bound's
    /// statistic is `of_slots` in each slot and `of_run` over the run, in seconds.
    pub fn new(
        bounds: &[Bound],
        floor: f64,
        native: &[Slot],
        of_slots: &[Vec<SlotStatistic>],
        of_run: &[Option<f64>],
    ) -> Self {
        let kept = bounds.iter().enumerate().map(|(at, &bound)| match bound.scope {
            Scope::Run => Kept::new(bound, of_run[at..=at].iter().copied()),
            Scope::Window => Kept::new(bound, of_slots.iter().map(|slot| slot[at].statistic_s)),
        });
        let kept: Vec<Kept> = kept.collect();
        let ios: f64 = native.iter().map(|slot| slot.ios).sum();
        let mut scale = [0.0; PROMISES_MAX];
        for (scale, kept) in scale.iter_mut().zip(&kept) {
            *scale = native.iter().enumerate().map(|(at, slot)| kept.scale(at, slot)).sum();
        }
        scale[PROMISES_MAX - 1] = ios;
        Self { bounds: kept, floor, ios: native.iter().map(|slot| slot.ios).collect(), scale }
    }

    /// Whether latencies are needed one by one.
    pub fn need_buckets(&self) -> bool {
        self.bounds.iter().any(|kept| kept.bound.statistic != Statistic::Mean)
    }

    /// Whether each slot is judged by itself.
    pub fn are_by_slot(&self) -> bool {
        self.bounds.iter().any(|kept| kept.bound.scope == Scope::Window)
    }

    /// The same with what the slot inflicts on others: `debt_s` is what its requests wait after it,
    /// less what those that it found waited because of the slots before, in request-seconds, and
    /// `network_s` what each is on its way.
    pub fn excess_with_debt(&self, at: usize, slot: &Slot, debt_s: f64, network_s: f64) -> Excess {
        let arrived = Slot {
            ios: slot.arrived,
            latency_s: slot.waited_s + debt_s + slot.arrived * network_s,
            ..Slot::default()
        };
        let mut excess = self.excess(at, slot, None);
        for (excess, kept) in excess.iter_mut().zip(&self.bounds) {
            if kept.bound.statistic == Statistic::Mean {
                *excess = kept.excess(at, &arrived);
            }
        }
        excess
    }

    /// How far a slot is from keeping each promise, where it has the place `at` in the run and
    /// native answers `ios` in it (as in that place, where absent).
    pub fn excess(&self, at: usize, slot: &Slot, ios: Option<f64>) -> Excess {
        let mut excess = [0.0; PROMISES_MAX];
        for (excess, kept) in excess.iter_mut().zip(&self.bounds) {
            *excess = kept.excess(at, slot);
        }
        let native = ios.unwrap_or_else(|| self.ios.get(at).copied().unwrap_or(0.0));
        excess[PROMISES_MAX - 1] = self.floor * native - slot.ios;
        excess
    }

    /// How far a slot of full speed is from keeping each promise, of whose latencies this is kept. A
    /// quantile that it is itself the measure of, it keeps.
    pub fn excess_of_native(&self, at: usize, slot: &Slot, told: &[SlotStatistic]) -> Excess {
        let mut excess = self.excess(at, slot, None);
        for ((excess, kept), told) in excess.iter_mut().zip(&self.bounds).zip(told) {
            if let Statistic::Quantile(q) = kept.bound.statistic {
                let is_own = matches!(kept.bound.limit, Limit::Relative(_));
                *excess = if is_own { 0.0 } else { kept.scoped(told.above - (1.0 - q) * slot.ios) };
            }
        }
        excess
    }
}

impl Kept {
    fn new(bound: Bound, statistics_s: impl Iterator<Item = Option<f64>>) -> Self {
        let limit = |statistic_s: Option<f64>| match bound.limit {
            Limit::Absolute(limit) => limit.0,
            Limit::Relative(share) => statistic_s.map_or(f64::INFINITY, |s| s * (1.0 + share)),
        };
        Self { bound, limits_s: statistics_s.map(limit).collect() }
    }

    fn limit_s(&self, at: usize) -> f64 {
        let at = if self.bound.scope == Scope::Run { 0 } else { at };
        self.limits_s.get(at).copied().unwrap_or(f64::INFINITY)
    }

    fn excess(&self, at: usize, slot: &Slot) -> f64 {
        let limit_s = self.limit_s(at);
        if slot.ios == 0.0 || limit_s.is_infinite() {
            return 0.0;
        }
        let excess = match self.bound.statistic {
            Statistic::Mean => slot.latency_s - limit_s * slot.ios,
            Statistic::Quantile(q) => slot.above(limit_s) - (1.0 - q) * slot.ios,
        };
        self.scoped(excess)
    }

    /// What of a slot's excess counts: windows do not make up for each other.
    fn scoped(&self, excess: f64) -> f64 {
        if self.bound.scope == Scope::Run { excess } else { excess.max(0.0) }
    }

    fn scale(&self, at: usize, slot: &Slot) -> f64 {
        match self.bound.statistic {
            Statistic::Mean if self.limit_s(at).is_finite() => self.limit_s(at) * slot.ios,
            Statistic::Mean => slot.latency_s,
            Statistic::Quantile(q) => (1.0 - q) * slot.ios,
        }
    }
}

impl Slot {
    /// Requests that took longer.
    pub fn above(&self, limit_s: f64) -> f64 {
        let above = |bucket: &&crate::Bucket| bucket.latency_ns as f64 * 1e-9 > limit_s;
        let count: u64 = self.buckets.iter().filter(above).map(|bucket| bucket.count).sum();
        count as f64
    }

    /// A statistic of its requests, in seconds.
    pub fn statistic_s(&mut self, statistic: Statistic) -> Option<f64> {
        match statistic {
            _ if self.ios == 0.0 => None,
            Statistic::Mean => Some(self.latency_s / self.ios),
            Statistic::Quantile(q) => {
                self.buckets.sort_unstable_by_key(|bucket| bucket.latency_ns);
                let mut left = (q * self.ios).ceil();
                let reached = self.buckets.iter().find(|bucket| {
                    left -= bucket.count as f64;
                    left <= 0.0
                });
                reached.map(|bucket| bucket.latency_ns as f64 * 1e-9)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bucket;

    fn slot(latencies_us: &[u64]) -> Slot {
        let bucket = |&us: &u64| Bucket { latency_ns: us * 1000, count: 1 };
        Slot {
            span_s: 0.5,
            ios: latencies_us.len() as f64,
            latency_s: latencies_us.iter().sum::<u64>() as f64 * 1e-6,
            buckets: latencies_us.iter().map(bucket).collect(),
            ..Slot::default()
        }
    }

    #[test]
    fn a_run_may_lend_from_one_slot_to_another_and_windows_may_not() {
        let native = [slot(&[100, 100]), slot(&[100, 100])];
        let ours = [slot(&[150, 150]), slot(&[80, 80])];
        let sum = |text: &str| {
            let bound: Bound = text.parse().unwrap();
            let of_slots =
                native.clone().map(|mut slot| vec![SlotStatistic::of(&mut slot, &bound)]);
            let of_run = [of_slots[0][0].statistic_s];
            let promises = Promises::new(&[bound], 0.98, &native, &of_slots, &of_run);
            let of = |(at, slot)| promises.excess(at, slot, None)[0];
            ours.iter().enumerate().map(of).sum::<f64>()
        };
        assert!((sum("mean 20%") - (460e-6 - 480e-6)).abs() < 1e-12);
        assert!((sum("mean 20% window") - 60e-6).abs() < 1e-12);
        assert!((sum("p50 20% run") - (2.0 - 0.5 * 4.0)).abs() < 1e-12);
        assert!((sum("p50 20% window") - 1.0).abs() < 1e-12);
        assert!((sum("mean 100 us") - 60e-6).abs() < 1e-12);
    }

    #[test]
    fn requests_that_are_not_answered_break_the_floor() {
        let native = [slot(&[100; 100])];
        let promises = Promises::new(&[], 0.98, &native, &[], &[]);
        let excess = |ios| promises.excess(0, &slot(&vec![100; ios]), None)[PROMISES_MAX - 1];
        assert!((excess(97) - 1.0).abs() < 1e-9 && excess(99) < 0.0);
    }
}
