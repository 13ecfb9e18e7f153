//! Foresight within bounds of every kind, on loads that its constants were not chosen on: patterns and sizes
//! that change, rates that walk, rise and fall, clients that wait for answers. Slow: part of `make
//! test-system`, which runs what is ignored in files of this name.
//!
//! `WATTIO_LOAD=walk`: the loads whose name contains that; `WATTIO_SEED=2`: another seed;
//! `WATTIO_BOUND=p99`: all loads with that one of the kinds.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its load has failed")]

mod twin;

use twin::{IRRATIONAL, Outcome, RAND_RW, dorado, hold, pattern, phase, small, spread};
use wattio_control::{Settings, build};
use wattio_law::Bound;
use wattio_plant::Server;
use wattio_sim::{Load, Pattern, Phase, Run, RunSettings, Senders, Summary, limits};

const READS: Pattern = pattern(1.0, 1.0, 8192);
const WRITES: Pattern = pattern(0.0, 1.0, 8192);
const SMALL_IO: Pattern = pattern(0.5, 1.0, 4096);
const LARGE_WRITES: Pattern = pattern(0.0, 1.0, 65_536);
const COPIED: Pattern = pattern(0.0, 0.0, 131_072);
/// A pattern, and what of a rate it can have.
const PATTERNS: [(Pattern, f64); 8] = [
    (RAND_RW, 1.0),
    (READS, 1.0),
    (WRITES, 1.0),
    (pattern(1.0, 0.0, 131_072), 0.3),
    (COPIED, 0.3),
    (SMALL_IO, 1.0),
    (LARGE_WRITES, 0.3),
    (pattern(1.0, 1.0, 32_768), 0.6),
];
const SPAN_S: f64 = 90.0;

/// Phases by number, until they take up the span.
fn until_full(phases: impl Fn(usize, [f64; 2]) -> Vec<Phase>) -> Vec<Phase> {
    let mut all: Vec<Phase> = Vec::new();
    for at in 0.. {
        if all.iter().map(|phase| phase.span_s).sum::<f64>() >= SPAN_S {
            break;
        }
        all.extend(phases(at, IRRATIONAL.map(|by| spread(at, by))));
    }
    all
}

/// A time with a heavy tail, in seconds.
fn some_s(drawn: f64) -> f64 {
    (0.5 / (drawn + 1e-6).powf(1.0 / 1.2)).min(15.0)
}

/// A walk of the rate by steps of 0.4 s, drawn back to 4,000 a second.
fn walk(scale: f64) -> Vec<Phase> {
    let mut level = 0.0_f64;
    let mut step = |at| {
        level += 0.5 * (spread(at, IRRATIONAL[0] * std::f64::consts::E) - 0.5) - 0.03 * level;
        phase(0.4, Some(scale * 4e3 * level.exp()), RAND_RW)
    };
    (0..(SPAN_S / 0.4) as usize).map(&mut step).collect()
}

/// The loads by name, at so many times the rates that suit a small server.
fn loads(scale: f64) -> Vec<(&'static str, Senders, Vec<Phase>)> {
    let at = |span_s, iops: f64, pattern| phase(span_s, Some(iops * scale), pattern);
    let uneven = |n, [a, b]: [f64; 2]| {
        let (pattern, part) = PATTERNS[n % PATTERNS.len()];
        vec![at(some_s(a), part * (500.0 + 15e3 * b * b), pattern)]
    };
    let backup = |_, [a, b]: [f64; 2]| {
        let usual = at(5.0 + 20.0 * a, 2.5e3 * (0.3 + b), READS);
        vec![usual, at(1.0 + 4.0 * b, 5e3 * (0.5 + a), COPIED)]
    };
    let flushes = |_, [a, b]: [f64; 2]| {
        vec![at(0.5 + 4.0 * a, 3e3, READS), at(0.05 + 0.8 * b * b, 25e3, WRITES)]
    };
    let in_bursts = |_, [a, b]: [f64; 2]| {
        vec![at(1.0 + 6.0 * a, 500.0, RAND_RW), phase(0.2 + 2.0 * b, None, RAND_RW)]
    };
    let paced = |_, [a, b]: [f64; 2]| vec![at(some_s(a), 500.0 + 15e3 * b * b, RAND_RW)];
    let cron = |_, _| vec![at(9.9, 800.0, READS), at(0.1, 60e3, SMALL_IO)];
    let sizes = |_, _| vec![at(0.05, 3e3, SMALL_IO), at(0.05, 600.0, LARGE_WRITES)];
    let mut day = vec![
        phase(30.0, Some(0.5), READS),
        phase(20.0, Some(50.0), READS),
        at(20.0, 2e3, RAND_RW),
        at(20.0, 12e3, RAND_RW),
    ];
    let morning = day.clone();
    day.reverse();
    let halves = |one, other| vec![at(45.0, one, RAND_RW), at(45.0, other, RAND_RW)];
    let ramp = (0..180).map(|step| at(0.5, 200.0 + 130.0 * f64::from(step), RAND_RW)).collect();
    vec![
        ("patterns that change", Senders::Open, until_full(uneven)),
        ("backup", Senders::Open, until_full(backup)),
        ("flushes", Senders::Open, until_full(flushes)),
        ("walk", Senders::Open, walk(scale)),
        ("step up", Senders::Open, halves(1e3, 25e3)),
        ("step down", Senders::Open, halves(25e3, 1e3)),
        ("ramp", Senders::Open, ramp),
        ("morning", Senders::Open, morning),
        ("evening", Senders::Open, day),
        ("every 10 s", Senders::Open, until_full(cron)),
        ("lone large writes", Senders::Open, vec![phase(SPAN_S, Some(20.0), LARGE_WRITES)]),
        ("two sizes", Senders::Open, until_full(sizes)),
        ("clients that wait", Senders::Clients(16), vec![phase(30.0, None, READS)]),
        ("clients in bursts", Senders::Clients(16), until_full(in_bursts)),
        ("clients with a pace", Senders::Clients(64), until_full(paced)),
    ]
}

