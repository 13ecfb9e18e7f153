//! The project's own format: columns of differences in compressed blocks, about 4 bytes a request.
//!
//! All numbers are little-endian; `varint` is LEB128 (seven bits a byte, low ones first).
//!
//! ```text
//! file    magic 89 'w' 't' 'r' 'a' 'c' 'e' 0a, version u16 = 1, zero u16, then blocks
//! block   records u32, raw u32, stored u32, codec u32, crc u32, then `stored` bytes of payload
//! ```
//!
//! `codec` 0 stores the payload as it is, 1 deflates it (RFC 1951); `raw` is its length before.
//! `crc` is the CRC-32 of the four words before it and the payload as stored. A payload holds the
//! columns of 1 to 65,536 records, one after the other:
//!
//! ```text
//! shift   1 byte: offsets and lengths are given in units of 2^shift bytes, at most 2^16
//! time    for each record a varint: ns since the record before it (since 0 at the file's first)
//! kind    run lengths, varints, beginning with reads: 0 or more reads, then writes, reads, ...
//! device  runs: varint device, varint length
//! length  for each record a varint
//! offset  for each record a zigzag varint: start less the end of the record before it, modulo
//!         2^64 bytes (0 at the file's first)
//! ```
//!
//! The file ends with a block of 0 records whose payload is the number of records of the file as a
//! u64: a file that is cut anywhere is noticed. Around it all, gz, xz or zst may stand as with any
//! other format.

mod block;

use std::io::{self, Write};

use super::codec::{Decode, Encode, EncodeError};
use crate::error::Fault;
use crate::error::show;
use crate::sink::Sink;
use crate::{Format, Input, Record};
use block::{BlockHeader, Last, decode_columns, encode_columns};

const MAGIC: &[u8; 8] = b"\x89wtrace\n";
const VERSION: u16 = 1;
const FILE_HEADER_BYTES: usize = MAGIC.len() + 4;
/// Records of a block as we write it: enough to compress well, little enough to hold.
const BLOCK_RECORDS: usize = 16_384;

/// Whether the content begins with the magic number.
pub(crate) fn recognise(head: &[u8]) -> Option<Format> {
    head.starts_with(MAGIC).then_some(Format::Wtrace)
}

/// Reads a block at a time.
#[derive(Default)]
pub(crate) struct Decoder {
    begun: bool,
    records: u64,
    last: Last,
}

impl Decode for Decoder {
    fn batch(&mut self, input: &mut Input, sink: &mut Sink) -> Result<bool, Fault> {
        if !std::mem::replace(&mut self.begun, true) {
            file_header(input)?;
        }
        let byte = input.offset();
        let fault = |problem: String| Fault::at_byte(byte, problem);
        let seen = input.fill_or_fault(BlockHeader::BYTES)?;
        let header = BlockHeader::parse(seen).map_err(fault)?;
        let size = BlockHeader::BYTES + header.stored_bytes();
        let seen = input.fill_or_fault(size)?;
        let payload = header.payload(seen).map_err(fault)?;
        input.consume(size);
        if header.is_last() {
            return self.end(&payload, input, fault);
        }
        decode_columns(&payload, header.records(), &mut self.last, sink).map_err(fault)?;
        self.records += u64::from(header.records());
        Ok(true)
    }
}

impl Decoder {
    fn end(
        &self,
        payload: &[u8],
        input: &mut Input,
        fault: impl Fn(String) -> Fault,
    ) -> Result<bool, Fault> {
        let Ok(stated) = payload.try_into().map(u64::from_le_bytes) else {
            return Err(fault(format!("the last block has {} bytes; 8 are needed", payload.len())));
        };
        if stated != self.records {
            let read = self.records;
            return Err(fault(format!("the file states {stated} records but holds {read}")));
        }
        let left = input.fill_or_fault(1)?.len();
        if left > 0 {
            return Err(fault("bytes follow the last block".to_owned()));
        }
        Ok(false)
    }
}

