//! The metrics, as data.

use super::{BoundMetric, GroupMetric, Metric};
use crate::status::{AlternationStatus, ShadowStatus, Status};
use wattio_service::metrics::Kind;

const US_PER_S: f64 = 1e6;

/// Gauges.
pub(super) const GAUGES: &[Metric] = &[
    Metric {
        name: "wattio_forced",
        help: "1 while full speed is forced: latency missing, breaker open, paused or similar.",
        value: |status| flag(status.forced.is_some()),
    },
    Metric {
        name: "wattio_paused",
        help: "1 while an operator keeps it at full speed.",
        value: |status| flag(status.paused),
    },
    Metric {
        name: "wattio_uptime_seconds",
        help: "Time since the start of the daemon.",
        value: |status| Some(status.uptime_s),
    },
    Metric {
        name: "wattio_requests_per_second",
        help: "Client requests that completed in the last window.",
        value: |status| status.latency.requests_per_s,
    },
    Metric {
        name: "wattio_latency_seconds_mean",
        help: "Mean latency of the last window that had requests.",
        value: |status| seconds(status.latency.latency_us_mean),
    },
    Metric {
        name: "wattio_latency_seconds_p99",
        help: "99th percentile of the latency in the last window.",
        value: |status| seconds(status.latency.latency_us_p99),
    },
    Metric {
        name: "wattio_latency_resolution_seconds",
        help: "Steps of the source of latency, if longer than 1 us: what is less was not measured.",
        value: |status| seconds(status.latency.latency_us_resolution),
    },
    Metric {
        name: "wattio_latency_baseline_seconds",
        help: "Mean latency that this load has at full speed.",
        value: |status| seconds(status.latency.baseline_us),
    },
    Metric {
        name: "wattio_latency_bound_seconds",
        help: "What the mean latency may come to, where a bound is on it.",
        value: |status| seconds(status.latency.bound_us),
    },
    Metric {
        name: "wattio_latency_tolerance_ratio",
        help: "How far the first bound on the mean is above the baseline: 0.2 is 20 %.",
        value: |status| status.latency.tolerance,
    },
    Metric {
        name: "wattio_latency_sample_age_seconds",
        help: "Age of the newest latency sample.",
        value: |status| Some(status.latency.sample_age_s),
    },
    Metric {
        name: "wattio_loss_measured_ratio",
        help: "How far the last window's mean latency was above the baseline: 0.1 is 10 %.",
        value: |status| status.latency.loss_measured,
    },
    Metric {
        name: "wattio_loss_estimated_ratio",
        help: "The loss that the fitted model predicts for the setting in force (estimated).",
        value: |status| status.latency.loss_predicted,
    },
    Metric {
        name: "wattio_loss_ratio_mean",
        help: "Loss of the mean latency in windows with a known bound on it: measured, in mode observe estimated.",
        value: |status| status.counts.loss_mean,
    },
    Metric {
        name: "wattio_background_pace_ratio",
        help: "Released background work over what becomes due: 0 is paused, 1 keeps up.",
        value: |status| Some(status.background_pace),
    },
    Metric {
        name: "wattio_power_measured_watts",
        help: "Mean power of the last window, measured by the meter.",
        value: |status| status.power.measured_w,
    },
    Metric {
        name: "wattio_power_estimated_watts",
        help: "Estimated power of the setting in force; in mode observe of the one it would set.",
        value: |status| status.power.estimated_w,
    },
    Metric {
        name: "wattio_power_full_speed_estimated_watts",
        help: "Estimated power at full speed under the same load.",
        value: |status| status.power.estimated_full_speed_w,
    },
    Metric {
        name: "wattio_price_eur_per_kilowatt_hour",
        help: "What a kilowatt-hour costs, as configured or assumed.",
        value: |status| status.power.estimated_saved_year.map(|year| year.price.eur_per_kwh),
    },
    Metric {
        name: "wattio_co2_grams_per_kilowatt_hour",
        help: "How much CO2 a kilowatt-hour stands for, as configured or assumed.",
        value: |status| status.power.estimated_saved_year.map(|year| year.price.co2_g_per_kwh),
    },
    Metric {
        name: "wattio_model_fitted",
        help: "1 if the model of this host is good enough to estimate from.",
        value: |status| shadow(status, |shadow| flag(shadow.fitted)),
    },
    Metric {
        name: "wattio_model_error_ratio_median",
        help: "Median error of the estimated latency over windows that were kept out of the fit.",
        value: |status| shadow(status, |shadow| shadow.error_median),
    },
    Metric {
        name: "wattio_model_error_ratio_p90",
        help: "90th percentile of the error of the estimated latency over windows kept out.",
        value: |status| shadow(status, |shadow| shadow.error_p90),
    },
    Metric {
        name: "wattio_alternation_pairs",
        help: "Pairs of a stretch under governing and one at full speed, with --alternate.",
        value: |status| found(status, |found| Some(found.pairs as f64)),
    },
    Metric {
        name: "wattio_alternation_saved_watts_mean",
        help: "Power at full speed less that under governing, by alternation.",
        value: |status| found(status, |found| Some(found.power_w_saved?.mean)),
    },
    Metric {
        name: "wattio_alternation_saved_watts_half_width",
        help: "Half the width of its 95 % interval.",
        value: |status| found(status, |found| Some(found.power_w_saved?.half_width)),
    },
    Metric {
        name: "wattio_alternation_saved_is_estimate",
        help: "1 if that is by the power model, as no meter was there.",
        value: |status| found(status, |found| flag(found.power_is_estimate)),
    },
    Metric {
        name: "wattio_alternation_latency_change_ratio_mean",
        help: "Mean latency under governing over that at full speed, less 1, by alternation.",
        value: |status| found(status, |found| Some(found.latency_change?.mean)),
    },
    Metric {
        name: "wattio_alternation_latency_change_ratio_half_width",
        help: "Half the width of its 95 % interval.",
        value: |status| found(status, |found| Some(found.latency_change?.half_width)),
    },
    Metric {
        name: "wattio_alternation_requests_change_ratio_mean",
        help: "Requests per second under governing over those at full speed, less 1, by alternation.",
        value: |status| found(status, |found| Some(found.requests_per_s_change?.mean)),
    },
    Metric {
        name: "wattio_alternation_requests_change_ratio_half_width",
        help: "Half the width of its 95 % interval.",
        value: |status| found(status, |found| Some(found.requests_per_s_change?.half_width)),
    },
    Metric {
        name: "wattio_step_seconds_mean",
        help: "Mean time that the daemon takes for a step.",
        value: |status| seconds(status.own.step_us_mean),
    },
    Metric {
        name: "process_resident_memory_bytes",
        help: "Memory of the daemon itself.",
        value: |status| Some(status.own.resident_bytes as f64),
    },
];

