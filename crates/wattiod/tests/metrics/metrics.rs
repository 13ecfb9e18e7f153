//! The metrics of a status, line by line.

use crate::status::full_status;
use std::collections::BTreeSet;
use wattio_host::sources::prometheus::text;
use wattio_service::metrics::Format;
use wattiod::metrics::families;
use wattiod::status::{LatencyStatus, PowerStatus, Status};

const GOLDEN: &str = include_str!("golden.prom");

fn metrics_text(status: &Status) -> String {
    Format::OpenMetrics.write(&families(status))
}

/// Dashboards and alerts rely on it. A wanted change is copied from where the test writes it.
#[test]
fn a_full_status_gives_the_golden_page() {
    let text = metrics_text(&full_status());
    let made = concat!(env!("CARGO_TARGET_TMPDIR"), "/golden.prom");
    std::fs::write(made, &text).unwrap();
    for (number, (line, golden)) in text.lines().zip(GOLDEN.lines()).enumerate() {
        assert_eq!(line, golden, "line {} of {made}", number + 1);
    }
    assert_eq!(text.len(), GOLDEN.len(), "{made}");
}

#[test]
fn what_is_not_known_is_left_out() {
    let text = metrics_text(&Status::default());
    for name in [
        "wattio_state",
        "wattio_latency_seconds_mean",
        "wattio_latency_bound_seconds",
        "wattio_loss",
        "wattio_power",
        "wattio_energy",
        "wattio_model",
        "wattio_cores",
        "wattio_step",
    ] {
        assert!(!text.contains(name), "{name} in {text}");
    }
    assert!(text.contains("wattio_windows_total 0"));
}

#[test]
fn a_number_that_is_none_is_left_out() {
    let latency = LatencyStatus {
        latency_us_mean: Some(f64::NAN),
        bound_us: Some(f64::INFINITY),
        ..LatencyStatus::default()
    };
    let text = metrics_text(&Status { latency, ..Status::default() });
    assert!(!text.contains("NaN") && !text.to_lowercase().contains("inf\n"), "{text}");
}

/// The host has one uptime and one processor; the rest is of each application.
#[test]
fn applications_are_told_apart_and_the_host_is_told_once() {
    let named = |name: &str| Status { application: Some(name.to_owned()), ..full_status() };
    let text = metrics_text(&Status { others: vec![named("disks")], ..named("redis") });
    for line in [
        r#"wattio_requests_per_second{application="disks"} "#,
        r#"wattio_cores{application="redis",group="storage"} "#,
        r#"wattio_state{application="disks",state="stable"} 1"#,
        "wattio_uptime_seconds 3600.5",
        "process_cpu_seconds_total 1.25",
    ] {
        assert!(text.lines().any(|told| told.starts_with(line)), "{line}\n{text}");
    }
    let series: Vec<_> = text
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .filter(|(s, _)| !s.starts_with('#'))
        .collect();
    let names: BTreeSet<_> = series.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), series.len(), "a series is there twice");
}

/// Group names come from a file that an operator writes.
#[test]
fn labels_are_escaped() {
    let mut status = full_status();
    status.groups[0].name = "a\"b\\c\nd".to_owned();
    let text = metrics_text(&status);
    assert!(text.contains(r#"wattio_cores{group="a\"b\\c\nd"} 16"#), "{text}");
}

#[test]
fn every_estimate_is_called_one() {
    let known = |power: PowerStatus| {
        let text = metrics_text(&Status { power, ..Status::default() });
        let names = text.lines().filter(|line| !line.starts_with('#'));
        names.filter_map(|line| Some(line.split([' ', '{']).next()?.to_owned())).collect()
    };
    let none: BTreeSet<String> = known(PowerStatus::default());
    let all: BTreeSet<String> = known(PowerStatus {
        estimated_w: Some(1.0),
        estimated_full_speed_w: Some(1.0),
        estimated_span_s: Some(1.0),
        estimated_j: Some(1.0),
        estimated_full_speed_j: Some(1.0),
        ..PowerStatus::default()
    });
    let estimates: Vec<_> = all.difference(&none).collect();
    assert_eq!(estimates.len(), 5);
    assert!(estimates.iter().all(|name| name.contains("estimated")), "{estimates:?}");
}

/// The rules of the format: help, type, then samples, no name twice, an end.
#[test]
fn the_page_keeps_the_rules_of_its_format() {
    let mut names = BTreeSet::new();
    let mut current = String::new();
    for line in GOLDEN.lines() {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["#", "HELP", name, help @ ..] => {
                assert!(names.insert((*name).to_owned()), "{name} twice");
                assert!(help.last().is_some_and(|last| last.ends_with('.')), "{line}");
                current = (*name).to_owned();
            }
            ["#", "TYPE", name, kind] => {
                assert_eq!(*name, current);
                assert!(["gauge", "counter", "info"].contains(kind), "{line}");
            }
            ["#", "EOF"] => current.clear(),
            _ => {
                let name = line.split([' ', '{']).next().unwrap();
                let bare = name.strip_suffix("_total").or(name.strip_suffix("_info"));
                assert_eq!(bare.unwrap_or(name), current, "{line}");
                let value: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
                assert!(value.is_finite());
            }
        }
    }
    assert_eq!(current, "", "an EOF ends the page");
    assert!(names.len() > 40);
}

/// What `promtool check metrics` holds against a page in the text format: counters that do not end
/// in `_total`, other metrics that do, no help, types that the format does not know.
#[test]
fn the_text_format_names_and_types_what_it_shows() {
    let text = Format::Text.write(&families(&full_status()));
    let mut lines = text.lines().peekable();
    let mut count = 0;
    while let Some(help) = lines.next() {
        let name = help.strip_prefix("# HELP ").unwrap().split(' ').next().unwrap();
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
        assert!(["gauge", "counter"].contains(&kind), "{kind} of {name}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            assert_eq!(line.split([' ', '{']).next(), Some(name));
            count += 1;
        }
    }
    let shown = GOLDEN.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(count, shown, "both formats show the same");
}

/// The reader of other servers' pages gets through it, and finds no latency histogram in it.
#[test]
fn the_reader_for_latency_sources_understands_it() {
    assert!(text::candidates(GOLDEN).is_empty());
    let selector = text::Selector {
        metric: "wattio_latency_seconds_mean".to_owned(),
        unit_us: 1e6,
        ..text::Selector::default()
    };
    let message = text::read(GOLDEN, &selector).unwrap_err();
    assert!(message.contains("neither buckets nor a sum and a count"), "{message}");
}
