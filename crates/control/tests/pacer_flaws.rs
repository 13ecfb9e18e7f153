//! The five flaws of the printed law (PACER document) that ours must not have.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod twin;

use twin::{RAND_RW, Trial, dorado_quarter, flag, last_quarter, latency_us, number, pattern};
use twin::{phase, saving, small, taken};
use wattio_sim::Senders;

const PLF: f64 = 0.2;
/// What the clients of a quarter of the document's server reach at full speed, Rand_RW.
const QUARTER_IOPS: f64 = 596_600.0 / 4.0;

/// In print the baseline is the latency of the last stable window, power saving or not. Each time
/// it takes in the loss of the step before, so that plf is granted again and again: the latency
/// creeps up without end. The same fault is known from an energy runtime of high-performance
/// computing (25 % slower under a bound of 5 %). Ours learns at full speed only. Here it runs for
/// five minutes, and once more with baselines that are too old after 20 s, so that it has to learn
/// again and again while it would rather save.
#[test]
fn flaw_1_the_baseline_does_not_creep() {
    let trial = Trial::steady(small(), 2_000.0, RAND_RW, 300.0);
    let native = trial.native();
    for age_max in [1800.0, 20.0] {
        let run = trial.pacer(&[number("baseline_age_max", age_max)]);
        let whole = latency_us(run.rows()) / latency_us(native.rows());
        let end = latency_us(last_quarter(&run)) / latency_us(last_quarter(&native));
        let saved = saving(&run, &native);
        let changes = run.summary().state_changes;
        let told = format!(
            "baselines kept {age_max} s: latency x{whole:.3}, at the end x{end:.3}, saved {saved:.3}, {changes} changes"
        );
        println!("{told}");
        assert!(whole <= 1.0 + PLF && end <= 1.0 + PLF, "{told}");
        assert!(saved > 0.02, "{told}");
        assert_eq!(changes > 10, age_max < 300.0, "{told}");
    }
}

/// In print cores and frequency integrate the same error at the same time. They fight, and where
/// they settle depends on their gains: 514 to 610 W for the same latency at 5 % pressure in a
/// rough model. Ours lets one act at a time; four times the gain of the frequency must not change
/// the power it settles at: neither on a server whose cores poll, where the cores go first, nor on
/// one whose idle cores sleep, where the frequency does.
#[test]
fn flaw_2_where_it_settles_does_not_depend_on_gamma() {
    for (server, iops) in [(dorado_quarter(), 0.05 * QUARTER_IOPS), (small(), 10_000.0)] {
        let trial = Trial { warmup_s: 40.0, ..Trial::steady(server, iops, RAND_RW, 20.0) };
        let power_w = |coordinated: bool| {
            [0.025, 0.05, 0.1].map(|gamma| {
                let settings = [number("gamma", gamma), flag("coordinated", coordinated)];
                trial.pacer(&settings).summary().power_w_mean
            })
        };
        let (ours, printed) = (power_w(true), power_w(false));
        let told = format!(
            "{} at gamma 0.025, 0.05, 0.1: ours {ours:.2?} W, as printed {printed:.2?} W",
            trial.server.name
        );
        println!("{told}");
        assert!(spread(ours) < 0.01, "{told}");
        assert!(spread(printed) > spread(ours), "{told}");
    }
}

/// By how much the most exceeds the least.
fn spread(power_w: [f64; 3]) -> f64 {
    let most = power_w.into_iter().fold(f64::MIN, f64::max);
    most / power_w.into_iter().fold(f64::MAX, f64::min) - 1.0
}

/// In print a burst is looked for at the end of each 500 ms window, so that it is seen up to half a
/// second late, with cores off and the frequency low. Ours counts requests over 50 ms and closes
/// the window when more came than the active cores can take. The burst is the document's: 3 % to
/// 100 % pressure, 8 to 32 KiB; it comes just after a window began, when print reacts latest.
#[test]
fn flaw_3_a_burst_is_seen_within_the_window() {
    let limited = Some(QUARTER_IOPS);
    for (senders, iops) in
        [(Senders::Open, limited), (Senders::Clients(225), limited), (Senders::Clients(225), None)]
    {
        let mut trial = Trial::steady(dorado_quarter(), QUARTER_IOPS * 0.03, RAND_RW, 20.02);
        trial.phases.push(phase(1.0, iops, pattern(0.7, 1.0, 32_768)));
        trial.senders = senders;
        let steps = taken(&trial.pacer(&[]));
        let burst_s = trial.warmup_s + trial.phases[0].span_s;
        let full = trial.full_speed();
        let before = steps.iter().rev().find(|step| step.at_s < burst_s).unwrap();
        assert_eq!(before.state, "stable");
        assert_ne!(before.action.groups, full.groups, "nothing was saved before the burst");
        let mut after = steps.iter().filter(|step| step.at_s >= burst_s);
        let seen_s = after.find(|step| step.action == full).unwrap().at_s - burst_s;
        println!("{senders:?} {iops:?}: full speed {:.0} ms after the burst", seen_s * 1e3);
        assert!(seen_s < 0.125, "{senders:?}: full speed only {seen_s:.3} s after the burst");
        for step in steps.iter().filter(|step| step.at_s >= burst_s + seen_s) {
            assert_eq!(step.action.groups, full.groups, "{senders:?}: saved in the burst");
        }
    }
}

