//! Any lines of the kernel's trace: no panic, and no more requests than were issued.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::tracepoint::{event, requests::Requests};
use wattio_units::Seconds;

fuzz_target!(|text: &str| {
    let mut requests = Requests::default();
    for event in text.lines().filter_map(event::parse) {
        requests.take(event);
    }
    if let Ok(sample) = requests.sample(Seconds(0.0), None) {
        assert!(sample.arrived.is_some_and(|arrived| arrived >= sample.requests));
    }
});
