//! What a trace holds, in one pass with bounded memory.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;

use crate::sink::Skipped;
use crate::sizes::{SizeTally, Sizes, quantile};
use crate::{Format, Kind, Reader, Reading, TraceError, open_once};

const SECOND_NS: u64 = 1_000_000_000;
/// A gap as the pacing law sees it: after 30 s without a request the server is idle.
const IDLE_GAP_NS: u64 = 30 * SECOND_NS;
/// Records between two calls of `progress`: a few milliseconds.
pub(crate) const PROGRESS_RECORDS: u64 = 65_536;

/// What a trace holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Format found.
    pub format: Format,
    /// Requests with data.
    pub ios: u64,
    /// Time from the first to the last request.
    pub span_s: f64,
    /// Share of reads among the requests; absent without requests.
    pub read_share: Option<f64>,
    /// Bytes read by the clients.
    pub read_bytes: u64,
    /// Bytes written by the clients.
    pub write_bytes: u64,
    /// Sizes of the requests; absent without requests.
    pub size_bytes: Option<Sizes>,
    /// Requests per second; absent without requests.
    pub rate_per_s: Option<Rate>,
    /// Gaps of more than 30 s between two requests.
    pub idle_gaps: IdleGaps,
    /// Different devices.
    pub devices: u64,
    /// Share of the requests that begin where the one before them on their device ended.
    pub sequential_share: Option<f64>,
    /// Requests without data, left out of everything above.
    pub skipped: Skipped,
    /// Requests whose time was clamped because they stood too far out of order.
    pub clamped: u64,
}

/// Requests per second.
///
/// The quantiles and the maximum are over whole seconds counted from the first request, empty ones
/// included; the last, partly covered second counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Median second.
    pub p50: u64,
    /// Exceeded by at most 5 % of the seconds.
    pub p95: u64,
    /// Busiest second.
    pub max: u64,
    /// Requests over the span; absent where all requests arrive at once.
    pub mean: Option<f64>,
}

/// Gaps of more than 30 s between requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct IdleGaps {
    /// How many.
    pub count: u64,
    /// The longest of them, 0 without one.
    pub longest_s: f64,
    /// Their share of the span.
    pub share: f64,
}

