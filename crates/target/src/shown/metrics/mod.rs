//! The target's metrics. A metric that means the same as one of `wattiod` has the same name.

mod volumes;

use super::{GroupShown, Shown};
use volumes::{CLASSES, VOLUMES};
use wattio_governor::BoundStatus;
use wattio_host::shadow::ShadowStatus;
use wattio_service::metrics::{Family, Kind, Value};

/// Name, help, kind and value of a number.
type Metric<T> = (&'static str, &'static str, Kind, fn(&T) -> Option<f64>);

const METRICS: &[Metric<Shown>] = &[
    ("wattio_forced", "1 while full speed is forced.", Kind::Gauge, |shown| {
        flag(shown.forced.is_some())
    }),
    ("wattio_paused", "1 while an operator keeps it at full speed.", Kind::Gauge, |shown| {
        flag(shown.paused)
    }),
    ("wattio_uptime_seconds", "Time since the start.", Kind::Gauge, |shown| Some(shown.uptime_s)),
    (
        "wattio_requests_per_second",
        "Client requests that were answered in the last window.",
        Kind::Gauge,
        |shown| shown.latency.requests_per_s,
    ),
    (
        "wattio_latency_seconds_mean",
        "Mean latency of the last window, from the socket to the socket.",
        Kind::Gauge,
        |shown| seconds(shown.latency.latency_us_mean),
    ),
    (
        "wattio_latency_baseline_seconds",
        "Mean latency that this load has at full speed.",
        Kind::Gauge,
        |shown| seconds(shown.latency.baseline_us),
    ),
    ("wattio_latency_bound_seconds", "What the mean latency may come to.", Kind::Gauge, |shown| {
        seconds(shown.latency.bound_us)
    }),
    (
        "wattio_latency_tolerance_ratio",
        "How far the bound is above the baseline: 0.2 is 20 %.",
        Kind::Gauge,
        |shown| shown.latency.tolerance,
    ),
    (
        "wattio_latency_seconds_p99",
        "99th percentile of the latency in the last window.",
        Kind::Gauge,
        |shown| seconds(shown.latency.latency_us_p99),
    ),
    (
        "wattio_loss_measured_ratio",
        "How far the last window's mean latency was above the baseline: 0.1 is 10 %.",
        Kind::Gauge,
        |shown| shown.latency.loss_measured,
    ),
    (
        "wattio_loss_estimated_ratio",
        "The loss that the fitted model predicts for the setting in force (estimated).",
        Kind::Gauge,
        |shown| shown.latency.loss_predicted,
    ),
    (
        "wattio_loss_ratio_mean",
        "Loss over all requests of windows with a known bound: measured, in mode observe estimated.",
        Kind::Gauge,
        |shown| shown.counts.loss_mean,
    ),
    (
        "wattio_background_pace_ratio",
        "Released background work over what becomes due: 0 is paused, 1 keeps up.",
        Kind::Gauge,
        |shown| Some(shown.background_pace),
    ),
    ("wattio_requests_in_flight", "Requests that are not answered yet.", Kind::Gauge, |shown| {
        Some(shown.latency.in_flight as f64)
    }),
    (
        "wattio_requests_in_flight_oldest_seconds",
        "How long the oldest request that is not answered waits.",
        Kind::Gauge,
        |shown| shown.latency.in_flight_oldest_s,
    ),
    (
        "wattio_reactors_active",
        "Reactors that are on; in mode observe those that would be.",
        Kind::Gauge,
        |shown| Some(shown.reactors_active as f64),
    ),
    (
        "wattio_reactors_on_seconds",
        "Time that reactors were on, added up over them.",
        Kind::Counter,
        |shown| Some(shown.counts.reactors_on_s),
    ),
    ("wattio_reactors", "All reactors.", Kind::Gauge, |shown| Some(shown.reactors_total as f64)),
    (
        "wattio_power_measured_watts",
        "Mean power of the last window, measured by the meter.",
        Kind::Gauge,
        |shown| shown.power.measured_w,
    ),
    (
        "wattio_power_estimated_watts",
        "Estimated power of the setting in force; in mode observe of the one it would set.",
        Kind::Gauge,
        |shown| shown.power.estimated_w,
    ),
    (
        "wattio_power_full_speed_estimated_watts",
        "Estimated power at full speed under the same load.",
        Kind::Gauge,
        |shown| shown.power.estimated_full_speed_w,
    ),
    (
        "wattio_energy_estimated_joules",
        "Estimated energy since the start; in mode observe of the settings it would have used.",
        Kind::Counter,
        |shown| shown.power.estimated_j,
    ),
    (
        "wattio_energy_full_speed_estimated_joules",
        "Estimated energy since the start, had it run at full speed.",
        Kind::Counter,
        |shown| shown.power.estimated_full_speed_j,
    ),
    (
        "wattio_price_eur_per_kilowatt_hour",
        "What a kilowatt-hour costs, as configured or assumed.",
        Kind::Gauge,
        |shown| shown.power.estimated_saved_year.map(|year| year.price.eur_per_kwh),
    ),
    (
        "wattio_co2_grams_per_kilowatt_hour",
        "How much CO2 a kilowatt-hour stands for, as configured or assumed.",
        Kind::Gauge,
        |shown| shown.power.estimated_saved_year.map(|year| year.price.co2_g_per_kwh),
    ),
    (
        "wattio_step_seconds_mean",
        "Mean time that the target takes for a step of the law.",
        Kind::Gauge,
        |shown| seconds(shown.own.step_us_mean),
    ),
    ("wattio_windows", "Windows in all.", Kind::Counter, |shown| count(shown.counts.windows)),
    ("wattio_windows_missing", "Windows without a usable latency.", Kind::Counter, |shown| {
        count(shown.counts.windows_missing)
    }),
    (
        "wattio_windows_forced",
        "Windows after which full speed was forced.",
        Kind::Counter,
        |shown| count(shown.counts.windows_forced),
    ),
    (
        "wattio_windows_bounded",
        "Windows while saving, in mode observe while it would have, with requests and a known first bound.",
        Kind::Counter,
        |shown| count(shown.counts.windows_bounded),
    ),
    (
        "wattio_violations",
        "Of the bounded windows, those above the first bound; in mode observe estimated.",
        Kind::Counter,
        |shown| count(shown.counts.violations),
    ),
    (
        "wattio_setting_changes",
        "Steps that changed the setting; in mode observe those that would have.",
        Kind::Counter,
        |shown| count(shown.counts.setting_changes),
    ),
    ("process_resident_memory_bytes", "Memory of the target.", Kind::Gauge, |shown| {
        Some(shown.own.resident_bytes as f64)
    }),
    ("process_cpu_seconds", "Processor time of the target.", Kind::Counter, |shown| {
        Some(shown.own.cpu_s)
    }),
];

