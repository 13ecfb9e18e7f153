//! The reader: one iterator over the records of any trace.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Fault, Position};
use crate::formats::Decode;
use crate::order::Order;
use crate::sink::{Sink, Skipped};
use crate::source::{Counted, uncompressed};
use crate::{Format, Input, Reading, Record, TraceError};

/// Streams the records of a trace in the order of time, the first one at time 0.
///
/// - Memory is bounded: one buffer of bytes and one window of records.
/// - Records out of order are put in order within a window of 8,192 records. One that is later
///   still gets the time of the record given out before it ([`Reader::clamped`]). Time that goes
///   back by more than 60 s is an error.
/// - Requests without data (zero bytes, flushes, discards) are left out and counted
///   ([`Reader::skipped`]).
/// - A damaged or cut file ends in one error that names the record and its byte; the records
///   before it are given out first. After the error there is nothing more. Only a plain text that
///   is cut at the end of a line, or within a last number, cannot be told from a shorter trace.
pub struct Reader {
    format: Format,
    decoder: Box<dyn Decode>,
    input: Input,
    sink: Sink,
    order: Order,
    ended: bool,
    failure: Option<TraceError>,
    bytes_read: Arc<AtomicU64>,
    bytes_total: Option<u64>,
    /// For messages.
    path: Option<PathBuf>,
}

/// Open a trace of any known format, compressed or not; both are found by the content.
///
/// # Errors
/// The file cannot be read, is empty, or is none of the known formats.
pub fn open(path: &Path) -> Result<Reader, TraceError> {
    open_as(path, &Reading::Detected)
}

/// Open a trace that is to be read as `reading` says.
///
/// # Errors
/// As [`open`]; or the file is not of the format asked for.
pub fn open_as(path: &Path, reading: &Reading) -> Result<Reader, TraceError> {
    reader(path, reading, wattio_files::open)
}

/// As [`open_as`], for whoever reads it once: it may be a pipe, as of a shell's `<(...)`.
///
/// # Errors
/// As [`open_as`].
pub fn open_once(path: &Path, reading: &Reading) -> Result<Reader, TraceError> {
    reader(path, reading, wattio_files::open_to_read_once)
}

fn reader(
    path: &Path,
    reading: &Reading,
    open: impl FnOnce(&Path) -> io::Result<File>,
) -> Result<Reader, TraceError> {
    let named = |source| TraceError::File { path: path.to_owned(), source };
    let file = open(path).map_err(named)?;
    let metadata = file.metadata().map_err(named)?;
    // A pipe has no length to measure progress by.
    let bytes_total = metadata.is_file().then_some(metadata.len());
    let mut reader =
        Reader::of(file, bytes_total, reading).map_err(|error| error.within(Some(path)))?;
    reader.path = Some(path.to_owned());
    Ok(reader)
}

impl Reader {
    /// Read a trace that lies in memory.
    ///
    /// # Errors
    /// As [`open`].
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, TraceError> {
        let bytes = bytes.into();
        let total = bytes.len() as u64;
        Self::from_reader(Cursor::new(bytes), Some(total))
    }

    /// Read a trace from anything; `bytes_total` is its length if known.
    ///
    /// # Errors
    /// As [`open`].
    pub fn from_reader(
        source: impl Read + Send + 'static,
        bytes_total: Option<u64>,
    ) -> Result<Self, TraceError> {
        Self::of(source, bytes_total, &Reading::Detected)
    }

    /// Read a trace from anything, as `reading` says.
    ///
    /// # Errors
    /// As [`open_as`].
    pub fn of(
        source: impl Read + Send + 'static,
        bytes_total: Option<u64>,
        reading: &Reading,
    ) -> Result<Self, TraceError> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = Counted::new(source, Arc::clone(&bytes_read));
        let content = uncompressed(counted).map_err(TraceError::Source)?;
        let mut input = Input::new(content);
        let (format, decoder) = reading.of(&mut input)?;
        Ok(Self {
            format,
            decoder,
            input,
            sink: Sink::default(),
            order: Order::default(),
            ended: false,
            failure: None,
            bytes_read,
            bytes_total,
            path: None,
        })
    }

    /// The format found.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Bytes of the file read so far, as stored (compressed).
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Length of the file as stored; absent for a pipe.
    pub fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    /// Share of the file read so far, between 0 and 1; 0 where the length is not known.
    pub fn share_read(&self) -> f64 {
        match self.bytes_total {
            Some(total) if total > 0 => (self.bytes_read() as f64 / total as f64).min(1.0),
            _ => 0.0,
        }
    }

    /// Requests without data, left out so far.
    pub fn skipped(&self) -> Skipped {
        self.sink.skipped
    }

    /// Records so far whose time was clamped, being farther out of order than the window reaches.
    pub fn clamped(&self) -> u64 {
        self.order.clamped()
    }

    /// Decode until the window can give a record, or the trace ends.
    #[cold]
    fn refill(&mut self) {
        while self.order.wants_more() && !self.ended {
            match self.decoder.batch(&mut self.input, &mut self.sink) {
                Ok(true) => self.order.add(&mut self.sink),
                Ok(false) => {
                    self.ended = true;
                    self.order.add(&mut self.sink);
                    self.order.finish();
                }
                Err(fault) => {
                    self.ended = true;
                    self.failure = Some(self.damaged(fault));
                    self.order.add(&mut self.sink);
                    self.order.finish();
                }
            }
        }
    }

    fn damaged(&self, fault: Fault) -> TraceError {
        let at = Position { record: self.sink.seen + 1, byte: fault.byte, line: fault.line };
        let error = TraceError::Damaged { format: self.format, at, problem: fault.problem };
        error.within(self.path.as_deref())
    }
}

impl Iterator for Reader {
    type Item = Result<Record, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.order.wants_more() {
            self.refill();
        }
        match self.order.next() {
            Some(record) => Some(Ok(record)),
            None => self.failure.take().map(Err),
        }
    }
}
