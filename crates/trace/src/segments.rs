//! A trace cut into segments of equal length, each described by its rate and mix of requests.
//!
//! The PACER document, section III-A3: for each segment t the mean rate I_t, the read ratio R_t, the random
//! ratio A_t and the size distribution S_t.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;

use crate::info::PROGRESS_RECORDS;
use crate::sizes::{SizeTally, Sizes};
use crate::{Kind, Reader, Reading, Record, TraceError, open_once};

/// More segments than this are refused: one time stamp far off would otherwise fill the memory.
const SEGMENTS_MAX: u64 = 100_000;
const SEGMENT_S_MIN: f64 = 1e-3;
const SEGMENT_S_MAX: f64 = 1e8;
/// What remains of a trace after its last whole segment joins that one if it is shorter than this
/// share of a segment: a rate over a moment says nothing.
const REMAINDER_SHARE_MIN: u64 = 10;

/// One stretch of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// Begin, counted from the trace's first request.
    pub start_s: f64,
    /// Length; the last segment ends with the last request.
    pub span_s: f64,
    /// Requests with data.
    pub ios: u64,
    /// Requests a second (I_t); absent where all requests of a trace come at once.
    pub iops_mean: Option<f64>,
    /// Share of the requests that read (R_t); absent without requests.
    pub read_share: Option<f64>,
    /// Share of the requests that do not begin where the one before them on their device ended
    /// (A_t); absent without requests.
    pub random_share: Option<f64>,
    /// Sizes of the requests (S_t); absent without requests.
    pub size_bytes: Option<Sizes>,
}

