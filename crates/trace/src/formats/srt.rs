//! HP SRT traces, version 1.3 (Ruemmler and Wilkes, "UNIX disk access patterns", 1993).
//!
//! A text header that begins with `$$TR_IOREC-1.3` and describes the disks, ended by a form feed;
//! then big-endian records of 32-bit words, read as DiskSim 4.0 reads them:
//!
//! ```text
//! 0 size of the record in bytes     7 first block, in the disk's own sectors
//! 1 version << 16 | type            8 device: major << 24 | unit << 8 | section
//! 2 s, 3 us: when it was queued     9 type of driver, 10 cylinder
//! 4 us until it started            11 flags of the HP-UX buffer: bit 0 reads
//! 5 us until it ended              12 more about it
//! 6 bytes                          13 queue length (version 4); 14 only in type 2
//! ```
//!
//! The unit of word 7 is the `sectorsize` of the header, 512 bytes where the header is silent. (In
//! the known traces it is 256: only so do block and cylinder, word 10, agree with the geometry that
//! the header gives. DiskSim takes 512.) Type 2 records are those
//! the tracer called suspect; DiskSim drops them and so do we, counted among the skipped.

use super::codec::{BATCH, Decode};
use crate::error::Fault;
use crate::error::show;
use crate::sink::Sink;
use crate::{Format, Input, Kind, Record};

const MAGIC: &[u8] = b"$$TR_IOREC-";
const VERSION: &[u8] = b"1.3";
const HEADER_END: u8 = 0x0c;
const HEADER_BYTES_MAX: usize = 64 * 1024;
const SECTOR_BYTES_DEFAULT: u64 = 512;

const WORD_BYTES: usize = 4;
const WORDS_MIN: usize = 13;
const WORDS_MAX: usize = 15;
const TYPE_IO: u32 = 1;
const TYPE_SUSPECT: u32 = 2;
const FLAG_READ: u32 = 1;

/// Whether the content begins with the magic words.
pub(crate) fn recognise(head: &[u8]) -> Option<Format> {
    head.starts_with(MAGIC).then_some(Format::Srt)
}

/// Reads header and records.
#[derive(Default)]
pub(crate) struct Decoder {
    /// Bytes in a sector of the disks; absent until the header was read.
    sector_bytes: Option<u64>,
}

impl Decode for Decoder {
    fn batch(&mut self, input: &mut Input, sink: &mut Sink) -> Result<bool, Fault> {
        let sector_bytes = match self.sector_bytes {
            Some(bytes) => bytes,
            None => *self.sector_bytes.insert(header(input)?),
        };
        for _ in 0..BATCH {
            let byte = input.offset();
            let fault = |problem: String| Fault::at_byte(byte, problem);
            let seen = input.fill_or_fault(WORDS_MAX * WORD_BYTES)?;
            if seen.is_empty() {
                return Ok(false);
            }
            let size = record_bytes(seen).map_err(fault)?;
            take(&words(&seen[..size]), size, sector_bytes, sink).map_err(fault)?;
            input.consume(size);
        }
        Ok(true)
    }
}

/// Read the header away; the size of a sector.
fn header(input: &mut Input) -> Result<u64, Fault> {
    let head = input.fill_or_fault(HEADER_BYTES_MAX)?;
    let version = &head[MAGIC.len().min(head.len())..];
    if !version.starts_with(VERSION) {
        let found = &version[..version.len().min(VERSION.len())];
        return Err(Fault::at_byte(0, format!("version {}; 1.3 is read", show(found))));
    }
    let Some(end) = head.iter().take(HEADER_BYTES_MAX).position(|&byte| byte == HEADER_END) else {
        let problem = format!("the header is not ended by a form feed in {HEADER_BYTES_MAX} bytes");
        return Err(Fault::at_byte(0, problem));
    };
    let sector_bytes = sector_bytes(&head[..end]).map_err(|problem| Fault::at_byte(0, problem))?;
    input.consume(end + 1);
    Ok(sector_bytes)
}

fn sector_bytes(header: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(header);
    let mut found = None;
    for part in text.split("sectorsize").skip(1) {
        // `sectorsize = 256`; the same letters also occur within other words.
        let Some(value) = part.trim_start().strip_prefix('=') else { continue };
        let digits: String = value.trim_start().chars().take_while(char::is_ascii_digit).collect();
        let bytes: u64 = digits.parse().unwrap_or(0);
        if !(1..=65_536).contains(&bytes) {
            return Err(format!("sectorsize is {digits:?}; 1 to 65536 bytes are taken"));
        }
        if *found.get_or_insert(bytes) != bytes {
            return Err("the disks have sectors of different sizes; one size is taken".to_owned());
        }
    }
    Ok(found.unwrap_or(SECTOR_BYTES_DEFAULT))
}

