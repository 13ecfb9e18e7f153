//! Metrics of volumes and of their background work.

use super::{Metric, count, flag};
use crate::shown::ClassShown;
use crate::status::VolumeStatus;
use wattio_service::metrics::Kind;

/// Of each volume.
pub(super) const VOLUMES: &[Metric<VolumeStatus>] = &[
    ("wattio_volume_size_bytes", "Size of a volume.", Kind::Gauge, |volume| {
        Some(volume.size_bytes as f64)
    }),
    (
        "wattio_volume_capacity_bytes",
        "Data that a volume's devices have room for, uncompressed; if that is less than the volume's \
         size, writes may be refused.",
        Kind::Gauge,
        |volume| Some(volume.capacity_bytes as f64),
    ),
    (
        "wattio_volume_refused_writes",
        "Writes that were refused since the start because the devices are full.",
        Kind::Counter,
        |volume| count(volume.refused_writes),
    ),
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

/// Of each class of background work.
pub(super) const CLASSES: &[Metric<ClassShown>] = &[
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
