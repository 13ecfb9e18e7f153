//! What can be wrong with a trace, with its place.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::columns::EXAMPLE;
use crate::format::{Format, UnknownFormat};

/// Where in a trace something is: counted in the uncompressed content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the record, from 1, skipped ones counted.
    pub record: u64,
    /// First byte of the record.
    pub byte: u64,
    /// Line number from 1, for text.
    pub line: Option<u64>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "record {} (line {line}, byte {})", self.record, self.byte),
            None => write!(f, "record {} (byte {})", self.record, self.byte),
        }
    }
}

/// Why a trace could not be read, converted or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened, read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Something is wrong with the trace in this file.
    #[error("{}: {error}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<TraceError>,
    },
    /// The source of the bytes failed before a format was known.
    #[error("the trace cannot be read: {0}")]
    Source(io::Error),
    /// There is nothing in the file.
    #[error("the trace is empty: 0 bytes")]
    Empty,
    /// The content is none of the known formats.
    #[error(
        "the format of the trace is not known: {problem}; known are {}; other rows and columns are \
         read if `columns` describes them, as in {EXAMPLE}",
        Format::LIST
    )]
    UnrecognisedFormat {
        /// What the content begins with.
        problem: String,
    },
    /// A record is damaged, or the file is cut.
    #[error("{format} trace, {at}: {problem}")]
    Damaged {
        /// The format the file was found to have.
        format: Format,
        /// Where.
        at: Position,
        /// What was wrong and what is allowed.
        problem: String,
    },
    /// A setting is out of range.
    #[error("{0}")]
    Setting(String),
    /// A format is asked for that does not exist.
    #[error(transparent)]
    UnknownFormat(#[from] UnknownFormat),
    /// The records do not fit the format asked for.
    #[error("record {record} cannot be written as {format}: {problem}")]
    Unwritable {
        /// The format asked for.
        format: Format,
        /// Number of the record, from 1.
        record: u64,
        /// What does not fit.
        problem: String,
    },
    /// The caller asked to stop.
    #[error("stopped on request")]
    Stopped,
}

impl TraceError {
    /// The same error, with `path` if the trace came from a file.
    pub(crate) fn within(self, path: Option<&Path>) -> Self {
        match path {
            Some(path) => Self::InFile { path: path.to_owned(), error: Box::new(self) },
            None => self,
        }
    }
}

/// A fault as a format's parser sees it; the reader adds the format and the record's number.
#[derive(Debug)]
pub(crate) struct Fault {
    /// First byte of the record at fault.
    pub byte: u64,
    /// Its line, for text.
    pub line: Option<u64>,
    /// What was wrong and what is allowed.
    pub problem: String,
}

impl Fault {
    /// A fault in a binary record that begins at `byte`.
    pub fn at_byte(byte: u64, problem: impl Into<String>) -> Self {
        Self { byte, line: None, problem: problem.into() }
    }
}

/// Bytes of a trace in a message: printable, cut, quoted.
pub(crate) fn show(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 60;
    let cut = bytes.len() > SHOWN_BYTES;
    let text = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii();
    format!("\"{text}{}\"", if cut { "..." } else { "" })
}
