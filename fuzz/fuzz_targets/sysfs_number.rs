//! Any text as a number of sysfs: no panic, and what is read is what was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::power::parse_number;

fuzz_target!(|text: &str| {
    if let Some(number) = parse_number(text) {
        assert_eq!(format!("{number:0>width$}", width = text.trim().len()), text.trim());
    }
});