const BOUNDS: &[Metric<BoundStatus>] = &[
    (
        "wattio_bound_limit_seconds",
        "What the statistic of a bound may come to now.",
        Kind::Gauge,
        |bound| seconds(bound.limit_us),
    ),
    (
        "wattio_bound_windows",
        "Windows in which a bound was judged: while saving, with requests and a known limit.",
        Kind::Counter,
        |bound| count(bound.windows),
    ),
    (
        "wattio_bound_windows_over",
        "Of these, windows above the limit; in mode observe estimated.",
        Kind::Counter,
        |bound| count(bound.windows_over),
    ),
    (
        "wattio_bound_requests_over_ratio",
        "Share of the requests of these windows above the limit; in mode observe estimated.",
        Kind::Gauge,
        |bound| bound.requests_over_share,
    ),
    (
        "wattio_bound_loss_ratio",
        "Growth of the statistic over full speed in these windows; in mode observe estimated.",
        Kind::Gauge,
        |bound| bound.loss,
    ),
    (
        "wattio_bound_kept",
        "1 while a bound is kept over its scope, 0 while it is not; in mode observe estimated.",
        Kind::Gauge,
        |bound| bound.kept.and_then(flag),
    ),
];

/// Of the model of this host, in shadow mode.
const MODEL: &[Metric<ShadowStatus>] = &[
    (
        "wattio_model_fitted",
        "1 if the model of this host is good enough to estimate from.",
        Kind::Gauge,
        |shadow| flag(shadow.fitted),
    ),
    (
        "wattio_model_error_ratio_median",
        "Median error of the estimated latency over windows that were kept out of the fit.",
        Kind::Gauge,
        |shadow| shadow.error_median,
    ),
    (
        "wattio_model_error_ratio_p90",
        "90th percentile of the error of the estimated latency over windows kept out.",
        Kind::Gauge,
        |shadow| shadow.error_p90,
    ),
    (
        "wattio_model_windows_fitted",
        "Windows that the model of this host was fitted to.",
        Kind::Counter,
        |shadow| count(shadow.windows_fitted),
    ),
    (
        "wattio_model_windows_kept_out",
        "Windows that were kept out of the fit to measure its error.",
        Kind::Counter,
        |shadow| count(shadow.windows_kept_out),
    ),
];

const GROUPS: &[Metric<GroupShown>] = &[
    (
        "wattio_cores_active",
        "Reactors of a group that are on; in mode observe those that would be.",
        Kind::Gauge,
        |group| Some(f64::from(group.cores_active)),
    ),
    ("wattio_cores", "All reactors of a group.", Kind::Gauge, |group| {
        Some(f64::from(group.cores_total))
    }),
    ("wattio_cores_min", "Reactors of a group that always stay.", Kind::Gauge, |group| {
        Some(f64::from(group.cores_min))
    }),
    (
        "wattio_frequency_hertz",
        "Limit of the frequency in force; in mode observe the one it would set.",
        Kind::Gauge,
        |group| group.frequency_hz,
    ),
    ("wattio_frequency_hertz_max", "The highest frequency.", Kind::Gauge, |group| {
        group.frequency_max_hz
    }),
    (
        "wattio_utilisation_clients_ratio",
        "Share of the time of those that are on in tasks of clients.",
        Kind::Gauge,
        |group| Some(group.utilisation_clients),
    ),
    (
        "wattio_utilisation_background_ratio",
        "Share of the time of those that are on in background tasks.",
        Kind::Gauge,
        |group| Some(group.utilisation_background),
    ),
];

