//! CloudPhysics vscsi traces, as libCacheSim and mimircache read them.
//!
//! Little-endian records without a header; time in microseconds, `lbn` in sectors of 512 bytes,
//! `len` in bytes. The high byte of `ver` is the version.
//!
//! ```text
//! version 1, 32 bytes: sn u32, len u32, nSG u32, cmd u16, ver u16, lbn u64, time u64
//! version 2, 40 bytes: cmd u16, ver u16, sn u32, len u32, nSG u32, lbn u64, time u64, response u64
//! ```
//!
//! `cmd` is the SCSI operation. Reads and writes of 6 to 16 bytes are records; flushes, unmaps and
//! commands without client data are skipped; anything else is damage. There is one device.

use std::io::{self, Write};

use super::codec::{BATCH, Decode, Encode, EncodeError};
use super::text::{offset, time_ns};
use crate::columns::SECTORS;
use crate::error::Fault;
use crate::error::show;
use crate::sink::{Sink, Skipped};
use crate::{Format, Input, Kind, Record};

const RECORD_1_BYTES: usize = 32;
const RECORD_2_BYTES: usize = 40;
const MICROSECOND_NS: u64 = 1_000;
/// As the known files have it: version 1 in the high byte.
const VERSION_1_WORD: u16 = 0x0100;

const READ_10: u16 = 0x28;
const WRITE_10: u16 = 0x2a;

/// Which of the two layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 32 bytes.
    One,
    /// 40 bytes.
    Two,
}

/// What a SCSI operation means for a block trace.
enum Command {
    Data(Kind),
    Flush,
    Discard,
    Other,
}

/// Operation codes of the SCSI block commands (SBC-4, table 33) and primary commands (SPC-4).
#[inline]
fn command(code: u16) -> Option<Command> {
    Some(match code {
        // READ and WRITE of 6, 10, 12 and 16 bytes; WRITE AND VERIFY 10, 12, 16.
        READ_10 | 0x08 | 0x88 | 0xa8 => Command::Data(Kind::Read),
        WRITE_10 | 0x0a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Command::Data(Kind::Write),
        // SYNCHRONIZE CACHE 10 and 16.
        0x35 | 0x91 => Command::Flush,
        // UNMAP, WRITE SAME 10 and 16: no data from the client beyond one block.
        0x42 | 0x41 | 0x93 => Command::Discard,
        // TEST UNIT READY, REQUEST SENSE, INQUIRY, MODE SELECT and SENSE, RESERVE, RELEASE, START
        // STOP UNIT, capacity, verify, log, persistent reservation, COMPARE AND WRITE, REPORT LUNS.
        0x00 | 0x03 | 0x12 | 0x15 | 0x16 | 0x17 | 0x1a | 0x1b | 0x1e | 0x25 | 0x2f | 0x4d
        | 0x55 | 0x5a | 0x5e | 0x5f | 0x83 | 0x84 | 0x89 | 0x8f | 0x9e | 0xa0 | 0xa3 => {
            Command::Other
        }
        _ => return None,
    })
}

/// Records looked at to tell vscsi from other binary content.
const SNIFF_RECORDS: usize = 2;

/// Whether the first records have known commands and one version.
pub(crate) fn recognise(head: &[u8]) -> Option<Format> {
    let fits = |version: Version| {
        let size = version.record_bytes();
        let mut records = head.chunks_exact(size).take(SNIFF_RECORDS).peekable();
        records.peek().is_some()
            && records.all(|bytes| {
                let raw = version.parse(bytes);
                raw.version == version.number() && command(raw.command).is_some()
            })
    };
    // A last, cut record must not hide the format: the decoder then says where the file is cut.
    if fits(Version::Two) {
        Some(Format::Vscsi2)
    } else if fits(Version::One) {
        Some(Format::Vscsi)
    } else {
        None
    }
}

/// A record as it stands in the file.
struct Raw {
    command: u16,
    version: u8,
    bytes: u32,
    block: u64,
    time_us: u64,
}

