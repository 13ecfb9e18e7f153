//! What is idle and what only looks like it.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its law has failed")]

mod bench;

use bench::Bench;
use wattio_law::{Glimpse, InFlight};
use wattio_units::Seconds;

fn waiting(requests: u64, oldest: Option<f64>) -> InFlight {
    InFlight { requests, oldest: oldest.map(Seconds) }
}

/// Requests that hang look like no requests to a counter of completions: after 30 s a server that
/// stalled was taken for idle and ran on 2 of 16 cores at 0.8 GHz. It is the opposite of idle.
#[test]
fn a_server_that_stalls_runs_at_full_speed_and_says_so() {
    for (oldest_known, stalled_at_once) in [(true, true), (false, false)] {
        let mut bench = Bench::new(&[]);
        for _ in 0..40 {
            bench.step(bench.steady());
        }
        let full = bench.limits.full_speed();
        assert_ne!(bench.held.groups, full.groups, "nothing was saved before");
        for window in 1..=200 {
            let oldest = oldest_known.then_some(0.5 * f64::from(window));
            let action = bench.step(bench.window(0, None, waiting(32, oldest), 0.0));
            if window > 1 || stalled_at_once {
                assert_eq!(action, full, "window {window}");
                assert_eq!(bench.mode(), "unstable", "window {window}");
                assert!(bench.law.insight().reason.contains("none is answered"));
            }
        }
        // When it goes on and then falls silent, it may be idle again.
        bench.step(bench.steady());
        for _ in 0..60 {
            bench.step(bench.quiet());
        }
        assert_eq!(bench.mode(), "idle");
    }
}

/// At one request a second, one is now and then under way when a window without any ends.
#[test]
fn a_request_that_has_just_come_is_no_stall() {
    let mut bench = Bench::new(&[]);
    for _ in 0..40 {
        bench.step(bench.steady());
    }
    for in_flight in [waiting(1, Some(0.0002)), InFlight::default(), waiting(1, None)] {
        let action = bench.step(bench.window(0, None, in_flight, 0.0));
        assert_eq!(bench.mode(), "stable");
        assert_ne!(action.groups, bench.limits.full_speed().groups);
    }
}

#[test]
fn a_request_under_way_ends_idle() {
    let mut bench = Bench::new(&[]);
    for _ in 0..60 {
        bench.step(bench.quiet());
    }
    assert_eq!(bench.mode(), "idle");
    let came = Glimpse { in_flight: Some(waiting(1, None)), ..Glimpse::default() };
    assert!(bench.law.is_alarming(&came));
    bench.step(bench.window(0, None, waiting(1, None), 0.0));
    assert_eq!(bench.mode(), "unstable");
}

/// Idle looked at one series of requests only: a server busy with another one (reads, where the
/// writes are watched; another service) was taken to its minimum without any bound, 1.49 times the
/// latency at a promise of 1.2.
#[test]
fn a_server_that_is_busy_for_others_is_not_idle() {
    let mut bench = Bench::new(&[]);
    let full = bench.limits.full_speed();
    for _ in 0..100 {
        bench.step(bench.window(0, None, InFlight::default(), 12.0));
    }
    assert_eq!((bench.mode(), &bench.held), ("unstable", &full));
    assert!(bench.law.insight().reason.contains("keep cores busy"));
    // Little work is none, and has the cores it needs.
    for _ in 0..100 {
        bench.step(bench.window(0, None, InFlight::default(), 0.3));
    }
    assert_eq!(bench.mode(), "idle");
    let seen = bench.window(0, None, InFlight::default(), 0.3 * 2.6 / 0.8);
    assert!(seen.groups[0].utilisation_clients < 0.5, "{seen:?}");
    // A service that comes back while idle overruns the few cores there are.
    bench.step(bench.window(0, None, InFlight::default(), 12.0));
    assert_eq!((bench.mode(), &bench.held), ("unstable", &full));
}
