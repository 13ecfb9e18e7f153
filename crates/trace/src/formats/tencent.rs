//! Tencent block traces (SNIA IOTTA, "Tencent Block Storage"), CSV.
//!
//! `Timestamp,Offset,Size,IOType,VolumeID`: the time is in whole seconds, offset and size are in
//! sectors of 512 bytes, `IOType` is 0 for a read and 1 for a write. Requests of one second share
//! one time stamp, as the trace has it. A header line may stand first.

use super::text::{ParseLine, columns, first_line, of_sectors, time_ns, whole, whole_32};
use crate::form::show;
use crate::sink::Sink;
use crate::{Form, Kind};

const COLUMNS: usize = 5;
const SECOND_NS: u64 = 1_000_000_000;

/// Whether the first line has the columns; numbers alone tell it from Alibaba's.
pub(crate) fn recognise(head: &[u8]) -> Option<Form> {
    let fields = columns::<COLUMNS>(first_line(head)).ok()?;
    let data = fields.iter().all(|field| whole(field, "").is_ok()) && kind(fields[3]).is_ok();
    (data || is_header(&fields)).then_some(Form::Tencent)
}

fn is_header(fields: &[&[u8]; COLUMNS]) -> bool {
    fields[0].eq_ignore_ascii_case(b"timestamp") && fields[3].eq_ignore_ascii_case(b"iotype")
}

fn kind(field: &[u8]) -> Result<Kind, String> {
    match field {
        b"0" => Ok(Kind::Read),
        b"1" => Ok(Kind::Write),
        _ => Err(format!("IOType is {}; 0 (read) or 1 (write) is needed", show(field))),
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
        sink.push(of_sectors(
            time_ns(whole(fields[0], "Timestamp")?, SECOND_NS)?,
            whole_32(fields[4], "VolumeID")?,
            kind(fields[3])?,
            whole(fields[1], "Offset")?,
            whole(fields[2], "Size")?,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reader, Record};

    #[test]
    fn lines_become_records() {
        let text = "1538323200,12910952,128,0,1063\n1538323202,6338688,8,1,1627\n";
        let mut reader = Reader::from_bytes(text).expect("recognised");
        assert_eq!(reader.form(), Form::Tencent);
        let records: Vec<_> = reader.by_ref().map(|r| r.expect("sound")).collect();
        let (kind, offset_bytes) = (Kind::Read, 12_910_952 * 512);
        assert_eq!(
            records[0],
            Record { time_ns: 0, offset_bytes, bytes: 65_536, device: 1063, kind }
        );
        assert_eq!(records[1].time_ns, 2 * SECOND_NS);
    }
}
