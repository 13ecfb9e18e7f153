//! Conversion: what is written reads back, and nothing half-written is ever left.

use std::fs;
use std::path::{Path, PathBuf};

use wattio_trace::{Format, Kind, Reading, Record, TraceError, convert, info_json, open, write};

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wattio-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("readable");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("readable").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Requests 130 us apart on one device: every written format holds them exactly.
fn requests(count: u64) -> Vec<Record> {
    let record = |index: u64| Record {
        time_ns: index * 130_000,
        offset_bytes: index * 4096 % 1_000_000 / 512 * 512,
        bytes: 512 << (index % 5),
        device: 0,
        kind: if index.is_multiple_of(3) { Kind::Write } else { Kind::Read },
    };
    (0..count).map(record).collect()
}

fn source(folder: &Folder, records: &[Record]) -> PathBuf {
    let path = folder.join("source.wtrace");
    let mut bytes = Vec::new();
    write(&mut records.iter().copied().map(Ok), Format::Wtrace, &mut bytes).expect("memory");
    fs::write(&path, bytes).expect("written");
    path
}

fn read(path: &Path) -> Vec<Record> {
    open(path).expect("recognised").map(|record| record.expect("sound")).collect()
}

#[test]
fn every_written_form_reads_back() {
    let folder = Folder::new("every-format");
    let records = requests(50_000);
    let source = source(&folder, &records);
    for format in Format::WRITABLE {
        for name in [format.name().to_owned(), format!("{format}.gz")] {
            let target = folder.join(&name);
            let mut shares = Vec::new();
            let mut progress = |share| {
                shares.push(share);
                true
            };
            let count =
                convert(&source, &Reading::Detected, &target, format, 1.0, 1.0, &mut progress)
                    .expect(&name);
            assert_eq!(count, 50_000);
            assert_eq!(open(&target).expect(&name).format(), format);
            assert_eq!(read(&target), records, "{name}");
            assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{shares:?}");
        }
    }
    assert!(!folder.files().iter().any(|name| name.contains("part")));
}

#[test]
fn a_trace_is_scaled_on_the_way() {
    let folder = Folder::new("scaled");
    let source = source(&folder, &requests(10_000));
    let target = folder.join("target");
    let count =
        convert(&source, &Reading::Detected, &target, Format::Wtrace, 2.0, 0.5, &mut |_| true)
            .expect("sound");
    let records = read(&target);
    assert_eq!((count, records.len()), (20_000, 20_000));
    assert!(records[19_999].time_ns <= 10_000 * 65_000);
}

#[test]
fn a_damaged_source_leaves_no_target() {
    let folder = Folder::new("damaged");
    let source = source(&folder, &requests(50_000));
    let bytes = fs::read(&source).expect("readable");
    fs::write(&source, &bytes[..bytes.len() - 3]).expect("written");
    let target = folder.join("target.csv");
    fs::write(&target, "kept").expect("written");
    let failure =
        convert(&source, &Reading::Detected, &target, Format::Msr, 1.0, 1.0, &mut |_| true);
    let message = failure.expect_err("the source is cut").to_string();
    assert!(message.contains("source.wtrace: wtrace trace, record 50001"), "{message}");
    assert_eq!(folder.files(), ["source.wtrace", "target.csv"]);
    assert_eq!(fs::read_to_string(&target).expect("readable"), "kept");
}

#[test]
fn a_stop_leaves_no_target() {
    let folder = Folder::new("stopped");
    let source = source(&folder, &requests(50_000));
    let mut calls = 0;
    let mut progress = |_| {
        calls += 1;
        calls < 3
    };
    let failure = convert(
        &source,
        &Reading::Detected,
        &folder.join("t"),
        Format::Msr,
        1.0,
        1.0,
        &mut progress,
    );
    assert!(matches!(failure, Err(TraceError::Stopped)));
    assert_eq!(folder.files(), ["source.wtrace"]);
}

#[test]
fn what_cannot_be_written_is_said() {
    let folder = Folder::new("unwritable");
    let mut records = requests(10);
    records[4].device = 9;
    records[6].offset_bytes = 100;
    let source = source(&folder, &records);
    let target = folder.join("target");
    let try_it = |format, target: &Path, rate| {
        let outcome =
            convert(&source, &Reading::Detected, target, format, rate, 1.0, &mut |_| true);
        outcome.map(|_| ()).map_err(|error| error.to_string())
    };
    let message = try_it(Format::Vscsi, &target, 1.0).expect_err("two devices");
    assert!(message.contains("record 5") && message.contains("devices 0 and 9"), "{message}");
    let message = try_it(Format::Srt, &target, 1.0).expect_err("only read");
    assert!(message.contains("srt can be read but not written"), "{message}");
    let message = try_it(Format::Msr, &target.with_extension("zst"), 1.0).expect_err("only read");
    assert!(message.contains(".zst are only read"), "{message}");
    let message = try_it(Format::Msr, &target, -1.0).expect_err("a negative rate");
    assert!(message.contains("rate scale is -1"), "{message}");
    let message = try_it(Format::Msr, &folder.join("no/such/folder"), 1.0).expect_err("no folder");
    assert!(message.contains("no/such"), "{message}");
    assert_eq!(folder.files(), ["source.wtrace"]);
}

#[test]
fn a_trace_is_described_as_json() {
    let folder = Folder::new("described");
    let source = source(&folder, &requests(1_000));
    let text = info_json(&source, &Reading::Detected, &mut |_| true).expect("sound");
    assert!(text.starts_with("{\"format\":\"wtrace\",\"ios\":1000,"), "{text}");
    let missing = info_json(&folder.join("missing"), &Reading::Detected, &mut |_| true)
        .expect_err("no such file");
    assert!(missing.to_string().contains("missing: No such file"), "{missing}");
}
