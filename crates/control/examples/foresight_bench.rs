//! The table that `foresight` was made against: many loads on two servers, each under several
//! policies, beside what the same requests meet at full speed.
//!
//! `cargo run --release -p wattio-control --example foresight_bench -- [--only TEXT] [--set NAME=VALUE]
//! [--policies native,ondemand,pacer,foresight,oracle] [--traces DIRECTORY] [--seed N]`
//!
//! Recorded traces are looked for in `traces/` and in the directory given; what is not there is
//! left out. What the policies other than `foresight` did is remembered beside the build, for they do not
//! change while one works on this law.

#![allow(clippy::unwrap_used, reason = "a bench that cannot set up its case has failed")]
#![allow(missing_docs, reason = "a program")]

#[path = "foresight_bench/cases.rs"]
mod cases;

use cases::Case;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use wattio_control::{Settings, Value, build};
use wattio_law::Law;
use wattio_sim::oracle::{OracleBound, OracleSettings, Plan, SegmentSource, Statistic};
use wattio_sim::{Run, RunSettings, limits};

const THREADS: usize = 2;
const CACHE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/foresight_bench.tsv");

/// What one policy did to one case.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    power_w: f64,
    latency_us: f64,
    p99_us: f64,
    background: f64,
    /// Of the cores, and of the drives.
    power_w_by_part: [f64; 2],
}

struct Asked {
    only: Vec<String>,
    policies: Vec<String>,
    settings: Settings,
    seed: u64,
    traces: Option<String>,
    detail: bool,
}

fn asked() -> Asked {
    let mut asked = Asked {
        only: vec![],
        policies: "ondemand,pacer,foresight,oracle".split(',').map(str::to_owned).collect(),
        settings: Settings::new(),
        seed: 1,
        traces: None,
        detail: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--detail" {
            asked.detail = true;
            continue;
        }
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--only" => asked.only = value.split(',').map(str::to_owned).collect(),
            "--policies" => asked.policies = value.split(',').map(str::to_owned).collect(),
            "--seed" => asked.seed = value.parse().unwrap(),
            "--traces" => asked.traces = Some(value),
            "--set" => {
                let (name, value) = value.split_once('=').unwrap();
                let value =
                    value.parse().map_or_else(|_| Value::Text(value.to_owned()), Value::Number);
                asked.settings.insert(name.to_owned(), value);
            }
            _ => panic!("unknown argument {word}"),
        }
    }
    asked
}

fn law(case: &Case, policy: &str, asked: &Asked) -> Box<dyn Law> {
    let limits = limits(&case.server);
    if policy != "oracle" {
        let none = Settings::new();
        let settings = if policy == "foresight" { &asked.settings } else { &none };
        return build(policy, settings, &limits).unwrap();
    }
    let bound = OracleBound { plf: 0.2, statistic: Statistic::Mean };
    let settings = OracleSettings { bound, floor: 0.98, trial_s: 1.0, seed: asked.seed };
    let slice_s = (case.span_s / 12.0).max(2.0);
    let mut source = SegmentSource::new(case.load(), slice_s, Some(case.span_s)).unwrap();
    let plan = Plan::find(&case.server, &mut source, &settings, &mut |_| true).unwrap().unwrap();
    Box::new(plan.law(0.0, limits.full_speed()))
}

/// Running sums of a run: requests and their latency up to each second.
type Curve = Vec<(f64, f64)>;

