//! Whatever is read from any bytes, written as wtrace, reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_trace::{Format, Reader, Record, write};

/// A compact trace can state many equal records in few bytes; enough of them were seen by then.
const RECORDS_MAX: usize = 100_000;

fuzz_target!(|bytes: &[u8]| {
    let Ok(reader) = Reader::from_bytes(bytes) else { return };
    let records: Vec<Record> = reader.map_while(Result::ok).take(RECORDS_MAX).collect();
    let mut out = Vec::new();
    write(&mut records.iter().copied().map(Ok), Format::Wtrace, &mut out).expect("memory");
    let again: Vec<Record> =
        Reader::from_bytes(out).expect("recognised").map(|record| record.expect("sound")).collect();
    assert_eq!(again, records);
});
