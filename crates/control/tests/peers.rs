//! Laws of other people's kinds on a simulated server.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod twin;

use twin::{RAND_RW, Trial, latency_us, saving, small};
use wattio_law::{LatencyObservation, Law, Observation};
use wattio_units::Seconds;

/// On a steady load that leaves room they save within their bound, and give back what a heavier
/// load asks for.
#[test]
fn peers_save_where_there_is_room() {
    for policy in ["pegasus", "rubik"] {
        let mut trial = Trial::steady(small(), 8_000.0, RAND_RW, 60.0);
        trial.warmup_s = 30.0;
        let (run, native) = (trial.run(policy, &[]), trial.native());
        let ratio = latency_us(run.rows()) / latency_us(native.rows());
        println!("{policy}: saved {:.3} at x{ratio:.3}", saving(&run, &native));
        assert!(saving(&run, &native) > 0.01, "{policy}");
        assert!(ratio < 1.25, "{policy}: x{ratio:.3}");
    }
}

#[test]
fn what_is_not_known_means_full_speed() {
    let limits = wattio_sim::limits(&small());
    for policy in ["pegasus", "rubik"] {
        let mut law = wattio_control::build(policy, &Default::default(), &limits).unwrap();
        let silent = Observation {
            latency: None,
            groups: vec![],
            background: vec![],
            power: None,
            alarm: false,
        };
        let absurd = LatencyObservation {
            requests: 5,
            latency_us_mean: Some(f64::NAN),
            ..LatencyObservation::quiet(Seconds(0.0))
        };
        let absurd = Observation { latency: Some(absurd), ..silent.clone() };
        for _ in 0..200 {
            assert_eq!(law.step(&silent, Seconds(0.5)), limits.full_speed(), "{policy}");
            assert_eq!(law.step(&absurd, Seconds(0.5)), limits.full_speed(), "{policy}");
        }
    }
}

/// What it measured stood still while it ran at full speed after a spike, so that it went back there
/// again and again, for minutes.
#[test]
fn pegasus_saves_again_after_a_spike() {
    let limits = wattio_sim::limits(&small());
    let mut law = wattio_control::build("pegasus", &Default::default(), &limits).unwrap();
    let mut step = |latency_us: f64| {
        let latency = LatencyObservation {
            requests: 500,
            latency_us_mean: Some(latency_us),
            ..LatencyObservation::quiet(Seconds(0.0))
        };
        let seen = Observation {
            latency: Some(latency),
            groups: vec![],
            background: vec![],
            power: None,
            alarm: false,
        };
        law.step(&seen, Seconds(0.5))
    };
    (0..20).for_each(|_| _ = step(100.0));
    (0..4).for_each(|_| _ = step(2_000.0));
    // 30 s at full speed, from the first step of the spike on, are 60 steps.
    let slower = (0..50).position(|_| step(100.0) != limits.full_speed());
    assert_eq!(slower, None, "it stays at full speed for a while");
    // Its steps are smaller than those between two frequencies.
    let slower = (0..30).position(|_| step(100.0) != limits.full_speed());
    assert!(slower.is_some(), "and not for longer");
}