/// A kind of bound: its statistics, by how much each may be above full speed's, and whether that is told as
/// a time. Bounds as times are what operators have, and the law is not told what full speed would be.
type Kind = (&'static str, &'static [(&'static str, f64)], bool);

const KINDS: [Kind; 7] = [
    ("mean 20 %", &[("mean", 0.2)], false),
    ("p99 20 %", &[("p99", 0.2)], false),
    ("mean 5 %", &[("mean", 0.05)], false),
    ("mean, a time", &[("mean", 0.2)], true),
    ("p99, a time", &[("p99", 0.2)], true),
    ("mean 60 %", &[("mean", 0.6)], false),
    ("mean 20 % and p99 30 %", &[("mean", 0.2), ("p99", 0.3)], false),
];

/// A server, and how many times as many requests it gets as a small one.
type Host = (&'static str, fn() -> Server, f64);

struct Trial {
    host: Host,
    load: usize,
    kind: &'static Kind,
}

impl Trial {
    fn played(&self, policy: &str, bounds: &[Bound], seed: u64) -> Summary {
        let (_, server, scale) = self.host;
        let server = server();
        let (_, senders, phases) = loads(scale).swap_remove(self.load);
        let law = build(policy, &Settings::new(), &limits(&server)).unwrap();
        let cut = RunSettings { warmup_s: 0.0, duration_s: None, window_s: 0.5, seed };
        let load = Load::Phases { senders, phases };
        let mut run = Run::with_bounds(&server, law, bounds, load, cut).unwrap();
        run.finish().unwrap();
        run.summary()
    }

    fn outcome(&self, seed: u64) -> Outcome {
        let (kind, statistics, is_time) = *self.kind;
        let native = self.played("native", &[], seed);
        let bound = |&(statistic, more): &(&str, f64)| -> Bound {
            let limit_us = (1.0 + more) * measured_us(&native, statistic);
            let relative = format!("{statistic} {}%", more * 100.0);
            let text = if is_time { format!("{statistic} {limit_us:.3} us") } else { relative };
            text.parse().unwrap()
        };
        let bounds: Vec<Bound> = statistics.iter().map(bound).collect();
        let ours = self.played("foresight", &bounds, seed);
        let of_limit = |&(statistic, more): &(&str, f64)| {
            measured_us(&ours, statistic) / ((1.0 + more) * measured_us(&native, statistic))
        };
        let (name, ..) = loads(self.host.2).swap_remove(self.load);
        Outcome {
            name: format!("{name}, {}, {kind}", self.host.0),
            of_limit: statistics.iter().map(of_limit).fold(0.0, f64::max),
            background: ours.background_rate_mean / native.background_rate_mean,
            saved: 1.0 - ours.power_w_mean / native.power_w_mean,
        }
    }
}

fn measured_us(run: &Summary, statistic: &str) -> f64 {
    let measured_us = if statistic == "p99" { run.latency_us_p99 } else { run.latency_us_mean };
    measured_us.unwrap()
}

/// Each load with two of the kinds, one on each server.
fn trials() -> Vec<Trial> {
    let asked = std::env::var("WATTIO_LOAD").unwrap_or_default();
    let kind = std::env::var("WATTIO_BOUND").ok();
    let mut all = Vec::new();
    let hosts: [Host; 2] = [("small", small, 1.0), ("dorado6000", dorado, 1.6)];
    for (shift, host) in hosts.into_iter().enumerate() {
        for (load, (name, ..)) in loads(host.2).iter().enumerate() {
            let of_load = (load + 3 * shift) % KINDS.len();
            let is_asked = |&(at, one): &(usize, &Kind)| match &kind {
                Some(kind) => one.0 == kind,
                None => at == of_load,
            };
            let kinds = KINDS.iter().enumerate().filter(is_asked);
            let named = format!("{name}, {}", host.0).contains(&asked);
            all.extend(kinds.filter(|_| named).map(|(_, kind)| Trial { host, load, kind }));
        }
    }
    all
}

#[test]
#[ignore = "slow"]
fn bounds_of_every_kind_are_kept_and_background_work_is_done() {
    let seed = std::env::var("WATTIO_SEED").map_or(1, |seed| seed.parse().unwrap());
    let tried = trials();
    hold(&tried, |trial| trial.outcome(seed));
}
