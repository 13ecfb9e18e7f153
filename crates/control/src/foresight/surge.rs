//! What the densest moments ask of the cores. Their requests are often of another kind than those of sparse
//! times: a burst of sequential writes of 128 KiB takes three times as much work for each as the small
//! ones that come between bursts, from which the work of a request is learned.

use super::choice::Demand;

/// The busiest moments so far.
#[derive(Clone, Debug, Default)]
pub struct Surges {
    /// The greatest rate, in requests a second.
    rate: f64,
    /// The most that a moment asked of each group, in cores' worth at the highest frequency.
    cores: Vec<f64>,
}

impl Surges {
    /// Takes in a window: its busiest moment in requests a second, and the core-seconds at the highest
    /// frequency that each of its requests took by group. What was seen before counts for less with
    /// `keep`.
    pub fn learn(&mut self, rate: f64, work_s: impl Iterator<Item = f64>, keep: f64) {
        self.rate = (self.rate * keep).max(rate);
        for (at, work_s) in work_s.enumerate() {
            if self.cores.len() <= at {
                self.cores.push(0.0);
            }
            self.cores[at] = (self.cores[at] * keep).max(rate * work_s);
        }
    }

    /// The work of a group's requests in a burst as dense as the densest.
    pub fn demand(&self, group: usize, usual: &Demand) -> Demand {
        let cores = self.cores.get(group).copied().unwrap_or(0.0);
        let work_s = if self.rate > 0.0 { cores / self.rate } else { 0.0 };
        // The most of many windows is more than the mean even where all requests are alike.
        let work_s = if work_s > HEAVIER * usual.work_s { work_s } else { usual.work_s };
        Demand { work_s, ..*usual }
    }
}

/// Requests of bursts are of another kind from so many times the usual work on.
const HEAVIER: f64 = 1.3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_heavy_requests_is_remembered_as_what_it_asked_of_the_cores() {
        let mut surges = Surges::default();
        let usual = Demand { work_s: 20e-6, ..Demand::default() };
        assert_eq!(surges.demand(0, &usual).work_s, 20e-6);
        surges.learn(50e3, [60e-6].into_iter(), 1.0);
        surges.learn(2e3, [20e-6].into_iter(), 1.0);
        assert!((surges.demand(0, &usual).work_s - 60e-6).abs() < 1e-12);
        // A denser one of light requests asks for no more cores.
        surges.learn(100e3, [20e-6].into_iter(), 1.0);
        assert!((surges.demand(0, &usual).work_s - 30e-6).abs() < 1e-12);
        assert_eq!(surges.demand(1, &usual).work_s, 20e-6);
        // Nor does one of requests that are hardly heavier.
        surges.learn(100e3, [32e-6].into_iter(), 1.0);
        let nearly = Demand { work_s: 30e-6, ..Demand::default() };
        assert_eq!(surges.demand(0, &nearly).work_s, 30e-6);
    }
}
