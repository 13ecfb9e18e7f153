//! fio I/O logs, versions 2 and 3 (fio documentation, "Trace file format").
//!
//! The first line is `fio version 2 iolog` or `fio version 3 iolog`. Then lines
//! `[time] file action [offset length]`:
//!
//! - version 3 has a time in microseconds at the beginning of each line;
//! - version 2 has none: `file wait microseconds` lets time pass since the wait before it, and fio
//!   ignores waits below 100 us, so we do too (fio 3.33 itself waits a thousand times as long as its
//!   manual says; it replays version 3 right);
//! - `add`, `open` and `close` are about files; `read` and `write` are records, offset and length
//!   in bytes; `sync`, `datasync` and `sync_file_range` are flushes, `trim` a discard.
//!
//! The device is the number of the file by its first appearance, from 0.

use std::collections::HashMap;
use std::io::{self, Write};

use super::codec::{Encode, EncodeError};
use super::text::{ParseLine, first_line, time_ns, whole, whole_32, words};
use crate::error::show;
use crate::sink::Sink;
use crate::{Format, Kind, Record};

const HEADER_2: &str = "fio version 2 iolog";
const HEADER_3: &str = "fio version 3 iolog";
const MICROSECOND_NS: u64 = 1_000;
/// fio ignores shorter waits.
const WAIT_US_MIN: u64 = 100;
/// More files than any fio job has; bounds memory on a damaged log.
const FILES_MAX: usize = 65_536;
/// Most fields in a line: time, file, action, offset, length.
const WORDS_MAX: usize = 5;

/// Whether the first line is a header.
pub(crate) fn recognise(head: &[u8]) -> Option<Format> {
    let line = first_line(head);
    if line == HEADER_2.as_bytes() {
        Some(Format::Fio2)
    } else if line == HEADER_3.as_bytes() {
        Some(Format::Fio3)
    } else {
        None
    }
}

/// Reads a line.
pub(crate) struct Parser {
    timed: bool,
    /// Version 2: sum of the waits so far.
    waited_us: u64,
    devices: HashMap<Vec<u8>, u32>,
}

impl Parser {
    pub fn new(format: Format) -> Self {
        Self { timed: format == Format::Fio3, waited_us: 0, devices: HashMap::new() }
    }

    fn device(&mut self, file: &[u8]) -> Result<u32, String> {
        if let Some(&device) = self.devices.get(file) {
            return Ok(device);
        }
        if self.devices.len() >= FILES_MAX {
            return Err(format!("more than {FILES_MAX} files"));
        }
        let device = self.devices.len() as u32;
        self.devices.insert(file.to_vec(), device);
        Ok(device)
    }

    fn wait(&mut self, field: &[u8]) -> Result<(), String> {
        let wait_us = whole(field, "the wait in us")?;
        if wait_us >= WAIT_US_MIN {
            self.waited_us = self
                .waited_us
                .checked_add(wait_us)
                .ok_or_else(|| format!("the waits up to {wait_us} us add up to more than 2^64"))?;
        }
        Ok(())
    }
}

impl ParseLine for Parser {
    fn line(&mut self, text: &[u8], first: bool, sink: &mut Sink) -> Result<(), String> {
        if first {
            return Ok(()); // the header, seen by `recognise`
        }
        let mut fields = [&b""[..]; WORDS_MAX];
        let mut count = 0;
        for word in words(text) {
            *fields.get_mut(count).ok_or_else(|| too_long(text))? = word;
            count += 1;
        }
        let (time_us, fields) = if self.timed {
            (whole(fields[0], "the time in us")?, &fields[1..])
        } else {
            (self.waited_us, &fields[..])
        };
        let arguments = count.saturating_sub(2 + usize::from(self.timed));
        let needed = |wanted: usize| {
            (arguments == wanted).then_some(()).ok_or_else(|| {
                let action = show(fields[1]);
                format!("{arguments} numbers after {action}; {wanted} are needed")
            })
        };
        let kind = match fields[1] {
            b"add" | b"open" | b"close" => {
                needed(0)?;
                return self.device(fields[0]).map(drop);
            }
            b"wait" if !self.timed => return self.wait(fields[2]),
            b"sync" | b"datasync" | b"sync_file_range" => {
                sink.skip(|skipped| &mut skipped.flushes);
                return Ok(());
            }
            b"trim" => {
                sink.skip(|skipped| &mut skipped.discards);
                return Ok(());
            }
            b"read" => Kind::Read,
            b"write" => Kind::Write,
            other => {
                return Err(format!(
                    "action {}; read, write, sync, datasync, trim, add, open, close{} are allowed",
                    show(other),
                    if self.timed { "" } else { ", wait" }
                ));
            }
        };
        needed(2)?;
        sink.push(Record {
            time_ns: time_ns(time_us, MICROSECOND_NS)?,
            offset_bytes: whole(fields[2], "offset")?,
            bytes: whole_32(fields[3], "length")?,
            device: self.device(fields[0])?,
            kind,
        })
    }
}

