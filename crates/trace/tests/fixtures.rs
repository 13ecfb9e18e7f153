//! Small synthetic traces of every format under `tests/data/traces`, and what they must read as.
//!
//! All of them hold the same forty requests, as far as the format can tell them. They are made by
//! the ignored test here, never copied from a published trace:
//!
//! `cargo test -p wattio-trace --test fixtures -- --ignored`

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use wattio_trace::{Format, Kind, Reader, Record, open, write};

const REQUESTS: u64 = 40;
const STEP_NS: u64 = 250_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const SECTOR_BYTES: u64 = 512;
/// 2020-01-01 in microseconds and in Windows ticks of 100 ns.
const EPOCH_US: u64 = 1_577_836_800_000_000;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces")
}

/// The requests: two devices, three sizes, one pause of 40 s in the middle.
fn requests() -> Vec<Record> {
    let record = |index: u64| Record {
        time_ns: index * STEP_NS + if index >= REQUESTS / 2 { 40 * SECOND_NS } else { 0 },
        offset_bytes: (index * 37 % 101) * 4096,
        bytes: [4096, 8192, 65_536][index as usize % 3],
        device: u32::from(index % 5 == 4),
        kind: if index % 4 == 3 { Kind::Write } else { Kind::Read },
    };
    (0..REQUESTS).map(record).collect()
}

/// The requests as `format` can tell them.
fn told(format: Format) -> Vec<Record> {
    let mut records = requests();
    for record in &mut records {
        match format {
            Format::Vscsi | Format::Vscsi2 => record.device = 0,
            Format::Tencent => record.time_ns -= record.time_ns % SECOND_NS,
            Format::Blkparse | Format::Fiu => record.device = 8 << 20 | record.device << 4,
            _ => {}
        }
    }
    records
}

fn lines(line: impl Fn(&mut String, usize, &Record)) -> Vec<u8> {
    let mut text = String::new();
    for (index, record) in requests().iter().enumerate() {
        line(&mut text, index, record);
        text.push('\n');
    }
    text.into_bytes()
}

fn letter(record: &Record) -> char {
    if record.kind == Kind::Read { 'R' } else { 'W' }
}

fn written(format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut told(format).into_iter().map(Ok), format, &mut out).expect("the format takes them");
    out
}

/// The content of a fixture.
fn content(format: Format) -> Vec<u8> {
    match format {
        Format::Wtrace | Format::Msr | Format::Vscsi | Format::Fio2 | Format::Fio3 => {
            written(format)
        }
        Format::Vscsi2 => vscsi2(),
        Format::Srt => srt(),
        Format::Blkparse => blkparse(),
        Format::DiskSim => lines(|text, _, r| {
            let (first, count) = (r.offset_bytes / SECTOR_BYTES, u64::from(r.bytes) / SECTOR_BYTES);
            let (ms, flags) = (r.time_ns as f64 / 1e6, u8::from(r.kind == Kind::Read));
            let _ = write!(text, "{ms:.6} {} {first} {count} {flags}", r.device);
        }),
        Format::Alibaba => lines(|text, _, r| {
            let time_us = EPOCH_US + r.time_ns / 1000;
            let _ =
                write!(text, "{},{},{},{},{time_us}", r.device, letter(r), r.offset_bytes, r.bytes);
        }),
        Format::Tencent => lines(|text, _, r| {
            let time_s = EPOCH_US / 1_000_000 + r.time_ns / SECOND_NS;
            let (first, count) = (r.offset_bytes / SECTOR_BYTES, u64::from(r.bytes) / SECTOR_BYTES);
            let kind = u8::from(r.kind == Kind::Write);
            let _ = write!(text, "{time_s},{first},{count},{kind},{}", r.device);
        }),
        Format::Systor17 => lines(|text, index, r| {
            let (seconds, nanos) = (r.time_ns / SECOND_NS, r.time_ns % SECOND_NS);
            let seconds = EPOCH_US / 1_000_000 + seconds;
            let head = "Timestamp,Response,IOType,LUN,Offset,Size\n";
            text.push_str(if index == 0 { head } else { "" });
            let (kind, offset, bytes) = (letter(r), r.offset_bytes, r.bytes);
            let _ =
                write!(text, "{seconds}.{nanos:09},0.0005,{kind},{},{offset},{bytes}", r.device);
        }),
        Format::Spc => lines(|text, _, r| {
            let (first, kind, seconds) =
                (r.offset_bytes / SECTOR_BYTES, letter(r), r.time_ns as f64 / 1e9);
            let _ = write!(text, "{},{first},{},{kind},{seconds:.6}", r.device, r.bytes);
        }),
        Format::Fiu => lines(|text, index, r| {
            let (first, count) = (r.offset_bytes / SECTOR_BYTES, u64::from(r.bytes) / SECTOR_BYTES);
            let (time, kind, minor) = (r.time_ns + 89_966_538_925, letter(r), r.device << 4);
            let _ = write!(text, "{time} 811 load {first} {count} {kind} 8 {minor} {index:032x}");
        }),
        Format::Columns => unreachable!("no file is of it by itself"),
    }
}