impl Version {
    fn record_bytes(self) -> usize {
        match self {
            Self::One => RECORD_1_BYTES,
            Self::Two => RECORD_2_BYTES,
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    #[inline]
    fn parse(self, bytes: &[u8]) -> Raw {
        let (command, version, length, block, time) = match self {
            Self::One => (12, 15, 4, 16, 24),
            Self::Two => (0, 3, 8, 16, 24),
        };
        Raw {
            command: u16::from_le_bytes(array(bytes, command)),
            version: bytes[version],
            bytes: u32::from_le_bytes(array(bytes, length)),
            block: u64::from_le_bytes(array(bytes, block)),
            time_us: u64::from_le_bytes(array(bytes, time)),
        }
    }
}

/// `N` bytes of a record whose length the caller has checked.
#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Reads either version.
pub(crate) struct Decoder {
    version: Version,
}

impl Decoder {
    pub fn new(version: Version) -> Self {
        Self { version }
    }
}

impl Decode for Decoder {
    fn batch(&mut self, input: &mut Input, sink: &mut Sink) -> Result<bool, Fault> {
        // The layout becomes a constant of the loop, which is twice as fast.
        match self.version {
            Version::One => batch::<RECORD_1_BYTES>(Version::One, input, sink),
            Version::Two => batch::<RECORD_2_BYTES>(Version::Two, input, sink),
        }
    }
}

#[inline(always)]
fn batch<const SIZE: usize>(
    version: Version,
    input: &mut Input,
    sink: &mut Sink,
) -> Result<bool, Fault> {
    let offset = input.offset();
    let bytes = input.fill_or_fault(SIZE)?;
    let records = (bytes.len() / SIZE).min(BATCH);
    if records == 0 {
        return match bytes.len() {
            0 => Ok(false),
            left => Err(Fault::at_byte(
                offset,
                format!("the file is cut: {left} bytes are left where a record has {SIZE}"),
            )),
        };
    }
    for (index, record) in bytes[..records * SIZE].chunks_exact(SIZE).enumerate() {
        take(version, version.parse(record), sink).map_err(|problem| {
            let byte = offset + (index * SIZE) as u64;
            Fault::at_byte(byte, format!("{problem}; the record is {}", show(record)))
        })?;
    }
    input.consume(records * SIZE);
    Ok(true)
}

#[inline]
fn take(version: Version, raw: Raw, sink: &mut Sink) -> Result<(), String> {
    if raw.version != version.number() {
        return Err(format!("version {} where {} is needed", raw.version, version.number()));
    }
    match command(raw.command) {
        Some(Command::Data(kind)) => sink.push(Record {
            time_ns: time_ns(raw.time_us, MICROSECOND_NS)?,
            offset_bytes: offset(raw.block, SECTORS)?,
            bytes: raw.bytes,
            device: 0,
            kind,
        })?,
        Some(Command::Flush) => sink.skip(|skipped: &mut Skipped| &mut skipped.flushes),
        Some(Command::Discard) => sink.skip(|skipped| &mut skipped.discards),
        Some(Command::Other) => sink.skip(|skipped| &mut skipped.others),
        None => {
            return Err(format!(
                "command {:#04x} is not a block command; reads are 0x08, 0x28, 0xa8, 0x88, \
                 writes 0x0a, 0x2a, 0xaa, 0x8a",
                raw.command
            ));
        }
    }
    Ok(())
}

/// Writes version 1. Time is cut to microseconds; there is no place for a device.
#[derive(Default)]
pub(crate) struct Encoder {
    serial: u32,
    device: Option<u32>,
}

impl Encode for Encoder {
    fn record(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), EncodeError> {
        if !record.offset_bytes.is_multiple_of(SECTORS.bytes) {
            return Err(EncodeError::Unwritable(format!(
                "offset {} is not a multiple of {}, the unit of vscsi",
                record.offset_bytes, SECTORS.bytes
            )));
        }
        let device = *self.device.get_or_insert(record.device);
        if device != record.device {
            return Err(EncodeError::Unwritable(format!(
                "the trace has the devices {device} and {}, and vscsi holds one; wtrace and msr \
                 hold all",
                record.device
            )));
        }
        let command = match record.kind {
            Kind::Read => READ_10,
            Kind::Write => WRITE_10,
        };
        let mut bytes = [0u8; RECORD_1_BYTES];
        bytes[0..4].copy_from_slice(&self.serial.to_le_bytes());
        bytes[4..8].copy_from_slice(&record.bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
        bytes[12..14].copy_from_slice(&command.to_le_bytes());
        bytes[14..16].copy_from_slice(&VERSION_1_WORD.to_le_bytes());
        bytes[16..24].copy_from_slice(&(record.offset_bytes / SECTORS.bytes).to_le_bytes());
        bytes[24..32].copy_from_slice(&(record.time_ns / MICROSECOND_NS).to_le_bytes());
        self.serial = self.serial.wrapping_add(1);
        Ok(out.write_all(&bytes)?)
    }

    fn finish(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    fn record_1(command: u16, bytes: u32, block: u64, time_us: u64) -> Vec<u8> {
        let mut out = vec![0; 4];
        out.extend(bytes.to_le_bytes());
        out.extend([1, 0, 0, 0]);
        out.extend(command.to_le_bytes());
        out.extend(VERSION_1_WORD.to_le_bytes());
        out.extend(block.to_le_bytes());
        out.extend(time_us.to_le_bytes());
        out
    }

    fn record_2(command: u16, bytes: u32, block: u64, time_us: u64) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(command.to_le_bytes());
        out.extend(0x0200u16.to_le_bytes());
        out.extend([9, 0, 0, 0]);
        out.extend(bytes.to_le_bytes());
        out.extend([1, 0, 0, 0]);
        out.extend(block.to_le_bytes());
        out.extend(time_us.to_le_bytes());
        out.extend(77u64.to_le_bytes());
        out
    }

    type Make = fn(u16, u32, u64, u64) -> Vec<u8>;

    #[test]
    fn both_versions_are_read() {
        for (make, format) in
            [(record_1 as Make, Format::Vscsi), (record_2 as Make, Format::Vscsi2)]
        {
            let mut bytes = make(READ_10, 4096, 8, 1_000_000);
            bytes.extend(make(0x35, 0, 0, 1_000_001));
            bytes.extend(make(0x8a, 512, 16, 1_000_002));
            let mut reader = Reader::from_bytes(bytes).expect("recognised");
            assert_eq!(reader.format(), format);
            let records: Vec<_> = reader.by_ref().map(|r| r.expect("sound")).collect();
            let device = 0;
            let read =
                Record { time_ns: 0, offset_bytes: 4096, bytes: 4096, device, kind: Kind::Read };
            let write =
                Record { time_ns: 2000, offset_bytes: 8192, bytes: 512, device, kind: Kind::Write };
            assert_eq!(records, [read, write]);
            assert_eq!(reader.skipped().flushes, 1);
        }
    }

    #[test]
    fn a_cut_file_names_the_record_and_the_byte() {
        let mut bytes = record_1(READ_10, 4096, 8, 1);
        bytes.extend(record_1(READ_10, 4096, 8, 2));
        bytes.truncate(63);
        let results: Vec<_> = Reader::from_bytes(bytes).expect("recognised").collect();
        assert_eq!(results.len(), 2);
        let message = results[1].as_ref().expect_err("cut").to_string();
        assert!(message.contains("vscsi trace, record 2 (byte 32)"), "{message}");
        assert!(message.contains("31 bytes are left"), "{message}");
    }

    #[test]
    fn an_unknown_command_and_a_wrong_version_are_damage() {
        let mut bytes: Vec<u8> =
            (0..6).flat_map(|time_us| record_1(READ_10, 512, 0, time_us)).collect();
        bytes[4 * RECORD_1_BYTES + 12] = 0xff;
        let result = Reader::from_bytes(bytes.clone()).expect("recognised").last();
        let message = result.expect("one").expect_err("damaged").to_string();
        assert!(message.contains("record 5 (byte 128): command 0xff"), "{message}");
        bytes[4 * RECORD_1_BYTES + 12] = 0x28;
        bytes[5 * RECORD_1_BYTES + 15] = 7;
        let result = Reader::from_bytes(bytes).expect("recognised").last();
        let message = result.expect("one").expect_err("damaged").to_string();
        assert!(message.contains("version 7 where 1 is needed"), "{message}");
    }
}
