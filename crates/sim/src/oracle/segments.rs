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
    /// A slice of a trace, its times counted from the slice's start.
    Records {
        /// Length in seconds.
        span_s: f64,
        /// The requests.
        records: Vec<Record>,
    },
}

/// Cuts a load: phases as they are, traces into slices of equal length.
pub struct SegmentSource {
    kind: Kind,
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
    /// Cuts `load`; traces into slices of `slice_s`.
    ///
    /// # Errors
    /// When the load cannot be used.
    pub fn new(load: Load, slice_s: f64) -> Result<Self, LoadError> {
        load.check()?;
        let kind = match load {
            Load::Phases { senders, phases } => Kind::Phases { senders, phases, at: 0 },
            Load::Trace(mut records) => {
                let next = records.next().transpose()?;
                let start_ns = next.map_or(0, |record| record.time_ns);
                Kind::Trace { records, next, start_ns, slice_ns: (slice_s * 1e9) as u64 }
            }
        };
        Ok(Self { kind })
    }

    /// The next segment.
    ///
    /// # Errors
    /// When the trace is damaged.
    pub fn next_segment(&mut self) -> Result<Option<Segment>, LoadError> {
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
                let end_ns = *start_ns + *slice_ns;
                let mut slice = Vec::new();
                while let Some(record) = next.filter(|record| record.time_ns < end_ns) {
                    slice.push(Record { time_ns: record.time_ns - *start_ns, ..record });
                    *next = records.next().transpose()?;
                }
                *start_ns = end_ns;
                Ok(Some(Segment::Records { span_s: *slice_ns as f64 * 1e-9, records: slice }))
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

impl Segment {
    /// Length in seconds.
    pub fn span_s(&self) -> f64 {
        match self {
            Self::Phase { phase, .. } => phase.span_s,
            Self::Records { span_s, .. } => *span_s,
        }
    }

    /// The load of a simulation of the segment, of at most `span_s` for steady phases.
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
            Self::Records { records, span_s } if records.is_empty() => {
                Some(format!("empty {span_s}"))
            }
            Self::Records { .. } => None,
        }
    }
}
