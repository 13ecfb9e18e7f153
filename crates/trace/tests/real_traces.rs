//! The published traces that cannot be shipped, found through `WATTIO_TRACES`.
//!
//! The expected numbers are those their provenance note states; they were counted by other means.

use std::path::PathBuf;

use wattio_trace::{Format, Info, info, open};

fn describe(name: &str) -> Option<Info> {
    let Some(folder) = std::env::var_os("WATTIO_TRACES") else {
        eprintln!("skipped: WATTIO_TRACES is not set, {name} is not at hand");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    let mut reader = open(&path).expect("the trace is recognised");
    Some(info(&mut reader, &mut |_| true).expect("the trace is sound"))
}

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found}, not {expected}");
}

#[test]
fn cloudphysics_vscsi() {
    let Some(info) = describe("cloudPhysicsIO.vscsi") else { return };
    assert_eq!((info.format, info.ios), (Format::Vscsi, 113_872));
    near(info.span_s, 7_200.1, 0.05);
    near(info.read_share.expect("requests"), 0.41, 0.005);
    near(info.size_bytes.expect("requests").mean / 1024.0, 36.0, 0.5);
    assert_eq!(info.rate_per_s.expect("requests").max, 2_204);
    assert_eq!((info.skipped.total(), info.clamped), (0, 0));
}

#[test]
fn tpcc_disksim() {
    let Some(info) = describe("tpcc-small.trace") else { return };
    assert_eq!((info.format, info.ios), (Format::DiskSim, 6_999));
    near(info.span_s, 0.137, 0.001);
    near(info.read_share.expect("requests"), 0.63, 0.005);
    near(info.size_bytes.expect("requests").mean / 1024.0, 8.3, 0.05);
    near(info.rate_per_s.expect("requests").mean.expect("a span") / 1000.0, 51.0, 0.5);
}

#[test]
fn hplajw_srt() {
    let Some(info) = describe("ajw.1week.srt") else { return };
    assert_eq!((info.format, info.ios), (Format::Srt, 44_519));
    near(info.span_s / 86_400.0, 6.98, 0.005);
    assert_eq!(info.idle_gaps.count, 1_358);
    near(info.size_bytes.expect("requests").mean / 1024.0, 5.8, 0.05);
    assert_eq!(info.devices, 2);
}
