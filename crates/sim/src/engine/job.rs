//! A request in progress, the run's totals, and the spread of service times.

use crate::queue::Nanoseconds;
use rand::{RngExt, SeedableRng};
use rand_distr::Exp1;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub started: Nanoseconds,
    pub core_factor: f32,
    pub drive_factor: f32,
    pub bytes: u32,
    pub drive: u16,
    pub step: u16,
    pub read: bool,
}

/// A request that has its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// When it arrived, in nanoseconds since the run began (warm-up included).
    pub arrived_ns: u64,
    /// From there until its client had the answer, in nanoseconds.
    pub latency_ns: u64,
}

/// Sums since the start of the run; differences of two copies describe what lies between them.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Requests that arrived.
    pub arrivals: u64,
    /// Requests answered.
    pub answered: u64,
    /// Reads among them.
    pub reads: u64,
    /// Their latencies in nanoseconds.
    pub latency_ns: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that went to a drive.
    pub drive_requests: u64,
    /// Integral of requests in the system, in request nanoseconds (for Little's law).
    pub in_system_ns: u64,
    /// Events of the kernel.
    pub events: u64,
}

/// The random numbers of services: exponential with mean 1, one after the other from one stream.
/// Some are drawn ahead, which takes half the time of as many single draws.
#[derive(Debug)]
pub(super) struct Services {
    rng: Xoshiro256PlusPlus,
    ahead: [f64; AHEAD],
    next: usize,
}

const AHEAD: usize = 64;

impl Services {
    pub fn new(seed: u64) -> Self {
        Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed), ahead: [0.0; AHEAD], next: AHEAD }
    }

    #[inline]
    fn exponential(&mut self) -> f64 {
        if self.next >= AHEAD {
            self.draw_ahead();
        }
        let drawn = self.ahead[self.next % AHEAD];
        self.next += 1;
        drawn
    }

    #[inline(never)]
    fn draw_ahead(&mut self) {
        self.ahead.fill_with(|| self.rng.sample(Exp1));
        self.next = 0;
    }
}

/// A shifted exponential factor with mean 1: constant at variation 0, exponential at 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub variation: f64,
}

impl Spread {
    #[inline]
    pub fn sample(self, services: &mut Services) -> f64 {
        1.0 - self.variation + self.variation * services.exponential()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_ahead_leaves_the_numbers_as_they_are() {
        let (mut services, mut rng) = (Services::new(7), Xoshiro256PlusPlus::seed_from_u64(7));
        for _ in 0..3 * AHEAD + 5 {
            let one: f64 = rng.sample(Exp1);
            assert_eq!(services.exponential().to_bits(), one.to_bits());
        }
    }
}