fn play(case: &Case, policy: &str, asked: &Asked) -> (Outcome, Curve) {
    let cut = RunSettings {
        warmup_s: 0.0,
        duration_s: Some(case.span_s),
        window_s: 1.0,
        seed: asked.seed,
    };
    let mut run = Run::new(&case.server, law(case, policy, asked), case.load(), cut).unwrap();
    if asked.detail && policy == "foresight" {
        run.record_steps();
    }
    run.finish().unwrap();
    if asked.detail && policy == "foresight" {
        print_steps(&run);
    }
    if asked.detail {
        for row in run.rows() {
            let us = row.latency_us_mean.unwrap_or(0.0);
            println!("{policy} {:7.1} ios {:7} latency {us:9.1}", row.start_s, row.ios);
        }
    }
    let summary = run.summary();
    let mut sums = (0.0, 0.0);
    let curve = run.rows().iter().map(|row| {
        sums.0 += row.ios as f64;
        sums.1 += row.ios as f64 * row.latency_us_mean.unwrap_or(0.0);
        sums
    });
    let curve = curve.collect();
    let outcome = Outcome {
        power_w: summary.power_w_mean,
        latency_us: summary.latency_us_mean.unwrap_or(0.0),
        p99_us: summary.latency_us_p99.unwrap_or(0.0),
        background: summary.background_rate_mean,
        power_w_by_part: [
            summary.energy_by_component_j.cores,
            summary.energy_by_component_j.drives,
        ]
        .map(|joules| joules / summary.duration_s),
    };
    (outcome, curve)
}

fn print_steps(run: &Run) {
    let mut at_s = 0.0;
    for step in run.steps() {
        at_s += step.dt.0;
        let groups: Vec<_> = step
            .action
            .groups
            .iter()
            .map(|group| format!("{}@{:.1}", group.cores, group.frequency.0 / 1e9))
            .collect();
        let seen = step.seen.latency.as_ref().unwrap();
        println!(
            "{at_s:8.3} n {:6} L {:8.1} base {:8.1} loss {:6.3} {} bg {:?} {:?} | {} | {}{}",
            seen.arrived.unwrap_or(0),
            seen.latency_us_mean.unwrap_or(0.0),
            step.insight.baseline_us.unwrap_or(0.0),
            step.insight.loss.unwrap_or(0.0),
            groups.join(" "),
            step.action.background_of(0).budget,
            step.action.drives,
            step.insight.mode.unwrap_or("-"),
            step.insight.reason,
            if step.seen.alarm { " ALARM" } else { "" },
        );
    }
}

/// From this second on the running mean has to keep the bound.
const SETTLED_S: usize = 30;

/// The worst ratio of the running means from `SETTLED_S` on.
fn worst(curve: &Curve, native: &Curve) -> f64 {
    let pairs = curve.iter().zip(native).skip(SETTLED_S);
    let ratio = |(a, b): (&(f64, f64), &(f64, f64))| (a.1 / a.0) / (b.1 / b.0);
    pairs.map(ratio).filter(|ratio| ratio.is_finite()).fold(0.0, f64::max)
}

fn remembered() -> BTreeMap<String, Outcome> {
    let text = std::fs::read_to_string(CACHE).unwrap_or_default();
    let line = |line: &str| {
        let (key, values) = line.split_once('\t')?;
        let v: Vec<f64> = values.split('\t').filter_map(|value| value.parse().ok()).collect();
        let [power_w, latency_us, p99_us, background, a, b] = v[..] else { return None };
        Some((
            key.to_owned(),
            Outcome { power_w, latency_us, p99_us, background, power_w_by_part: [a, b] },
        ))
    };
    text.lines().filter_map(line).collect()
}

fn remember(key: &str, o: &Outcome) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(CACHE).unwrap();
    writeln!(
        file,
        "{key}\t{}\t{}\t{}\t{}\t{}\t{}",
        o.power_w, o.latency_us, o.p99_us, o.background, o.power_w_by_part[0], o.power_w_by_part[1]
    )
    .unwrap();
}

struct Line {
    name: String,
    saved: BTreeMap<String, (f64, f64)>,
    text: String,
}

