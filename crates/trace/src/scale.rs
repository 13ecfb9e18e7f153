//! A trace at another rate or speed.

use std::collections::VecDeque;

use crate::{Record, TraceError};
use wattio_units::{splitmix64, splitmix64_share};

/// Rates are multiplied by at most this: every copy of a request is held at once.
const RATE_SCALE_MAX: f64 = 1e4;
const TIME_SCALE_MAX: f64 = 1e6;
const SCALE_MIN: f64 = 1e-6;
/// Most that a copy of a request is later than the request: short against an idle gap, long
/// against the service of a request, so that copies do not arrive as one batch.
const SPREAD_NS_MAX: u64 = 100_000_000;
/// Copy `k` of a request stands on device `device + k * COPY_DEVICE_STEP`.
const COPY_DEVICE_STEP: u32 = 1 << 24;

/// Scales the rate and the time of the records that pass.
///
/// - `rate_scale` r below 1 thins: a request is kept with probability r. From 1 on it superposes:
///   each request becomes floor(r) requests, and one more with probability r - floor(r). The first
///   is the request itself. Copy k arrives later by a random share of the time to the next request
///   of the trace, of at most 100 ms, so bursts stay bursts and idle gaps stay idle; it has the
///   same offset and length on the device numbered `device + k * 2^24` (modulo 2^32), as if k more
///   volumes carried the same kind of load: a cache does not see the same block again.
/// - `time_scale` then multiplies the time stamps: 2 makes the trace take twice as long (half the
///   rate), 0.5 half as long. It stretches gaps and the spread of the copies alike.
///
/// The random numbers are SplitMix64 of `seed` and the number of the request in the trace: the same
/// seed gives the same requests. With both scales 1 every record passes unchanged. Time is not
/// counted anew when thinning drops the first request.
#[derive(Debug)]
pub struct Scaled<I> {
    inner: I,
    rate_scale: f64,
    time_scale: f64,
    seed: u64,
    /// Requests read from `inner`.
    index: u64,
    /// Read ahead by one, to know the gap.
    next: Option<Record>,
    begun: bool,
    /// Requests to give out before the next is looked at, in the order of time.
    ready: VecDeque<Record>,
    copies_ns: Vec<(u64, u32)>,
    failure: Option<TraceError>,
}

impl<I: Iterator<Item = Result<Record, TraceError>>> Scaled<I> {
    /// Scale `inner`: the rate by 1e-6 to 1e4, the time by 1e-6 to 1e6.
    ///
    /// # Errors
    /// A scale is out of range or not a number.
    pub fn new(inner: I, rate_scale: f64, time_scale: f64, seed: u64) -> Result<Self, TraceError> {
        let limits = [
            ("rate scale", rate_scale, RATE_SCALE_MAX),
            ("time scale", time_scale, TIME_SCALE_MAX),
        ];
        for (name, scale, max) in limits {
            if !(SCALE_MIN..=max).contains(&scale) {
                return Err(TraceError::Setting(format!(
                    "{name} is {scale}; {SCALE_MIN} to {max} are allowed"
                )));
            }
        }
        Ok(Self {
            inner,
            rate_scale,
            time_scale,
            seed,
            index: 0,
            next: None,
            begun: false,
            ready: VecDeque::new(),
            copies_ns: Vec::new(),
            failure: None,
        })
    }

    /// The source of the records, for its progress and counts.
    pub fn get_ref(&self) -> &I {
        &self.inner
    }

