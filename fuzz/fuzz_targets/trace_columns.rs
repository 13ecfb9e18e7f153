//! Any description of columns over any bytes: no panic, and time never goes back.
//!
//! The first line of the input is the description, the rest is the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_trace::{Reader, Reading};

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let Ok(columns) = std::str::from_utf8(&bytes[..end]) else { return };
    let Ok(reading) = Reading::new(None, Some(columns)) else { return };
    let content = std::io::Cursor::new(bytes[end..].to_vec());
    let Ok(reader) = Reader::of(content, None, &reading) else { return };
    let mut last_ns = 0;
    let mut failed = false;
    for result in reader {
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
