//! What the daemon itself costs.

use crate::status::OwnCost;
use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;

/// Processor time since the start, memory in use, and the mean time of a step.
#[must_use]
pub fn cost(steps: u32, stepping: Duration) -> OwnCost {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let resident = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    OwnCost {
        cpu_s: used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9,
        resident_bytes: resident.unwrap_or(0).saturating_mul(page_size() as u64),
        step_us_mean: (steps > 0).then(|| stepping.as_secs_f64() * 1e6 / f64::from(steps)),
    }
}
