//! A request on its way, the run's sums, and how service times spread.

use crate::queue::Nanoseconds;
use rand::RngExt;
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

/// A shifted exponential factor with mean 1: constant at variation 0, exponential at 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub variation: f64,
}

impl Spread {
    #[inline]
    pub fn sample(self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        let exponential: f64 = rng.sample(Exp1);
        1.0 - self.variation + self.variation * exponential
    }
}
