//! Writes MSR Cambridge traces; [`rows`](super::rows) reads them.

use std::io::{self, Write};

use super::codec::{Encode, EncodeError};
use crate::{Kind, Record};

const TICK_NS: u64 = 100;
/// 1970-01-01 in Windows file time: written for the first request of a trace.
const UNIX_EPOCH_TICKS: u64 = 116_444_736_000_000_000;

/// Writes lines. Time is cut to 100 ns and counted from 1970; the response time is not known: 0.
pub(crate) struct Encoder;

impl Encode for Encoder {
    fn record(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), EncodeError> {
        let ticks = UNIX_EPOCH_TICKS + record.time_ns / TICK_NS;
        let kind = match record.kind {
            Kind::Read => "Read",
            Kind::Write => "Write",
        };
        let Record { device, offset_bytes, bytes, .. } = record;
        Ok(writeln!(out, "{ticks},wattio,{device},{kind},{offset_bytes},{bytes},0")?)
    }

    fn finish(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
