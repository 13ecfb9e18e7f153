//! A server, a load, and what a law does with them beside what full speed does.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Mutex;
use std::thread;
use wattio_control::{Settings, Value, build};
use wattio_law::{Action, Bound};
use wattio_plant::{DORADO6000, SMALL, Server};
use wattio_sim::{Load, Pattern, Phase, Row, Run, RunSettings, Senders, limits};

pub const RAND_RW: Pattern = pattern(0.7, 1.0, 8192);

/// Table II of the PACER document: name, pattern, and the rate in requests a second that the clients of
/// `dorado6000` and of `small` reach at full speed (`wattio._core.saturated_iops`).
pub const TABLE_II: [(&str, Pattern, [f64; 2]); 5] = [
    ("Rand_R", pattern(1.0, 1.0, 8192), [658_100.0, 363_600.0]),
    ("Rand_W", pattern(0.0, 1.0, 8192), [487_900.0, 333_100.0]),
    ("Seq_R", pattern(1.0, 0.0, 131_072), [266_600.0, 111_900.0]),
    ("Seq_W", pattern(0.0, 0.0, 131_072), [195_300.0, 102_700.0]),
    ("Rand_RW", RAND_RW, [596_600.0, 363_600.0]),
];

pub const fn pattern(read_fraction: f64, random_fraction: f64, io_bytes: u32) -> Pattern {
    Pattern { read_fraction, random_fraction, io_bytes }
}

pub fn small() -> Server {
    Server::from_toml(SMALL).unwrap()
}

pub fn dorado() -> Server {
    Server::from_toml(DORADO6000).unwrap()
}

/// A quarter of the document's server in cores, drives, clients and background work: as many
/// seconds take a quarter of the events. Its groups are smaller, so that queues form earlier.
pub fn dorado_quarter() -> Server {
    let mut server = dorado();
    server.clients /= 4;
    for group in &mut server.groups {
        group.cores /= 4;
        group.background_cores /= 4.0;
    }
    if let Some(drives) = &mut server.drives {
        drives.count /= 4;
    }
    server
}

pub fn number(name: &str, value: f64) -> (String, Value) {
    (name.to_owned(), Value::Number(value))
}

pub fn flag(name: &str, value: bool) -> (String, Value) {
    (name.to_owned(), Value::Flag(value))
}

/// One phase; `iops` absent means as fast as the clients go.
pub fn phase(span_s: f64, iops: Option<f64>, pattern: Pattern) -> Phase {
    Phase { span_s, iops, pattern }
}

/// Two irrational numbers whose multiples, without their whole parts, are spread evenly over a square.
pub const IRRATIONAL: [f64; 2] = [0.618_033_988_749_895, 0.754_877_666_246_693];

/// The `at`th number between 0 and 1 of such a sequence: like one that is drawn, but nothing has to be
/// kept to draw it again.
pub fn spread(at: usize, by: f64) -> f64 {
    ((at as f64 + 0.5) * by).fract()
}

/// Silences of a twentieth of a second to 20 s and bursts of 20 ms to 1.2 s, each with a heavy tail.
pub fn bursts_after_silences(span_s: f64, iops: f64) -> Vec<(f64, f64)> {
    let [a, b] = IRRATIONAL;
    let silence_s = |at| (0.05 / (spread(at, a) + 0.003_f64).powf(1.1)).min(20.0);
    let burst_s = |at| 0.02 / (spread(at, b) + 0.01_f64).powf(0.9);
    let mut spans = Vec::new();
    let mut left_s = span_s;
    for at in 0.. {
        spans.extend([(silence_s(at), 0.0), (burst_s(at), iops)]);
        left_s -= silence_s(at) + burst_s(at);
        if left_s < 0.0 {
            break;
        }
    }
    spans
}

/// What a run came to beside full speed.
pub struct Outcome {
    pub name: String,
    /// The bounds' statistics over their limits: the greatest.
    pub of_limit: f64,
    pub background: f64,
    pub saved: f64,
}

