//! The totals of a run.

use crate::observe::Reading;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use wattio_law::Account;

/// Energy by component, in joules.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EnergyByComponent {
    /// Processor cores.
    pub cores: f64,
    /// Drives.
    pub drives: f64,
    /// Everything else.
    pub rest: f64,
}

/// The totals of a run; a name is quantity, unit, statistic. What does not exist is absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Counted time.
    pub duration_s: f64,
    /// Requests answered.
    pub ios: u64,
    /// Requests that have arrived and are not answered at the end, those from before it began
    /// included.
    pub ios_waiting_end: u64,
    /// Requests a second.
    pub iops_mean: f64,
    /// Data a second.
    pub throughput_mib_s: f64,
    /// Mean latency.
    pub latency_us_mean: Option<f64>,
    /// Median latency.
    pub latency_us_p50: Option<f64>,
    /// 99th percentile.
    pub latency_us_p99: Option<f64>,
    /// 99.9th percentile.
    pub latency_us_p999: Option<f64>,
    /// Mean power.
    pub power_w_mean: f64,
    /// Energy.
    pub energy_j: f64,
    /// Energy by component.
    pub energy_by_component_j: EnergyByComponent,
    /// Requests a second and watt.
    pub iops_per_watt: f64,
    /// Background work done, core-seconds at the highest frequency a second.
    pub background_rate_mean: f64,
    /// Background work that became due, likewise.
    pub background_rate_due: f64,
    /// Background work that is due and not done at the end, core-seconds at the highest frequency.
    pub background_backlog_core_s_end: f64,
    /// The longest that background work waited after it became due, in seconds, where it is done
    /// in that order; absent where there is none.
    pub background_delay_s_max: Option<f64>,
    /// Energy for each request answered.
    pub energy_per_io_j: Option<f64>,
    /// Cores that drew power.
    pub cores_active_mean: f64,
    /// Their frequency.
    pub frequency_hz_mean: Option<f64>,
    /// Share of powered core time in tasks.
    pub utilisation_mean: f64,
    /// Cores of each group busy with clients' tasks, on average.
    pub cores_busy_clients: Vec<f64>,
    /// Requests in the system, on average (Little's law: rate times latency, less the network).
    pub requests_in_system_mean: f64,
    /// How far the run is from Little's law: `|L - rate x time in the server| / L`; requests on
    /// their way when the count begins and ends leave about `2 L / ios`.
    pub littles_law_deviation: Option<f64>,
    /// Share of the time in each of the law's modes; absent for laws without.
    pub state_share: Option<BTreeMap<&'static str, f64>>,
    /// Changes of mode.
    pub state_changes: u64,
    /// Steps of the law that changed cores, frequencies or drives.
    pub knob_changes: u64,
    /// Events of the kernel.
    pub events: u64,
}

impl Summary {
    pub(crate) fn between(
        base: &Reading,
        now: &Reading,
        latencies: &Histogram<u64>,
        rest_w: f64,
        network_s: f64,
        account: &Account,
        modes: &[&'static str],
    ) -> Self {
        let duration_s = now.since(base);
        let ios = now.totals.answered - base.totals.answered;
        let latency_ns = (now.totals.latency_ns - base.totals.latency_ns) as f64;
        let quantile = |q: f64| (ios > 0).then(|| latencies.value_at_quantile(q) as f64 / 1e3);
        let energy = EnergyByComponent {
            cores: now.energy_cores_j(base),
            drives: now.energy_drives_j - base.energy_drives_j,
            rest: rest_w * duration_s,
        };
        let energy_j = energy.cores + energy.drives + energy.rest;
        let pairs = || now.groups.iter().zip(&base.groups);
        let sum = |of: fn(&crate::observe::GroupReading) -> u64| -> f64 {
            pairs().map(|(n, b)| of(n).wrapping_sub(of(b)) as f64 * 1e-9).sum()
        };
        let powered_s = sum(|group| group.powered_ns);
        let busy_s = sum(|group| group.clients_ns) + sum(|group| group.background_ns);
        let frequency: f64 =
            pairs().map(|(n, b)| (n.frequency_time - b.frequency_time) * 1e-9).sum();
        let in_system_ns = now.totals.in_system_ns.wrapping_sub(base.totals.in_system_ns) as f64;
        let in_server_ns = latency_ns - ios as f64 * network_s * 1e9;
        Self {
            duration_s,
            ios,
            ios_waiting_end: now.totals.arrivals - now.totals.answered,
            iops_mean: ios as f64 / duration_s,
            throughput_mib_s: (now.totals.bytes - base.totals.bytes) as f64
                / duration_s
                / 1_048_576.0,
            latency_us_mean: (ios > 0).then(|| latency_ns / ios as f64 / 1e3),
            latency_us_p50: quantile(0.5),
            latency_us_p99: quantile(0.99),
            latency_us_p999: quantile(0.999),
            power_w_mean: energy_j / duration_s,
            energy_j,
            energy_by_component_j: energy,
            iops_per_watt: ios as f64 / energy_j,
            background_rate_mean: (now.background_done - base.background_done) / duration_s,
            background_rate_due: (now.background_offered - base.background_offered) / duration_s,
            background_backlog_core_s_end: now.background_backlog,
            background_delay_s_max: (now.background_offered > 0.0)
                .then_some(now.background_delay_s_max),
            energy_per_io_j: (ios > 0).then(|| energy_j / ios as f64),
            cores_active_mean: powered_s / duration_s,
            frequency_hz_mean: (powered_s > 0.0).then(|| frequency / powered_s),
            utilisation_mean: if powered_s > 0.0 { busy_s / powered_s } else { 0.0 },
            cores_busy_clients: pairs()
                .map(|(n, b)| n.clients_ns.wrapping_sub(b.clients_ns) as f64 * 1e-9 / duration_s)
                .collect(),
            requests_in_system_mean: in_system_ns * 1e-9 / duration_s,
            littles_law_deviation: (in_system_ns > 0.0)
                .then(|| (in_system_ns - in_server_ns).abs() / in_system_ns),
            state_share: Some(account.mode_shares())
                .filter(|shares| !shares.is_empty())
                .map(|shares| modes.iter().map(|&mode| (mode, 0.0)).chain(shares).collect()),
            state_changes: account.mode_changes,
            knob_changes: account.knob_changes,
            events: now.totals.events - base.totals.events,
        }
    }
}
