//! One block of the compact format: frame, checksum, and the columns inside.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::Crc;
use flate2::read::{DeflateDecoder, DeflateEncoder};

use crate::sink::Sink;
use crate::{Kind, Record};

const RECORDS_MAX: u32 = 65_536;
/// A record's varints take at most 10 bytes each; a larger claim is damage, not worth allocating.
const RAW_BYTES_MAX: u32 = RECORDS_MAX * 64;
const SHIFT_MAX: u8 = 16;
const CODEC_STORED: u32 = 0;
const CODEC_DEFLATE: u32 = 1;
const WORD_BYTES: usize = 4;

/// The five words in front of a payload.
pub(super) struct BlockHeader {
    records: u32,
    raw: u32,
    stored: u32,
    codec: u32,
    crc: u32,
}

impl BlockHeader {
    pub const BYTES: usize = 5 * WORD_BYTES;

    /// Read and check the words at the beginning of `seen`.
    pub fn parse(seen: &[u8]) -> Result<Self, String> {
        let Some(bytes) = seen.first_chunk::<{ Self::BYTES }>() else {
            let left = seen.len();
            return Err(format!(
                "the file is cut: {left} bytes are left, and the last block is missing"
            ));
        };
        let mut words = [0; 5];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(WORD_BYTES)) {
            *word = chunk.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
        }
        let [records, raw, stored, codec, crc] = words;
        if records > RECORDS_MAX || raw > RAW_BYTES_MAX || stored > raw {
            return Err(format!(
                "a block of {records} records in {stored} of {raw} bytes; at most {RECORDS_MAX} \
                 records in {RAW_BYTES_MAX} bytes are allowed"
            ));
        }
        if codec > CODEC_DEFLATE || codec == CODEC_STORED && stored != raw {
            return Err(format!("codec {codec} for {stored} of {raw} bytes; 0 and 1 are known"));
        }
        Ok(Self { records, raw, stored, codec, crc })
    }

    pub fn records(&self) -> u32 {
        self.records
    }

    pub fn stored_bytes(&self) -> usize {
        self.stored as usize
    }

    pub fn is_last(&self) -> bool {
        self.records == 0
    }

    /// The payload behind this header, inflated; `seen` begins with the header.
    pub fn payload(&self, seen: &[u8]) -> Result<Vec<u8>, String> {
        let Some(stored) = seen.get(Self::BYTES..Self::BYTES + self.stored_bytes()) else {
            let (left, stored) = (seen.len(), Self::BYTES + self.stored_bytes());
            return Err(format!("the file is cut: {left} bytes are left of a block of {stored}"));
        };
        let found = checksum(&seen[..4 * WORD_BYTES], stored);
        if found != self.crc {
            let stated = self.crc;
            return Err(format!("the checksum of the block is {found:08x}, not {stated:08x}"));
        }
        if self.codec == CODEC_STORED {
            return Ok(stored.to_vec());
        }
        let mut raw = Vec::with_capacity(self.raw as usize);
        DeflateDecoder::new(stored)
            .take(u64::from(self.raw) + 1)
            .read_to_end(&mut raw)
            .map_err(|error| format!("the block cannot be inflated: {error}"))?;
        if raw.len() != self.raw as usize {
            return Err(format!("the block inflates to another length than {}", self.raw));
        }
        Ok(raw)
    }
}

/// Write a block, deflated where that makes it shorter.
pub(super) fn write(records: u32, payload: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let mut deflated = Vec::new();
    DeflateEncoder::new(payload, Compression::best()).read_to_end(&mut deflated)?;
    let (codec, stored) = if deflated.len() < payload.len() {
        (CODEC_DEFLATE, &deflated[..])
    } else {
        (CODEC_STORED, payload)
    };
    let mut words = Vec::with_capacity(4 * WORD_BYTES);
    for word in [records, payload.len() as u32, stored.len() as u32, codec] {
        words.extend(word.to_le_bytes());
    }
    out.write_all(&words)?;
    out.write_all(&checksum(&words, stored).to_le_bytes())?;
    out.write_all(stored)
}

fn checksum(words: &[u8], stored: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(words);
    crc.update(stored);
    crc.sum()
}

/// What differences are taken against: carried from block to block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    time_ns: u64,
    end_bytes: u64,
}

impl Last {
    fn step(&mut self, record: &Record) {
        self.time_ns = record.time_ns;
        self.end_bytes = record.offset_bytes.wrapping_add(u64::from(record.bytes));
    }
}

