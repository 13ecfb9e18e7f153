//! The loads of the table: generated ones, and stretches of recorded traces at several rates.

use std::path::{Path, PathBuf};
use wattio_plant::{DORADO6000, SMALL, Server};
use wattio_sim::{Load, Pattern, Phase, Senders, TraceSource};
use wattio_trace::{Kind, Record, Scaled, TraceError, open};

/// A load on a server.
pub struct Case {
    pub name: String,
    pub server: Server,
    pub span_s: f64,
    source: Source,
}

#[derive(Clone)]
enum Source {
    Phases(Senders, Vec<Phase>),
    Cut {
        path: PathBuf,
        from_s: f64,
        span_s: f64,
        rate: f64,
        time: f64,
    },
    /// Gaps between requests by Pareto's law with this exponent; so many requests a second.
    Pareto {
        rate: f64,
        exponent: f64,
    },
    /// Batches of so many requests at once, so many a second.
    Batches {
        rate: f64,
        size: u32,
    },
}

struct Held(std::vec::IntoIter<Record>);

impl Iterator for Held {
    type Item = Result<Record, TraceError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl TraceSource for Held {
    fn share_read(&self) -> f64 {
        0.0
    }
}

const PATTERN: Pattern = Pattern { read_fraction: 0.7, random_fraction: 1.0, io_bytes: 8192 };

impl Case {
    pub fn load(&self) -> Load {
        match &self.source {
            Source::Phases(senders, phases) => {
                Load::Phases { senders: *senders, phases: phases.clone() }
            }
            Source::Cut { path, from_s, span_s, rate, time } => {
                Load::Trace(Box::new(Held(cut(path, *from_s, *span_s, *rate, *time).into_iter())))
            }
            Source::Pareto { rate, exponent } => {
                let mean = exponent / (exponent - 1.0);
                let gap = |u: f64| u.powf(-1.0 / exponent) / mean / rate;
                Load::Trace(Box::new(Held(drawn(self.span_s, 1, gap).into_iter())))
            }
            Source::Batches { rate, size } => {
                let gap = |u: f64| -u.ln() / rate * f64::from(*size);
                Load::Trace(Box::new(Held(drawn(self.span_s, *size, gap).into_iter())))
            }
        }
    }
}

fn cut(path: &Path, from_s: f64, span_s: f64, rate: f64, time: f64) -> Vec<Record> {
    let (from, to) = ((from_s * 1e9) as u64, ((from_s + span_s / time) * 1e9) as u64);
    let records = open(path).unwrap().filter_map(Result::ok);
    let within = records.skip_while(|r| r.time_ns < from).take_while(|r| r.time_ns < to);
    let shifted = within.map(|r| Ok(Record { time_ns: r.time_ns - from, ..r }));
    let shifted: Vec<_> = shifted.collect();
    Scaled::new(shifted.into_iter(), rate, time, 7).unwrap().filter_map(Result::ok).collect()
}

fn drawn(span_s: f64, size: u32, gap: impl Fn(f64) -> f64) -> Vec<Record> {
    let (mut state, mut at, mut records) = (88_172_645_463_325_252_u64, 0.0, Vec::new());
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    };
    while at < span_s {
        at += gap(draw());
        for _ in 0..size {
            let kind = if draw() < 0.7 { Kind::Read } else { Kind::Write };
            let offset_bytes = (draw() * 1e12) as u64 & !4095;
            records.push(Record {
                time_ns: (at * 1e9) as u64,
                offset_bytes,
                bytes: 8192,
                device: 0,
                kind,
            });
        }
    }
    records
}

fn phases(server: &str, name: &str, list: &[(f64, f64)], span_s: f64) -> Case {
    let mut phases: Vec<Phase> = Vec::new();
    let mut total = 0.0;
    for &(span, iops) in list.iter().cycle() {
        if total >= span_s {
            break;
        }
        phases.push(Phase { span_s: span, iops: Some(iops), pattern: PATTERN });
        total += span;
    }
    case(server, format!("g:{server} {name}"), span_s, Source::Phases(Senders::Open, phases))
}

fn case(server: &str, name: String, span_s: f64, source: Source) -> Case {
    let text = if server == "small" { SMALL } else { DORADO6000 };
    let server = Server::from_toml(text).unwrap();
    Case { name, server, span_s, source }
}