fn judge(case: &Case, asked: &Asked, known: &Mutex<BTreeMap<String, Outcome>>) -> Line {
    let mut native_curve = None;
    let mut outcome = |policy: &str| -> (Outcome, Option<f64>) {
        let key = format!("{} {policy} {}", case.name, asked.seed);
        let cached = known.lock().unwrap().get(&key).copied();
        if let Some(outcome) = cached.filter(|_| policy != "foresight" && policy != "native") {
            return (outcome, None);
        }
        let (outcome, curve) = play(case, policy, asked);
        if policy == "native" {
            native_curve = Some(curve);
            return (outcome, None);
        }
        if policy != "foresight" {
            remember(&key, &outcome);
        }
        let worst = native_curve.as_ref().map(|native| worst(&curve, native));
        (outcome, worst)
    };
    let (native, _) = outcome("native");
    let mut line = Line { name: case.name.clone(), saved: BTreeMap::new(), text: String::new() };
    for policy in &asked.policies {
        let (one, worst) = outcome(policy);
        let saved = 100.0 * (1.0 - one.power_w / native.power_w);
        let ratio = if native.latency_us > 0.0 { one.latency_us / native.latency_us } else { 1.0 };
        let background =
            if native.background > 0.0 { one.background / native.background } else { 1.0 };
        let mark = if ratio > 1.2 || background < 0.98 { "!" } else { " " };
        write!(line.text, " | {saved:5.2} {ratio:5.3} {background:5.3}{mark}").unwrap();
        if policy == "foresight" {
            let tail = one.p99_us / native.p99_us.max(1e-9);
            let worst = worst.unwrap_or(0.0);
            let late = if worst > 1.2 { "!" } else { " " };
            write!(line.text, " w{worst:5.3}{late} t{tail:4.2}").unwrap();
        }
        line.saved.insert(policy.clone(), (saved, ratio));
    }
    line
}

fn main() {
    let asked = asked();
    let cases: Vec<Case> = cases::all(asked.traces.as_deref())
        .into_iter()
        .filter(|case| {
            asked.only.is_empty() || asked.only.iter().any(|o| case.name.contains(o.as_str()))
        })
        .collect();
    let known = Mutex::new(remembered());
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    println!("{:38} | saving latency background of {}", "case", asked.policies.join(" | "));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let line = judge(case, &asked, &known);
                    println!("{:38}{}", line.name, line.text);
                    lines.lock().unwrap().push(line);
                }
            });
        }
    });
    summarise(&lines.into_inner().unwrap());
}

/// The share of the best known saving (of the policies that kept the bound) that was captured.
fn summarise(lines: &[Line]) {
    for (what, of) in [("recorded", "t:"), ("generated", "g:")] {
        let mut shares: Vec<(f64, &str)> = Vec::new();
        for line in lines.iter().filter(|line| line.name.starts_with(of)) {
            let best = line.saved.values().filter(|s| s.1 <= 1.2).map(|s| s.0).fold(0.0, f64::max);
            let Some(mine) = line.saved.get("foresight") else { continue };
            if best > 0.3 {
                shares.push((mine.0 / best, &line.name));
            }
        }
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = |q: f64| shares.get((shares.len() as f64 * q) as usize).map_or(0.0, |s| s.0);
        println!(
            "{what}: {} cases, median share {:.2}, quarter {:.2}, worst {:?}",
            shares.len(),
            at(0.5),
            at(0.25),
            shares.iter().take(6).map(|s| format!("{} {:.2}", s.1, s.0)).collect::<Vec<_>>()
        );
        let broken = |line: &&Line| {
            line.name.starts_with(of) && line.saved.get("foresight").is_some_and(|s| s.1 > 1.2)
        };
        let broken: Vec<_> = lines.iter().filter(broken).map(|line| line.name.as_str()).collect();
        println!("{what}: over the bound: {broken:?}");
        let beaten = |line: &&Line| {
            let ondemand = line.saved.get("ondemand").filter(|s| s.1 <= 1.2);
            let pacer = line.saved.get("pacer").filter(|s| s.1 <= 1.2);
            let best = [ondemand, pacer].into_iter().flatten().map(|s| s.0).fold(0.0, f64::max);
            line.name.starts_with(of)
                && line.saved.get("foresight").is_some_and(|s| s.0 < best - 0.05)
        };
        let beaten: Vec<_> = lines.iter().filter(beaten).map(|line| line.name.as_str()).collect();
        println!("{what}: below ondemand or pacer: {beaten:?}");
    }
}
