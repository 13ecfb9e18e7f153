//! Foresight beside full speed on many loads: steady ones, irregular ones, the shipped trace, and
//! recorded traces through `WATTIO_TRACES`, at several rates, on both servers. The law's constants were
//! chosen on these loads, so this guards what was reached and proves nothing of others. Slow: part of
//! `make test-system`, which runs what is ignored in files of this name.
//!
//! `WATTIO_LOAD=pgbench`: the loads whose name contains that; `WATTIO_SEED=2`: another seed.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its load has failed")]

mod twin;

use std::path::{Path, PathBuf};
use twin::{
    IRRATIONAL, Outcome, RAND_RW, bursts_after_silences, dorado, hold, phase, small, spread,
};
use wattio_control::{Settings, build};
use wattio_law::{Bound, Limit};
use wattio_plant::Server;
use wattio_sim::{Load, Run, RunSettings, Senders, Summary, limits};
use wattio_trace::{Excerpt, Scaled, open};

/// A load by name.
struct Trial {
    name: String,
    server: fn() -> Server,
    bound: &'static str,
    source: Source,
}

enum Source {
    /// Spans in seconds and rates in requests a second.
    Spans(Vec<(f64, f64)>),
    /// A trace from a time on, at so many times its rate, for so many seconds.
    Trace(PathBuf, f64, f64, f64),
}

impl Trial {
    fn load(&self) -> (Load, Option<f64>) {
        match &self.source {
            Source::Spans(spans) => {
                let phases = spans.iter().map(|&(span_s, iops)| phase(span_s, Some(iops), RAND_RW));
                (Load::Phases { senders: Senders::Open, phases: phases.collect() }, None)
            }
            Source::Trace(path, start_s, rate_scale, span_s) => {
                let excerpt = Excerpt::new(open(path).unwrap(), *start_s).unwrap();
                let scaled = Scaled::new(excerpt, *rate_scale, 1.0, 1).unwrap();
                (Load::Trace(Box::new(scaled)), Some(*span_s))
            }
        }
    }

    fn played(&self, policy: &str, seed: u64) -> Summary {
        let server = (self.server)();
        let bounds: [Bound; 1] = [self.bound.parse().unwrap()];
        let law = build(policy, &Settings::new(), &limits(&server)).unwrap();
        let (load, duration_s) = self.load();
        let cut = RunSettings { warmup_s: 0.0, duration_s, window_s: 0.5, seed };
        let mut run = Run::with_bounds(&server, law, &bounds, load, cut).unwrap();
        run.finish().unwrap();
        run.summary()
    }
}

/// `count` times so long at one rate and so long at another.
fn alternating(count: usize, first: (f64, f64), second: (f64, f64)) -> Vec<(f64, f64)> {
    (0..2 * count).map(|at| if at % 2 == 0 { first } else { second }).collect()
}

fn sine(span_s: usize, mean: f64) -> Vec<(f64, f64)> {
    let rate = |at: usize| mean * (1.0 + 0.9 * (at as f64 * std::f64::consts::TAU / 30.0).sin());
    (0..span_s / 2).map(|at| (2.0, rate(at))).collect()
}

/// Spans and rates with heavy tails (Pareto, shape 1.3).
fn pareto(count: usize, span_s: f64, rate: f64) -> Vec<(f64, f64)> {
    let drawn = |at, by| spread(at, by).max(0.01).powf(-1.0 / 1.3);
    let [a, b] = IRRATIONAL;
    let span = |at| (span_s * drawn(at, a)).min(8.0);
    let height = |at| (rate * drawn(at, b)).min(rate * 30.0);
    (0..count).map(|at| (span(at), height(at))).collect()
}

/// A cascade: the requests of a span go to its halves in two parts, of which one is `bias`, and so on in
/// each half. Traffic of networks and disks is like this at every scale (M. Wang et al., Data Mining Meets
/// Performance Evaluation: Fast Algorithms for Modeling Bursty Traffic, 2002).
fn cascade(span_s: f64, mean: f64, bias: f64) -> Vec<(f64, f64)> {
    let mut rates = vec![mean];
    for level in 1..13 {
        let halves = |(at, rate): (usize, &f64)| {
            let drawn = spread(at, IRRATIONAL[0] * f64::from(level));
            let first = if drawn < 0.5 { bias } else { 1.0 - bias };
            [2.0 * rate * first, 2.0 * rate * (1.0 - first)]
        };
        rates = rates.iter().enumerate().flat_map(halves).collect();
    }
    let each_s = span_s / rates.len() as f64;
    rates.into_iter().map(|rate| (each_s, rate)).collect()
}

/// Every quarter of a minute something is copied, for some seconds, at up to 15 times the usual rate.
fn copies(span_s: f64, rate: f64) -> Vec<(f64, f64)> {
    let spans = |at: usize| {
        let [a, b] = IRRATIONAL.map(|by| spread(at, by));
        [(10.0 + 10.0 * a, rate * (0.3 + b)), (1.0 + 5.0 * b, rate * (5.0 + 10.0 * a))]
    };
    (0..(span_s / 18.5) as usize).flat_map(spans).collect()
}

