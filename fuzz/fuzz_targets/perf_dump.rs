//! Any bytes as an answer of a Ceph OSD or of an SPDK target: no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::sources::{ceph, spdk};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(totals) = ceph::parse(bytes) {
        assert!(totals.latency_us_sum.is_some_and(|sum| sum >= 0.0));
    }
    let _ = spdk::parse(bytes);
});