/// Read a trace through and describe it segment by segment, empty ones included.
///
/// A segment lasts `segment_s` seconds, 1 ms to 1e8 s. The last one ends with the trace's last
/// request; a remainder shorter than a tenth of a segment belongs to the segment before it.
///
/// # Errors
/// The length is out of range or makes more than 100,000 segments, the trace is damaged, or
/// `progress` (which gets the share read, 0 to 1) returned false.
pub fn segments(
    reader: &mut Reader,
    segment_s: f64,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Vec<Segment>, TraceError> {
    if !(SEGMENT_S_MIN..=SEGMENT_S_MAX).contains(&segment_s) {
        let problem = format!("segment of {segment_s} s: allowed is 1 ms to 1e8 s");
        return Err(TraceError::Setting(problem));
    }
    let mut cutter = Cutter::new((segment_s * 1e9).round() as u64);
    let mut seen = 0u64;
    while let Some(record) = reader.next() {
        cutter.add(&record?)?;
        seen += 1;
        if seen.is_multiple_of(PROGRESS_RECORDS) && !progress(reader.share_read()) {
            return Err(TraceError::Stopped);
        }
    }
    progress(1.0);
    Ok(cutter.finish())
}

/// [`segments`] of a file, as a JSON array.
///
/// # Errors
/// As [`open`] and [`segments`].
pub fn segments_json(
    path: &Path,
    reading: &Reading,
    segment_s: f64,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<String, TraceError> {
    let segments = segments(&mut open_once(path, reading)?, segment_s, progress)?;
    serde_json::to_string(&segments).map_err(|error| TraceError::Setting(error.to_string()))
}

/// The counts of one segment.
#[derive(Default)]
struct Tally {
    index: u64,
    ios: u64,
    reads: u64,
    sequential: u64,
    sizes: SizeTally,
}

struct Cutter {
    segment_ns: u64,
    last_ns: u64,
    done: Vec<Segment>,
    /// The last but one segment with requests, kept until the one after it is known to be whole.
    before: Option<Tally>,
    current: Tally,
    ends: HashMap<u32, u64>,
}

impl Cutter {
    fn new(segment_ns: u64) -> Self {
        Self {
            segment_ns,
            last_ns: 0,
            done: Vec::new(),
            before: None,
            current: Tally::default(),
            ends: HashMap::new(),
        }
    }

    fn add(&mut self, record: &Record) -> Result<(), TraceError> {
        let index = record.time_ns / self.segment_ns;
        if index >= SEGMENTS_MAX {
            return Err(TraceError::Setting(format!(
                "a request {:.0} s after the first one makes more than {SEGMENTS_MAX} segments: \
                 choose longer ones",
                record.time_ns as f64 * 1e-9
            )));
        }
        if index != self.current.index {
            let next = Tally { index, ..Tally::default() };
            let ended = std::mem::replace(&mut self.current, next);
            if let Some(whole) = self.before.replace(ended) {
                self.close(&whole, self.segment_ns);
            }
        }
        self.last_ns = record.time_ns;
        let tally = &mut self.current;
        tally.ios += 1;
        tally.reads += u64::from(record.kind == Kind::Read);
        tally.sizes.add(record.bytes);
        let end = record.offset_bytes.wrapping_add(u64::from(record.bytes));
        if self.ends.insert(record.device, end) == Some(record.offset_bytes) {
            tally.sequential += 1;
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<Segment> {
        let mut last = std::mem::take(&mut self.current);
        if last.ios == 0 {
            return self.done;
        }
        let mut span_ns = self.last_ns - last.index * self.segment_ns;
        let before = self.before.take();
        if last.index > 0 && span_ns < self.segment_ns / REMAINDER_SHARE_MIN {
            last.index -= 1;
            span_ns += self.segment_ns;
        }
        match before {
            Some(before) if before.index == last.index => last.merge(&before),
            Some(before) => self.close(&before, self.segment_ns),
            None => {}
        }
        self.close(&last, span_ns);
        self.done
    }

    /// Describes a segment, after the empty ones before it.
    fn close(&mut self, tally: &Tally, span_ns: u64) {
        while (self.done.len() as u64) < tally.index {
            let index = self.done.len() as u64;
            let empty = Tally { index, ..Tally::default() };
            self.done.push(empty.segment(self.segment_ns, self.segment_ns));
        }
        self.done.push(tally.segment(self.segment_ns, span_ns));
    }
}

impl Tally {
    fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.reads += other.reads;
        self.sequential += other.sequential;
        self.sizes.merge(&other.sizes);
    }

    fn segment(&self, segment_ns: u64, span_ns: u64) -> Segment {
        let share = |count: u64| (self.ios > 0).then(|| count as f64 / self.ios as f64);
        let span_s = span_ns as f64 / 1e9;
        Segment {
            start_s: (self.index * segment_ns) as f64 / 1e9,
            span_s,
            ios: self.ios,
            iops_mean: (span_ns > 0).then(|| self.ios as f64 / span_s),
            read_share: share(self.reads),
            random_share: share(self.ios - self.sequential),
            size_bytes: self.sizes.sizes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str, segment_s: f64) -> Vec<Segment> {
        let mut reader = Reader::from_bytes(text).expect("recognised");
        segments(&mut reader, segment_s, &mut |_| true).expect("sound")
    }

    /// Requests of 4 KiB each 4 KiB apart, of the given times in milliseconds.
    fn sequential(times_ms: impl IntoIterator<Item = u64>) -> String {
        let line = |(at, time): (usize, u64)| format!("0,R,{},4096,{}\n", at * 4096, time * 1000);
        times_ms.into_iter().enumerate().map(line).collect()
    }

    #[test]
    fn each_segment_has_its_own_mix() {
        // Two sequential reads and a write elsewhere; after an empty second, one random write.
        let text = "0,R,0,4096,0\n0,R,4096,4096,100000\n0,W,900000,16384,200000\n\
                    0,W,0,512,2000000\n0,W,7000,512,2500000\n";
        let cut = of(text, 1.0);
        assert_eq!(cut.len(), 3);
        assert_eq!((cut[0].ios, cut[1].ios, cut[2].ios), (3, 0, 2));
        assert_eq!(cut[0].iops_mean, Some(3.0));
        assert_eq!(cut[0].read_share, Some(2.0 / 3.0));
        assert_eq!(cut[0].random_share, Some(2.0 / 3.0));
        let sizes = cut[0].size_bytes.as_ref().expect("requests");
        assert_eq!((sizes.p50, sizes.max), (4096, 16_384));
        assert!((sizes.mean - 8192.0).abs() < 1e-9);
        assert_eq!((cut[1].start_s, cut[1].span_s, cut[1].iops_mean), (1.0, 1.0, Some(0.0)));
        assert!(cut[1].read_share.is_none() && cut[1].size_bytes.is_none());
        assert_eq!((cut[2].start_s, cut[2].span_s, cut[2].iops_mean), (2.0, 0.5, Some(4.0)));
    }

    #[test]
    fn a_short_remainder_belongs_to_the_segment_before_it() {
        let cut = of(&sequential([0, 500, 1000, 1050]), 1.0);
        assert_eq!(cut.len(), 1);
        assert_eq!((cut[0].ios, cut[0].span_s), (4, 1.05));
        let sizes = cut[0].size_bytes.as_ref().expect("requests");
        assert_eq!((sizes.common.len(), sizes.common[0].ios), (1, 4));
        assert_eq!(of(&sequential([0, 500, 1000, 1100]), 1.0).len(), 2);
        let after_nothing = of(&sequential([0, 2000]), 1.0);
        assert_eq!((after_nothing.len(), after_nothing[1].span_s), (2, 1.0));
        assert_eq!((after_nothing[0].ios, after_nothing[1].ios), (1, 1));
    }

    #[test]
    fn a_trace_shorter_than_a_segment_is_one_segment() {
        let cut = of(&sequential([0, 20, 50]), 1200.0);
        assert_eq!((cut.len(), cut[0].span_s, cut[0].iops_mean), (1, 0.05, Some(60.0)));
        let at_once = of(&sequential([0]), 1200.0);
        assert_eq!((at_once.len(), at_once[0].iops_mean), (1, None));
    }

    #[test]
    fn nothing_in_a_trace_is_no_segment() {
        assert!(of("fio version 3 iolog\n0 a add\n", 1.0).is_empty());
    }

    #[test]
    fn too_many_segments_are_refused() {
        let mut reader = Reader::from_bytes(sequential([0, 50_000])).expect("recognised");
        let refused = segments(&mut reader, 1e-4, &mut |_| true).expect_err("too short");
        assert!(refused.to_string().contains("1 ms"), "{refused}");
        let mut reader = Reader::from_bytes(sequential([0, 200_000])).expect("recognised");
        let refused = segments(&mut reader, 1e-3, &mut |_| true).expect_err("too many");
        assert!(refused.to_string().contains("choose longer"), "{refused}");
    }

    proptest! {
        /// However a trace is cut, no request and no time is lost.
        #[test]
        fn segments_add_up_to_the_trace(
            gaps_ms in proptest::collection::vec(0u64..3000, 1..60), segment_ms in 50u64..5000
        ) {
            let mut now = 0;
            let times: Vec<u64> =
                std::iter::once(0).chain(gaps_ms.iter().map(|gap| { now += gap; now })).collect();
            let cut = of(&sequential(times.iter().copied()), segment_ms as f64 * 1e-3);
            let ios: u64 = cut.iter().map(|segment| segment.ios).sum();
            prop_assert_eq!(ios, times.len() as u64);
            let span_s: f64 = cut.iter().map(|segment| segment.span_s).sum();
            prop_assert!((span_s - now as f64 * 1e-3).abs() < 1e-6);
            for pair in cut.windows(2) {
                prop_assert!((pair[0].start_s + pair[0].span_s - pair[1].start_s).abs() < 1e-6);
            }
        }
    }
}
