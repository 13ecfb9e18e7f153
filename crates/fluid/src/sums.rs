//! What adds up over time.

use wattio_plant::GROUPS_MAX;

/// Sums over a stretch of time. Requests are no whole numbers where there is no noise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Seconds.
    pub span_s: f64,
    /// Requests that came.
    pub arrived: f64,
    /// Requests that were answered.
    pub completed: f64,
    /// Reads among them.
    pub reads: f64,
    /// Their bytes.
    pub bytes: f64,
    /// Their latencies in seconds.
    pub latency_s: f64,
    /// Core-seconds in tasks of clients, by group.
    pub clients: [f64; GROUPS_MAX],
    /// Core-seconds in background tasks, by group.
    pub background: [f64; GROUPS_MAX],
    /// Core-seconds drawing power, by group.
    pub powered: [f64; GROUPS_MAX],
    /// Energy of cores in joules.
    pub cores_j: f64,
    /// Energy of drives in joules.
    pub drives_j: f64,
    /// Background work done, in core-seconds at the highest frequency.
    pub done: f64,
    /// Background work that became due, likewise.
    pub due: f64,
}

impl Sums {
    /// Adds others, so many times, of so many groups.
    #[inline]
    pub fn add(&mut self, other: &Self, times: f64, groups: usize) {
        self.span_s += other.span_s * times;
        self.arrived += other.arrived * times;
        self.completed += other.completed * times;
        self.reads += other.reads * times;
        self.bytes += other.bytes * times;
        self.latency_s += other.latency_s * times;
        for at in 0..groups {
            self.clients[at] += other.clients[at] * times;
            self.background[at] += other.background[at] * times;
            self.powered[at] += other.powered[at] * times;
        }
        self.cores_j += other.cores_j * times;
        self.drives_j += other.drives_j * times;
        self.done += other.done * times;
        self.due += other.due * times;
    }
}
