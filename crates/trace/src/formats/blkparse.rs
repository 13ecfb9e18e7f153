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
//!
//! Times count from the earliest event that blkparse had met when it began to print (`genesis_time`
//! in `blkparse.c`). An event of another processor may be earlier still; its time has wrapped below
//! zero as a 64-bit count of nanoseconds, and its seconds are printed as an `int` (`process_default`
//! in `blkparse_fmt.c`): one nanosecond before is `1266874889.709551615`. Such times, the uncut
//! `18446744073.709551615` and a plain `-0.000000001` are all read as what they are.

use super::codec::{BATCH, Decode};
use super::text::{decimal, device_of, first_line, of_sectors, whole, words};
use crate::error::Fault;
use crate::error::show;
use crate::input::SNIFF_BYTES;
use crate::sink::{BACKWARDS_NS_MAX, Sink};
use crate::{Format, Input, Kind};

/// Digits of a second down to the nanosecond.
const SECOND_DIGITS: u32 = 9;
const SECOND_NS: u128 = 1_000_000_000;
/// Farthest before blkparse's zero that a time is taken for a wrapped one; also where that zero
/// stands in the time stamps given on, so that none of them is negative.
const ZERO_NS: u64 = BACKWARDS_NS_MAX;
/// By how early in a request's life they come.
const ACTIONS: [&[u8]; 4] = [b"Q", b"I", b"D", b"C"];
const ACTION_FIELD: usize = 5;

/// Whether the first line begins with a device, a processor, a sequence number and a time.
pub(crate) fn recognise(head: &[u8]) -> Option<Format> {
    let mut fields = words(first_line(head));
    device(fields.next()?).ok()?;
    whole(fields.next()?, "").ok()?;
    whole(fields.next()?, "").ok()?;
    time_ns(fields.next()?).ok()?;
    Some(Format::Blkparse)
}

/// The time in nanoseconds, [`ZERO_NS`] where blkparse has zero.
fn time_ns(field: &[u8]) -> Result<u64, String> {
    let late = || format!("the time in s is {}; it is too large", show(field));
    let early = || {
        let most = ZERO_NS / 1_000_000_000;
        format!("the time in s is {}; at most {most} s before zero are taken", show(field))
    };
    let name = "the time in s";
    if let Some(size) = field.strip_prefix(b"-") {
        return ZERO_NS.checked_sub(decimal(size, SECOND_DIGITS, name)?).ok_or_else(early);
    }
    let printed_ns = decimal(field, SECOND_DIGITS, name)?;
    let before_ns = wrapped(printed_ns).filter(|&before_ns| before_ns <= ZERO_NS);
    match before_ns {
        Some(before_ns) => Ok(ZERO_NS - before_ns),
        None => printed_ns.checked_add(ZERO_NS).ok_or_else(late),
    }
}

/// How far before zero a printed time was, if it has wrapped.
fn wrapped(printed_ns: u64) -> Option<u64> {
    /// Seconds that the cast to `int` cuts off a small negative time: the bits above the 32nd of
    /// `2^64 ns`.
    const CUT_NS: u128 = (((1u128 << 64) / SECOND_NS) >> 32 << 32) * SECOND_NS;
    let printed_ns = u128::from(printed_ns);
    let whole_ns = if printed_ns >= CUT_NS { printed_ns } else { printed_ns + CUT_NS };
    (1u128 << 64).checked_sub(whole_ns).and_then(|before_ns| u64::try_from(before_ns).ok())
}

