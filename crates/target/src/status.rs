//! The target's status, in numbers.

use crate::latency::LatencySummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;
use wattio_nbd::Command;
use wattio_volume::{DeviceRole, Volume};

/// Counts of a Normal lane since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneCounters {
    /// Connections that were accepted.
    pub connections: u64,
    /// Those that ended in the middle of something.
    pub broken_connections: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes that were asked for.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims and zeroes.
    pub zeroes: u64,
    /// All other requests.
    pub other_requests: u64,
    /// Requests that were not valid.
    pub refused_requests: u64,
    /// Requests that could not be carried out.
    pub failed_requests: u64,
}

impl LaneCounters {
    pub(crate) fn count(&mut self, command: &Command) {
        match command {
            Command::Read { span, .. } => {
                self.reads += 1;
                self.read_bytes += u64::from(span.length_bytes);
            }
            Command::Write { span, .. } => {
                self.writes += 1;
                self.write_bytes += u64::from(span.length_bytes);
            }
            Command::Flush => self.flushes += 1,
            Command::Trim { .. } | Command::WriteZeroes { .. } => self.zeroes += 1,
            _ => self.other_requests += 1,
        }
    }
}

/// A reactor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReactorStatus {
    /// Its number, from 0.
    pub number: usize,
    /// Connections that are open.
    pub connections: usize,
    /// Requests under way.
    pub in_flight: usize,
    /// Turns of its loop.
    pub turns: u64,
    /// Processor time of its thread, in seconds.
    pub processor_s: f64,
    /// Time in which it was not waiting, in seconds: with polling more than that of work.
    pub busy_s: f64,
    /// From a read's arrival to its reply.
    pub reads: LatencySummary,
    /// The same of writes.
    pub writes: LatencySummary,
    /// The same of all other requests.
    pub others: LatencySummary,
    /// What its Normal lane has done.
    pub lane: LaneCounters,
    /// The volumes that it owns.
    pub volumes: Vec<VolumeStatus>,
}

/// How a volume was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// How long that took.
    pub took: Duration,
    /// Blocks of log that were replayed; `None`: it had been closed.
    pub replayed_blocks: Option<u64>,
    /// The paths of its devices, in the volume's order; `None` for one that is not named.
    pub device_paths: Vec<Option<String>>,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Under which name it is exported.
    pub export: String,
    /// Its size.
    pub size_bytes: u64,
    /// Data that it holds.
    pub live_bytes: u64,
    /// Whether and how its data is compressed: `none` or `lz4`.
    pub compression: String,
    /// What the data that it holds takes on each device: less than that where it is compressed.
    pub stored_bytes: u64,
    /// What it can hold: less than its size where it was made larger than its devices.
    pub capacity_bytes: u64,
    /// Writes that were refused since it was opened because the devices are full.
    #[serde(default)]
    pub refused_writes: u64,
    /// Segments that can be written to.
    pub free_segments: u32,
    /// Segments that the next checkpoint makes free.
    pub empty_segments: u32,
    /// How long clients have been waiting for a free segment.
    pub starved_s: Option<f64>,
    /// What the devices have been at for longest.
    pub device_oldest: Option<String>,
    /// For how long they have.
    pub device_oldest_s: Option<f64>,
    /// All of them.
    pub segments: u32,
    /// Whether each device is `in sync`, `out` or `rebuilding`.
    pub devices: Vec<String>,
    /// The path of each of them; nothing for one that is not named.
    #[serde(default)]
    pub device_paths: Vec<Option<String>>,
    /// Why nothing can be written any more.
    pub failure: Option<String>,
    /// Requests under way.
    pub in_flight: usize,
    /// Blocks that were read from memory.
    pub cache_hit_blocks: u64,
    /// Blocks that were not.
    pub cache_miss_blocks: u64,
    /// Memory that the blocks kept for that take.
    pub cache_bytes: u64,
    /// What clients wrote that is not on the devices yet.
    pub buffered_bytes: u64,
    /// Log that a recovery would have to read.
    pub replay_bytes: u64,
    /// Records that have been given to the devices and have not taken effect.
    pub records_under_way: usize,
    /// How far the checkpoint is that is under way.
    pub checkpoint_stage: Option<String>,
    /// How long the last checkpoint took, until it was durable.
    pub checkpoint_s: Option<f64>,
    /// How long opening the volume took at the start, with its recovery if there was one.
    pub opened_s: f64,
    /// Log that was replayed for that; absent: it had been closed.
    pub recovered_bytes: Option<u64>,
    /// Blocks written to each device for each block that clients wrote.
    pub write_amplification: Option<f64>,
    /// Blocks that clients wrote since it was opened.
    pub client_blocks: u64,
    /// Bytes that were stored of these: fewer where the volume is compressed.
    pub client_stored_bytes: u64,
    /// Blocks of a device that these took, besides headers.
    pub client_data_blocks: u64,
    /// Blocks that garbage collection moved since then.
    pub moved_blocks: u64,
    /// Headers of records since then, a block each.
    pub header_blocks: u64,
    /// Blocks of checkpoints since then.
    pub checkpoint_blocks: u64,
    /// Checkpoints since it was opened.
    pub checkpoints: u64,
    /// Segments that garbage collection emptied.
    pub collected_segments: u64,
    /// Blocks that were found damaged, and those of them that were repaired.
    pub damaged_blocks: u64,
    /// Blocks that were repaired from the other device.
    pub repaired_blocks: u64,
    /// The share of a device that is filled, while one is.
    pub rebuild_progress: Option<f64>,
    /// Why the last device that was filled did not get everything.
    pub rebuild_failure: Option<String>,
    /// The share of the scrub's tour that is done, while one is under way.
    pub scrub_progress: Option<f64>,
    /// Tours that were completed.
    pub scrub_tours: u64,
    /// Damaged blocks that the last tour could not repair.
    pub scrub_unrepaired_blocks: u64,
}