fn generated(cases: &mut Vec<Case>) {
    // The rates that saturate the servers: 363,600 and 596,400 requests a second.
    for (server, full) in [("small", 363_600.0), ("dorado6000", 596_400.0)] {
        for share in [0.001, 0.01, 0.05, 0.1, 0.3, 0.6] {
            if share > 0.3 && server != "small" {
                continue;
            }
            let span_s = if share > 0.05 { 40.0 } else { 90.0 };
            cases.push(phases(server, &format!("steady {share}"), &[(1.0, share * full)], span_s));
        }
        for (on, off, high, low) in [
            (0.3, 0.3, 0.05, 0.001),
            (4.0, 4.0, 0.04, 0.0014),
            (20.0, 20.0, 0.1, 0.005),
            (4.0, 4.0, 0.15, 0.01),
            (0.5, 9.5, 0.2, 0.005),
        ] {
            let name = format!("on/off {on}/{off} {high}/{low}");
            cases.push(phases(server, &name, &[(on, high * full), (off, low * full)], 90.0));
        }
        cases.push(phases(server, "gap 35", &[(15.0, 0.03 * full), (35.0, 0.0)], 100.0));
        cases.push(phases(server, "gap 35 sparse", &[(15.0, 2000.0), (35.0, 0.0)], 100.0));
        let sine: Vec<_> = (0..30)
            .map(|at| {
                let angle = f64::from(at) / 30.0 * std::f64::consts::TAU;
                (2.0, (0.06 + 0.05 * angle.sin()) * full)
            })
            .collect();
        cases.push(phases(server, "sine 60", &sine, 120.0));
        let day = [0.1, 0.05, 0.02, 0.02, 0.05, 0.2, 0.5, 0.8, 1.0, 0.9, 0.7, 0.4];
        let day: Vec<_> = day.map(|share| (10.0, share * 0.15 * full)).to_vec();
        cases.push(phases(server, "day", &day, 120.0));
        for (rate, exponent) in [(2000.0, 1.5), (20_000.0, 1.3)] {
            let name = format!("g:{server} pareto {exponent} {rate}");
            cases.push(case(server, name, 90.0, Source::Pareto { rate, exponent }));
        }
        for (rate, size) in [(2000.0, 16), (10_000.0, 64)] {
            let name = format!("g:{server} batches {size} {rate}");
            cases.push(case(server, name, 90.0, Source::Batches { rate, size }));
        }
    }
    for clients in [8, 64] {
        let phases = vec![Phase { span_s: 40.0, iops: None, pattern: PATTERN }];
        let source = Source::Phases(Senders::Clients(clients), phases);
        cases.push(case("small", format!("g:small closed {clients}"), 40.0, source));
    }
}

fn recorded(cases: &mut Vec<Case>, directories: &[PathBuf]) {
    let find = |name: &str| directories.iter().map(|d| d.join(name)).find(|path| path.exists());
    let mut add = |file: &str, server: &str, from_s: f64, span_s: f64, rate: f64, time: f64| {
        let Some(path) = find(file) else { return };
        let short = file.split('.').next().unwrap_or(file);
        let name = format!("t:{server} {short} +{from_s} x{rate} /{time}");
        let source = Source::Cut { path, from_s, span_s, rate, time };
        cases.push(case(server, name, span_s, source));
    };
    for server in ["small", "dorado6000"] {
        for (from_s, span_s) in [(0.0, 250.0)] {
            for rate in [1.0, 8.0, 20.0, 60.0] {
                add("pgbench.wtrace", server, from_s, span_s, rate, 1.0);
            }
        }
        for from_s in [300.0, 2500.0, 5200.0] {
            for rate in [1.0, 12.0, 60.0] {
                add("cloudPhysicsIO.vscsi", server, from_s, 120.0, rate, 1.0);
            }
        }
        for (rate, time) in [(1.0, 500.0), (1.0, 60.0), (10.0, 500.0), (60.0, 500.0)] {
            add("tpcc-small.trace", server, 0.0, 0.137 * time, rate, time);
        }
        for (from_s, rate, time) in [
            (40_000.0, 1.0, 1.0),
            (40_000.0, 60.0, 0.02),
            (130_000.0, 20.0, 0.02),
            (250_000.0, 40.0, 0.01),
        ] {
            add("ajw.1week.srt", server, from_s, 200.0, rate, time);
        }
    }
}

/// Every case; recorded ones where their files are.
pub fn all(traces: Option<&str>) -> Vec<Case> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let directories: Vec<_> = std::iter::once(own).chain(traces.map(PathBuf::from)).collect();
    let mut cases = Vec::new();
    recorded(&mut cases, &directories);
    generated(&mut cases);
    cases
}
