//! Every bound is judged by what its own statistic is at full speed, or not at all.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod twin;

use twin::{RAND_RW, Trial, small};
use wattio_law::{Bound, BoundAccount};

fn trial() -> Trial {
    Trial { warmup_s: 20.0, ..Trial::steady(small(), 36_360.0, RAND_RW, 20.0) }
}

/// The accounts of a law's bounds.
fn accounts(policy: &str, bounds: &[&str]) -> Vec<BoundAccount> {
    let bounds: Vec<Bound> = bounds.iter().map(|bound| bound.parse().unwrap()).collect();
    trial().run_within(policy, &[], &bounds).account().bounds.clone()
}

/// What the law took the statistic to be at full speed, in microseconds.
fn full_speed_us(account: &BoundAccount) -> f64 {
    account.full_speed_us_sum / account.requests as f64
}

/// The second quantile was held against what the first one is at full speed, and broke its bound in
/// every window.
#[test]
fn each_of_two_quantiles_is_judged_by_itself() {
    let native = trial().native().summary();
    for policy in ["pacer", "foresight"] {
        let accounts = accounts(policy, &["p50 20%", "p99 20%"]);
        for (account, is_us) in
            accounts.iter().zip([native.latency_us_p50.unwrap(), native.latency_us_p99.unwrap()])
        {
            assert!(account.windows > 0, "{policy}: {}", account.bound);
            let off = full_speed_us(account) / is_us - 1.0;
            assert!(off.abs() < 0.15, "{policy}: {}: {off:.3} off", account.bound);
        }
    }
}

/// What was learned of the 99th percentile passed for the mean: the bound was never judged, and one on
/// the mean beside it was held against the 99th percentile.
#[test]
fn laws_of_one_statistic_judge_that_and_no_other() {
    let native_us = trial().native().summary().latency_us_p99.unwrap();
    for policy in ["pegasus", "rubik"] {
        let accounts = accounts(policy, &["p99 20%", "mean 20%", "p50 20%"]);
        assert!(accounts[0].windows > 0, "{policy}");
        let off = full_speed_us(&accounts[0]) / native_us - 1.0;
        assert!(off.abs() < 0.15, "{policy}: {off:.3} off");
        assert_eq!((accounts[1].windows, accounts[2].windows), (0, 0), "{policy}");
    }
}
