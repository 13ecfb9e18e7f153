//! Any text as `/proc/diskstats`: no panic, and a device that is listed is found.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::diskstats::{devices, parse};

fuzz_target!(|text: &str| {
    for device in devices(text).take(8) {
        assert!(!matches!(parse(text, device), Ok(None)), "{device} is not found");
    }
    let _ = parse(text, "sda");
});
