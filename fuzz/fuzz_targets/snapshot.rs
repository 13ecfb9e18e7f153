//! Any text as the snapshot of old values: no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_governor::Snapshot;

fuzz_target!(|text: &str| {
    let _ = Snapshot::from_json(text);
});
