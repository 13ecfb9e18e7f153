//! A law's observation: the differences between two readings of the engine's counters.

use crate::engine::{Engine, Totals};
use crate::group::CoreGroup;
use crate::queue::Nanoseconds;
use std::sync::Arc;
use wattio_law::{
    BackgroundObservation, GroupObservation, InFlight, LatencyHistogram, LatencyObservation,
};
use wattio_units::Seconds;

/// A reading of every counter of a simulated server.
#[derive(Clone, Debug)]
pub struct Reading {
    pub(crate) at: Nanoseconds,
    pub(crate) totals: Totals,
    pub(crate) groups: Vec<GroupReading>,
    pub(crate) background_done: f64,
    pub(crate) background_offered: f64,
    pub(crate) background_backlog: f64,
    pub(crate) background_delay_s_max: f64,
    pub(crate) energy_drives_j: f64,
}

/// The counters of a core group.
#[derive(Clone, Copy, Debug)]
pub struct GroupReading {
    pub clients_ns: u64,
    pub background_ns: u64,
    pub powered_ns: u64,
    pub energy_j: f64,
    pub frequency_time: f64,
    pub returns_from_drives: u64,
}

impl Reading {
    /// Reads the engine; `slice_s` turns background tasks into core-seconds.
    pub(crate) fn take(engine: &mut Engine, slice_s: f64) -> Self {
        engine.settle();
        Self {
            at: engine.now,
            totals: engine.totals.clone(),
            groups: engine
                .groups
                .iter()
                .map(|group| GroupReading {
                    clients_ns: group.clients.read(engine.now),
                    background_ns: group.background.read(engine.now),
                    powered_ns: group.powered_ns(engine.now),
                    energy_j: group.energy_j,
                    frequency_time: group.frequency_time,
                    returns_from_drives: group.returns_from_drives,
                })
                .collect(),
            background_done: engine.background.iter().map(|work| work.done as f64).sum::<f64>()
                * slice_s,
            background_offered: engine.background.iter().map(|work| work.offered).sum::<f64>()
                * slice_s,
            background_backlog: engine.background.iter().map(|work| work.backlog()).sum::<f64>()
                * slice_s,
            background_delay_s_max: engine
                .background
                .iter()
                .map(|work| work.delay_ns_max() * 1e-9)
                .fold(0.0, f64::max),
            energy_drives_j: engine.drives.energy_j,
        }
    }

    /// Seconds from an earlier reading to this one.
    pub(crate) fn since(&self, earlier: &Self) -> f64 {
        (self.at - earlier.at) as f64 * 1e-9
    }

    /// Energy of all cores since an earlier reading, in joules.
    pub(crate) fn energy_cores_j(&self, earlier: &Self) -> f64 {
        self.groups
            .iter()
            .zip(&earlier.groups)
            .map(|(now, then)| now.energy_j - then.energy_j)
            .sum()
    }
}

/// What clients experienced between two readings, and how their latencies spread.
pub fn latency(
    before: &Reading,
    now: &Reading,
    histogram: LatencyHistogram,
    in_flight: InFlight,
) -> LatencyObservation {
    let requests = now.totals.answered - before.totals.answered;
    let mean = |sum: u64| (requests > 0).then(|| sum as f64 / requests as f64);
    LatencyObservation {
        requests,
        latency_us_mean: mean(now.totals.latency_ns - before.totals.latency_ns)
            .map(|nanoseconds| nanoseconds / 1e3),
        histogram: (requests > 0).then_some(histogram),
        bytes_mean: mean(now.totals.bytes - before.totals.bytes),
        read_share: mean(now.totals.reads - before.totals.reads),
        arrived: Some(now.totals.arrivals - before.totals.arrivals),
        in_flight: Some(in_flight),
        age: Seconds(0.0),
    }
}

/// What the core groups did between two readings.
pub fn groups(engine: &Engine, before: &Reading, now: &Reading) -> Vec<GroupObservation> {
    let group = |(at, group): (usize, &CoreGroup)| {
        let (now, before) = (&now.groups[at], &before.groups[at]);
        let powered = now.powered_ns.wrapping_sub(before.powered_ns).max(1) as f64;
        let share = |now_ns: u64, before_ns: u64| now_ns.wrapping_sub(before_ns) as f64 / powered;
        GroupObservation {
            cores: group.setting.cores,
            frequency: group.setting.frequency,
            utilisation_clients: share(now.clients_ns, before.clients_ns),
            utilisation_background: share(now.background_ns, before.background_ns),
            queued: Some(group.queue.len() as u64),
            waited_for_drives: now.returns_from_drives > before.returns_from_drives,
        }
    };
    engine.groups.iter().enumerate().map(group).collect()
}

/// How far background work came between two readings.
pub fn background(before: &Reading, now: &Reading, class: &Arc<str>) -> BackgroundObservation {
    BackgroundObservation {
        class: class.clone(),
        done_core_s: now.background_done - before.background_done,
        due_core_s: now.background_offered - before.background_offered,
        backlog_core_s: now.background_backlog,
        urgency: None,
    }
}
