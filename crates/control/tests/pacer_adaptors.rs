//! The two adaptors: how fast they give back, and that they come to rest.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its law has failed")]

mod bench;

use bench::Bench;

/// The desired utilisation ran up to its limit while the group was long at its fewest cores. With
/// latency at 1.30 times full speed's (1.20 is promised), nothing moved for 12 windows.
#[test]
fn cores_at_their_fewest_come_back_at_once() {
    for latency_us in [125.0, 130.0] {
        let mut bench = Bench::new(&[twin_flag("adapt_frequency", false)]);
        bench.clients = 0.2;
        for _ in 0..200 {
            bench.step(bench.steady());
        }
        assert_eq!(
            bench.held.groups,
            [wattio_law::GroupAction { cores: 2, frequency: bench.limits.groups[0].frequency_max }]
        );
        let windows = (1..40).find(|_| {
            let seen = bench.steady_at(latency_us);
            bench.step(seen).groups[0].cores > 2
        });
        assert!(windows.is_some_and(|windows| windows <= 2), "{latency_us}: {windows:?} windows");
        assert_eq!(bench.mode(), "stable");
    }
}

fn twin_flag(name: &str, value: bool) -> (String, wattio_control::Value) {
    (name.to_owned(), wattio_control::Value::Flag(value))
}
