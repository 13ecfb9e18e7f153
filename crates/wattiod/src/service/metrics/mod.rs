//! `GET /metrics`: the status in the text format of OpenMetrics, which Prometheus reads.
//!
//! Base units (seconds, joules, watts, hertz, shares). Unknown values are left out, never 0. Values
//! from a model instead of a meter have `estimated` in their name and their help text.

mod tables;

use crate::status::{GroupStatus, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// The type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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
pub fn text(status: &Arc<Status>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(status.clone())));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Snapshot(Arc<Status>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let status = &*self.0;
        info(&mut encoder, status)?;
        states(&mut encoder, status)?;
        for metric in tables::GAUGES {
            if let Some(value) = finite((metric.value)(status)) {
                let gauge = ConstGauge::new(value);
                let described =
                    encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
                gauge.encode(described)?;
            }
        }
        for metric in tables::COUNTERS {
            if let Some(value) = finite((metric.value)(status)) {
                let counter = ConstCounter::new(value);
                let described = encoder.encode_descriptor(
                    metric.name,
                    metric.help,
                    None,
                    MetricType::Counter,
                )?;
                counter.encode(described)?;
            }
        }
        for metric in tables::GROUPS {
            let values = status
                .groups
                .iter()
                .map(|group| ([("group", group.name.as_str())], finite((metric.value)(group))));
            let values =
                values.filter_map(|(labels, value)| Some((labels, ConstGauge::new(value?))));
            family(&mut encoder, metric.name, metric.help, MetricType::Gauge, values)?;
        }
        Ok(())
    }
}

/// The running version, and the reason of its last decision.
fn info(encoder: &mut DescriptorEncoder, status: &Status) -> fmt::Result {
    let what = vec![
        ("version", status.version.clone()),
        ("mode", status.mode.clone()),
        ("name", status.name.clone()),
        ("policy", status.policy.clone()),
        ("latency_source", status.latency.source.clone()),
    ];
    let help = "What runs: in mode observe it acts on nothing and says what it would do.";
    Info::new(what).encode(encoder.encode_descriptor("wattio", help, None, MetricType::Info)?)?;
    let help = "Reason for the last step's decision.";
    let reason = Info::new(vec![("reason", status.reason.clone())]);
    reason.encode(encoder.encode_descriptor("wattio_last_change", help, None, MetricType::Info)?)
}

/// One series per state; none if the law has no states.
fn states(encoder: &mut DescriptorEncoder, status: &Status) -> fmt::Result {
    let Some(current) = status.state.as_deref() else { return Ok(()) };
    let spans = &status.counts.state_span_s;
    let label = |name: &str| [("state", name.to_owned())];
    let now = spans.keys().map(|name| (label(name), ConstGauge::new(u64::from(name == current))));
    let help = "1 for the state that the law is in, 0 for the others.";
    family(encoder, "wattio_state", help, MetricType::Gauge, now)?;
    let spans = spans
        .iter()
        .filter_map(|(name, &span)| Some((label(name), ConstCounter::new(finite(Some(span))?))));
    let help = "Time in each state.";
    family(encoder, "wattio_state_seconds", help, MetricType::Counter, spans)
}

/// One metric with a series for each set of labels; nothing if there are none.
fn family<L: EncodeLabelSet, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    kind: MetricType,
    series: impl IntoIterator<Item = (L, M)>,
) -> fmt::Result {
    let mut series = series.into_iter().peekable();
    if series.peek().is_none() {
        return Ok(());
    }
    let mut described = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, metric) in series {
        metric.encode(described.encode_family(&labels)?)?;
    }
    Ok(())
}

/// A finite number.
fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}
