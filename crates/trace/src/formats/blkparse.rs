//! Text of `blkparse` in its default form (blktrace package, `blkparse(1)`).
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
//! maj,min cpu sequence  seconds         pid action rwbs sector + sectors [process]
//! ```
//!
//! One request passes through several actions. The first of Q (queued: it arrives), I (inserted),
//! D (issued), C (completed) that occurs in the first 64 KiB is the one that is counted; the other
//! lines are about the same requests and are passed over. `rwbs` has R or W for reads and writes, D
//! for a discard, F for a flush; a flush before a write (`FWS`) is a record with its data. The
//! summary at the end (from the first line that begins with `CPU` or `Total`) is passed over.
//!
//! The device number is `major << 20 | minor`, as the kernel has it.

use super::text::{decimal, first_line, of_sectors, whole, words};
use super::{BATCH, Decode};
use crate::error::Fault;
use crate::form::{SNIFF_BYTES, show};
use crate::sink::Sink;
use crate::{Form, Input, Kind};

/// Digits of a second down to the nanosecond.
const SECOND_DIGITS: u32 = 9;
const MINOR_BITS: u32 = 20;
const MAJOR_MAX: u64 = 0xfff;
/// By how early in a request's life they come.
const ACTIONS: [&[u8]; 4] = [b"Q", b"I", b"D", b"C"];
const ACTION_FIELD: usize = 5;

/// Whether the first line begins with a device, a processor, a sequence number and a time.
pub(crate) fn recognise(head: &[u8]) -> Option<Form> {
    let mut fields = words(first_line(head));
    device(fields.next()?).ok()?;
    whole(fields.next()?, "").ok()?;
    whole(fields.next()?, "").ok()?;
    decimal(fields.next()?, SECOND_DIGITS, "").ok()?;
    Some(Form::Blkparse)
}

fn device(field: &[u8]) -> Result<u32, String> {
    let bad = || format!("the device is {}; major,minor such as 8,0 is needed", show(field));
    let comma = field.iter().position(|&byte| byte == b',').ok_or_else(bad)?;
    let major = whole(&field[..comma], "").map_err(|_| bad())?;
    let minor = whole(&field[comma + 1..], "").map_err(|_| bad())?;
    if major > MAJOR_MAX || minor >= 1 << MINOR_BITS {
        return Err(bad());
    }
    Ok((major << MINOR_BITS | minor) as u32)
}

/// Reads lines of one action.
#[derive(Default)]
pub(crate) struct Decoder {
    /// Which action is counted; absent until the beginning was looked at.
    action: Option<&'static [u8]>,
    in_summary: bool,
}

impl Decode for Decoder {
    fn batch(&mut self, input: &mut Input, sink: &mut Sink) -> Result<bool, Fault> {
        let action = match self.action {
            Some(action) => action,
            None => *self.action.insert(choose(input.fill_or_fault(SNIFF_BYTES)?)),
        };
        for _ in 0..BATCH {
            let Some(line) = input.line()? else { return Ok(false) };
            let text = line.text;
            if text.starts_with(b"CPU") || text.starts_with(b"Total") {
                self.in_summary = true;
            }
            let is_event = text.first().is_some_and(u8::is_ascii_digit);
            if text.is_empty() || self.in_summary && !is_event {
                continue;
            }
            take(text, action, sink).map_err(|problem| line.fault(problem))?;
        }
        Ok(true)
    }
}

/// The earliest action that occurs.
fn choose(head: &[u8]) -> &'static [u8] {
    let mut found = ACTIONS.len() - 1;
    for line in head.split(|&byte| byte == b'\n') {
        let action = words(line).nth(ACTION_FIELD).unwrap_or_default();
        if let Some(rank) = ACTIONS.iter().position(|&known| known == action) {
            found = found.min(rank);
        }
    }
    ACTIONS[found]
}

