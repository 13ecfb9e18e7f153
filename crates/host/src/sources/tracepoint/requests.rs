//! From events to requests and their latencies.

use super::event::{Event, Step};
use crate::sources::tally::Tally;
use std::collections::HashMap;
use wattio_governor::LatencySample;
use wattio_units::Seconds;

/// The most requests that are waited for.
const PENDING_MAX: usize = 1 << 16;
/// A request that was not answered for so long never will be: its answer was overlooked.
const PENDING_US_MAX: u64 = 120_000_000;
/// The kernel's sectors.
const SECTOR_BYTES: u64 = 512;

type Place = ((u32, u32), u64);

/// Matches answers to requests by device and first sector. Two requests to one sector at the same
/// time count as one.
#[derive(Debug, Default)]
pub struct Requests {
    pending: HashMap<Place, Pending>,
    arrived: u64,
    lost: u64,
    tally: Tally,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    issued_us: u64,
    /// All sectors, and those without an answer yet.
    sectors: u64,
    left: u64,
}

impl Requests {
    /// Takes an event in.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Lost(events) => {
                // Whatever is pending may have been answered in what is lost.
                self.pending.clear();
                self.lost = self.lost.saturating_add(events.max(1));
            }
            Event::Issue(step) => self.issue(step),
            Event::Complete(step) => self.complete(step),
        }
    }

    fn issue(&mut self, step: Step) {
        // No host has so many under way: these are ones whose answers were overlooked.
        if self.pending.len() >= PENDING_MAX {
            self.pending.clear();
        }
        self.arrived += 1;
        let Step { at_us: issued_us, sectors, .. } = step;
        let pending = Pending { issued_us, sectors, left: sectors };
        self.pending.insert((step.device, step.sector), pending);
    }

    fn complete(&mut self, step: Step) {
        let Some(pending) = self.pending.remove(&(step.device, step.sector)) else { return };
        let latency_us = step.at_us.saturating_sub(pending.issued_us);
        if latency_us >= PENDING_US_MAX {
            return;
        }
        let left = pending.left.saturating_sub(step.sectors);
        if left > 0 {
            // The rest is answered from there on.
            let rest = (step.device, step.sector.saturating_add(step.sectors));
            self.pending.insert(rest, Pending { left, ..pending });
            return;
        }
        let bytes = pending.sectors.saturating_mul(SECTOR_BYTES);
        self.tally.add(latency_us as f64, bytes, step.read);
    }

    /// What was counted since the last call.
    ///
    /// # Errors
    /// How many events were lost: then the count is not known.
    pub fn sample(&mut self, at: Seconds) -> Result<LatencySample, u64> {
        let sample = std::mem::take(&mut self.tally).sample(at);
        let (arrived, lost) = (std::mem::take(&mut self.arrived), std::mem::take(&mut self.lost));
        if lost > 0 { Err(lost) } else { Ok(LatencySample { arrived: Some(arrived), ..sample }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step(at_us: u64, sector: u64, sectors: u64, read: bool) -> Step {
        Step { at_us, device: (8, 0), sector, sectors, read }
    }

    #[test]
    fn answers_find_their_requests() {
        let mut requests = Requests::default();
        requests.take(Event::Issue(step(1_000, 0, 8, true)));
        requests.take(Event::Issue(step(1_010, 64, 24, false)));
        requests.take(Event::Complete(step(1_100, 0, 8, true)));
        requests.take(Event::Complete(step(1_200, 640, 8, true)));
        // The write is answered in two parts.
        requests.take(Event::Complete(step(1_210, 64, 8, false)));
        requests.take(Event::Complete(step(1_310, 72, 16, false)));
        let sample = requests.sample(Seconds(1.0)).unwrap();
        assert_eq!((sample.requests, sample.arrived), (2, Some(2)));
        assert_eq!(sample.latency_us_mean, Some(200.0));
        assert_eq!((sample.bytes_mean, sample.read_share), (Some(8192.0), Some(0.5)));
        let histogram = sample.histogram.unwrap();
        let median_us = histogram.quantile_us(0.5).unwrap();
        assert!((100.0..120.0).contains(&median_us), "{median_us}");
        let slowest_us = histogram.quantile_us(1.0).unwrap();
        assert!((300.0..360.0).contains(&slowest_us), "{slowest_us}");
        let quiet = requests.sample(Seconds(2.0)).unwrap();
        assert_eq!((quiet.requests, quiet.latency_us_mean), (0, None));
    }

    #[test]
    fn lost_events_are_said_and_nothing_is_matched_across_them() {
        let mut requests = Requests::default();
        requests.take(Event::Issue(step(1_000, 0, 8, true)));
        requests.take(Event::Lost(7));
        requests.take(Event::Complete(step(9_000, 0, 8, true)));
        assert_eq!(requests.sample(Seconds(1.0)), Err(7));
        assert_eq!(requests.sample(Seconds(2.0)).unwrap().requests, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut requests = Requests::default();
        for sector in 0..3 * PENDING_MAX as u64 {
            requests.take(Event::Issue(step(sector, sector, 1, true)));
            assert!(requests.pending.len() <= PENDING_MAX);
        }
        requests.take(Event::Issue(step(0, 0, 8, true)));
        requests.take(Event::Complete(step(PENDING_US_MAX, 0, 8, true)));
        assert_eq!(requests.sample(Seconds(1.0)).unwrap().requests, 0);
    }

    proptest! {
        #[test]
        fn no_events_panic(steps in proptest::collection::vec((0u8..3, 0u64..9, 1u64..9, any::<u64>()), 0..99)) {
            let mut requests = Requests::default();
            for (kind, sector, sectors, at_us) in steps {
                let step = step(at_us, sector.wrapping_sub(4), sectors, at_us % 2 == 0);
                requests.take(match kind {
                    0 => Event::Issue(step),
                    1 => Event::Complete(step),
                    _ => Event::Lost(at_us),
                });
            }
            let _ = requests.sample(Seconds(0.0));
        }
    }
}
