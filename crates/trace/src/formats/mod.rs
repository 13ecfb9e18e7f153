//! One file for each format, all of one shape.
//!
//! A format has `recognise` (does this beginning look like it?), a decoder (bytes in, a batch of
//! records out) and, where `convert` can write it, an encoder. To add one, copy the nearest; one of
//! rows with the same columns throughout is a line of the table in [`rows`].

pub(crate) mod blkparse;
mod codec;
pub(crate) mod detect;
pub(crate) mod disksim;
pub(crate) mod fio;
mod msr;
pub(crate) mod rows;
pub(crate) mod srt;
mod text;
pub(crate) mod vscsi;
pub(crate) mod wtrace;

use crate::Format;
pub(crate) use codec::{Decode, Encode, EncodeError};

/// The decoder of a format; none for [`Format::Columns`], which takes more than a name.
pub(crate) fn decoder(format: Format) -> Option<Box<dyn Decode>> {
    Some(match format {
        Format::Vscsi => Box::new(vscsi::Decoder::new(vscsi::Version::One)),
        Format::Vscsi2 => Box::new(vscsi::Decoder::new(vscsi::Version::Two)),
        Format::DiskSim => Box::new(text::Lines::new(disksim::Parser::default())),
        Format::Srt => Box::new(srt::Decoder::default()),
        Format::Fio2 | Format::Fio3 => Box::new(text::Lines::new(fio::Parser::new(format))),
        Format::Blkparse => Box::new(blkparse::Decoder::default()),
        Format::Wtrace => Box::new(wtrace::Decoder::default()),
        Format::Msr
        | Format::Alibaba
        | Format::Tencent
        | Format::Systor17
        | Format::Spc
        | Format::Fiu => rows::decoder(format)?,
        Format::Columns => return None,
    })
}

/// The encoder of a format, if it can be written.
pub(crate) fn encoder(format: Format) -> Option<Box<dyn Encode>> {
    Some(match format {
        Format::Vscsi => Box::new(vscsi::Encoder::default()),
        Format::Msr => Box::new(msr::Encoder),
        Format::Fio2 | Format::Fio3 => Box::new(fio::Encoder::new(format)),
        Format::Wtrace => Box::new(wtrace::Encoder::default()),
        Format::Vscsi2
        | Format::DiskSim
        | Format::Srt
        | Format::Alibaba
        | Format::Tencent
        | Format::Systor17
        | Format::Spc
        | Format::Fiu
        | Format::Blkparse
        | Format::Columns => return None,
    })
}
