//! What bursts do to single requests under foresight, held against the same requests at full speed.
//!
//! A request is hurt if it took more than the bound's 1.2 times what the same request took at full
//! speed, and more than 1.2 times the latency that one in a hundred exceeds at full speed on that
//! load. By the second condition alone, a law that made every request slower by just what the bound
//! allows would hurt one in a hundred, whom full speed itself serves as late; those are taken out by
//! the first. The first alone would count every request whose service happened to be drawn longer:
//! twins have the same arrivals, and draws of their own.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its load has failed")]

mod twin;

use std::path::Path;
use twin::{RAND_RW, Trial, bursts_after_silences, number, phase, saving, small, taken};
use wattio_control::{Settings, Value, build};
use wattio_law::Bound;
use wattio_sim::{Answered, Load, Run, RunSettings, Senders, limits};
use wattio_trace::{Excerpt, Scaled, open};

/// What the bound allows, times full speed.
const ALLOWED: f64 = 1.2;
/// The share of the requests that bursts may hurt.
const HURT_MAX: f64 = 0.01;
const SEEDS: [u64; 3] = [1, 2, 3];

/// `count` times so long at one rate and so long at another, after 10 s of the first.
fn swings(count: usize, phases: [(f64, f64); 2], seed: u64) -> Trial {
    let of = |&(span_s, iops): &(f64, f64)| phase(span_s, Some(iops), RAND_RW);
    let phases = (0..count).flat_map(|_| phases.iter().map(of).collect::<Vec<_>>()).collect();
    Trial { server: small(), senders: Senders::Open, phases, warmup_s: 10.0, seed }
}

/// Every request after the warm-up, in the order of arrival.
fn answers(trial: &Trial, policy: &str, settings: &[(String, Value)]) -> Vec<Answered> {
    let mut run = trial.prepared(policy, settings, &[]);
    run.record_answers();
    run.finish().unwrap();
    let warm_ns = (trial.warmup_s * 1e9) as u64;
    let counted = run.answers().iter().filter(|answer| answer.arrived_ns >= warm_ns);
    let mut counted: Vec<Answered> = counted.copied().collect();
    counted.sort_unstable();
    counted
}

/// The latency that one in a hundred exceeds, in nanoseconds.
fn p99_ns(answers: &[Answered]) -> f64 {
    let mut latencies: Vec<u64> = answers.iter().map(|answer| answer.latency_ns).collect();
    latencies.sort_unstable();
    latencies[(latencies.len() * 99).div_ceil(100) - 1] as f64
}

/// The share of the requests that were hurt.
fn hurt(ours: &[Answered], full: &[Answered]) -> f64 {
    // What was still under way at the end of one run may have been answered in the other.
    assert!(full.len().abs_diff(ours.len()) < 1000);
    let slow_ns = ALLOWED * p99_ns(full);
    let mut twins = full.iter().peekable();
    let mut count = 0;
    for request in ours {
        while twins.next_if(|twin| twin.arrived_ns < request.arrived_ns).is_some() {}
        let twin = twins.next_if(|twin| twin.arrived_ns == request.arrived_ns);
        let over = |limit_ns: f64| request.latency_ns as f64 > limit_ns;
        let slower = twin.is_none_or(|twin| over(ALLOWED * twin.latency_ns as f64));
        count += usize::from(slower && over(slow_ns));
    }
    count as f64 / ours.len() as f64
}

/// At most one request in a hundred, for each of some seeds.
fn few_are_hurt(name: &str, count: usize, phases: [(f64, f64); 2]) {
    for seed in SEEDS {
        let trial = swings(count, phases, seed);
        let ours = answers(&trial, "foresight", &[]);
        let full = answers(&trial, "native", &[]);
        let share = hurt(&ours, &full);
        println!("{name}, seed {seed}: {:.3} % hurt of {}", 100.0 * share, ours.len());
        assert!(share <= HURT_MAX, "{name}, seed {seed}: {share}");
    }
}

