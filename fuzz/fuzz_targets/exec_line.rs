//! Any text as a line of a measuring command: no panic, and shares are shares.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::differences::Differences;
use wattio_host::sources::exec::line::parse;
use wattio_units::Seconds;

fuzz_target!(|text: &str| {
    let Ok(line) = parse(text) else { return };
    let mut differences = Differences::new("fuzz");
    if let Ok(Some(sample)) = line.clone().sample(Seconds(0.0), &mut differences) {
        assert!(sample.requests == 0 || sample.latency_us_mean.is_some_and(|us| us >= 0.0));
    }
    for group in line.uses().unwrap_or_default() {
        assert!((0.0..=1.0).contains(&group.utilisation_clients));
        assert!((0.0..=1.0).contains(&group.utilisation_background));
    }
});