fn vscsi2() -> Vec<u8> {
    let mut out = Vec::new();
    for record in requests() {
        let command: u16 = if record.kind == Kind::Read { 0x88 } else { 0x8a };
        out.extend(command.to_le_bytes());
        out.extend(0x0200u16.to_le_bytes());
        out.extend(7u32.to_le_bytes());
        out.extend(record.bytes.to_le_bytes());
        out.extend(1u32.to_le_bytes());
        out.extend((record.offset_bytes / SECTOR_BYTES).to_le_bytes());
        out.extend((EPOCH_US + record.time_ns / 1000).to_le_bytes());
        out.extend(500u64.to_le_bytes());
    }
    out
}

fn srt() -> Vec<u8> {
    let mut out = b"$$TR_IOREC-1.3 (synthetic)\0\nversion      = 1.3;\ndisks        = {\n\
                    \t0 -> { sectorsize  = 256, },\n\t1 -> { sectorsize  = 256, }\n};\n\x0c"
        .to_vec();
    for record in requests() {
        let seconds = (record.time_ns / SECOND_NS) as u32;
        let micros = (record.time_ns % SECOND_NS / 1000) as u32;
        let block = (record.offset_bytes / 256) as u32;
        let flags = if record.kind == Kind::Read { 0x1b } else { 0x10a };
        let device = 0x0800_0008 | record.device << 8;
        let words = [
            56,
            0x4_0001,
            seconds,
            micros,
            40,
            9000,
            record.bytes,
            block,
            device,
            4,
            1,
            flags,
            0,
            1,
        ];
        out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    }
    out
}

fn blkparse() -> Vec<u8> {
    let mut out = lines(|text, index, r| {
        let (first, count) = (r.offset_bytes / SECTOR_BYTES, u64::from(r.bytes) / SECTOR_BYTES);
        let (seconds, nanos) = (r.time_ns / SECOND_NS, r.time_ns % SECOND_NS);
        for (stage, action) in ["Q", "D", "C"].into_iter().enumerate() {
            let end = if action == "C" { "[0]" } else { "[load]" };
            let _ = writeln!(
                text,
                "  8,{:<3} 1 {:8} {seconds:5}.{nanos:09} {:5}  {action}   {} {first} + {count} {end}",
                r.device << 4,
                3 * index + stage + 1,
                if action == "C" { 0 } else { 811 },
                letter(r),
            );
        }
        text.pop();
    });
    out.extend(b"CPU1 (8,0):\n Reads Queued:          30,      760KiB\n");
    out
}

