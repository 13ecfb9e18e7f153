//! The target's metrics. A metric that means the same as one of `wattiod` has the same name.

use super::{ClassShown, GroupShown, Shown};
use crate::status::VolumeStatus;
use wattio_governor::BoundStatus;
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
        "wattio_loss_ratio_mean",
        "Loss over all requests of windows with a known bound.",
        Kind::Gauge,
        |shown| shown.counts.loss_mean,
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
    ("wattio_reactors_active", "Reactors that are on.", Kind::Gauge, |shown| {
        Some(shown.reactors_active as f64)
    }),
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
        "Estimated power of the setting in force.",
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
        "Estimated energy since the start.",
        Kind::Counter,
        |shown| shown.power.estimated_j,
    ),
    (
        "wattio_energy_full_speed_estimated_joules",
        "Estimated energy since the start, had it run at full speed.",
        Kind::Counter,
        |shown| shown.power.estimated_full_speed_j,
    ),
    ("wattio_windows", "Windows in all.", Kind::Counter, |shown| count(shown.counts.windows)),
    (
        "wattio_windows_forced",
        "Windows after which full speed was forced.",
        Kind::Counter,
        |shown| count(shown.counts.windows_forced),
    ),
    (
        "wattio_windows_bounded",
        "Windows while saving with requests and a known first bound.",
        Kind::Counter,
        |shown| count(shown.counts.windows_bounded),
    ),
    (
        "wattio_violations",
        "Of the bounded windows, those above the first bound.",
        Kind::Counter,
        |shown| count(shown.counts.violations),
    ),
    ("wattio_setting_changes", "Steps that changed the setting.", Kind::Counter, |shown| {
        count(shown.counts.setting_changes)
    }),
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
    ("wattio_bound_windows_over", "Of these, windows above the limit.", Kind::Counter, |bound| {
        count(bound.windows_over)
    }),
    (
        "wattio_bound_requests_over_ratio",
        "Share of the requests of these windows above the limit.",
        Kind::Gauge,
        |bound| bound.requests_over_share,
    ),
    (
        "wattio_bound_loss_ratio",
        "Growth of the statistic over full speed in these windows.",
        Kind::Gauge,
        |bound| bound.loss,
    ),
    (
        "wattio_bound_kept",
        "1 while a bound is kept over its scope, 0 while it is not.",
        Kind::Gauge,
        |bound| bound.kept.and_then(flag),
    ),
];