    fn read(&mut self) -> Option<Record> {
        match self.inner.next()? {
            Ok(record) => Some(record),
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    /// A number in 0..1 that belongs to this request and this draw.
    fn draw(&self, draw: u64) -> f64 {
        let key = splitmix64(self.seed ^ splitmix64(self.index, 0), 0).wrapping_add(draw);
        splitmix64_share(key, 0)
    }

    /// Put the request and its copies in `ready`.
    fn spread(&mut self, record: Record) {
        let whole = self.rate_scale.floor();
        let extra = self.draw(0) < self.rate_scale - whole;
        let count = whole as u32 + u32::from(extra);
        if count == 0 {
            return;
        }
        self.ready.push_back(record);
        let gap_ns = self.next.map_or(0, |next| next.time_ns.saturating_sub(record.time_ns));
        let span_ns = gap_ns.min(SPREAD_NS_MAX) as f64;
        self.copies_ns.clear();
        for copy in 1..count {
            let delay_ns = (self.draw(u64::from(copy)) * span_ns) as u64;
            self.copies_ns.push((delay_ns, copy));
        }
        self.copies_ns.sort_unstable();
        for &(delay_ns, copy) in &self.copies_ns {
            self.ready.push_back(Record {
                time_ns: record.time_ns.saturating_add(delay_ns),
                device: record.device.wrapping_add(copy.wrapping_mul(COPY_DEVICE_STEP)),
                ..record
            });
        }
    }

    fn stretched(&self, mut record: Record) -> Result<Record, TraceError> {
        if self.time_scale != 1.0 {
            let time_ns = record.time_ns as f64 * self.time_scale;
            if time_ns >= u64::MAX as f64 {
                return Err(TraceError::Setting(format!(
                    "time scale {} moves a request to {:.3e} s, which does not fit",
                    self.time_scale,
                    time_ns / 1e9
                )));
            }
            record.time_ns = time_ns as u64;
        }
        Ok(record)
    }
}

impl<I: Iterator<Item = Result<Record, TraceError>>> Iterator for Scaled<I> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rate_scale == 1.0 {
            let record = self.inner.next()?;
            return Some(record.and_then(|record| self.stretched(record)));
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.next = self.read();
        }
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(self.stretched(record));
            }
            let Some(record) = self.next.take() else { return self.failure.take().map(Err) };
            self.next = self.read();
            self.spread(record);
            self.index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    const COUNT: u64 = 20_000;
    const GAP_NS: u64 = 1_000_000;

    fn trace() -> impl Iterator<Item = Result<Record, TraceError>> {
        (0..COUNT).map(|index| {
            let time_ns = index * GAP_NS;
            Ok(Record { time_ns, offset_bytes: index, bytes: 512, device: 0, kind: Kind::Read })
        })
    }

    fn scaled(rate: f64, time: f64, seed: u64) -> Vec<Record> {
        let scaled = Scaled::new(trace(), rate, time, seed).expect("scales in range");
        scaled.collect::<Result<_, _>>().expect("sound")
    }

    #[test]
    fn the_rate_is_multiplied_and_order_kept() {
        for rate in [0.1, 0.5, 1.5, 2.0, 7.3] {
            let records = scaled(rate, 1.0, 1);
            let expected = COUNT as f64 * rate;
            let deviation = (records.len() as f64 - expected).abs();
            assert!(deviation < 4.0 * (COUNT as f64).sqrt(), "rate {rate}: {}", records.len());
            assert!(records.is_sorted_by_key(|record| record.time_ns));
        }
    }

    #[test]
    fn scale_one_changes_nothing() {
        let all: Vec<_> = trace().map(|record| record.expect("sound")).collect();
        assert_eq!(scaled(1.0, 1.0, 1), all);
    }

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        assert_eq!(scaled(0.3, 2.0, 5), scaled(0.3, 2.0, 5));
        assert_ne!(scaled(0.3, 2.0, 5), scaled(0.3, 2.0, 6));
    }

    #[test]
    fn time_is_stretched() {
        let records = scaled(1.0, 2.5, 1);
        assert_eq!(records[3].time_ns, 7_500_000);
    }

    #[test]
    fn copies_stand_on_further_devices_before_the_next_request() {
        let records = scaled(3.0, 1.0, 1);
        for (index, copies) in records.chunks(3).enumerate() {
            let mut devices: Vec<_> = copies.iter().map(|copy| copy.device).collect();
            assert_eq!(devices[0], 0);
            devices.sort_unstable();
            assert_eq!(devices, [0, 1 << 24, 2 << 24]);
            let from_ns = index as u64 * GAP_NS;
            assert!(copies.iter().all(|c| (from_ns..from_ns + GAP_NS).contains(&c.time_ns)));
        }
    }

    #[test]
    fn scales_out_of_range_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e7] {
            assert!(Scaled::new(trace(), bad, 1.0, 1).is_err());
            assert!(Scaled::new(trace(), 1.0, bad, 1).is_err());
        }
    }
}
