//! Writes a trace in another format.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::formats::{EncodeError, encoder};
use crate::{Format, Reader, Reading, Record, Scaled, TraceError, open_once};

/// Seed of the random choice when a rate is scaled: a conversion is the same each time.
const SCALE_SEED: u64 = 1;
/// Records between two calls of `progress`.
const PROGRESS_RECORDS: u64 = 16_384;
const BUFFER_BYTES: usize = 256 * 1024;

/// Write the trace `source`, read as `reading` says, to `target` as `format`, scaled as [`Scaled`] does (seed 1); the number of
/// records written.
///
/// `target` is compressed with gzip if its name ends in `.gz`. It appears only when it is complete:
/// the records go to a file beside it that is renamed at the end and removed on failure.
/// `progress` gets the share of the source read (0 to 1) and returns false to stop.
///
/// # Errors
/// The source is damaged, a record does not fit the format (an offset off the sectors in vscsi, a
/// second device there), `format` cannot be written, the target cannot be written, or the caller
/// stopped it ([`TraceError::Stopped`]).
pub fn convert(
    source: &Path,
    reading: &Reading,
    target: &Path,
    format: Format,
    rate_scale: f64,
    time_scale: f64,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<u64, TraceError> {
    writable(format)?;
    let compressed = compression(target)?;
    let scaled = Scaled::new(open_once(source, reading)?, rate_scale, time_scale, SCALE_SEED)?;
    let part = Part::create(target)?;
    let file = BufWriter::with_capacity(BUFFER_BYTES, part.file()?);
    let mut records = Watched { scaled, progress, count: 0 };
    let written = if compressed {
        let mut out = GzEncoder::new(file, Compression::best());
        write(&mut records, format, &mut out)
            .and_then(|count| finish_gzip(out).map(|()| count).map_err(TraceError::Source))
    } else {
        let mut out = file;
        write(&mut records, format, &mut out)
            .and_then(|count| out.flush().map(|()| count).map_err(TraceError::Source))
    };
    let written = written.map_err(|error| match error {
        TraceError::Source(source) => TraceError::File { path: target.to_owned(), source },
        other => other,
    })?;
    part.finish(target)?;
    (records.progress)(1.0);
    Ok(written)
}

fn finish_gzip(out: GzEncoder<BufWriter<File>>) -> io::Result<()> {
    out.finish()?.flush()
}

/// Write records to `out` as `format`; how many there were.
///
/// # Errors
/// The first error of `records`, a record that does not fit the format, or `out` failing
/// ([`TraceError::Source`]).
pub fn write(
    records: &mut dyn Iterator<Item = Result<Record, TraceError>>,
    format: Format,
    out: &mut dyn Write,
) -> Result<u64, TraceError> {
    let mut encoder = writable(format)?;
    let mut count = 0;
    for record in records {
        count += 1;
        encoder.record(&record?, out).map_err(|error| match error {
            EncodeError::Target(error) => TraceError::Source(error),
            EncodeError::Unwritable(problem) => {
                TraceError::Unwritable { format, record: count, problem }
            }
        })?;
    }
    encoder.finish(out).map_err(TraceError::Source)?;
    Ok(count)
}

fn writable(format: Format) -> Result<Box<dyn crate::formats::Encode>, TraceError> {
    encoder(format).ok_or_else(|| {
        let names = Format::WRITABLE.map(Format::name).join(", ");
        TraceError::Setting(format!("{format} can be read but not written; written are {names}"))
    })
}

/// Whether the target's name asks for gzip; an error if it asks for a compression that can only be
/// read.
fn compression(target: &Path) -> Result<bool, TraceError> {
    let suffix = target.extension().unwrap_or_default().to_ascii_lowercase();
    if suffix == "xz" || suffix == "zst" {
        return Err(TraceError::Setting(format!(
            "{}: traces are written plain or as .gz; .xz and .zst are only read",
            target.display()
        )));
    }
    Ok(suffix == "gz")
}

/// Passes records on and reports progress now and then.
struct Watched<'a> {
    scaled: Scaled<Reader>,
    progress: &'a mut dyn FnMut(f64) -> bool,
    count: u64,
}

impl Iterator for Watched<'_> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.count.is_multiple_of(PROGRESS_RECORDS)
            && !(self.progress)(self.scaled.get_ref().share_read())
        {
            return Some(Err(TraceError::Stopped));
        }
        self.count += 1;
        self.scaled.next()
    }
}

/// The file beside the target that becomes the target; removed when dropped before.
struct Part {
    path: PathBuf,
    finished: bool,
}

impl Part {
    fn create(target: &Path) -> Result<Self, TraceError> {
        let Some(name) = target.file_name() else {
            return Err(TraceError::Setting(format!("{}: not a file name", target.display())));
        };
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".part-{}", std::process::id()));
        let part = Self { path: target.with_file_name(hidden), finished: false };
        File::create(&part.path).map_err(|source| part.failed(source))?;
        Ok(part)
    }

    fn file(&self) -> Result<File, TraceError> {
        File::options().write(true).open(&self.path).map_err(|source| self.failed(source))
    }

    fn finish(mut self, target: &Path) -> Result<(), TraceError> {
        // The content must be on the disk before the name is, or a crash leaves an empty trace.
        self.file()?.sync_all().map_err(|source| self.failed(source))?;
        fs::rename(&self.path, target)
            .map_err(|source| TraceError::File { path: target.to_owned(), source })?;
        self.finished = true;
        Ok(())
    }

    fn failed(&self, source: io::Error) -> TraceError {
        TraceError::File { path: self.path.clone(), source }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing more can be done here; the error that led here is reported.
            let _ = fs::remove_file(&self.path);
        }
    }
}