fn too_long(text: &[u8]) -> String {
    format!("more than {WORDS_MAX} fields in {}", show(text))
}

/// Writes either version; each device becomes a file `device<n>`.
///
/// Time is cut to microseconds. In version 2, steps of less than 100 us are added up until they
/// make a wait of 100 us, so that a request comes at most that much too early.
pub(crate) struct Encoder {
    timed: bool,
    waited_us: u64,
    last_us: u64,
    begun: bool,
    devices: Vec<u32>,
}

impl Encoder {
    pub fn new(format: Format) -> Self {
        let timed = format == Format::Fio3;
        Self { timed, waited_us: 0, last_us: 0, begun: false, devices: Vec::new() }
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            writeln!(out, "{}", if self.timed { HEADER_3 } else { HEADER_2 })?;
        }
        Ok(())
    }

    fn event(&self, device: u32, event: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.timed {
            write!(out, "{} ", self.last_us)?;
        }
        writeln!(out, "device{device} {event}")
    }
}

impl Encode for Encoder {
    fn record(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), EncodeError> {
        self.begin(out)?;
        let Record { device, offset_bytes, bytes, .. } = *record;
        self.last_us = record.time_ns / MICROSECOND_NS;
        if !self.devices.contains(&device) {
            self.devices.push(device);
            self.event(device, "add", out)?;
            self.event(device, "open", out)?;
        }
        let wait_us = self.last_us - self.waited_us;
        if !self.timed && wait_us >= WAIT_US_MIN {
            self.waited_us = self.last_us;
            writeln!(out, "device{device} wait {wait_us} 0")?;
        }
        let action = match record.kind {
            Kind::Read => "read",
            Kind::Write => "write",
        };
        Ok(self.event(device, &format!("{action} {offset_bytes} {bytes}"), out)?)
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.begin(out)?;
        for &device in &self.devices {
            self.event(device, "close", out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    fn read(text: &str) -> (Vec<Record>, Reader) {
        let mut reader = Reader::from_bytes(text).expect("recognised");
        let records = reader.by_ref().map(|r| r.expect("sound")).collect();
        (records, reader)
    }

    #[test]
    fn version_3_has_a_time_in_each_line() {
        let (records, reader) = read(
            "fio version 3 iolog\n2 a add\n3 b add\n4 b open\n10 b write 0 16384\n12 a read 512 \
             512\n13 b sync 0 0\n14 b trim 0 4096\n20 b close\n",
        );
        assert_eq!(reader.format(), Format::Fio3);
        let kind = Kind::Read;
        assert_eq!(
            records[1],
            Record { time_ns: 2000, offset_bytes: 512, bytes: 512, device: 0, kind }
        );
        assert_eq!((records[0].device, records[0].bytes), (1, 16_384));
        assert_eq!((reader.skipped().flushes, reader.skipped().discards), (1, 1));
    }

    #[test]
    fn version_2_adds_up_the_waits() {
        let (records, reader) = read(
            "fio version 2 iolog\na add\na open\na read 0 512\na wait 150 0\na wait 99 0\na wait \
             100\na write 0 512\na close\n",
        );
        assert_eq!(reader.format(), Format::Fio2);
        assert_eq!(records[1].time_ns, 250_000);
    }

    #[test]
    fn a_damaged_line_is_named() {
        for (line, part) in [
            ("5 a reed 0 1", "action \"reed\""),
            ("5 a wait 100 0", "action \"wait\""),
            ("5 a read 0", "1 numbers after"),
            ("x a read 0 1", "the time in us is \"x\""),
            ("5 a read 0 1 2 3", "more than 5 fields"),
            ("5", "action \"\""),
        ] {
            let text = format!("fio version 3 iolog\n{line}\n");
            let failure = Reader::from_bytes(text).expect("recognised").find_map(Result::err);
            let message = failure.expect("damaged").to_string();
            assert!(message.contains("fio3 trace, record 1 (line 2, byte 20)"), "{message}");
            assert!(message.contains(part), "{message}");
        }
    }
}
