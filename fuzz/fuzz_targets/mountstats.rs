//! Any text as `/proc/self/mountstats`: no panic, and a mount that is listed is found or its lines are
//! told to be wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::mountstats::{mounts, parse};

fuzz_target!(|text: &str| {
    let plain = |place: &&str| !place.contains('\\');
    if let Some(place) = mounts(text).filter(plain).last() {
        // Another file system may be mounted above it.
        let _ = parse(text, place);
    }
    let _ = parse(text, "/srv/data");
});
