//! The interfaces of a format: decoder and encoder.

use std::io::{self, Write};

use crate::error::Fault;
use crate::sink::Sink;
use crate::{Input, Record};

/// Records decoded at a time, so that dynamic dispatch costs nothing per record.
pub(super) const BATCH: usize = 2048;

/// Turns the bytes of one format into records.
pub(crate) trait Decode: Send {
    /// Put the next records (about [`BATCH`]) into `sink`; false at the regular end of the content.
    ///
    /// Time stamps are nanoseconds from any origin.
    fn batch(&mut self, input: &mut Input, sink: &mut Sink) -> Result<bool, Fault>;
}

/// Writes records in one format.
pub(crate) trait Encode {
    /// Write one record; an error says what the format cannot hold.
    fn record(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), EncodeError>;

    /// Write what ends the file.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// Why a record was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncodeError {
    /// The format has no place for it.
    #[error("{0}")]
    Unwritable(String),
    /// The target failed.
    #[error(transparent)]
    Target(#[from] io::Error),
}
