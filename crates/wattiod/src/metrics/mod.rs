//! What the daemon counts, as metrics.

mod tables;

use crate::status::{BoundStatus, GroupStatus, Status};
use std::borrow::Cow;
use wattio_service::metrics::{Family, Kind, Labels, Value};

/// A number of the whole daemon.
struct Metric {
    name: &'static str,
    help: &'static str,
    value: fn(&Status) -> Option<f64>,
}

/// A number of each group of cores.
struct GroupMetric {
    name: &'static str,
    help: &'static str,
    value: fn(&GroupStatus) -> Option<f64>,
}

/// A number of each bound.
struct BoundMetric {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    value: fn(&BoundStatus) -> Option<f64>,
}

/// Numbers of the whole daemon, told once.
const OF_HOST: &[&str] = &[
    "wattio_paused",
    "wattio_uptime_seconds",
    "process_resident_memory_bytes",
    "process_cpu_seconds",
];

/// The metrics of a status. Where there are several applications, each series has the label
/// `application`.
#[must_use]
pub fn families(status: &Status) -> Vec<Family<'_>> {
    let of = |metric: &Metric, kind| Family {
        name: metric.name,
        help: metric.help,
        kind,
        series: if OF_HOST.contains(&metric.name) {
            (metric.value)(status).map(|value| (vec![], Value::Real(value))).into_iter().collect()
        } else {
            let series = |one| Some((labels(one, []), Value::Real((metric.value)(one)?)));
            status.applications().filter_map(series).collect()
        },
    };
    let mut families = vec![info(status), last_change(status)];
    families.extend(states(status));
    families.extend(tables::GAUGES.iter().map(|metric| of(metric, Kind::Gauge)));
    families.extend(tables::COUNTERS.iter().map(|metric| of(metric, Kind::Counter)));
    families.extend(tables::BOUNDS.iter().map(|metric| of_bounds(metric, status)));
    families.extend(tables::GROUPS.iter().map(|metric| of_groups(metric, status)));
    families
}

/// The labels of a series of an application.
fn labels<'a, const N: usize>(
    one: &'a Status,
    more: [(&'static str, Cow<'a, str>); N],
) -> Labels<'a> {
    let application = one.application.as_deref().map(|name| ("application", name.into()));
    application.into_iter().chain(more).collect()
}

fn of_groups<'a>(metric: &GroupMetric, status: &'a Status) -> Family<'a> {
    let series = status.applications().flat_map(|one| {
        one.groups.iter().filter_map(move |group| {
            let value = Value::Real((metric.value)(group)?);
            Some((labels(one, [("group", group.name.as_str().into())]), value))
        })
    });
    Family { name: metric.name, help: metric.help, kind: Kind::Gauge, series: series.collect() }
}

/// Of two bounds that are the same only the first is told: a series is there once.
fn of_bounds<'a>(metric: &BoundMetric, status: &'a Status) -> Family<'a> {
    let series = status.applications().flat_map(|one| {
        one.bounds.iter().enumerate().filter_map(move |(at, bound)| {
            let known = one.bounds[..at].iter().any(|before| before.bound == bound.bound);
            let value = Value::Real((metric.value)(bound).filter(|_| !known)?);
            Some((labels(one, [("bound", bound.bound.as_str().into())]), value))
        })
    });
    Family { name: metric.name, help: metric.help, kind: metric.kind, series: series.collect() }
}

/// The running version.
fn info(status: &Status) -> Family<'_> {
    Family {
        name: "wattio",
        help: "What runs: in mode observe it acts on nothing and says what it would do.",
        kind: Kind::Info,
        series: status.applications().map(|one| what_runs(status, one)).collect(),
    }
}

fn what_runs<'a>(status: &'a Status, one: &'a Status) -> (Labels<'a>, Value) {
    let own = [
        ("version", &status.version),
        ("mode", &status.mode),
        ("name", &status.name),
        ("policy", &one.policy),
        ("latency_source", &one.latency.source),
    ];
    (labels(one, own.map(|(name, value)| (name, value.as_str().into()))), Value::Whole(1))
}

/// The reason of the last decision.
fn last_change(status: &Status) -> Family<'_> {
    let series = |one| (labels(one, [("reason", one.reason.as_str().into())]), Value::Whole(1));
    Family {
        name: "wattio_last_change",
        help: "Reason for the last step's decision.",
        kind: Kind::Info,
        series: status.applications().map(series).collect(),
    }
}

/// One series per state; none if the law has no states.
fn states(status: &Status) -> [Family<'_>; 2] {
    let (mut now, mut spans) = (Vec::new(), Vec::new());
    for one in status.applications() {
        let Some(current) = one.state.as_deref() else { continue };
        for (name, &span_s) in &one.counts.state_span_s {
            let label = || labels(one, [("state", name.as_str().into())]);
            now.push((label(), Value::Whole(u64::from(current == name))));
            spans.push((label(), Value::Real(span_s)));
        }
    }
    [
        Family {
            name: "wattio_state",
            help: "1 for the state that the law is in, 0 for the others.",
            kind: Kind::Gauge,
            series: now,
        },
        Family {
            name: "wattio_state_seconds",
            help: "Time in each state.",
            kind: Kind::Counter,
            series: spans,
        },
    ]
}
