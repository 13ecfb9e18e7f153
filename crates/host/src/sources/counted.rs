//! Kernel files that count the reads and writes, bytes and milliseconds of several devices or
//! mounts.

use super::differences::{Differences, Totals, sum_windows};
use super::interpolated::InterpolatedSum;
use crate::Root;
use crate::kept_files::KeptFiles;
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::Seconds;

/// One thing's counters since it appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Milliseconds of reads: the low 32 bits, as some of the kernel's counters have no more. They wrap
    /// within days.
    pub reading_ms: u32,
    /// Milliseconds of writes; the same.
    pub writing_ms: u32,
    /// Requests that have not completed yet, if known.
    pub under_way: Option<u64>,
}

/// The counters of a thing by its name in the text of the file; `None` if it is not listed. The error
/// says what is wrong with its lines.
pub(super) type Parse = fn(&str, &str) -> Result<Option<Counters>, String>;

/// The source: all things as one.
#[derive(Debug)]
pub struct Counted {
    name: String,
    file: &'static str,
    parse: Parse,
    files: KeptFiles,
    things: Vec<Thing>,
}

#[derive(Debug)]
struct Thing {
    name: String,
    last: Option<Counters>,
    busy_ms: u64,
    fine: InterpolatedSum,
    differences: Differences,
}

impl Counted {
    /// Reads the counters for the first time. Whoever opens it has seen that the things are there.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(super) fn open(
        name: String,
        root: &Root,
        file: &'static str,
        parse: Parse,
        things: &[String],
    ) -> Result<Self, SourceError> {
        let things = things.iter().map(|thing| Thing::new(&name, thing)).collect();
        let mut source = Self { name, file, parse, files: KeptFiles::new(root), things };
        source.sample(Seconds(0.0))?;
        Ok(source)
    }
}

impl LatencySource for Counted {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        let (name, file, parse) = (&self.name, self.file, self.parse);
        let text = self.files.read(file);
        let text = text.map_err(|error| SourceError::new(name, format!("{file}: {error}")));
        sum_windows(self.things.iter_mut().map(|thing| {
            let counters = text.as_ref().map_err(Clone::clone).and_then(|text| {
                let counters = parse(text, &thing.name);
                let counters = counters.map_err(|message| SourceError::new(name, message))?;
                counters.ok_or_else(|| SourceError::new(name, format!("{} is gone", thing.name)))
            });
            thing.window(now, counters)
        }))
    }
}

impl Thing {
    fn new(source_name: &str, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            last: None,
            busy_ms: 0,
            fine: InterpolatedSum::default(),
            differences: Differences::new(format!("{source_name}: {name}")),
        }
    }

    fn window(
        &mut self,
        at: Seconds,
        counters: Result<Counters, SourceError>,
    ) -> Result<Option<LatencySample>, SourceError> {
        let totals = counters.map(|counters| self.totals(counters));
        self.differences.answer(at, totals)
    }

    fn totals(&mut self, counters: Counters) -> Totals {
        let same = |last: &Counters| counters.reads >= last.reads && counters.writes >= last.writes;
        // Milliseconds that went back have wrapped, unless the thing was taken out and put in.
        if let Some(last) = self.last.filter(same) {
            let grown = |new: u32, old: u32| u64::from(new.wrapping_sub(old));
            let busy_ms = grown(counters.reading_ms, last.reading_ms)
                + grown(counters.writing_ms, last.writing_ms);
            self.busy_ms = self.busy_ms.saturating_add(busy_ms);
        }
        self.last = Some(counters);
        let requests = counters.reads.saturating_add(counters.writes);
        Totals {
            requests,
            under_way: counters.under_way,
            latency_us_sum: Some(self.fine.sum_ms(self.busy_ms, requests) * 1e3),
            bytes_sum: Some(counters.bytes),
            reads: Some(counters.reads),
            ..Totals::default()
        }
    }
}