/// The metrics of what is shown.
pub(super) fn families(shown: &Shown) -> Vec<Family<'_>> {
    let labels = [
        ("version", &shown.version),
        ("mode", &shown.mode),
        ("name", &shown.name),
        ("policy", &shown.policy),
    ];
    let labels = labels.map(|(name, value)| (name, value.as_str().into())).to_vec();
    let mut families = vec![
        Family {
            name: "wattio_target",
            help: "What runs: in mode observe it stays at full speed and says what it would do.",
            kind: Kind::Info,
            series: vec![(labels, Value::Whole(1))],
        },
        latencies(shown),
        last_change(shown),
    ];
    families.extend(METRICS.iter().map(|&(name, help, kind, value)| {
        Family::of(name, help, kind, value(shown).map(Value::Real))
    }));
    if let Some(shadow) = &shown.shadow {
        families.extend(MODEL.iter().map(|&(name, help, kind, value)| {
            Family::of(name, help, kind, value(shadow).map(Value::Real))
        }));
    }
    // A bound that is configured twice is told once.
    let bounds = shown.bounds.iter().enumerate();
    let bounds =
        bounds.filter(|(at, one)| shown.bounds[..*at].iter().all(|b| b.bound != one.bound));
    families.extend(labelled(BOUNDS, "bound", bounds.map(|(_, one)| one), |one| &one.bound));
    families.extend(labelled(GROUPS, "group", &shown.groups, |group| &group.name));
    families.extend(labelled(CLASSES, "class", &shown.background, |class| &class.name));
    let volumes = shown.reactors.iter().flat_map(|reactor| &reactor.volumes);
    families.extend(labelled(VOLUMES, "export", volumes, |volume| &volume.export));
    families.extend(states(shown));
    families
}

/// How latencies spread since the start.
fn latencies(shown: &Shown) -> Family<'_> {
    let (spread, sum) = &shown.latencies;
    let buckets = spread.buckets.iter().map(|&(edge_us, count)| (edge_us / 1e6, count)).collect();
    let value = Some(Value::Spread(buckets, sum.0));
    Family::of(
        "wattio_latency_seconds",
        "Latency of requests, from the socket to the socket.",
        Kind::Histogram,
        value,
    )
}

/// The reason of the last decision.
fn last_change(shown: &Shown) -> Family<'_> {
    Family {
        name: "wattio_last_change",
        help: "Reason for the last step's decision.",
        kind: Kind::Info,
        series: vec![(vec![("reason", shown.reason.as_str().into())], Value::Whole(1))],
    }
}

/// The state, and the time in each; none if the law has no states.
fn states(shown: &Shown) -> Vec<Family<'_>> {
    let Some(current) = shown.state.as_deref() else { return Vec::new() };
    let series = |value: &dyn Fn(&str, f64) -> Value| {
        let spans = shown.counts.state_span_s.iter();
        let one = |(name, &span_s): (&'_ String, &f64)| {
            (vec![("state", name.clone().into())], value(name, span_s))
        };
        spans.map(one).collect()
    };
    vec![
        Family {
            name: "wattio_state",
            help: "1 for the state that the law is in, 0 for the others.",
            kind: Kind::Gauge,
            series: series(&|name, _| Value::Whole(u64::from(name == current))),
        },
        Family {
            name: "wattio_state_seconds",
            help: "Time in each state.",
            kind: Kind::Counter,
            series: series(&|_, span_s| Value::Real(span_s)),
        },
    ]
}

/// A metric for each of a list, which a label tells apart.
fn labelled<'a, T>(
    metrics: &'static [Metric<T>],
    label: &'static str,
    list: impl IntoIterator<Item = &'a T> + Clone,
    named: fn(&T) -> &String,
) -> impl Iterator<Item = Family<'a>> {
    metrics.iter().map(move |&(name, help, kind, value)| {
        let series = list.clone().into_iter().filter_map(|one| {
            Some((vec![(label, named(one).as_str().into())], Value::Real(value(one)?)))
        });
        Family { name, help, kind, series: series.collect() }
    })
}

fn flag(set: bool) -> Option<f64> {
    Some(f64::from(u8::from(set)))
}

fn count(count: u64) -> Option<f64> {
    Some(count as f64)
}

fn seconds(us: Option<f64>) -> Option<f64> {
    us.map(|us| us / 1e6)
}