/// Counters: they only grow until the daemon restarts.
pub(super) const COUNTERS: &[Metric] = &[
    Metric {
        name: "wattio_energy_measured_joules",
        help: "Energy measured by the meter, over the windows it covers.",
        value: |status| status.power.measured_j,
    },
    Metric {
        name: "wattio_energy_estimated_joules",
        help: "Estimated energy; in mode observe of the settings it would have used.",
        value: |status| status.power.estimated_j,
    },
    Metric {
        name: "wattio_energy_full_speed_estimated_joules",
        help: "Estimated energy, had it run at full speed.",
        value: |status| status.power.estimated_full_speed_j,
    },
    Metric {
        name: "wattio_windows",
        help: "Windows in all.",
        value: |status| count(status.counts.windows),
    },
    Metric {
        name: "wattio_windows_unmeasured",
        help: "Windows without a reading of the configured meter.",
        value: |status| status.power.meter.as_ref().and(count(status.counts.windows_unmeasured)),
    },
    Metric {
        name: "wattio_windows_missing",
        help: "Windows without a usable latency.",
        value: |status| count(status.counts.windows_missing),
    },
    Metric {
        name: "wattio_windows_forced",
        help: "Windows after which full speed was forced.",
        value: |status| count(status.counts.windows_forced),
    },
    Metric {
        name: "wattio_windows_bounded",
        help: "Windows while saving, in mode observe while it would have, with requests and a known first bound.",
        value: |status| count(status.counts.windows_bounded),
    },
    Metric {
        name: "wattio_violations",
        help: "Of the bounded windows, those above the first bound; in mode observe estimated.",
        value: |status| count(status.counts.violations),
    },
    Metric {
        name: "wattio_requests",
        help: "Client requests.",
        value: |status| count(status.counts.requests),
    },
    Metric {
        name: "wattio_knob_writes",
        help: "Values written to knobs.",
        value: |status| count(status.counts.knob_writes),
    },
    Metric {
        name: "wattio_knob_failures",
        help: "Values of knobs that could not be read, saved or written.",
        value: |status| count(status.counts.knob_failures),
    },
    Metric {
        name: "wattio_setting_changes",
        help: "Steps that changed the setting; in mode observe those that would have.",
        value: |status| count(status.counts.setting_changes),
    },
    Metric {
        name: "wattio_foreign_changes",
        help: "Places that somebody else changed and that were left to them.",
        value: |status| count(status.counts.foreign_changes),
    },
    Metric {
        name: "wattio_source_errors",
        help: "Samples that sources failed to deliver.",
        value: |status| count(status.counts.source_errors),
    },
    Metric {
        name: "wattio_flaps",
        help: "Returns from saving to full speed.",
        value: |status| count(status.counts.flaps),
    },
    Metric {
        name: "wattio_breaker_trips",
        help: "How often the circuit breaker opened.",
        value: |status| count(status.counts.breaker_trips),
    },
    Metric {
        name: "wattio_model_windows_fitted",
        help: "Windows that the model of this host was fitted to.",
        value: |status| shadow(status, |shadow| count(shadow.windows_fitted)),
    },
    Metric {
        name: "wattio_model_windows_kept_out",
        help: "Windows that were kept out of the fit to measure its error.",
        value: |status| shadow(status, |shadow| count(shadow.windows_kept_out)),
    },
    Metric {
        name: "wattio_model_estimated_seconds",
        help: "Time over which the model estimated.",
        value: |status| status.power.estimated_span_s,
    },
    Metric {
        name: "process_cpu_seconds",
        help: "Processor time of the daemon itself.",
        value: |status| Some(status.own.cpu_s),
    },
];