impl VolumeStatus {
    /// How a volume stands.
    #[must_use]
    pub fn of(export: &str, volume: &Volume, opening: &Opening, in_flight: usize) -> Self {
        const BLOCK: u64 = wattio_volume::BLOCK_BYTES;
        let (geometry, counters) = (volume.geometry(), volume.counters());
        let role = |role: &DeviceRole| match role {
            DeviceRole::InSync => "in sync",
            DeviceRole::Out => "out",
            DeviceRole::Rebuilding => "rebuilding",
        };
        let (scrub_tours, scrub_unrepaired_blocks) = volume.scrub_tours();
        let oldest = volume.oldest_operation();
        Self {
            export: export.to_owned(),
            size_bytes: volume.bytes(),
            live_bytes: volume.live_blocks() * BLOCK,
            compression: volume.compression().name().to_owned(),
            stored_bytes: volume.stored_bytes(),
            capacity_bytes: geometry.capacity_blocks() * BLOCK,
            refused_writes: counters.refused_writes,
            free_segments: volume.free_segments(),
            empty_segments: volume.empty_segments(),
            starved_s: volume.starved().map(|span| span.as_secs_f64()),
            device_oldest: oldest.map(|(what, _)| what.to_owned()),
            device_oldest_s: oldest.map(|(_, span)| span.as_secs_f64()),
            segments: geometry.segments,
            devices: volume.roles().iter().map(|one| role(one).to_owned()).collect(),
            device_paths: opening.device_paths.clone(),
            failure: volume.failure().map(str::to_owned),
            in_flight,
            cache_hit_blocks: counters.cache_hit_blocks,
            cache_miss_blocks: counters.cache_miss_blocks,
            cache_bytes: volume.cached_blocks() * BLOCK,
            buffered_bytes: volume.buffered_blocks() * BLOCK,
            replay_bytes: volume.replay_blocks() * BLOCK,
            records_under_way: volume.records_under_way(),
            checkpoint_stage: volume.checkpoint_stage().map(str::to_owned),
            checkpoint_s: volume.last_checkpoint().map(|span| span.as_secs_f64()),
            opened_s: opening.took.as_secs_f64(),
            recovered_bytes: opening.replayed_blocks.map(|blocks| blocks * BLOCK),
            write_amplification: counters.write_amplification(),
            client_blocks: counters.client_blocks,
            client_stored_bytes: counters.stored_bytes,
            client_data_blocks: counters.client_data_blocks,
            moved_blocks: counters.moved_blocks,
            header_blocks: counters.header_blocks,
            checkpoint_blocks: counters.checkpoint_blocks,
            checkpoints: counters.checkpoints,
            collected_segments: counters.collected_segments,
            damaged_blocks: counters.damaged_blocks,
            repaired_blocks: counters.repaired_blocks,
            rebuild_progress: volume.rebuild_progress(),
            rebuild_failure: volume.rebuild_failure().map(str::to_owned),
            scrub_progress: volume.scrub_progress(),
            scrub_tours,
            scrub_unrepaired_blocks,
        }
    }
}

/// A volume that moves may have been with two reactors when each was asked: the first one tells.
pub(crate) fn each_volume_once(reactors: &mut [ReactorStatus]) {
    let mut told = BTreeSet::new();
    for reactor in reactors {
        reactor.volumes.retain(|volume| told.insert(volume.export.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metrics had two series of one name, which makes all of them worthless.
    #[test]
    fn a_volume_that_moved_while_reactors_were_asked_is_told_of_once() {
        let volume = |export: &str| VolumeStatus { export: export.into(), ..Default::default() };
        let reactor = |number, exports: &[&str]| ReactorStatus {
            number,
            volumes: exports.iter().map(|export| volume(export)).collect(),
            ..Default::default()
        };
        let mut reactors = [reactor(0, &["a", "b"]), reactor(1, &["b", "c"]), reactor(2, &["a"])];
        each_volume_once(&mut reactors);
        assert_eq!(reactors, [reactor(0, &["a", "b"]), reactor(1, &["c"]), reactor(2, &[])]);
    }
}