/// Plays trials on all cores, shows what they came to, and fails where a bound was broken or background
/// work was not done.
pub fn hold<T: Sync>(trials: &[T], outcome: impl Fn(&T) -> Outcome + Sync) {
    assert!(!trials.is_empty(), "a load that is not there");
    let (next, done) = (Mutex::new(0..trials.len()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(at) = { next.lock().unwrap().next() } {
                    let outcome = outcome(&trials[at]);
                    done.lock().unwrap().push((at, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|&(at, _)| at);
    for (_, o) in &done {
        println!(
            "{:58} {:.3} of the limit, background {:.3}, saved {:5.2} %",
            o.name,
            o.of_limit,
            o.background,
            100.0 * o.saved
        );
    }
    let broken: Vec<_> = done
        .iter()
        .map(|(_, o)| o)
        .filter(|o| !(o.of_limit <= 1.0 && o.background >= 0.98))
        .map(|o| o.name.as_str())
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
}

/// A load on a server.
pub struct Trial {
    pub server: Server,
    pub senders: Senders,
    pub phases: Vec<Phase>,
    pub warmup_s: f64,
    pub seed: u64,
}

impl Trial {
    pub fn steady(server: Server, iops: f64, pattern: Pattern, span_s: f64) -> Self {
        let senders = Senders::Clients(server.clients);
        let phases = vec![phase(span_s, Some(iops), pattern)];
        Self { server, senders, phases, warmup_s: 10.0, seed: 1 }
    }

    /// Runs the trial with a policy, all steps recorded.
    pub fn run(&self, policy: &str, settings: &[(String, Value)]) -> Run {
        self.run_within(policy, settings, &[])
    }

    /// The same with bounds that the law is told of.
    pub fn run_within(&self, policy: &str, settings: &[(String, Value)], bounds: &[Bound]) -> Run {
        let mut run = self.prepared(policy, settings, bounds);
        run.finish().unwrap();
        run
    }

    /// The same, not yet begun.
    pub fn prepared(&self, policy: &str, settings: &[(String, Value)], bounds: &[Bound]) -> Run {
        let settings = Settings::from_iter(settings.iter().cloned());
        let law = build(policy, &settings, &limits(&self.server)).unwrap();
        let load = Load::Phases { senders: self.senders, phases: self.phases.clone() };
        let cut = RunSettings {
            warmup_s: self.warmup_s,
            duration_s: None,
            window_s: 0.5,
            seed: self.seed,
        };
        let mut run = Run::with_bounds(&self.server, law, bounds, load, cut).unwrap();
        run.record_steps();
        run
    }

    pub fn pacer(&self, settings: &[(String, Value)]) -> Run {
        self.run("pacer", settings)
    }

    /// PACER within these bounds.
    pub fn within(&self, bounds: &[&str]) -> Run {
        let bounds: Vec<Bound> = bounds.iter().map(|bound| bound.parse().unwrap()).collect();
        self.run_within("pacer", &[], &bounds)
    }

    pub fn native(&self) -> Run {
        self.run("native", &[])
    }

    pub fn full_speed(&self) -> Action {
        limits(&self.server).full_speed()
    }
}

/// Mean latency over the requests of some rows.
pub fn latency_us(rows: &[Row]) -> f64 {
    let requests: u64 = rows.iter().map(|row| row.ios).sum();
    let sum: f64 = rows.iter().filter_map(|row| Some(row.latency_us_mean? * row.ios as f64)).sum();
    sum / requests as f64
}

/// The last quarter of a run's rows.
pub fn last_quarter(run: &Run) -> &[Row] {
    let rows = run.rows();
    &rows[rows.len() - rows.len() / 4..]
}

/// Share of native's power that was saved.
pub fn saving(run: &Run, native: &Run) -> f64 {
    1.0 - run.summary().power_w_mean / native.summary().power_w_mean
}

/// A step and when it was taken, in seconds since the run began (warm-up included).
pub struct Taken {
    pub at_s: f64,
    pub action: Action,
    pub state: &'static str,
}

pub fn taken(run: &Run) -> Vec<Taken> {
    let mut at_s = 0.0;
    let step = |step: &wattio_law::Stepped| {
        at_s += step.dt.0;
        Taken { at_s, action: step.action.clone(), state: step.insight.mode.unwrap() }
    };
    run.steps().iter().map(step).collect()
}
