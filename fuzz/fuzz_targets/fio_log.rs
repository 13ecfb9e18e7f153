//! Any line as one of fio's log: no panic, and an error says something.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::fio_log::parse;

fuzz_target!(|line: &str| {
    if let Err(message) = parse(line) {
        assert!(!message.is_empty());
    }
});
