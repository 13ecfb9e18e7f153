//! What is kept of single requests.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its load has failed")]

use wattio_control::{Settings, Value, build};
use wattio_plant::{SMALL, Server};
use wattio_sim::{Answered, Load, Pattern, Phase, Run, RunSettings, Senders, limits};
use wattio_trace::{Excerpt, Reader, Scaled};

fn played(policy: &str, settings: Settings) -> Run {
    let server = Server::from_toml(SMALL).unwrap();
    let pattern = Pattern { read_fraction: 0.7, random_fraction: 1.0, io_bytes: 8192 };
    let phase = |iops| Phase { span_s: 0.5, iops: Some(iops), pattern };
    let phases = vec![phase(2e3), phase(2e4), phase(2e3)];
    let load = Load::Phases { senders: Senders::Open, phases };
    let cut = RunSettings { warmup_s: 0.0, duration_s: None, window_s: 0.5, seed: 3 };
    let law = build(policy, &settings, &limits(&server)).unwrap();
    let mut run = Run::new(&server, law, load, cut).unwrap();
    run.record_answers();
    run.finish().unwrap();
    run
}

#[test]
fn every_answer_is_kept_and_their_sums_are_those_of_the_run() {
    let run = played("native", Settings::new());
    let (answers, summary) = (run.answers(), run.summary());
    assert_eq!(answers.len() as u64, summary.ios);
    let sum_ns: u64 = answers.iter().map(|answer| answer.latency_ns).sum();
    let mean_us = sum_ns as f64 / answers.len() as f64 / 1e3;
    assert!((mean_us / summary.latency_us_mean.unwrap() - 1.0).abs() < 1e-9);
}

/// Requests of two runs are pairs: whatever a law does, an open load sends the same at the same times.
#[test]
fn twins_have_the_same_arrivals() {
    let slow = Settings::from([("frequency_share".to_owned(), Value::Number(0.4))]);
    let arrivals = |run: &Run| {
        let mut all: Vec<Answered> = run.answers().to_vec();
        all.sort_unstable();
        // The last ones may be under way when a run ends.
        all.truncate(11_000);
        all.into_iter().map(|answer| answer.arrived_ns).collect::<Vec<_>>()
    };
    let (full, slow) = (played("native", Settings::new()), played("fixed", slow));
    assert!(slow.summary().latency_us_mean > full.summary().latency_us_mean);
    assert_eq!(arrivals(&full).len(), 11_000);
    assert_eq!(arrivals(&full), arrivals(&slow));
}

/// What an excerpt of a trace begins with, and what thinning leaves out, is a time without requests.
#[test]
fn the_time_before_the_first_request_of_an_excerpt_passes() {
    let excerpt = |start_s: f64, duration_s: Option<f64>| {
        let reader = Reader::from_bytes("0,R,0,4096,7000000\n0,R,8192,4096,37000000\n").unwrap();
        let records = Scaled::new(Excerpt::new(reader, start_s).unwrap(), 1.0, 1.0, 1).unwrap();
        let server = Server::from_toml(SMALL).unwrap();
        let cut = RunSettings { warmup_s: 0.0, duration_s, window_s: 0.5, seed: 3 };
        let law = build("native", &Settings::new(), &limits(&server)).unwrap();
        let mut run = Run::new(&server, law, Load::Trace(Box::new(records)), cut).unwrap();
        run.record_answers();
        run.finish().unwrap();
        let arrivals: Vec<_> = run.answers().iter().map(|answer| answer.arrived_ns).collect();
        (arrivals, run.rows().len())
    };
    assert_eq!(excerpt(0.0, None), (vec![0, 30_000_000_000], 61));
    assert_eq!(excerpt(10.0, None), (vec![20_000_000_000], 41));
    assert_eq!(excerpt(10.0, Some(15.0)), (vec![], 30));
}
