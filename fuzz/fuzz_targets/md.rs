//! Any text as a file of an array: no panic, and no pass has more done than there is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::md::{action, completed, speed};

fuzz_target!(|text: &str| {
    let _ = action(text);
    if let Ok(Some((done, all))) = completed(text) {
        assert!(done <= all);
    }
    if let Ok(Some(kib_per_s)) = speed(text) {
        assert!(kib_per_s.is_finite() && kib_per_s >= 0.0);
    }
});
