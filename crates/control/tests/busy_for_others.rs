//! Clients that the watched series of latency does not tell of, under the laws that are not PACER
//! (whose own test is in `pacer_idle.rs`).

#![allow(clippy::unwrap_used, reason = "a test that cannot build its law has failed")]

mod bench;

use bench::{Bench, group};
use wattio_law::{GroupLimits, InFlight, Limits, Observation};

/// A law on a server of two groups of 8 cores, after a steady load that it saves on.
fn saving(policy: &str) -> Bench {
    let group = || GroupLimits { cores_min: 1, cores_max: 8, ..group() };
    let mut bench = Bench::with(policy, &[], Limits::of(vec![group(), group()]));
    bench.clients = 0.1;
    for _ in 0..200 {
        bench.step(bench.steady());
    }
    assert_ne!(bench.held.groups, bench.limits.full_speed().groups, "{policy}: nothing is saved");
    bench
}

/// A window without a request and with so many cores' worth of work at the highest frequency, which
/// takes longer at a lower one.
fn others(bench: &Bench, cores: f64) -> Observation {
    bench.window(0, None, InFlight::default(), cores * stretch(bench))
}

fn stretch(bench: &Bench) -> f64 {
    0.4 + 0.6 * (group().frequency_max / bench.held.groups[0].frequency)
}

/// Foresight looked at the watched series alone: with no request there, and the cores busy for
/// another service, it went to one core of eight and called that idle. A law of PEGASUS' kind
/// stayed as slow as its last request had left it.
#[test]
fn a_server_that_is_busy_for_others_runs_at_full_speed() {
    for policy in ["foresight", "pegasus", "rubik"] {
        let mut bench = saving(policy);
        let full = bench.limits.full_speed();
        for window in 0..100 {
            // As many cores' worth as the last window's cores could take, up to 12 of 16.
            let action = bench.step(others(&bench, 12.0));
            if policy != "rubik" || window > 40 {
                assert_eq!(action.groups, full.groups, "{policy}, window {window}");
            }
        }
        if policy != "rubik" {
            assert!(bench.law.insight().reason.contains("keep cores busy"), "{policy}");
        }
    }
}

/// Little work of others is none, but has cores with room for it.
#[test]
fn a_little_work_of_others_has_the_cores_that_it_needs() {
    let mut bench = saving("foresight");
    for _ in 0..100 {
        bench.step(others(&bench, 0.6));
    }
    for group in &others(&bench, 0.6).groups {
        assert!(group.cores < 8 && group.utilisation_clients < 0.5, "{group:?}");
    }
    // One that comes back meets few cores, fills them, and has all of them next.
    let action = bench.step(others(&bench, 12.0));
    assert_eq!(action.groups, bench.limits.full_speed().groups);
}

/// A request now and then on the watched series: what others need is neither forgotten nor taken for
/// a request's.
#[test]
fn a_lone_request_between_does_not_hide_the_others() {
    let mut bench = saving("foresight");
    for window in 0..200 {
        let requests = u64::from(window % 4 == 0);
        let latency_us = (requests > 0).then_some(100.0);
        let cores = 0.7 * stretch(&bench);
        let seen = bench.window(requests, latency_us, InFlight::default(), cores);
        for group in seen.groups.iter().filter(|_| window > 20) {
            assert!(group.utilisation_clients < 0.8, "window {window}: {group:?}");
        }
        bench.step(seen);
    }
}
