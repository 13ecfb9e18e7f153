//! Any text as a metrics page: no panic, and what is read can be subtracted from itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::differences::Differences;
use wattio_host::sources::prometheus::text::{Selector, candidates, read, value};
use wattio_units::Seconds;

fuzz_target!(|page: &str| {
    let selector = |labels: &[(&str, &str)]| Selector {
        metric: "m".to_owned(),
        labels: labels.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
        unit_us: 1e6,
    };
    let _ = (candidates(page), read(page, &selector(&[("a", "b")])));
    for labels in [&[][..], &[("a", "b")]] {
        if let Err(message) = value(page, "m", &selector(labels).labels) {
            assert!(!message.is_empty());
        }
    }
    match read(page, &selector(&[])) {
        Ok(totals) => {
            let mut differences = Differences::new("fuzz");
            assert_eq!(differences.window(Seconds(0.0), totals.clone()), Ok(None));
            let window = differences.window(Seconds(1.0), totals).unwrap().unwrap();
            assert_eq!((window.requests, window.latency_us_mean), (0, None));
        }
        Err(message) => assert!(!message.is_empty()),
    }
});
