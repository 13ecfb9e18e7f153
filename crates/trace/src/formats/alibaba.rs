//! Alibaba block traces (github.com/alibaba/block-traces), CSV.
//!
//! `device_id,opcode,offset,length,timestamp`: `opcode` is `R` or `W`, offset and length are in
//! bytes, the time is in microseconds. The files have no header line; one is taken if it is there.

use super::text::{ParseLine, columns, first_line, time_ns, whole, whole_32};
use crate::form::show;
use crate::sink::Sink;
use crate::{Form, Kind, Record};

const COLUMNS: usize = 5;
const MICROSECOND_NS: u64 = 1_000;

/// Whether the first line has the columns; the letter tells it from Tencent's.
pub(crate) fn recognise(head: &[u8]) -> Option<Form> {
    let fields = columns::<COLUMNS>(first_line(head)).ok()?;
    let data = whole(fields[0], "").is_ok() && kind(fields[1]).is_ok();
    (data || is_header(&fields)).then_some(Form::Alibaba)
}

fn is_header(fields: &[&[u8]; COLUMNS]) -> bool {
    fields[0].eq_ignore_ascii_case(b"device_id") && fields[1].eq_ignore_ascii_case(b"opcode")
}

fn kind(field: &[u8]) -> Result<Kind, String> {
    match field {
        b"R" | b"r" => Ok(Kind::Read),
        b"W" | b"w" => Ok(Kind::Write),
        _ => Err(format!("opcode is {}; R or W is needed", show(field))),
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
        sink.push(Record {
            device: whole_32(fields[0], "device_id")?,
            kind: kind(fields[1])?,
            offset_bytes: whole(fields[2], "offset")?,
            bytes: whole_32(fields[3], "length")?,
            time_ns: time_ns(whole(fields[4], "timestamp")?, MICROSECOND_NS)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    #[test]
    fn lines_become_records() {
        let text = "419,W,8792731648,16384,1577808144360767\n725,R,0,512,1577808144360813\n";
        let mut reader = Reader::from_bytes(text).expect("recognised");
        assert_eq!(reader.form(), Form::Alibaba);
        let records: Vec<_> = reader.by_ref().map(|r| r.expect("sound")).collect();
        let kind = Kind::Write;
        let offset_bytes = 8_792_731_648;
        assert_eq!(
            records[0],
            Record { time_ns: 0, offset_bytes, bytes: 16_384, device: 419, kind }
        );
        assert_eq!(records[1].time_ns, 46_000);
    }
}