/// What is generated, by its spans.
fn generated() -> Vec<(&'static str, Vec<(f64, f64)>)> {
    vec![
        ("steady 1 %", vec![(60.0, 3.6e3)]),
        ("steady 5 %", vec![(60.0, 18e3)]),
        ("steady 10 %", vec![(40.0, 36e3)]),
        ("on and off 0.3 s", alternating(100, (0.3, 15e3), (0.3, 500.0))),
        ("on and off 4 s", alternating(8, (4.0, 15e3), (4.0, 500.0))),
        ("on and off 20 s", alternating(2, (20.0, 15e3), (20.0, 500.0))),
        ("spikes of 0.5 s", alternating(6, (9.5, 2e3), (0.5, 60e3))),
        ("bursts of 10 ms", alternating(20, (3.99, 0.0), (0.01, 40e3))),
        ("gap of 35 s", vec![(30.0, 2e3), (35.0, 0.0), (30.0, 2e3)]),
        ("sine of 60 s", sine(120, 6e3)),
        ("Pareto", pareto(60, 0.4, 800.0)),
        ("lone requests", vec![(60.0, 5.0)]),
        ("even cascade", cascade(120.0, 2e3, 0.65)),
        ("sparse, uneven cascade", cascade(120.0, 300.0, 0.85)),
        ("copies", copies(120.0, 2e3)),
        ("sparse bursts after silences", bursts_after_silences(120.0, 4e3)),
        ("bursts after silences", bursts_after_silences(120.0, 16e3)),
        ("dense bursts after silences", bursts_after_silences(120.0, 64e3)),
    ]
}

/// A server, and how many times as many requests it gets of what is generated.
type Host = (&'static str, fn() -> Server, f64);

const HOSTS: [Host; 2] = [("small", small, 1.0), ("dorado6000", dorado, 1.6)];
/// Traces of other people, which never enter the tree, and how much of each is played, in seconds.
const RECORDED: [(&str, f64); 3] =
    [("cloudPhysicsIO.vscsi", 90.0), ("tpcc-small.trace", 60.0), ("ajw.1week.srt", 120.0)];

/// Where excerpts of the shipped trace begin, in seconds.
const EXCERPTS_S: [f64; 4] = [90.0, 145.0, 170.0, 185.0];

fn trials() -> Vec<Trial> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/pgbench.wtrace");
    let mut all = Vec::new();
    for (host, server, scale) in HOSTS {
        let mut add = |name: String, bound, source| {
            all.push(Trial { name: format!("{name}, {host}"), server, bound, source });
        };
        for (name, spans) in generated() {
            let scaled = spans.iter().map(|&(span_s, iops)| (span_s, iops * scale)).collect();
            add(name.to_owned(), "mean 20%", Source::Spans(scaled));
        }
        let mut traces = vec![(shipped.clone(), 60.0)];
        if let Some(folder) = std::env::var_os("WATTIO_TRACES") {
            let folder = PathBuf::from(folder);
            traces.extend(RECORDED.map(|(name, span_s)| (folder.join(name), span_s)));
        }
        for (path, span_s) in traces {
            for rate_scale in [1.0, 8.0, 20.0, 60.0] {
                let name = path.file_name().unwrap().to_string_lossy();
                let source = Source::Trace(path.clone(), 0.0, rate_scale, span_s);
                add(format!("{name} x{rate_scale}"), "mean 20%", source);
            }
        }
        if host == "small" {
            // The worst end of a silence comes last, and finds the drives asleep.
            for bound in ["mean 5%", "mean 10%"] {
                let source = Source::Trace(shipped.clone(), 0.0, 1.0, 260.0);
                add(format!("pgbench.wtrace, all of it, {bound}"), bound, source);
            }
        }
        if host == "dorado6000" {
            // To its end, which has a burst that is longer and denser than any before it.
            let source = Source::Trace(shipped.clone(), 0.0, 8.0, 240.0);
            add("pgbench.wtrace x8, all of it".to_owned(), "mean 20%", source);
        }
        // Excerpts whose dense stretches are of writes, and whose sparse ones are of reads.
        for start_s in EXCERPTS_S {
            let source = Source::Trace(shipped.clone(), start_s, 1.0, 60.0);
            add(format!("pgbench.wtrace from {start_s} s"), "mean 20%", source);
        }
        // On the tail: what one mean says of the other is least where requests are few or crowd.
        for rate_scale in [1.0, 8.0, 20.0] {
            let source = Source::Trace(shipped.clone(), 0.0, rate_scale, 60.0);
            add(format!("p99, pgbench x{rate_scale}"), "p99 20%", source);
        }
        add("p99, steady".to_owned(), "p99 20%", Source::Spans(vec![(60.0, 8e3 * scale)]));
        let swings = alternating(8, (4.0, 15e3 * scale), (4.0, 500.0 * scale));
        add("p99, on and off 4 s".to_owned(), "p99 20%", Source::Spans(swings));
    }
    all
}

fn outcome(trial: &Trial, seed: u64) -> Outcome {
    let (ours, native) = (trial.played("foresight", seed), trial.played("native", seed));
    let bound: Bound = trial.bound.parse().unwrap();
    let Limit::Relative(share) = bound.limit else { panic!("{bound}: not of full speed") };
    let statistic = |run: &Summary| match trial.bound.starts_with("p99") {
        true => run.latency_us_p99.unwrap(),
        false => run.latency_us_mean.unwrap(),
    };
    Outcome {
        name: trial.name.clone(),
        of_limit: statistic(&ours) / ((1.0 + share) * statistic(&native)),
        background: ours.background_rate_mean / native.background_rate_mean,
        saved: 1.0 - ours.power_w_mean / native.power_w_mean,
    }
}

/// The law's promise: its bound and the background work, on every load.
#[test]
#[ignore = "slow"]
fn the_bound_is_kept_and_background_work_done_on_every_load() {
    let asked = std::env::var("WATTIO_LOAD").unwrap_or_default();
    let seed = std::env::var("WATTIO_SEED").map_or(1, |seed| seed.parse().unwrap());
    let tried: Vec<Trial> = trials().into_iter().filter(|t| t.name.contains(&asked)).collect();
    hold(&tried, |trial| outcome(trial, seed));
}
