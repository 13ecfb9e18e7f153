//! The overhead of the program itself.

use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// What it cost so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Processor time since the start.
    pub cpu_s: f64,
    /// Memory in use.
    pub resident_bytes: u64,
    /// Mean time of a step.
    pub step_us_mean: Option<f64>,
}

/// The account of what it costs.
#[derive(Debug)]
pub struct Overhead {
    /// `/proc/self/statm`, kept open: it is read in every window.
    memory: Option<File>,
    steps: u32,
    stepping: Duration,
}

impl Overhead {
    /// Begins now.
    #[must_use]
    pub fn new() -> Self {
        let memory = File::open("/proc/self/statm").ok();
        Self { memory, steps: 0, stepping: Duration::ZERO }
    }

    /// Takes in how long a step took.
    pub fn step(&mut self, took: Duration) {
        self.steps += 1;
        self.stepping += took;
    }

    /// Processor time since the start, memory in use, and the mean time of a step.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let resident = self.resident_pages().unwrap_or(0);
        let steps = self.steps;
        Cost {
            cpu_s: used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9,
            resident_bytes: resident.saturating_mul(page_size() as u64),
            step_us_mean: (steps > 0).then(|| self.stepping.as_secs_f64() * 1e6 / f64::from(steps)),
        }
    }

    fn resident_pages(&self) -> Option<u64> {
        let mut text = [0; 128];
        let count = self.memory.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..count)?).ok()?;
        text.split(' ').nth(1)?.parse().ok()
    }
}

impl Default for Overhead {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_takes_is_their_mean_and_memory_is_what_it_is_now() {
        let mut own = Overhead::new();
        let before = own.cost();
        assert_eq!(before.step_us_mean, None);
        assert!(before.resident_bytes > 1 << 20);
        own.step(Duration::from_micros(100));
        own.step(Duration::from_micros(300));
        let after = own.cost();
        assert_eq!(after.step_us_mean, Some(200.0));
        assert!(after.cpu_s >= before.cpu_s);
        // Other tests of this process take memory and free it, though hardly ever each time.
        let shows = || {
            let before = own.cost().resident_bytes;
            let filled = vec![1_u8; 64 << 20];
            own.cost().resident_bytes > before + (filled.len() as u64) / 2
        };
        assert!((0..50).any(|_| shows()));
    }
}
