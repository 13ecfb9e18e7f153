//! What the daemon counts, as metrics.

mod tables;

use crate::status::{GroupStatus, Status};
use wattio_service::metrics::{Family, Kind, Value};

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

/// The metrics of a status.
#[must_use]
pub fn families(status: &Status) -> Vec<Family<'_>> {
    let of = |metric: &Metric, kind| {
        Family::of(metric.name, metric.help, kind, (metric.value)(status).map(Value::Real))
    };
    let mut families = vec![info(status), last_change(status)];
    families.extend(states(status));
    families.extend(tables::GAUGES.iter().map(|metric| of(metric, Kind::Gauge)));
    families.extend(tables::COUNTERS.iter().map(|metric| of(metric, Kind::Counter)));
    families.extend(tables::GROUPS.iter().map(|metric| of_groups(metric, status)));
    families
}

fn of_groups<'a>(metric: &GroupMetric, status: &'a Status) -> Family<'a> {
    let series = status.groups.iter().filter_map(|group| {
        Some((vec![("group", group.name.as_str().into())], Value::Real((metric.value)(group)?)))
    });
    Family { name: metric.name, help: metric.help, kind: Kind::Gauge, series: series.collect() }
}

/// The running version.
fn info(status: &Status) -> Family<'_> {
    let labels = [
        ("version", &status.version),
        ("mode", &status.mode),
        ("name", &status.name),
        ("policy", &status.policy),
        ("latency_source", &status.latency.source),
    ]
    .map(|(name, value)| (name, value.as_str().into()));
    Family {
        name: "wattio",
        help: "What runs: in mode observe it acts on nothing and says what it would do.",
        kind: Kind::Info,
        series: vec![(labels.into(), Value::Whole(1))],
    }
}

/// The reason of the last decision.
fn last_change(status: &Status) -> Family<'_> {
    Family {
        name: "wattio_last_change",
        help: "Reason for the last step's decision.",
        kind: Kind::Info,
        series: vec![(vec![("reason", status.reason.as_str().into())], Value::Whole(1))],
    }
}

/// One series per state; none if the law has no states.
fn states(status: &Status) -> [Family<'_>; 2] {
    let current = status.state.as_deref();
    let spans = status.counts.state_span_s.iter().filter(|_| current.is_some());
    let label = |name: &'_ str| vec![("state", name.to_owned().into())];
    let is = |name: &str| Value::Whole(u64::from(current == Some(name)));
    [
        Family {
            name: "wattio_state",
            help: "1 for the state that the law is in, 0 for the others.",
            kind: Kind::Gauge,
            series: spans.clone().map(|(name, _)| (label(name), is(name))).collect(),
        },
        Family {
            name: "wattio_state_seconds",
            help: "Time in each state.",
            kind: Kind::Counter,
            series: spans.map(|(name, &span_s)| (label(name), Value::Real(span_s))).collect(),
        },
    ]
}
