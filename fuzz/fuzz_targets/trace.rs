//! Any bytes as a trace: no panic, time never goes back, and nothing follows an error.
//!
//! Start from the synthetic files: `cargo +nightly fuzz run trace fuzz/corpus/trace
//! tests/data/traces`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_trace::Reader;

/// A compact trace can state many equal records in few bytes; enough of them were seen by then.
const RECORDS_MAX: usize = 1_000_000;

fuzz_target!(|bytes: &[u8]| {
    let Ok(reader) = Reader::from_bytes(bytes) else { return };
    let mut last_ns = 0;
    let mut failed = false;
    for result in reader.take(RECORDS_MAX) {
        assert!(!failed, "something follows an error");
        match result {
            Ok(record) => {
                assert!(record.time_ns >= last_ns, "time goes back");
                last_ns = record.time_ns;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                failed = true;
            }
        }
    }
});