/// The length of the record at the beginning of `seen`, all of which is there.
fn record_bytes(seen: &[u8]) -> Result<usize, String> {
    let cut = || format!("the file is cut: {} bytes are left of the record", seen.len());
    let Some(word) = seen.first_chunk::<WORD_BYTES>() else { return Err(cut()) };
    let stated = u32::from_be_bytes(*word);
    let size = stated as usize;
    if !size.is_multiple_of(WORD_BYTES) || !(WORDS_MIN..=WORDS_MAX).contains(&(size / WORD_BYTES)) {
        return Err(format!("the record's size is {stated}; 52, 56 or 60 bytes are allowed"));
    }
    if seen.len() < size { Err(cut()) } else { Ok(size) }
}

fn words(bytes: &[u8]) -> [u32; WORDS_MAX] {
    let mut out = [0; WORDS_MAX];
    for (word, chunk) in out.iter_mut().zip(bytes.chunks_exact(WORD_BYTES)) {
        *word = chunk.iter().fold(0, |value, &byte| value << 8 | u32::from(byte));
    }
    out
}

fn take(
    words: &[u32; WORDS_MAX],
    size: usize,
    sector_bytes: u64,
    sink: &mut Sink,
) -> Result<(), String> {
    let (version, kind) = (words[1] >> 16, words[1] & 0xffff);
    if !(1..=4).contains(&version) || ![TYPE_IO, TYPE_SUSPECT].contains(&kind) {
        return Err(format!(
            "version {version} and type {kind}; versions 1 to 4 and types 1 and 2 are allowed"
        ));
    }
    let wanted = WORDS_MIN + usize::from(version == 4) + usize::from(kind == TYPE_SUSPECT);
    if size != wanted * WORD_BYTES {
        return Err(format!("{size} bytes; such a record has {}", wanted * WORD_BYTES));
    }
    let (seconds, microseconds) = (words[2], words[3]);
    if microseconds >= 1_000_000 {
        return Err(format!("{microseconds} us in the second; 0 to 999999 are allowed"));
    }
    if kind == TYPE_SUSPECT {
        sink.skip(|skipped| &mut skipped.others);
        return Ok(());
    }
    sink.push(Record {
        time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(microseconds) * 1_000,
        // 32-bit block times at most 64 KiB: no overflow.
        offset_bytes: u64::from(words[7]) * sector_bytes,
        bytes: words[6],
        device: words[8] >> 8 & 0xff,
        kind: if words[11] & FLAG_READ != 0 { Kind::Read } else { Kind::Write },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    const HEADER: &str = "$$TR_IOREC-1.3 (test)\0\ndisks = { sectorsize  = 256, };\n\x0c";

    fn record(seconds: u32, microseconds: u32, flags: u32) -> Vec<u8> {
        let id = 4 << 16 | TYPE_IO;
        let words = [56, id, seconds, microseconds, 1, 2, 8192, 32, 0x0800_0107, 4, 0, flags, 0, 1];
        words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
    }

    #[test]
    fn header_and_records_are_read() {
        let mut bytes = HEADER.as_bytes().to_vec();
        bytes.extend(record(5, 999_999, 0x1b));
        bytes.extend(record(6, 0, 0x10a));
        let reader = Reader::from_bytes(bytes).expect("recognised");
        assert_eq!(reader.format(), Format::Srt);
        let records: Vec<_> = reader.map(|r| r.expect("sound")).collect();
        let (bytes, device, kind) = (8192, 1, Kind::Read);
        assert_eq!(records[0], Record { time_ns: 0, offset_bytes: 32 * 256, bytes, device, kind });
        assert_eq!((records[1].time_ns, records[1].kind), (1_000, Kind::Write));
    }

    #[test]
    fn a_cut_record_and_a_wrong_size_are_named() {
        let mut bytes = HEADER.as_bytes().to_vec();
        bytes.extend(record(0, 0, 1));
        let whole = bytes.len();
        bytes.extend(&record(1, 0, 1)[..20]);
        let failure = Reader::from_bytes(bytes.clone()).expect("recognised").find_map(Result::err);
        let message = failure.expect("cut").to_string();
        assert!(
            message.contains(&format!("record 2 (byte {whole}): the file is cut")),
            "{message}"
        );
        bytes[whole + 3] = 57;
        let failure = Reader::from_bytes(bytes).expect("recognised").find_map(Result::err);
        let message = failure.expect("damaged").to_string();
        assert!(message.contains("size is 57; 52, 56 or 60"), "{message}");
    }
}