fn file_header(input: &mut Input) -> Result<(), Fault> {
    let head = input.fill_or_fault(FILE_HEADER_BYTES)?;
    let Some(head) = head.get(..FILE_HEADER_BYTES) else {
        let problem = format!("the file is cut: {} bytes of a header", head.len());
        return Err(Fault::at_byte(0, problem));
    };
    let version = u16::from_le_bytes([head[8], head[9]]);
    if version != VERSION || head[10..] != [0, 0] {
        let words = show(&head[8..]);
        return Err(Fault::at_byte(
            8,
            format!("version {version} ({words}); this program reads version {VERSION}"),
        ));
    }
    input.consume(FILE_HEADER_BYTES);
    Ok(())
}

/// Collects records and writes a block when it is full.
#[derive(Default)]
pub(crate) struct Encoder {
    begun: bool,
    records: u64,
    last: Last,
    pending: Vec<Record>,
}

impl Encoder {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            out.write_all(MAGIC)?;
            out.write_all(&VERSION.to_le_bytes())?;
            out.write_all(&[0, 0])?;
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.begin(out)?;
        if self.pending.is_empty() {
            return Ok(());
        }
        let payload = encode_columns(&self.pending, &mut self.last);
        block::write(self.pending.len() as u32, &payload, out)?;
        self.records += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

impl Encode for Encoder {
    fn record(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), EncodeError> {
        self.pending.push(*record);
        if self.pending.len() >= BLOCK_RECORDS {
            self.flush(out)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.flush(out)?;
        block::write(0, &self.records.to_le_bytes(), out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Kind, Reader};

    fn encode(records: &[Record]) -> Vec<u8> {
        let mut encoder = Encoder::default();
        let mut out = Vec::new();
        for record in records {
            encoder.record(record, &mut out).expect("memory");
        }
        encoder.finish(&mut out).expect("memory");
        out
    }

    fn decode(bytes: Vec<u8>) -> Result<Vec<Record>, String> {
        Reader::from_bytes(bytes)
            .map_err(|e| e.to_string())?
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())
    }

    fn record() -> impl Strategy<Value = Record> {
        (0..1_000_000_000u64, any::<u64>(), 1..=u32::MAX, 0..4u32, any::<bool>()).prop_map(
            |(time_ns, offset_bytes, bytes, device, read)| {
                let kind = if read { Kind::Read } else { Kind::Write };
                Record { time_ns, offset_bytes, bytes, device, kind }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(mut records in prop::collection::vec(record(), 0..300)) {
            records.sort_by_key(|record| record.time_ns);
            let first_ns = records.first().map_or(0, |record| record.time_ns);
            for record in &mut records {
                record.time_ns -= first_ns;
            }
            prop_assert_eq!(decode(encode(&records)), Ok(records));
        }

        #[test]
        fn any_changed_byte_is_noticed(at in 0..200usize, change in 1..=255u8) {
            let mut bytes = encode(&sample(50));
            let at = at % bytes.len();
            bytes[at] ^= change;
            prop_assert!(decode(bytes).is_err());
        }
    }

    fn sample(count: u64) -> Vec<Record> {
        let record = |index: u64| Record {
            time_ns: index * 1000,
            offset_bytes: index * 7 % 5 * 4096,
            bytes: 4096,
            device: (index / 10) as u32,
            kind: if index.is_multiple_of(3) { Kind::Write } else { Kind::Read },
        };
        (0..count).map(record).collect()
    }

    #[test]
    fn a_file_cut_anywhere_is_noticed() {
        let bytes = encode(&sample(100));
        for length in 0..bytes.len() {
            assert!(decode(bytes[..length].to_vec()).is_err(), "cut to {length} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(decode(longer).is_err());
    }

    #[test]
    fn many_blocks_and_an_empty_trace_pass() {
        let records = sample(40_000);
        let bytes = encode(&records);
        assert!(bytes.len() < 3 * records.len(), "{} bytes", bytes.len());
        assert_eq!(decode(bytes), Ok(records));
        assert_eq!(decode(encode(&[])), Ok(Vec::new()));
    }
}