fn fixtures() -> Vec<(String, Format, Vec<u8>)> {
    let mut out: Vec<_> = Format::ALL
        .into_iter()
        .map(|format| (format!("synthetic.{format}"), format, content(format)))
        .collect();
    let plain = content(Format::Msr);
    out.push(("synthetic.msr.gz".to_owned(), Format::Msr, gzip_of_two_members(&plain)));
    out.push(("synthetic.msr.xz".to_owned(), Format::Msr, xz(&plain)));
    out.push(("synthetic.msr.zst".to_owned(), Format::Msr, zstd(&plain)));
    out
}

/// As `cat a.gz b.gz` makes it.
fn gzip_of_two_members(content: &[u8]) -> Vec<u8> {
    let (first, second) = content.split_at(content.len() / 2);
    let member = |part: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(part).expect("memory");
        encoder.finish().expect("memory")
    };
    [member(first), member(second)].concat()
}

fn xz(content: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(6);
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).expect("options");
    writer.write_all(content).expect("memory");
    writer.finish().expect("memory")
}

fn zstd(content: &[u8]) -> Vec<u8> {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let (first, second) = content.split_at(content.len() / 3);
    // A skippable frame stands between two frames, as some tools write for an index.
    let index = [&0x184d_2a50u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"idx"].concat();
    let frame = |part: &[u8]| compress_to_vec(part, CompressionLevel::Fastest);
    [frame(first), index, frame(second)].concat()
}

#[test]
#[ignore = "writes the fixtures"]
fn make_fixtures() {
    fs::create_dir_all(folder()).expect("the folder can be made");
    for (name, _, bytes) in fixtures() {
        fs::write(folder().join(name), bytes).expect("the fixture can be written");
    }
}

#[test]
fn every_fixture_reads_as_the_requests() {
    for (name, format, _) in fixtures() {
        let mut reader = open(&folder().join(&name)).expect(&name);
        assert_eq!(reader.format(), format, "{name}");
        let records: Vec<_> = reader.by_ref().map(|record| record.expect(&name)).collect();
        assert_eq!(records, told(format), "{name}");
        assert_eq!((reader.skipped().total(), reader.clamped()), (0, 0), "{name}");
        assert_eq!(reader.bytes_total(), Some(reader.bytes_read()), "{name}");
    }
}

/// A text may begin with the mark of UTF-8, as Windows writes it.
#[test]
fn a_mark_at_the_head_of_a_text_is_passed_over() {
    const BINARY: [Format; 4] = [Format::Vscsi, Format::Vscsi2, Format::Srt, Format::Wtrace];
    for format in Format::ALL.into_iter().filter(|format| !BINARY.contains(format)) {
        let marked = [b"\xef\xbb\xbf", &content(format)[..]].concat();
        let mut reader = Reader::from_bytes(marked).expect("recognised");
        assert_eq!(reader.format(), format);
        let records: Vec<_> = reader.by_ref().map(|record| record.expect("sound")).collect();
        assert_eq!(records, told(format), "{format}");
    }
}

#[test]
fn every_compressed_fixture_cut_anywhere_ends_in_an_error() {
    for (name, _, bytes) in
        fixtures().into_iter().filter(|(name, ..)| name.matches('.').count() > 1)
    {
        for length in 1..bytes.len() {
            let outcome = Reader::from_bytes(&bytes[..length]).map(|mut reader| {
                let failed = reader.find_map(Result::err);
                failed.map(|error| error.to_string())
            });
            // Cut between two members or frames, it is a whole, shorter file of its kind.
            if matches!(outcome, Ok(None)) {
                let whole = Reader::from_bytes(&bytes[..length]).expect("it just was read").count();
                let cut_line = format!("{name} cut to {length} bytes gives {whole} requests");
                assert!(is_end_of_frame(&name, &bytes, length), "{cut_line}");
            }
        }
    }
}

fn is_end_of_frame(name: &str, bytes: &[u8], length: usize) -> bool {
    let rest = &bytes[length..];
    match name.rsplit('.').next() {
        Some("gz") => rest.starts_with(&[0x1f, 0x8b, 8]),
        Some("zst") => {
            rest.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
                || rest.starts_with(&[0x50, 0x2a, 0x4d, 0x18])
        }
        _ => false,
    }
}