const GROUPS: &[Metric<GroupShown>] = &[
    ("wattio_cores_active", "Reactors of a group that are on.", Kind::Gauge, |group| {
        Some(f64::from(group.cores_active))
    }),
    ("wattio_cores", "All reactors of a group.", Kind::Gauge, |group| {
        Some(f64::from(group.cores_total))
    }),
    ("wattio_cores_min", "Reactors of a group that always stay.", Kind::Gauge, |group| {
        Some(f64::from(group.cores_min))
    }),
    ("wattio_frequency_hertz", "Limit of the frequency in force.", Kind::Gauge, |group| {
        group.frequency_hz
    }),
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

const VOLUMES: &[Metric<VolumeStatus>] = &[
    ("wattio_volume_size_bytes", "Size of a volume.", Kind::Gauge, |volume| {
        Some(volume.size_bytes as f64)
    }),
    ("wattio_volume_live_bytes", "Data that a volume holds.", Kind::Gauge, |volume| {
        Some(volume.live_bytes as f64)
    }),
    (
        "wattio_volume_stored_bytes",
        "What this data takes on each device, compressed or not.",
        Kind::Gauge,
        |volume| Some(volume.stored_bytes as f64),
    ),
    (
        "wattio_volume_client_bytes",
        "Data that clients wrote since the start.",
        Kind::Counter,
        |volume| count(volume.client_blocks * wattio_volume::BLOCK_BYTES),
    ),
    (
        "wattio_volume_client_stored_bytes",
        "What was stored of what clients wrote since the start, compressed or not.",
        Kind::Counter,
        |volume| count(volume.client_stored_bytes),
    ),
    ("wattio_volume_segments_free", "Segments that can be written to.", Kind::Gauge, |volume| {
        Some(f64::from(volume.free_segments))
    }),
    (
        "wattio_volume_segments_empty",
        "Segments that the next checkpoint makes free.",
        Kind::Gauge,
        |volume| Some(f64::from(volume.empty_segments)),
    ),
    ("wattio_volume_segments", "All segments of a volume.", Kind::Gauge, |volume| {
        Some(f64::from(volume.segments))
    }),
    (
        "wattio_volume_starved_seconds",
        "How long clients have been waiting for a free segment.",
        Kind::Gauge,
        |volume| Some(volume.starved_s.unwrap_or(0.0)),
    ),
    (
        "wattio_volume_device_oldest_seconds",
        "How long the devices have been at the operation that takes longest.",
        Kind::Gauge,
        |volume| volume.device_oldest_s,
    ),
    (
        "wattio_volume_checkpoint_seconds",
        "How long the last checkpoint took, until it was durable.",
        Kind::Gauge,
        |volume| volume.checkpoint_s,
    ),
    (
        "wattio_volume_replay_bytes",
        "Log that a recovery would have to read.",
        Kind::Gauge,
        |volume| Some(volume.replay_bytes as f64),
    ),
    (
        "wattio_volume_opened_seconds",
        "How long opening the volume took at the start, with its recovery if there was one.",
        Kind::Gauge,
        |volume| Some(volume.opened_s),
    ),
    (
        "wattio_volume_recovered_bytes",
        "Log that was replayed at the start; absent if the volume had been closed.",
        Kind::Gauge,
        |volume| volume.recovered_bytes.map(|bytes| bytes as f64),
    ),
    (
        "wattio_volume_devices_in_sync",
        "Devices of a volume that have all of it.",
        Kind::Gauge,
        |volume| Some(volume.devices.iter().filter(|role| *role == "in sync").count() as f64),
    ),
    ("wattio_volume_devices", "All devices of a volume.", Kind::Gauge, |volume| {
        Some(volume.devices.len() as f64)
    }),
    (
        "wattio_volume_failed",
        "Whether nothing can be written to a volume any more.",
        Kind::Gauge,
        |volume| flag(volume.failure.is_some()),
    ),
    (
        "wattio_volume_write_amplification_ratio",
        "Blocks written to each device for each block that clients wrote.",
        Kind::Gauge,
        |volume| volume.write_amplification,
    ),
    (
        "wattio_volume_damaged_blocks",
        "Blocks that were found damaged since the start.",
        Kind::Counter,
        |volume| count(volume.damaged_blocks),
    ),
    (
        "wattio_volume_repaired_blocks",
        "Blocks that were repaired from the other device since the start.",
        Kind::Counter,
        |volume| count(volume.repaired_blocks),
    ),
];

const CLASSES: &[Metric<ClassShown>] = &[
    (
        "wattio_background_backlog_estimated_core_seconds",
        "Background work that is due and not done (estimated).",
        Kind::Gauge,
        |class| Some(class.backlog_core_s_estimated),
    ),
    (
        "wattio_background_urgency_ratio",
        "How pressing background work is: 0 may wait, 1 clients wait for it.",
        Kind::Gauge,
        |class| Some(class.urgency),
    ),
    (
        "wattio_background_core_seconds",
        "Processor time of background work.",
        Kind::Counter,
        |class| Some(class.done_core_s),
    ),
    (
        "wattio_background_slices",
        "Slices that this was done in, between which requests are looked for.",
        Kind::Counter,
        |class| count(class.slices),
    ),
    ("wattio_background_slice_seconds_max", "What the longest slice took.", Kind::Gauge, |class| {
        class.slice_us_max.map(|us| us * 1e-6)
    }),
];

/// The metrics of what is shown.
pub(super) fn families(shown: &Shown) -> Vec<Family<'_>> {
    let labels = [("version", &shown.version), ("name", &shown.name), ("policy", &shown.policy)];
    let labels = labels.map(|(name, value)| (name, value.as_str().into())).to_vec();
    let mut families = vec![
        Family {
            name: "wattio_target",
            help: "What runs.",
            kind: Kind::Info,
            series: vec![(labels, Value::Whole(1))],
        },
        latencies(shown),
    ];
    families.extend(METRICS.iter().map(|&(name, help, kind, value)| {
        Family::of(name, help, kind, value(shown).map(Value::Real))
    }));
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
    let help = "Latency of requests, from the socket to the socket.";
    let value = Value::Spread(buckets, sum.0);
    Family::of("wattio_latency_seconds", help, Kind::Histogram, Some(value))
}

/// Time in each state; none if the law has no states.
fn states(shown: &Shown) -> Option<Family<'_>> {
    let spans = shown.counts.state_span_s.iter().filter(|_| shown.state.is_some());
    let one = |(name, &span_s): (&'_ String, &f64)| {
        (vec![("state", name.clone().into())], Value::Real(span_s))
    };
    let series: Vec<_> = spans.map(one).collect();
    let (name, help) = ("wattio_state_seconds", "Time in each state.");
    (!series.is_empty()).then_some(Family { name, help, kind: Kind::Counter, series })
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
