//! DiskSim ASCII traces: `time device block count flags`, blanks between.
//!
//! Block and count are in sectors of 512 bytes; bit 0 of `flags` (hexadecimal) marks a read. Two
//! users of the format disagree about time: DiskSim itself has milliseconds with decimals, MQSim
//! whole nanoseconds. The first line decides: a decimal point means milliseconds.

use super::text::{ParseLine, decimal, first_line, of_sectors, whole, whole_32, words};
use crate::error::show;
use crate::sink::Sink;
use crate::{Format, Kind};

const COLUMNS: usize = 5;
/// Digits of a millisecond down to the nanosecond.
const MILLISECOND_DIGITS: u32 = 6;

/// Whether the first line has five numbers.
pub(crate) fn recognise(head: &[u8]) -> Option<Format> {
    let mut sink = Sink::default();
    Parser::default().line(first_line(head), true, &mut sink).ok()?;
    Some(Format::DiskSim)
}

/// Reads a line.
#[derive(Default)]
pub(crate) struct Parser {
    in_milliseconds: bool,
}

impl ParseLine for Parser {
    fn line(&mut self, text: &[u8], first: bool, sink: &mut Sink) -> Result<(), String> {
        let mut fields = [&b""[..]; COLUMNS];
        let mut count = 0;
        for word in words(text) {
            if count < COLUMNS {
                fields[count] = word;
            }
            count += 1;
        }
        if count != COLUMNS {
            return Err(format!("{count} columns in {}; {COLUMNS} are needed", show(text)));
        }
        if first {
            self.in_milliseconds = fields[0].contains(&b'.');
        }
        let time_ns = if self.in_milliseconds {
            decimal(fields[0], MILLISECOND_DIGITS, "the time in ms")?
        } else {
            whole(fields[0], "the time in ns")?
        };
        sink.push(of_sectors(
            time_ns,
            whole_32(fields[1], "the device")?,
            kind(fields[4])?,
            whole(fields[2], "the block")?,
            whole(fields[3], "the count of sectors")?,
        )?)
    }
}

fn kind(field: &[u8]) -> Result<Kind, String> {
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    let flags =
        std::str::from_utf8(digits).ok().and_then(|text| u32::from_str_radix(text, 16).ok());
    match flags {
        Some(flags) if flags & 1 == 1 => Ok(Kind::Read),
        Some(_) => Ok(Kind::Write),
        None => Err(format!("the flags are {}; a hexadecimal number is needed", show(field))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    fn times_ns(text: &str) -> Vec<u64> {
        let reader = Reader::from_bytes(text).expect("recognised");
        assert_eq!(reader.format(), Format::DiskSim);
        reader.map(|record| record.expect("sound").time_ns).collect()
    }

    #[test]
    fn the_first_time_decides_about_the_unit() {
        assert_eq!(times_ns("0.000 0 8 16 1\n2.5 0 8 16 0\n"), [0, 2_500_000]);
        assert_eq!(times_ns("938513000 4 264719034 16 0\n938828000 3 8 16 1\n"), [0, 315_000]);
    }

    #[test]
    fn sectors_and_flags_are_understood() {
        let text = "0.0 3 8 16 1\n0.0 3 8 16 0x2\n";
        let records: Vec<_> = Reader::from_bytes(text).expect("recognised").collect();
        let first = records[0].as_ref().expect("sound");
        assert_eq!((first.offset_bytes, first.bytes, first.device), (4096, 8192, 3));
        assert_eq!(first.kind, Kind::Read);
        assert_eq!(records[1].as_ref().expect("sound").kind, Kind::Write);
    }
}
