//! A load cut into segments.

use crate::load::{Load, LoadError, Phase, Senders, TraceSource};
use wattio_trace::{Record, TraceError};

/// A stretch of a load, by itself.
#[derive(Clone, Debug)]
pub enum Segment {
    /// One phase.
    Phase {
        /// Who sends.
        senders: Senders,
        /// What.
        phase: Phase,
    },
    /// A slice of a trace.
    Records {
        /// Length of the slice in seconds.
        span_s: f64,
        /// Length of the excerpt that settings are tried on, in seconds.
        trial_s: f64,
        /// Its requests, their times counted from its start.
        records: Vec<Record>,
    },
}

/// Settings are tried on the busiest stretch of this length of a slice of a trace, in seconds.
const TRIAL_S_MAX: f64 = 30.0;

/// Cuts a load: phases as they are, traces into slices of equal length.
pub struct SegmentSource {
    kind: Kind,
    /// Time left to cut, in seconds.
    left_s: f64,
}

enum Kind {
    Phases { senders: Senders, phases: Vec<Phase>, at: usize },
    Trace { records: Box<dyn TraceSource>, next: Option<Record>, start_ns: u64, slice_ns: u64 },
}

/// Records that are held in memory.
struct Held(std::vec::IntoIter<Record>);

impl Iterator for Held {
    type Item = Result<Record, TraceError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl TraceSource for Held {
    fn share_read(&self) -> f64 {
        0.0
    }
}

impl SegmentSource {
    /// Cuts the first `span_s` of `load`; traces into slices of `slice_s`.
    ///
    /// # Errors
    /// When the load cannot be used.
    pub fn new(load: Load, slice_s: f64, span_s: Option<f64>) -> Result<Self, LoadError> {
        load.check()?;
        let kind = match load {
            Load::Phases { senders, phases } => Kind::Phases { senders, phases, at: 0 },
            Load::Trace(mut records) => {
                let next = records.next().transpose()?;
                let start_ns = next.map_or(0, |record| record.time_ns);
                Kind::Trace { records, next, start_ns, slice_ns: (slice_s * 1e9) as u64 }
            }
        };
        Ok(Self { kind, left_s: span_s.unwrap_or(f64::INFINITY) })
    }

    /// The next segment.
    ///
    /// # Errors
    /// When the trace is damaged.
    pub fn next_segment(&mut self) -> Result<Option<Segment>, LoadError> {
        if self.left_s <= 0.0 {
            return Ok(None);
        }
        let segment = self.cut()?;
        self.left_s -= segment.as_ref().map_or(0.0, Segment::span_s);
        Ok(segment)
    }

    fn cut(&mut self) -> Result<Option<Segment>, LoadError> {
        match &mut self.kind {
            Kind::Phases { senders, phases, at } => {
                let phase = phases.get(*at).copied();
                *at += 1;
                Ok(phase.map(|phase| Segment::Phase { senders: *senders, phase }))
            }
            Kind::Trace { records, next, start_ns, slice_ns } => {
                if next.is_none() {
                    return Ok(None);
                }
                let end_ns = start_ns.saturating_add(*slice_ns);
                let mut slice = Vec::new();
                while let Some(record) = next.filter(|record| record.time_ns < end_ns) {
                    slice.push(Record { time_ns: record.time_ns - *start_ns, ..record });
                    *next = records.next().transpose()?;
                }
                *start_ns = end_ns;
                let span_s = *slice_ns as f64 * 1e-9;
                let trial_s = span_s.min(TRIAL_S_MAX);
                let records = busiest(&slice, *slice_ns, (trial_s * 1e9) as u64);
                Ok(Some(Segment::Records { span_s, trial_s, records }))
            }
        }
    }

    /// The share of the load that was cut.
    pub fn share_done(&self) -> f64 {
        match &self.kind {
            Kind::Phases { phases, at, .. } => *at as f64 / phases.len() as f64,
            Kind::Trace { records, next, .. } => {
                if next.is_none() {
                    1.0
                } else {
                    records.share_read()
                }
            }
        }
    }
}

/// The stretch of `stretch_ns` with the most requests, its times counted from its start.
fn busiest(slice: &[Record], slice_ns: u64, stretch_ns: u64) -> Vec<Record> {
    let latest_start_ns = slice_ns - stretch_ns;
    let mut best = 0..0;
    let mut end = 0;
    for start in 0..slice.len() {
        let start_ns = slice[start].time_ns.min(latest_start_ns);
        while end < slice.len() && slice[end].time_ns < start_ns + stretch_ns {
            end += 1;
        }
        if end - start > best.len() {
            best = start..end;
        }
    }
    let start_ns = slice.get(best.start).map_or(0, |first| first.time_ns.min(latest_start_ns));
    let rebased = |record: &Record| Record { time_ns: record.time_ns - start_ns, ..*record };
    slice[best].iter().map(rebased).collect()
}

impl Segment {
    /// Length in seconds.
    pub fn span_s(&self) -> f64 {
        match self {
            Self::Phase { phase, .. } => phase.span_s,
            Self::Records { span_s, .. } => *span_s,
        }
    }

    /// The load of a simulation of the segment.
    pub fn load(&self) -> Load {
        match self {
            Self::Phase { senders, phase } => {
                Load::Phases { senders: *senders, phases: vec![*phase] }
            }
            Self::Records { records, .. } => {
                Load::Trace(Box::new(Held(records.clone().into_iter())))
            }
        }
    }

    /// What makes two segments the same to the search; `None` when they have to be looked at.
    pub fn key(&self) -> Option<String> {
        match self {
            Self::Phase { senders, phase } => {
                Some(format!("{senders:?} {:?} {:?}", phase.iops, phase.pattern))
            }
            Self::Records { records, span_s, .. } if records.is_empty() => {
                Some(format!("empty {span_s}"))
            }
            Self::Records { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_trace::Kind;

    #[test]
    fn the_busiest_stretch_is_found_and_counted_from_its_start() {
        let record =
            |time_ns| Record { time_ns, offset_bytes: 0, bytes: 4096, device: 0, kind: Kind::Read };
        let slice: Vec<_> = [0, 40, 50, 55, 59, 80, 99].map(record).to_vec();
        let times = |stretch| -> Vec<u64> {
            busiest(&slice, 100, stretch).iter().map(|record| record.time_ns).collect()
        };
        assert_eq!(times(20), [0, 10, 15, 19]);
        assert_eq!(times(100), [0, 40, 50, 55, 59, 80, 99]);
        assert!(busiest(&[], 100, 20).is_empty());
    }
}