/// The columns of `records`, which are in the order of time.
pub(super) fn encode_columns(records: &[Record], last: &mut Last) -> Vec<u8> {
    let all_bits = records
        .iter()
        .fold(last.end_bytes, |bits, record| bits | record.offset_bytes | u64::from(record.bytes));
    let shift = all_bits.trailing_zeros().min(u32::from(SHIFT_MAX));
    let mut out = vec![shift as u8];
    let mut time_ns = last.time_ns;
    for record in records {
        put(&mut out, record.time_ns - time_ns);
        time_ns = record.time_ns;
    }
    let mut expected = Kind::Read;
    for run in records.chunk_by(|a, b| a.kind == b.kind) {
        if run[0].kind != expected {
            put(&mut out, 0);
        }
        put(&mut out, run.len() as u64);
        expected = if run[0].kind == Kind::Read { Kind::Write } else { Kind::Read };
    }
    for run in records.chunk_by(|a, b| a.device == b.device) {
        put(&mut out, u64::from(run[0].device));
        put(&mut out, run.len() as u64);
    }
    for record in records {
        put(&mut out, u64::from(record.bytes) >> shift);
    }
    for record in records {
        let step = record.offset_bytes.wrapping_sub(last.end_bytes) as i64 >> shift;
        put(&mut out, (step << 1 ^ step >> 63) as u64);
        last.step(record);
    }
    out
}

/// Read the columns of `count` records into `sink`.
pub(super) fn decode_columns(
    payload: &[u8],
    count: u32,
    last: &mut Last,
    sink: &mut Sink,
) -> Result<(), String> {
    let (&shift, mut rest) = payload.split_first().ok_or("the block is empty")?;
    if shift > SHIFT_MAX {
        return Err(format!("the shift is {shift}; at most {SHIFT_MAX} is allowed"));
    }
    let rest = &mut rest;
    let count = count as usize;
    let mut times_ns = Vec::with_capacity(count);
    let mut time_ns = last.time_ns;
    for _ in 0..count {
        time_ns = time_ns.checked_add(get(rest)?).ok_or("the time passes 2^64 ns")?;
        times_ns.push(time_ns);
    }
    let kinds = decode_kinds(count, rest)?;
    let devices = decode_devices(count, rest)?;
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        let units = get(rest)?;
        let bytes = u32::try_from(units).ok().and_then(|units| units.checked_mul(1 << shift));
        lengths.push(bytes.ok_or_else(|| format!("a length of {units} << {shift} bytes"))?);
    }
    for index in 0..count {
        let zigzag = get(rest)?;
        let step = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        let record = Record {
            time_ns: times_ns[index],
            offset_bytes: last.end_bytes.wrapping_add((step << shift) as u64),
            bytes: lengths[index],
            device: devices[index],
            kind: kinds[index],
        };
        last.step(&record);
        sink.push(record)?;
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("{} bytes follow the columns", rest.len())) }
}

fn decode_kinds(count: usize, rest: &mut &[u8]) -> Result<Vec<Kind>, String> {
    let mut kinds = Vec::with_capacity(count);
    let mut kind = Kind::Read;
    // Only the first run may be empty; else a block of zeros would spin here.
    let mut empty_allowed = true;
    while kinds.len() < count {
        let run = get(rest)? as usize;
        if run > count - kinds.len() || run == 0 && !empty_allowed {
            return Err(format!("a run of {run} kinds where {} are left", count - kinds.len()));
        }
        empty_allowed = false;
        kinds.resize(kinds.len() + run, kind);
        kind = if kind == Kind::Read { Kind::Write } else { Kind::Read };
    }
    Ok(kinds)
}

fn decode_devices(count: usize, rest: &mut &[u8]) -> Result<Vec<u32>, String> {
    let mut devices = Vec::with_capacity(count);
    while devices.len() < count {
        let device = get(rest)?;
        let device = u32::try_from(device).map_err(|_| format!("device {device} is too large"))?;
        let run = get(rest)? as usize;
        if run == 0 || run > count - devices.len() {
            return Err(format!("a run of {run} devices where {} are left", count - devices.len()));
        }
        devices.resize(devices.len() + run, device);
    }
    Ok(devices)
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn get(rest: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or("the block ends within a number")?;
        *rest = tail;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a number of more than 64 bits".to_owned())
}
