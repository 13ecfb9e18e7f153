//! MSR Cambridge traces (SNIA IOTTA 388), CSV.
//!
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: the time is Windows file time in
//! ticks of 100 ns, `Type` is `Read` or `Write`, offset and size are in bytes. The device is the
//! disk number; the files hold one host each. A header line may stand first.

use std::io::{self, Write};

use super::text::{ParseLine, columns, first_line, time_ns, whole, whole_32};
use super::{Encode, EncodeError};
use crate::form::show;
use crate::sink::Sink;
use crate::{Form, Kind, Record};

const COLUMNS: usize = 7;
const TICK_NS: u64 = 100;
/// 1970-01-01 in Windows file time: what we write for the first request of a trace.
const UNIX_EPOCH_TICKS: u64 = 116_444_736_000_000_000;

/// Whether the first line has the columns.
pub(crate) fn recognise(head: &[u8]) -> Option<Form> {
    let fields = columns::<COLUMNS>(first_line(head)).ok()?;
    let data = whole(fields[0], "").is_ok() && kind(fields[3]).is_ok();
    (data || is_header(&fields)).then_some(Form::Msr)
}

fn is_header(fields: &[&[u8]; COLUMNS]) -> bool {
    fields[0].eq_ignore_ascii_case(b"timestamp") && fields[3].eq_ignore_ascii_case(b"type")
}

fn kind(field: &[u8]) -> Result<Kind, String> {
    if field.eq_ignore_ascii_case(b"read") {
        Ok(Kind::Read)
    } else if field.eq_ignore_ascii_case(b"write") {
        Ok(Kind::Write)
    } else {
        Err(format!("Type is {}; Read or Write is needed", show(field)))
    }
}

/// Reads a line.
pub(crate) struct Parser;

impl ParseLine for Parser {
    fn line(&mut self, text: &[u8], first: bool, sink: &mut Sink) -> Result<(), String> {
        let fields = columns::<COLUMNS>(text)?;
        if first && is_header(&fields) {
            return Ok(());
        }
        // Not used, but a file that is cut within its last line shows here.
        whole(fields[6], "ResponseTime")?;
        sink.push(Record {
            time_ns: time_ns(whole(fields[0], "Timestamp")?, TICK_NS)?,
            device: whole_32(fields[2], "DiskNumber")?,
            kind: kind(fields[3])?,
            offset_bytes: whole(fields[4], "Offset")?,
            bytes: whole_32(fields[5], "Size")?,
        })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    #[test]
    fn lines_become_records() {
        let text = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n\
                    128166372003061629,src1,2,Read,7014609920,24576,41286\r\n\
                    128166372003071629,src1,2,write,512,4096,1\r\n";
        let mut reader = Reader::from_bytes(text).expect("recognised");
        assert_eq!(reader.form(), Form::Msr);
        let records: Vec<_> = reader.by_ref().map(|r| r.expect("sound")).collect();
        let device = 2;
        assert_eq!(
            records,
            [
                Record {
                    time_ns: 0,
                    offset_bytes: 7_014_609_920,
                    bytes: 24_576,
                    device,
                    kind: Kind::Read
                },
                Record {
                    time_ns: 1_000_000,
                    offset_bytes: 512,
                    bytes: 4096,
                    device,
                    kind: Kind::Write
                },
            ]
        );
    }

    #[test]
    fn a_damaged_line_is_named() {
        let text = "1,h,0,Read,0,512,0\n2,h,0,Red,0,512,0\n";
        let message = Reader::from_bytes(text)
            .expect("recognised")
            .find_map(Result::err)
            .expect("damaged")
            .to_string();
        assert_eq!(
            message,
            "msr trace, record 2 (line 2, byte 19): Type is \"Red\"; Read or Write is needed"
        );
    }
}