/// The alarm once rested on the last window's utilisation, and a silence of a second disarmed it.
#[test]
fn flaw_3_a_burst_after_a_silence_is_seen_as_fast() {
    let mut trial = Trial::steady(dorado_quarter(), QUARTER_IOPS * 0.1, RAND_RW, 20.0);
    trial.phases.push(phase(1.02, Some(0.0), RAND_RW));
    trial.phases.push(phase(0.5, Some(QUARTER_IOPS), RAND_RW));
    trial.senders = Senders::Open;
    let steps = taken(&trial.pacer(&[]));
    let burst_s = trial.warmup_s + 21.02;
    let full = trial.full_speed();
    let before = steps.iter().rev().find(|step| step.at_s < burst_s).unwrap();
    assert_eq!(before.state, "stable");
    assert_ne!(before.action.groups, full.groups, "nothing was saved before the burst");
    let mut after = steps.iter().filter(|step| step.at_s >= burst_s);
    let seen_s = after.find(|step| step.action == full).unwrap().at_s - burst_s;
    assert!(seen_s < 0.125, "full speed only {seen_s:.3} s after the burst");
}

/// Starving background work looks like saving, and the document bounds it by nothing. Ours puts it
/// off and catches up: over a run 0.98 of what full speed does is done, steady or with silences.
#[test]
fn flaw_4_background_work_is_shifted_and_not_dropped() {
    let steady = Trial::steady(dorado_quarter(), 15_000.0, RAND_RW, 30.0);
    let mut sleepy = Trial::steady(small(), 2_000.0, RAND_RW, 20.0);
    sleepy.warmup_s = 0.0;
    for span_s in [30.0, 17.0] {
        sleepy.phases.push(phase(span_s, Some(0.0), RAND_RW));
        sleepy.phases.push(phase(20.0, Some(2_000.0), RAND_RW));
    }
    for trial in [steady, sleepy] {
        let name = &trial.server.name;
        let (run, native) = (trial.pacer(&[number("idle_after", 5.0)]), trial.native());
        let kept = run.summary().background_rate_mean / native.summary().background_rate_mean;
        println!("{name}: {kept:.4} of native's background work, {:?}", run.summary().state_share);
        assert!(kept >= 0.98, "{name}: {kept:.4} of native's background work");
        assert!(saving(&run, &native) > 0.02);
        let idle = taken(&run).iter().any(|step| step.state == "idle");
        assert_eq!(idle, trial.phases.len() > 1);
        // The setting that stands for print shows what the test would catch.
        let printed = trial.pacer(&[number("background_floor", 0.0), number("idle_after", 5.0)]);
        let starved =
            printed.summary().background_rate_mean / native.summary().background_rate_mean;
        println!("{name}: {starved:.4} with background_floor = 0");
        assert!(starved < 0.98, "{name}: {starved:.4} of native's background work without a floor");
    }
}

/// A source that counts no request is live, and its server may sleep; a source that says nothing
/// leaves clients in the dark, and its server runs at full speed. In print both are "no latency".
/// Idle ends when a request arrives. Once it ended only when one was answered, so that the first
/// ones were served by the fewest cores at the lowest frequency.
/// (`zero_requests_lead_to_idle_and_silence_to_full_speed` has the silent source.)
#[test]
fn flaw_5_no_request_leads_to_idle_and_the_first_one_wakes_it() {
    for iops in [50.0, 2_000.0] {
        let mut trial = Trial::steady(small(), 2_000.0, RAND_RW, 10.0);
        trial.phases.push(phase(40.03, Some(0.0), RAND_RW));
        trial.phases.push(phase(3.0, Some(iops), RAND_RW));
        let run = trial.pacer(&[]);
        let steps = taken(&run);
        let quiet_s = trial.warmup_s + trial.phases[0].span_s;
        let back_s = quiet_s + trial.phases[1].span_s;
        let idle = steps.iter().find(|step| step.state == "idle").unwrap();
        let after_s = idle.at_s - quiet_s;
        assert!((30.0..=31.0).contains(&after_s), "idle {after_s} s after the last request");
        let woken = run.steps().iter().zip(&steps).find(|(_, taken)| taken.at_s >= back_s).unwrap();
        println!("{iops} requests/s: awake {:.1} ms after", (woken.1.at_s - back_s) * 1e3);
        assert!(woken.0.seen.alarm, "the window's end came first");
        assert_eq!(woken.1.state, "unstable", "{iops} requests/s");
        assert_eq!(woken.1.action, trial.full_speed(), "{iops} requests/s");
    }
}
