//! Any text as statistics of a Redis server: no panic, and an error says something.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::redis::parse;

fuzz_target!(|text: &str| match parse(text) {
    Ok(totals) => assert!(totals.latency_us_sum.is_some_and(|sum| sum >= 0.0)),
    Err(message) => assert!(!message.is_empty()),
});
