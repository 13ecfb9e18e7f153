//! One file for each format, all of one shape.
//!
//! A format has `recognise` (does this beginning look like it?), a decoder (bytes in, a batch of
//! records out) and, where `convert` can write it, an encoder. To add one, copy the nearest; one of
//! rows with the same columns throughout is a line of the table in [`rows`].

pub(crate) mod blkparse;
pub(crate) mod detect;
pub(crate) mod disksim;
pub(crate) mod fio;
mod msr;
pub(crate) mod rows;
pub(crate) mod srt;
mod text;
pub(crate) mod vscsi;
pub(crate) mod wtrace;

use std::io::{self, Write};

use crate::error::Fault;
use crate::sink::Sink;
use crate::{Form, Input, Record};

/// Records decoded at a time, so that dynamic dispatch costs nothing per record.
const BATCH: usize = 2048;

/// Turns the bytes of one format into records.
pub(crate) trait Decode: Send {
    /// Put the next records (about [`BATCH`]) into `sink`; false at the regular end of the content.
    ///
    /// Time stamps are nanoseconds from any origin.
    fn batch(&mut self, input: &mut Input, sink: &mut Sink) -> Result<bool, Fault>;
}

/// Writes records in one format.
pub(crate) trait Encode {
    /// Write one record; an error tells what of it the format cannot hold.
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

/// The decoder of a form; none of [`Form::Columns`], which is told by more than its name.
pub(crate) fn decoder(form: Form) -> Option<Box<dyn Decode>> {
    Some(match form {
        Form::Vscsi => Box::new(vscsi::Decoder::new(vscsi::Version::One)),
        Form::Vscsi2 => Box::new(vscsi::Decoder::new(vscsi::Version::Two)),
        Form::DiskSim => Box::new(text::Lines::new(disksim::Parser::default())),
        Form::Srt => Box::new(srt::Decoder::default()),
        Form::Fio2 | Form::Fio3 => Box::new(text::Lines::new(fio::Parser::new(form))),
        Form::Blkparse => Box::new(blkparse::Decoder::default()),
        Form::Wtrace => Box::new(wtrace::Decoder::default()),
        Form::Msr | Form::Alibaba | Form::Tencent | Form::Systor17 | Form::Spc | Form::Fiu => {
            rows::decoder(form)?
        }
        Form::Columns => return None,
    })
}

/// The encoder of a form, if it can be written.
pub(crate) fn encoder(form: Form) -> Option<Box<dyn Encode>> {
    Some(match form {
        Form::Vscsi => Box::new(vscsi::Encoder::default()),
        Form::Msr => Box::new(msr::Encoder),
        Form::Fio2 | Form::Fio3 => Box::new(fio::Encoder::new(form)),
        Form::Wtrace => Box::new(wtrace::Encoder::default()),
        Form::Vscsi2
        | Form::DiskSim
        | Form::Srt
        | Form::Alibaba
        | Form::Tencent
        | Form::Systor17
        | Form::Spc
        | Form::Fiu
        | Form::Blkparse
        | Form::Columns => return None,
    })
}