fn device(field: &[u8]) -> Result<u32, String> {
    let bad = || format!("the device is {}; major,minor such as 8,0 is needed", show(field));
    let comma = field.iter().position(|&byte| byte == b',').ok_or_else(bad)?;
    let major = whole(&field[..comma], "").map_err(|_| bad())?;
    let minor = whole(&field[comma + 1..], "").map_err(|_| bad())?;
    device_of(major, minor)
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
    let time_ns = time_ns(next("the time")?)?;
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
        assert_eq!(reader.format(), Format::Blkparse);
        let records: Vec<_> = reader.by_ref().map(|r| r.expect("sound")).collect();
        assert_eq!(records.len(), 3);
        assert_eq!((records[0].offset_bytes, records[0].bytes), (223_490 * 512, 4096));
        assert_eq!((records[1].kind, records[1].device), (Kind::Read, 8 << 20));
        assert_eq!(records[1].time_ns, 500_000_000 - 1_829);
        assert_eq!((reader.skipped().flushes, reader.skipped().discards), (1, 1));
    }

    /// Real files begin with times that have wrapped below zero, and were refused: "time goes back by
    /// 1266874889.709 s". The second and the fourth line are as blkparse prints them.
    #[test]
    fn times_before_zero_are_read_and_put_in_order() {
        let text = "259,0 13 1 0.000000000 1 Q WS 8 + 8 [fio]\n\
                    259,0  3 1 1266874889.709450585 2 Q WS 16 + 8 [fio]\n\
                    259,0 13 2 0.000084247 1 Q WS 24 + 8 [fio]\n\
                    259,0  3 2 1266874889.709551615 2 Q WS 32 + 8 [fio]\n\
                    259,0  4 1 18446744073.709551613 3 Q R 40 + 8 [fio]\n\
                    259,0  5 1 -0.000000002 3 Q R 48 + 8 [fio]\n";
        let records: Vec<_> =
            Reader::from_bytes(text).expect("recognised").map(|r| r.expect("sound")).collect();
        let seen: Vec<_> = records.iter().map(|r| (r.time_ns, r.offset_bytes / 512)).collect();
        let zero = 1_000_000_000 - 709_450_585 - 290_448_384;
        assert_eq!(zero, 101_031);
        assert_eq!(
            seen,
            [
                (0, 16),
                (zero - 3, 40),
                (zero - 2, 48),
                (zero - 1, 32),
                (zero, 8),
                (zero + 84_247, 24)
            ]
        );
    }

    #[test]
    fn a_file_that_begins_before_zero_is_recognised() {
        for first in ["-0.5", "1266874889.209551616", "18446744073.209551616"] {
            let text = format!("8,0 0 1 {first} 1 Q R 8 + 8 [x]\n8,0 1 1 0.25 1 Q R 8 + 8 [x]\n");
            let times: Vec<_> = Reader::from_bytes(text)
                .expect("recognised")
                .map(|record| record.expect("sound").time_ns)
                .collect();
            assert_eq!(times, [0, 750_000_000], "{first}");
        }
    }

    proptest::proptest! {
        /// What blkparse's own arithmetic prints for a time before zero reads back as that time.
        #[test]
        fn a_wrapped_time_reads_back(before_ns in 0..=ZERO_NS, cast in proptest::bool::ANY) {
            let printed_ns = 0u64.wrapping_sub(before_ns);
            let seconds = printed_ns / 1_000_000_000;
            let nanos = printed_ns % 1_000_000_000;
            // `before_ns` is too small for the sign bit of the `int` to be set.
            let shown = if cast { u64::from(seconds as u32) } else { seconds };
            let read = time_ns(format!("{shown}.{nanos:09}").as_bytes());
            proptest::prop_assert_eq!(read, Ok(ZERO_NS - before_ns));
        }

        /// No time of a trace of up to forty years is mistaken for a wrapped one.
        #[test]
        fn a_time_after_zero_is_not_wrapped(ns in 0..1_266_874_829_000_000_000u64) {
            let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            proptest::prop_assert_eq!(time_ns(text.as_bytes()), Ok(ZERO_NS + ns));
        }
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
            ("4096,0 0 2 0.2 1 Q R 8 + 8 [x]", "is 4096,0; at most 4095,1048575 is taken"),
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
