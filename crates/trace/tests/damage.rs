//! Whatever bytes come in: never a panic, never an endless loop, and every error says where.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use wattio_trace::{Format, Reader, TraceError};

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces");
    let entries = fs::read_dir(folder).expect("the fixtures are in the tree");
    let mut out: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.to_string_lossy().contains("synthetic"))
        .map(|path| {
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            (name, fs::read(path).expect("readable"))
        })
        .collect();
    out.sort();
    out
}

/// Read to the end. Time must not go back, and an error must say what it is about.
fn check(bytes: Vec<u8>) -> Result<(), TestCaseError> {
    let limit = 1_000 + bytes.len() * 200;
    let mut last_ns = 0;
    let reader = match Reader::from_bytes(bytes) {
        Ok(reader) => reader,
        Err(error) => return check_error(&error),
    };
    let format = reader.format();
    let mut ended = false;
    for (count, result) in reader.enumerate() {
        prop_assert!(!ended, "{format}: something follows an error");
        prop_assert!(count < limit, "{format}: no end after {limit} records");
        match result {
            Ok(record) => {
                prop_assert!(record.time_ns >= last_ns, "{format}: time goes back");
                prop_assert!(record.bytes > 0, "{format}: a record without data");
                last_ns = record.time_ns;
            }
            Err(error) => {
                check_error(&error)?;
                ended = true;
            }
        }
    }
    Ok(())
}

fn check_error(error: &TraceError) -> Result<(), TestCaseError> {
    let message = error.to_string();
    match error {
        TraceError::Damaged { format, at, problem } => {
            prop_assert!(message.starts_with(format.name()), "{message}");
            prop_assert!(message.contains(&format!("record {}", at.record)), "{message}");
            prop_assert!(message.contains(&format!("byte {}", at.byte)), "{message}");
            prop_assert!(!problem.is_empty());
        }
        TraceError::Empty | TraceError::UnrecognisedFormat { .. } | TraceError::Source(_) => {}
        other => prop_assert!(false, "an error that reading cannot give: {other}"),
    }
    Ok(())
}

/// Beginnings that lead random bytes past recognition into each parser.
fn beginnings() -> Vec<&'static [u8]> {
    vec![
        b"",
        b"fio version 2 iolog\n",
        b"fio version 3 iolog\n",
        b"1,h,0,Read,0,512,0\n",
        b"0,R,0,512,1\n",
        b"1,0,8,0,3\n",
        b"1.5,0.1,R,0,0,512\n",
        b"0,8,512,R,1.5\n",
        b"1 2 p 8 16 W 8 0 d1\n",
        b"0.0 0 8 16 1\n",
        b"8,0 0 1 0.1 1 Q R 8 + 16 [x]\n",
        b"$$TR_IOREC-1.3\n\x0c",
        b"\x89wtrace\n\x01\0\0\0",
        b"\0\0\0\0\0\x10\0\0\x01\0\0\0\x28\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x28\0\0\x02\0\0\0\0\0\x10\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x1f\x8b\x08",
        b"\xfd7zXZ\0",
        b"\x28\xb5\x2f\xfd",
    ]
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        beginning in prop::sample::select(beginnings()),
        rest in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        check([beginning, &rest].concat())?;
    }

    #[test]
    fn random_text_never_panics(
        beginning in prop::sample::select(beginnings()),
        rest in "[0-9RWQDCF ,.+\\-\n\\[\\]a-e]{0,400}",
    ) {
        check([beginning, rest.as_bytes()].concat())?;
    }

    #[test]
    fn a_changed_trace_never_panics(
        which in 0..17usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let fixtures = fixtures();
        let (_, mut bytes) = fixtures[which % fixtures.len()].clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        check(bytes)?;
    }
}

/// Formats whose records have a fixed length or a checksum notice every cut; in a format of lines, a
/// cut number can look like a whole one, so only a cut within a line's needed fields is noticed.
#[test]
fn a_cut_binary_trace_is_an_error() {
    let binary = [Format::Vscsi, Format::Vscsi2, Format::Srt, Format::Wtrace];
    for (name, bytes) in fixtures() {
        let format = Reader::from_bytes(&bytes[..]).expect(&name).format();
        if !binary.contains(&format) {
            continue;
        }
        for cut in [bytes.len() - 1, bytes.len() - 31, bytes.len() / 2 + 1] {
            let failure = Reader::from_bytes(&bytes[..cut]).expect(&name).find_map(Result::err);
            assert!(matches!(failure, Some(TraceError::Damaged { .. })), "{name} cut to {cut}");
        }
    }
}

#[test]
fn a_gross_jump_backwards_is_an_error_and_a_small_one_is_put_in_order() {
    let times_ns = |text: &str| -> Result<Vec<u64>, TraceError> {
        Reader::from_bytes(text)?.map(|record| record.map(|record| record.time_ns)).collect()
    };
    let small = "0,R,0,512,5000000\n0,R,0,512,4000000\n0,R,0,512,6000000\n";
    assert_eq!(times_ns(small).expect("sound"), [0, 1_000_000_000, 2_000_000_000]);
    let gross = "0,R,0,512,900000000\n0,R,0,512,1000000000\n0,R,0,512,5\n";
    let message = times_ns(gross).expect_err("a jump").to_string();
    assert!(
        message.contains("record 3 (line 3") && message.contains("time goes back by"),
        "{message}"
    );
}

#[test]
fn the_empty_and_the_unknown_are_refused() {
    assert!(matches!(Reader::from_bytes(""), Err(TraceError::Empty)));
    let Err(error) = Reader::from_bytes("hello world\n") else { panic!("recognised") };
    assert!(error.to_string().contains("\"hello world"), "{error}");
    assert!(
        error
            .to_string()
            .ends_with("`columns` describes them, as in time=0:us,op=2,lba=3:sectors,size=4:bytes"),
        "{error}"
    );
}
