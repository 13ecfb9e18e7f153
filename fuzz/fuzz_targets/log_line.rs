//! Any line as one of a log of requests: no panic, and a latency is a number that is not negative.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::log::parse;

fuzz_target!(|line: &str| {
    if let Some(latency) = parse(line, "rt=") {
        assert!(latency >= 0.0 && latency.is_finite());
    }
});