/// Numbers of each bound.
pub(super) const BOUNDS: &[BoundMetric] = &[
    BoundMetric {
        name: "wattio_bound_limit_seconds",
        help: "What the statistic of a bound may come to now.",
        kind: Kind::Gauge,
        value: |bound| seconds(bound.limit_us),
    },
    BoundMetric {
        name: "wattio_bound_windows",
        help: "Windows in which a bound was judged: while saving, with requests and a known limit.",
        kind: Kind::Counter,
        value: |bound| count(bound.windows),
    },
    BoundMetric {
        name: "wattio_bound_windows_over",
        help: "Of these, windows above the limit; in mode observe estimated.",
        kind: Kind::Counter,
        value: |bound| count(bound.windows_over),
    },
    BoundMetric {
        name: "wattio_bound_requests_over_ratio",
        help: "Share of the requests of these windows above the limit; in mode observe estimated.",
        kind: Kind::Gauge,
        value: |bound| bound.requests_over_share,
    },
    BoundMetric {
        name: "wattio_bound_loss_ratio",
        help: "Growth of the statistic over full speed in these windows; in mode observe estimated.",
        kind: Kind::Gauge,
        value: |bound| bound.loss,
    },
    BoundMetric {
        name: "wattio_bound_kept",
        help: "1 while a bound is kept over its scope, 0 while it is not; in mode observe estimated.",
        kind: Kind::Gauge,
        value: |bound| bound.kept.and_then(flag),
    },
];

/// Numbers of each group of cores.
pub(super) const GROUPS: &[GroupMetric] = &[
    GroupMetric {
        name: "wattio_cores_active",
        help: "Active cores of a group; in mode observe those that would be active.",
        value: |group| Some(f64::from(group.cores_active)),
    },
    GroupMetric {
        name: "wattio_cores",
        help: "All cores of a group.",
        value: |group| Some(f64::from(group.cores_total)),
    },
    GroupMetric {
        name: "wattio_cores_min",
        help: "Cores of a group that always stay active.",
        value: |group| Some(f64::from(group.cores_min)),
    },
    GroupMetric {
        name: "wattio_frequency_hertz",
        help: "Limit of the frequency in force; in mode observe the one it would set.",
        value: |group| group.frequency_hz,
    },
    GroupMetric {
        name: "wattio_frequency_hertz_max",
        help: "The highest frequency.",
        value: |group| group.frequency_max_hz,
    },
    GroupMetric {
        name: "wattio_utilisation_clients_ratio",
        help: "Measured share of the working cores' time in tasks of clients.",
        value: |group| Some(group.utilisation_clients),
    },
    GroupMetric {
        name: "wattio_utilisation_background_ratio",
        help: "Measured share of the working cores' time in background tasks.",
        value: |group| Some(group.utilisation_background),
    },
];

fn flag(set: bool) -> Option<f64> {
    Some(f64::from(u8::from(set)))
}

/// Exact up to 2^53: the text format has no larger integers either.
fn count(count: u64) -> Option<f64> {
    Some(count as f64)
}

fn seconds(us: Option<f64>) -> Option<f64> {
    us.map(|us| us / US_PER_S)
}

fn shadow(status: &Status, value: impl Fn(&ShadowStatus) -> Option<f64>) -> Option<f64> {
    status.shadow.as_ref().and_then(value)
}

fn found(status: &Status, value: fn(&AlternationStatus) -> Option<f64>) -> Option<f64> {
    status.alternation.as_ref().and_then(value)
}
