//! Matches trace events to requests and their latencies.

use super::event::{Event, Step};
use crate::sources::tally::Tally;
use std::collections::HashMap;
use wattio_governor::LatencySample;
use wattio_law::InFlight;
use wattio_units::Seconds;

/// The most requests that are waited for.
const PENDING_MAX: usize = 1 << 16;
/// A request that was not answered for this long never will be: its completion was missed.
const PENDING_US_MAX: u64 = 120_000_000;
/// The same for requests beyond the kernel's own count: their completion is not just delayed.
const UNCOUNTED_US_MAX: u64 = 1_000_000;
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
    overlooked: u64,
    tally: Tally,
}

/// The kernel's own count of requests that a device has, at a time of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// How many.
    pub requests: u64,
    /// When, in microseconds; what is traced up to then must have been taken in.
    pub at_us: u64,
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
        // No host has this many in flight: these are requests whose completions were missed.
        if self.pending.len() >= PENDING_MAX {
            self.overlook(self.pending.len());
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
            self.overlook(1);
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

    fn overlook(&mut self, requests: usize) {
        self.overlooked = self.overlooked.saturating_add(requests as u64);
    }

    /// Requests whose answers were not seen, so far.
    #[must_use]
    pub const fn overlooked(&self) -> u64 {
        self.overlooked
    }

    /// The requests under way: as many as the kernel counts, which never counts one that is answered.
    /// The oldest of them is at least as old as the oldest of so many of the newest here; others
    /// here have been answered, and where that is not just on its way, are forgotten.
    fn in_flight(&mut self, counted: UnderWay) -> InFlight {
        let issued = self.pending.values().map(|pending| pending.issued_us);
        let mut issued: Vec<_> = issued.filter(|&issued_us| issued_us <= counted.at_us).collect();
        issued.sort_unstable_by(|a, b| b.cmp(a));
        let count = usize::try_from(counted.requests).unwrap_or(usize::MAX);
        let age_us = |issued_us: &u64| counted.at_us - issued_us;
        let beyond_us = issued.get(count).copied();
        if let Some(newest_us) = beyond_us {
            let before = self.pending.len();
            self.pending.retain(|_, pending| {
                let uncounted = pending.issued_us <= newest_us;
                !(uncounted && counted.at_us - pending.issued_us > UNCOUNTED_US_MAX)
            });
            self.overlook(before - self.pending.len());
        }
        let oldest_us = issued.get(..count.min(issued.len())).and_then(<[u64]>::last).map(age_us);
        let oldest_us = oldest_us.filter(|&age_us| age_us < PENDING_US_MAX);
        let oldest = oldest_us.map(|age_us| Seconds(age_us as f64 * 1e-6));
        InFlight { requests: counted.requests, oldest }
    }

    /// What was counted since the last call, and the requests in flight, if the kernel counts them.
    ///
    /// # Errors
    /// How many events were lost: then the count is not known.
    pub fn sample(
        &mut self,
        at: Seconds,
        under_way: Option<UnderWay>,
    ) -> Result<LatencySample, u64> {
        let in_flight = under_way.map(|counted| self.in_flight(counted));
        let sample = std::mem::take(&mut self.tally).sample(at);
        let (arrived, lost) = (std::mem::take(&mut self.arrived), std::mem::take(&mut self.lost));
        let sample = LatencySample { arrived: Some(arrived), in_flight, ..sample };
        if lost > 0 { Err(lost) } else { Ok(sample) }
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
        let sample = requests.sample(Seconds(1.0), None).unwrap();
        assert_eq!((sample.requests, sample.arrived), (2, Some(2)));
        assert_eq!(sample.latency_us_mean, Some(200.0));
        assert_eq!((sample.bytes_mean, sample.read_share), (Some(8192.0), Some(0.5)));
        let histogram = sample.histogram.unwrap();
        let median_us = histogram.quantile_us(0.5).unwrap();
        assert!((100.0..120.0).contains(&median_us), "{median_us}");
        let slowest_us = histogram.quantile_us(1.0).unwrap();
        assert!((300.0..360.0).contains(&slowest_us), "{slowest_us}");
        let quiet = requests.sample(Seconds(2.0), None).unwrap();
        assert_eq!((quiet.requests, quiet.latency_us_mean), (0, None));
    }

    #[test]
    fn lost_events_are_said_and_nothing_is_matched_across_them() {
        let mut requests = Requests::default();
        requests.take(Event::Issue(step(1_000, 0, 8, true)));
        requests.take(Event::Lost(7));
        requests.take(Event::Complete(step(9_000, 0, 8, true)));
        assert_eq!(requests.sample(Seconds(1.0), None), Err(7));
        assert_eq!(requests.sample(Seconds(2.0), None).unwrap().requests, 0);
    }

    const S: u64 = 1_000_000;

    fn under_way(requests: u64, at_us: u64) -> Option<UnderWay> {
        Some(UnderWay { requests, at_us })
    }

    #[test]
    fn what_is_under_way_is_the_kernels_count_and_as_old_as_the_newest_of_so_many() {
        let mut requests = Requests::default();
        requests.take(Event::Issue(step(2 * S, 0, 8, true)));
        requests.take(Event::Issue(step(3 * S, 64, 8, true)));
        requests.take(Event::Issue(step(5 * S, 128, 8, true)));
        let mut told = |count, at_us| {
            requests.sample(Seconds(9.0), under_way(count, at_us)).unwrap().in_flight.unwrap()
        };
        // One was issued after the kernel counted; one that it counted was before the recording.
        let in_flight = told(3, 4 * S);
        assert_eq!((in_flight.requests, in_flight.oldest), (3, Some(Seconds(2.0))));
        assert_eq!(told(2, 5 * S), InFlight { requests: 2, oldest: Some(Seconds(2.0)) });
        assert_eq!(told(0, 5 * S), InFlight { requests: 0, oldest: None });
        assert_eq!(requests.sample(Seconds(9.0), None).unwrap().in_flight, None, "nobody counts");
    }

    /// A request whose completion was missed waited here for ever: counted as in flight, it would
    /// have made the server look stalled for good.
    #[test]
    fn an_answer_that_was_overlooked_ends_no_window_and_is_counted() {
        let mut requests = Requests::default();
        requests.take(Event::Issue(step(S, 0, 8, true)));
        for second in 2..9 {
            let now_us = second * S;
            requests.take(Event::Issue(step(now_us - 50, 64, 8, true)));
            let sample = requests.sample(Seconds(second as f64), under_way(1, now_us)).unwrap();
            let in_flight = sample.in_flight.unwrap();
            let oldest_us = in_flight.oldest.map(|age| (age.0 * 1e6).round());
            assert_eq!((in_flight.requests, oldest_us), (1, Some(50.0)));
            requests.take(Event::Complete(step(now_us + 50, 64, 8, true)));
        }
        assert_eq!((requests.overlooked(), requests.pending.len()), (1, 0));
        // One that the kernel has still is kept, however old it is.
        requests.take(Event::Issue(step(10 * S, 0, 8, true)));
        for second in [20, 60, 100] {
            let sample = requests.sample(Seconds(0.0), under_way(1, second * S)).unwrap();
            assert_eq!(sample.in_flight.unwrap().oldest, Some(Seconds((second - 10) as f64)));
        }
        // What is no answer's age is not told, and the count alone stays.
        let sample = requests.sample(Seconds(0.0), under_way(1, 200 * S)).unwrap();
        assert_eq!(sample.in_flight, Some(InFlight { requests: 1, oldest: None }));
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
        assert_eq!(requests.sample(Seconds(1.0), None).unwrap().requests, 0);
        assert_eq!(requests.overlooked(), 3 * PENDING_MAX as u64 + 1);
    }

    proptest! {
        #[test]
        fn no_events_panic(
            steps in proptest::collection::vec((0u8..3, 0u64..9, 1u64..9, any::<u64>()), 0..99),
            counted in 0u64..9,
            at_us: u64,
        ) {
            let mut requests = Requests::default();
            for (kind, sector, sectors, at_us) in steps {
                let step = step(at_us, sector.wrapping_sub(4), sectors, at_us % 2 == 0);
                requests.take(match kind {
                    0 => Event::Issue(step),
                    1 => Event::Complete(step),
                    _ => Event::Lost(at_us),
                });
            }
            let _ = requests.sample(Seconds(0.0), under_way(counted, at_us));
        }
    }
}