/// Read a trace through and describe it.
///
/// # Errors
/// The trace is damaged, or `progress` (which gets the share read, 0 to 1) returned false.
pub fn info(
    reader: &mut Reader,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Info, TraceError> {
    let mut tally = Tally::default();
    while let Some(record) = reader.next() {
        tally.add(&record?);
        if tally.ios % PROGRESS_RECORDS == 0 && !progress(reader.share_read()) {
            return Err(TraceError::Stopped);
        }
    }
    progress(1.0);
    Ok(tally.info(reader))
}

/// [`info`] of a file, as a JSON object.
///
/// # Errors
/// As [`open_once`] and [`info`].
pub fn info_json(
    path: &Path,
    reading: &Reading,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<String, TraceError> {
    let info = info(&mut open_once(path, reading)?, progress)?;
    serde_json::to_string(&info).map_err(|error| TraceError::Setting(error.to_string()))
}

#[derive(Default)]
struct Tally {
    ios: u64,
    reads: u64,
    read_bytes: u64,
    write_bytes: u64,
    last_ns: u64,
    sizes: SizeTally,
    second: u64,
    in_second: u64,
    /// How many seconds had that many requests.
    seconds: HashMap<u64, u64>,
    gaps: u64,
    gaps_ns: u64,
    longest_gap_ns: u64,
    ends: HashMap<u32, u64>,
    sequential: u64,
}

impl Tally {
    fn add(&mut self, record: &crate::Record) {
        let bytes = u64::from(record.bytes);
        self.ios += 1;
        match record.kind {
            Kind::Read => {
                self.reads += 1;
                self.read_bytes = self.read_bytes.saturating_add(bytes);
            }
            Kind::Write => self.write_bytes = self.write_bytes.saturating_add(bytes),
        }
        self.sizes.add(record.bytes);
        self.add_time(record.time_ns);
        let end = record.offset_bytes.wrapping_add(bytes);
        if self.ends.insert(record.device, end) == Some(record.offset_bytes) {
            self.sequential += 1;
        }
    }

    fn add_time(&mut self, time_ns: u64) {
        let gap_ns = time_ns - self.last_ns;
        self.last_ns = time_ns;
        if gap_ns > IDLE_GAP_NS {
            self.gaps += 1;
            self.gaps_ns += gap_ns;
            self.longest_gap_ns = self.longest_gap_ns.max(gap_ns);
        }
        let second = time_ns / SECOND_NS;
        if second != self.second {
            *self.seconds.entry(self.in_second).or_default() += 1;
            let empty = second - self.second - 1;
            if empty > 0 {
                *self.seconds.entry(0).or_default() += empty;
            }
            self.second = second;
            self.in_second = 0;
        }
        self.in_second += 1;
    }

    fn info(mut self, reader: &Reader) -> Info {
        let span_s = self.last_ns as f64 / SECOND_NS as f64;
        let of_ios = |count: u64| (self.ios > 0).then(|| count as f64 / self.ios as f64);
        let (read_share, sequential_share) = (of_ios(self.reads), of_ios(self.sequential));
        let idle_gaps = IdleGaps {
            count: self.gaps,
            longest_s: self.longest_gap_ns as f64 / SECOND_NS as f64,
            share: if self.gaps > 0 { self.gaps_ns as f64 / self.last_ns as f64 } else { 0.0 },
        };
        let some = self.ios > 0;
        *self.seconds.entry(self.in_second).or_default() += 1;
        Info {
            format: reader.format(),
            ios: self.ios,
            span_s,
            read_share,
            read_bytes: self.read_bytes,
            write_bytes: self.write_bytes,
            size_bytes: self.sizes.sizes(),
            rate_per_s: some.then(|| self.rate(span_s)),
            idle_gaps,
            devices: self.ends.len() as u64,
            sequential_share,
            skipped: reader.skipped(),
            clamped: reader.clamped(),
        }
    }

    fn rate(&self, span_s: f64) -> Rate {
        let mut counts: Vec<(u64, u64)> = self.seconds.iter().map(|(&r, &n)| (r, n)).collect();
        counts.sort_unstable();
        Rate {
            p50: quantile(&counts, 0.5),
            p95: quantile(&counts, 0.95),
            max: quantile(&counts, 1.0),
            mean: (span_s > 0.0).then(|| self.ios as f64 / span_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Info {
        let mut reader = Reader::from_bytes(text).expect("recognised");
        info(&mut reader, &mut |_| true).expect("sound")
    }

    #[test]
    fn a_small_trace_is_described() {
        // Microseconds: three requests in the first second, one after 40 s on another device.
        let info = of("0,R,0,4096,0\n0,R,4096,4096,100\n0,W,0,512,200\n1,R,0,8192,40000200\n\
                       1,R,0,0,40000300\n");
        assert_eq!((info.ios, info.devices, info.skipped.zero_length), (4, 2, 1));
        assert_eq!(info.read_share, Some(0.75));
        assert_eq!((info.read_bytes, info.write_bytes), (16_384, 512));
        assert_eq!(info.sequential_share, Some(0.25));
        assert!((info.span_s - 40.0002).abs() < 1e-9);
        assert_eq!(info.idle_gaps.count, 1);
        assert!((info.idle_gaps.longest_s - 40.0).abs() < 1e-9);
        let rate = info.rate_per_s.expect("requests");
        assert_eq!((rate.p50, rate.p95, rate.max), (0, 0, 3));
        let sizes = info.size_bytes.expect("requests");
        assert_eq!((sizes.p50, sizes.p95, sizes.max), (4096, 8192, 8192));
        assert_eq!((sizes.common[0].bytes, sizes.common[0].ios), (4096, 2));
    }

    #[test]
    fn a_trace_without_requests_has_no_quantiles() {
        let info = of("fio version 3 iolog\n0 a add\n");
        assert_eq!(info.ios, 0);
        assert!(info.size_bytes.is_none() && info.rate_per_s.is_none());
        assert!(info.read_share.is_none());
    }

    #[test]
    fn the_caller_can_stop() {
        let text: String = (0..70_000).map(|time| format!("0,R,0,512,{time}\n")).collect();
        let mut reader = Reader::from_bytes(text).expect("recognised");
        assert!(matches!(info(&mut reader, &mut |_| false), Err(TraceError::Stopped)));
    }
}