#[test]
fn swings_of_300_ms_hurt_few_requests() {
    few_are_hurt("0.3 s", 120, [(0.3, 15e3), (0.3, 500.0)]);
}

#[test]
fn swings_of_4_s_hurt_few_requests() {
    few_are_hurt("4 s", 10, [(4.0, 15e3), (4.0, 500.0)]);
}

#[test]
fn swings_of_20_s_hurt_few_requests() {
    few_are_hurt("20 s", 2, [(20.0, 15e3), (20.0, 500.0)]);
}

#[test]
fn spikes_of_half_a_second_hurt_few_requests() {
    few_are_hurt("spikes", 8, SPIKES);
}

const SPIKES: [(f64, f64); 2] = [(9.5, 2e3), (0.5, 60e3)];

/// A spike meets full speed within 50 ms, or a setting that bears it: one that hurts at most one in a
/// hundred of the spike's own requests.
#[test]
fn a_spike_meets_full_speed_within_50_ms_or_a_setting_that_bears_it() {
    for seed in SEEDS {
        let trial = swings(8, SPIKES, seed);
        let steps = taken(&trial.run("foresight", &[]));
        let (ours, full) = (answers(&trial, "foresight", &[]), answers(&trial, "native", &[]));
        let full_speed = trial.full_speed().groups;
        let mut met = 0;
        for at in 0..8 {
            let began_s = trial.warmup_s + f64::from(at) * 10.0 + 9.5;
            let before = steps.iter().rev().find(|step| step.at_s < began_s).unwrap();
            // A window to learn from may be what a spike comes into.
            if before.action.groups == full_speed {
                continue;
            }
            met += 1;
            let soon = |step: &&twin::Taken| (began_s..=began_s + 0.05).contains(&step.at_s);
            if steps.iter().filter(soon).any(|step| step.action.groups == full_speed) {
                continue;
            }
            let within =
                |a: &&Answered| (0.0..0.5).contains(&(a.arrived_ns as f64 * 1e-9 - began_s));
            let of_spike =
                |all: &[Answered]| all.iter().filter(within).copied().collect::<Vec<_>>();
            let share = hurt(&of_spike(&ours), &of_spike(&full));
            println!("seed {seed}, spike {at}: borne, {:.3} % hurt", 100.0 * share);
            assert!(share <= HURT_MAX, "seed {seed}, spike {at}: {share}");
        }
        assert!(met >= 6, "seed {seed}: {met} of 8 met a setting below full speed");
    }
}

/// With full speed as the law nobody is hurt; with a setting that a spike overruns, many are.
#[test]
fn full_speed_hurts_nobody_and_one_that_is_overrun_many() {
    let trial = swings(2, [(2.0, 2e3), (0.5, 60e3)], 1);
    let full = answers(&trial, "native", &[]);
    assert!(hurt(&full, &full).abs() < f64::EPSILON);
    let few = [number("cores_share", 0.3), number("frequency_share", 0.4)];
    let slow = answers(&trial, "fixed", &few);
    println!("slow: {:.3} % hurt", 100.0 * hurt(&slow, &full));
    assert!(hurt(&slow, &full) > 0.02);
}

/// Drives slept and cores were few before anybody had asked for anything. What the first requests met
/// was taken for full speed, and whole runs that began with silence took 40 times what full speed takes.
#[test]
fn silence_at_the_beginning_promises_nothing() {
    for (quiet_s, burst) in [(20.0, (40.0, 1.0)), (60.0, (0.1, 20e3))] {
        let silence = phase(quiet_s, Some(0.0), RAND_RW);
        let phases = vec![silence, phase(burst.0, Some(burst.1), RAND_RW)];
        let trial =
            Trial { server: small(), senders: Senders::Open, phases, warmup_s: 0.0, seed: 1 };
        let mean_us = |policy| {
            let answers = answers(&trial, policy, &[]);
            let sum_ns: u64 = answers.iter().map(|answer| answer.latency_ns).sum();
            sum_ns as f64 * 1e-3 / answers.len() as f64
        };
        let (ours_us, full_us) = (mean_us("foresight"), mean_us("native"));
        assert!(ours_us <= ALLOWED * full_us, "{ours_us} us, {full_us} us at full speed");
    }
}