fn take(text: &[u8], counted: &[u8], sink: &mut Sink) -> Result<(), String> {
    let mut fields = words(text);
    let mut next =
        |name: &str| fields.next().ok_or_else(|| format!("{name} is missing in {}", show(text)));
    let device = device(next("the device")?)?;
    next("the processor")?;
    next("the sequence number")?;
    let time_ns = decimal(next("the time")?, SECOND_DIGITS, "the time in s")?;
    next("the process")?;
    let action = next("the action")?;
    if action.len() > 2 || !action.iter().all(u8::is_ascii_alphabetic) {
        return Err(format!("the action is {}; one or two letters are needed", show(action)));
    }
    if action != counted {
        return Ok(());
    }
    let rwbs = next("the kind (rwbs)")?;
    let has = |letter: u8| rwbs.contains(&letter);
    if has(b'D') {
        sink.skip(|skipped| &mut skipped.discards);
        return Ok(());
    }
    let first = next("the sector");
    let extent = match first {
        Ok(sector) if sector.first().is_some_and(u8::is_ascii_digit) => {
            let sector = whole(sector, "the sector")?;
            match next("the plus sign") {
                Ok(b"+") => Some((sector, whole(next("the sectors")?, "the sectors")?)),
                _ => return Err(format!("no \"+ sectors\" after the sector in {}", show(text))),
            }
        }
        _ => None,
    };
    let kind = match (has(b'R'), has(b'W')) {
        (true, false) => Kind::Read,
        (false, true) => Kind::Write,
        _ if has(b'F') || has(b'N') => {
            sink.skip(|skipped| if has(b'F') { &mut skipped.flushes } else { &mut skipped.others });
            return Ok(());
        }
        _ => return Err(format!("the kind is {}; R or W is needed", show(rwbs))),
    };
    match extent {
        Some((first, count)) if count > 0 || !has(b'F') => {
            sink.push(of_sectors(time_ns, device, kind, first, count)?)?;
        }
        _ if has(b'F') => sink.skip(|skipped| &mut skipped.flushes),
        _ => return Err(format!("no sector in {}", show(text))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    #[test]
    fn arrivals_are_counted_once() {
        let text = "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n\
                    8,0 3 2 0.000001829 697 Q W 223490 + 8 [kjournald]\n\
                    8,0 3 3 0.000002 697 P N [kjournald]\n\
                    8,0 3 4 0.5 697 Q RA 8 + 16 [a b]\n\
                    8,0 3 5 0.6 0 D R 8 + 16 [x]\n\
                    8,0 3 6 0.7 0 Q FN [x]\n\
                    8,0 3 7 0.8 0 Q FWS 16 + 8 [x]\n\
                    8,0 3 8 0.9 0 Q D 16 + 8 [x]\n\
                    8,0 3 0 0.95 0 m N cfq message\n\
                    8,0 3 9 1.0 0 C R 8 + 16 [0]\n\
                    CPU0 (sda):\n Reads Queued: 1, 4KiB\n\nTotal (sda):\n";
        let mut reader = Reader::from_bytes(text).expect("recognised");
        assert_eq!(reader.form(), Form::Blkparse);
        let records: Vec<_> = reader.by_ref().map(|r| r.expect("sound")).collect();
        assert_eq!(records.len(), 3);
        assert_eq!((records[0].offset_bytes, records[0].bytes), (223_490 * 512, 4096));
        assert_eq!((records[1].kind, records[1].device), (Kind::Read, 8 << 20));
        assert_eq!(records[1].time_ns, 500_000_000 - 1_829);
        assert_eq!((reader.skipped().flushes, reader.skipped().discards), (1, 1));
    }

    #[test]
    fn without_arrivals_the_issue_counts() {
        let text = "8,0 0 1 0.1 1 D R 8 + 16 [x]\n8,0 0 2 0.2 1 C R 8 + 16 [0]\n";
        assert_eq!(Reader::from_bytes(text).expect("recognised").count(), 1);
    }

    #[test]
    fn a_damaged_line_is_named() {
        for (line, part) in [
            ("8,0 0 2 0.2 1 Q R 8 +", "the sectors is missing"),
            ("8,0 0 2 0.2 1 Q R [x]", "no sector"),
            ("8,0 0 2 0.2 1 Q X 8 + 8 [x]", "R or W is needed"),
            ("8.0 0 2 0.2 1 Q R 8 + 8 [x]", "major,minor"),
            ("8,0 0 2 nan 1 Q R 8 + 8 [x]", "the time in s is \"nan\""),
        ] {
            let text = format!("8,0 0 1 0.1 1 Q R 8 + 16 [x]\n{line}\n");
            let failure = Reader::from_bytes(text).expect("recognised").find_map(Result::err);
            let message = failure.expect("damaged").to_string();
            assert!(message.contains("record 2 (line 2, byte 29)"), "{message}");
            assert!(message.contains(part), "{message}");
        }
    }
}
