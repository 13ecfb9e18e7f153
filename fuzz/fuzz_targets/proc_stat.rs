//! Any text as `/proc/stat`: no panic, and no answer without a core.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::proc_stat::parse;

fuzz_target!(|text: &str| {
    if let Ok(cores) = parse(text) {
        assert!(!cores.is_empty());
    }
});