/// Of 2,800 requests 1,531 came in the first half second after 80 s of silence, and met cores that were
/// 1.6 times slower than full speed: their mean was 1.34 times full speed's in the end.
#[test]
fn before_anybody_asks_nothing_is_slower_than_the_promise() {
    let phases = vec![phase(60.0, Some(0.0), RAND_RW)];
    let trial = Trial { server: small(), senders: Senders::Open, phases, warmup_s: 0.0, seed: 1 };
    let limits = limits(&trial.server);
    let run = trial.run("foresight", &[]);
    let slower = taken(&run).into_iter().flat_map(|step| {
        let groups = limits.groups.iter().zip(step.action.groups);
        groups.map(|(most, held)| {
            let share = most.frequency_bound_share.unwrap();
            let stretch = 1.0 - share + share * (most.frequency_max / held.frequency);
            f64::from(most.cores_max) / f64::from(held.cores) * stretch
        })
    });
    let slowest = slower.fold(1.0, f64::max);
    assert!(slowest <= ALLOWED + 1e-9, "{slowest} times slower");
    assert!(slowest > 1.1, "there is something to save: {slowest}");
}

/// Sparse requests had spent nine tenths of what they are allowed; a burst of as many in a tenth of a second
/// was let pass, as each of them lost no more than it is allowed, and the mean was 1.25 times full speed's.
#[test]
fn a_burst_after_little_is_left_of_the_promise_meets_full_speed() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/pgbench.wtrace");
    for seed in [4, 6, 8] {
        let mean_us = |policy| {
            let (server, bound) = (small(), "mean 20%".parse::<Bound>().unwrap());
            let law = build(policy, &Settings::new(), &limits(&server)).unwrap();
            let excerpt = Excerpt::new(open(&trace).unwrap(), 110.0).unwrap();
            let load = Load::Trace(Box::new(Scaled::new(excerpt, 1.0, 1.0, 1).unwrap()));
            let cut = RunSettings { warmup_s: 0.0, duration_s: Some(60.0), window_s: 0.5, seed };
            let mut run = Run::with_bounds(&server, law, &[bound], load, cut).unwrap();
            run.finish().unwrap();
            run.summary().latency_us_mean.unwrap()
        };
        let (ours_us, full_us) = (mean_us("foresight"), mean_us("native"));
        assert!(ours_us <= ALLOWED * full_us, "seed {seed}: {ours_us} us, {full_us} us");
    }
}

/// Drives that had been told to sleep did so between any two requests of a burst, and burst after burst came
/// within one window: each request waited for half a waking, and means were up to 1.7 times full speed's.
#[test]
fn drives_do_not_fall_asleep_over_and_over_while_a_burst_lasts() {
    for seed in SEEDS {
        let spans = bursts_after_silences(120.0, 16e3);
        let phases = spans.iter().map(|&(span_s, iops)| phase(span_s, Some(iops), RAND_RW));
        let phases = phases.collect();
        let trial = Trial { server: small(), senders: Senders::Open, phases, warmup_s: 0.0, seed };
        let (ours, full) = (trial.run("foresight", &[]), trial.native());
        let mean_us = |run: &Run| run.summary().latency_us_mean.unwrap();
        let (ours_us, full_us) = (mean_us(&ours), mean_us(&full));
        assert!(ours_us <= ALLOWED * full_us, "seed {seed}: {ours_us} us, {full_us} us");
        let saved = saving(&ours, &full);
        assert!(saved > 0.08, "seed {seed}: {saved}");
    }
}
