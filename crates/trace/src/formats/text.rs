//! Shared by the line-oriented formats: fields, numbers and the loop over lines.

use super::codec::{BATCH, Decode};
use crate::columns::{SECTORS, Unit};
use crate::error::{Fault, show};
use crate::input::{Line, unmarked};
use crate::sink::Sink;
use crate::{Input, Kind, Record};

/// Reads one line of a format.
pub(super) trait ParseLine: Send {
    /// The part of a line that is read.
    fn text<'a>(&self, line: &Line<'a>) -> &'a [u8] {
        line.text
    }

    /// Put what the line holds into `sink`. `first` marks the first line that is not empty.
    fn line(&mut self, text: &[u8], first: bool, sink: &mut Sink) -> Result<(), String>;
}

/// A decoder out of a parser of lines. Empty lines are passed over.
pub(super) struct Lines<P> {
    parser: P,
    first: bool,
}

impl<P: ParseLine> Lines<P> {
    pub fn new(parser: P) -> Self {
        Self { parser, first: true }
    }
}

impl<P: ParseLine> Decode for Lines<P> {
    fn batch(&mut self, input: &mut Input, sink: &mut Sink) -> Result<bool, Fault> {
        for _ in 0..BATCH {
            let Some(line) = input.line()? else { return Ok(false) };
            if line.text.is_empty() {
                continue;
            }
            let first = std::mem::take(&mut self.first);
            self.parser
                .line(self.parser.text(&line), first, sink)
                .map_err(|problem| line.fault(problem))?;
        }
        Ok(true)
    }
}

/// The fields of a line between blanks.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// A whole number without sign.
pub(super) fn whole(field: &[u8], name: &str) -> Result<u64, String> {
    let bad = || format!("{name} is {}; a whole number below 2^64 is needed", show(field));
    if field.is_empty() {
        return Err(bad());
    }
    field.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(bad());
        }
        value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit))).ok_or_else(bad)
    })
}

/// A whole number that fits 32 bits.
pub(super) fn whole_32(field: &[u8], name: &str) -> Result<u32, String> {
    let value = whole(field, name)?;
    u32::try_from(value).map_err(|_| format!("{name} is {value}; at most {} is taken", u32::MAX))
}

/// A decimal number in units of `10^-digits`, further digits cut off: "1.5" with 9 is 1,500,000,000.
pub(super) fn decimal(field: &[u8], digits: u32, name: &str) -> Result<u64, String> {
    let bad = || format!("{name} is {}; a decimal number such as 12.25 is needed", show(field));
    let point = field.iter().position(|&byte| byte == b'.');
    let (integer, fraction) = match point {
        Some(at) => (&field[..at], &field[at + 1..]),
        None => (field, &b""[..]),
    };
    if integer.is_empty() && fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return Err(bad());
    }
    let scale = 10u64.pow(digits);
    let integer = if integer.is_empty() { 0 } else { whole(integer, name).map_err(|_| bad())? };
    let mut unit = scale;
    let mut small = 0;
    for &byte in fraction.iter().take(digits as usize) {
        unit /= 10;
        small += u64::from(byte - b'0') * unit;
    }
    integer.checked_mul(scale).and_then(|value| value.checked_add(small)).ok_or_else(bad)
}

/// A time in nanoseconds out of a count of `unit_ns`.
pub(super) fn time_ns(count: u64, unit_ns: u64) -> Result<u64, String> {
    count.checked_mul(unit_ns).ok_or_else(|| {
        format!("the time {count} is too large; at most {} is taken", u64::MAX / unit_ns)
    })
}

/// The number of a device, `major << 20 | minor` as the kernel has it.
pub(super) fn device_of(major: u64, minor: u64) -> Result<u32, String> {
    const MINOR_BITS: u32 = 20;
    const MAJOR_MAX: u64 = 0xfff;
    const MINOR_MAX: u64 = (1 << MINOR_BITS) - 1;
    if major > MAJOR_MAX || minor > MINOR_MAX {
        return Err(format!(
            "the device is {major},{minor}; at most {MAJOR_MAX},{MINOR_MAX} is taken"
        ));
    }
    Ok((major << MINOR_BITS | minor) as u32)
}

/// A record whose offset and length are counted in sectors.
pub(super) fn of_sectors(
    time_ns: u64,
    device: u32,
    kind: Kind,
    first: u64,
    count: u64,
) -> Result<Record, String> {
    let (bytes, offset_bytes) = (length(count, SECTORS)?, offset(first, SECTORS)?);
    Ok(Record { time_ns, offset_bytes, bytes, device, kind })
}

/// A length in bytes out of a count of `unit`.
pub(super) fn length(count: u64, unit: Unit) -> Result<u32, String> {
    let bytes = count.checked_mul(unit.bytes).and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or_else(|| {
        let most = u64::from(u32::MAX) / unit.bytes;
        format!("{count} {} in one request; at most {most} are taken", unit.name)
    })
}

/// An offset in bytes out of a count of `unit`.
pub(super) fn offset(count: u64, unit: Unit) -> Result<u64, String> {
    count.checked_mul(unit.bytes).ok_or_else(|| {
        let most = u64::MAX / unit.bytes;
        format!("the offset of {count} {} is too large; at most {most} is taken", unit.name)
    })
}

/// The first complete line of a beginning that is not empty.
pub(super) fn first_line(head: &[u8]) -> &[u8] {
    let mut lines = unmarked(head).split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly_or_refused() {
        assert_eq!(whole(b"18446744073709551615", "x"), Ok(u64::MAX));
        assert!(whole(b"18446744073709551616", "x").is_err());
        assert!(whole(b"", "x").is_err());
        assert!(whole(b"-1", "x").is_err());
        assert_eq!(decimal(b"12.25", 9, "x"), Ok(12_250_000_000));
        assert_eq!(decimal(b".5", 3, "x"), Ok(500));
        assert_eq!(decimal(b"7.", 3, "x"), Ok(7000));
        assert_eq!(decimal(b"0.0000000019", 9, "x"), Ok(1));
        assert!(decimal(b".", 9, "x").is_err());
        assert!(decimal(b"1.2.3", 9, "x").is_err());
        assert!(decimal(b"1e3", 9, "x").is_err());
        assert!(decimal(b"99999999999999999999", 9, "x").is_err());
    }
}
