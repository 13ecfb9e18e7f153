//! PACER within every kind of bound.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod bench;
mod twin;

use bench::Bench;
use twin::{RAND_RW, Trial, latency_us, saving, small};
use wattio_sim::Run;

fn trial() -> Trial {
    Trial { warmup_s: 20.0, ..Trial::steady(small(), 36_360.0, RAND_RW, 40.0) }
}

fn p99_us(run: &Run) -> f64 {
    run.summary().latency_us_p99.unwrap()
}

/// What was saved, and the mean and 99th percentile over those at full speed. The law's own account
/// says that every bound was kept.
fn kept(trial: &Trial, native: &Run, bounds: &[&str]) -> (f64, f64, f64) {
    let run = trial.within(bounds);
    let mean = latency_us(run.rows()) / latency_us(native.rows());
    let tail = p99_us(&run) / p99_us(native);
    let saved = saving(&run, native);
    println!("{bounds:?}: saved {saved:.4}, mean x{mean:.3}, p99 x{tail:.3}");
    for account in &run.account().bounds {
        let worst = account.worst;
        println!("  {} in {} windows, worst {worst:?}", account.windows_over, account.windows);
        assert_eq!(account.is_kept(), Some(true), "{:?}", account.bound.to_string());
    }
    (saved, mean, tail)
}

/// Every bound but the share of a mean was passed over without a word.
#[test]
fn a_bound_on_a_quantile_is_kept_and_room_below_it_used() {
    let (trial, native) = (trial(), trial().native());
    let (careful, _, tail) = kept(&trial, &native, &["p99 5%"]);
    assert!(tail <= 1.05 && careful > 0.02, "saved {careful:.3}, p99 x{tail:.3}");
    let (eager, _, tail) = kept(&trial, &native, &["p99 30%"]);
    assert!(tail <= 1.3 && eager > careful + 0.02, "saved {eager:.3}, p99 x{tail:.3}");
}

#[test]
fn an_absolute_bound_is_steered_at_and_one_out_of_reach_saves_nothing() {
    let (trial, native) = (trial(), trial().native());
    let base_us = latency_us(native.rows());
    let bound = format!("mean {:.1} us", base_us * 1.3);
    let (saved, mean, _) = kept(&trial, &native, &[&bound]);
    assert!((1.15..=1.3).contains(&mean) && saved > 0.1, "saved {saved:.3}, mean x{mean:.3}");
    let run = trial.within(&[&format!("mean {:.1} us", base_us * 0.9)]);
    let saved = saving(&run, &native);
    assert!(saved.abs() < 1e-4, "saved {saved}: at full speed it is over the limit already");
    assert_eq!(run.account().bounds[0].is_kept(), Some(false));
}

#[test]
fn of_several_bounds_the_one_with_the_least_room_steers() {
    let (trial, native) = (trial(), trial().native());
    let (_, mean, tail) = kept(&trial, &native, &["mean 40%", "p99 5%", "p50 1 s"]);
    assert!(tail <= 1.05 && mean < 1.2, "mean x{mean:.3}, p99 x{tail:.3}");
    let (_, mean, _) = kept(&trial, &native, &["p99 100%", "mean 10%"]);
    assert!((1.05..=1.1).contains(&mean), "mean x{mean:.3}");
}

/// A bound on each window leaves room for what windows differ by.
#[test]
fn a_bound_on_each_window_is_kept_in_each() {
    let (trial, native) = (trial(), trial().native());
    let (saved, ..) = kept(&trial, &native, &["mean 20% window"]);
    assert!(saved > 0.05, "saved {saved:.3}");
    let (saved, ..) = kept(&trial, &native, &["p99 30% window"]);
    assert!(saved > 0.02, "saved {saved:.3}");
}

#[test]
fn a_quantile_that_nobody_tells_of_means_full_speed() {
    let mut bench = Bench::new(&[]);
    bench.law.set_bounds(&["p99 20%".parse().unwrap()]);
    for _ in 0..100 {
        let action = bench.step(bench.steady());
        assert_eq!(action, bench.limits.full_speed());
    }
    assert!(bench.law.insight().reason.contains("how latencies spread"));
    assert_eq!(bench.law.bounds(), ["p99 20% run".parse().unwrap()]);
}
