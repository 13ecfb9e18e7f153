//! One row for each latency window of a run.

use crate::observe::Reading;
use hdrhistogram::Histogram;

/// A latency window. Absent values are `None`, never zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Start in seconds since the end of the warm-up.
    pub start_s: f64,
    /// Length in seconds.
    pub span_s: f64,
    /// Requests answered.
    pub ios: u64,
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that had arrived and were not answered at the end.
    pub in_flight: u64,
    /// The same, on average.
    pub in_flight_mean: f64,
    /// Their mean latency.
    pub latency_us_mean: Option<f64>,
    /// The latency that 99 % of them kept.
    pub latency_us_p99: Option<f64>,
    /// Energy of the cores.
    pub energy_cores_j: f64,
    /// Energy of the drives.
    pub energy_drives_j: f64,
    /// Energy of the rest.
    pub energy_rest_j: f64,
    /// Cores that drew power, on average.
    pub cores_active_mean: f64,
    /// The same for each group.
    pub cores_by_group: Vec<f64>,
    /// Cores of each group busy with clients' tasks, on average.
    pub cores_busy_clients: Vec<f64>,
    /// Their frequency, on average over powered cores.
    pub frequency_hz_mean: Option<f64>,
    /// Share of powered core time spent in tasks.
    pub utilisation: Option<f64>,
    /// Background work done, core-seconds at the highest frequency a second.
    pub background_rate: f64,
    /// What the law was doing at the window's end, in its own words.
    pub mode: Option<&'static str>,
}

impl Row {
    /// The row between two readings.
    pub fn between(
        before: &Reading,
        now: &Reading,
        window: &Histogram<u32>,
        rest_w: f64,
        mode: Option<&'static str>,
    ) -> Self {
        let span_s = now.since(before);
        let ios = now.totals.answered - before.totals.answered;
        let latency_ns = (now.totals.latency_ns - before.totals.latency_ns) as f64;
        let pairs = || now.groups.iter().zip(&before.groups);
        let powered: Vec<f64> =
            pairs().map(|(n, b)| n.powered_ns.wrapping_sub(b.powered_ns) as f64).collect();
        let powered_ns: f64 = powered.iter().sum();
        let busy_ns: f64 = pairs()
            .map(|(n, b)| {
                let clients = n.clients_ns.wrapping_sub(b.clients_ns);
                (clients.wrapping_add(n.background_ns.wrapping_sub(b.background_ns))) as f64
            })
            .sum();
        let frequency_time: f64 = pairs().map(|(n, b)| n.frequency_time - b.frequency_time).sum();
        let span_ns = span_s * 1e9;
        Self {
            start_s: 0.0,
            span_s,
            ios,
            arrived: now.totals.arrivals - before.totals.arrivals,
            in_flight: now.totals.arrivals - now.totals.answered,
            in_flight_mean: now.totals.in_system_ns.wrapping_sub(before.totals.in_system_ns) as f64
                / span_ns,
            latency_us_mean: (ios > 0).then(|| latency_ns / ios as f64 / 1e3),
            latency_us_p99: (ios > 0).then(|| window.value_at_quantile(0.99) as f64 / 1e3),
            energy_cores_j: now.energy_cores_j(before),
            energy_drives_j: now.energy_drives_j - before.energy_drives_j,
            energy_rest_j: rest_w * span_s,
            cores_active_mean: powered_ns / span_ns,
            cores_by_group: powered.iter().map(|group_ns| group_ns / span_ns).collect(),
            cores_busy_clients: pairs()
                .map(|(n, b)| n.clients_ns.wrapping_sub(b.clients_ns) as f64 / span_ns)
                .collect(),
            frequency_hz_mean: (powered_ns > 0.0).then(|| frequency_time / powered_ns),
            utilisation: (powered_ns > 0.0).then(|| busy_ns / powered_ns),
            background_rate: (now.background_done - before.background_done) / span_s,
            mode,
        }
    }

    /// Energy of the whole server.
    #[must_use]
    pub fn energy_j(&self) -> f64 {
        self.energy_cores_j + self.energy_drives_j + self.energy_rest_j
    }
}
