//! A server in equilibrium: what a rate of requests meets with one setting.

use crate::demand::Demand;
use crate::drives::{self, DriveLoad, DriveState};
use crate::pool::{LOAD_MAX, Pool, Wait};
use crate::setting::Setting;
use wattio_plant::{GROUPS_MAX, Server};

/// A server in equilibrium.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Requests a second that are served; fewer than come where the server cannot take them.
    pub served: f64,
    /// Requests a second that the server can take at most.
    pub capacity: f64,
    /// The wait of a client's task, by group.
    pub waits: [Wait; GROUPS_MAX],
    /// Background work done, in cores' worth at the highest frequency, by group.
    pub done: [f64; GROUPS_MAX],
    /// Drives.
    pub drives: DriveState,
    /// Mean latency in seconds, of all requests, of reads, and of writes.
    pub latency_s: f64,
    /// Of reads.
    pub latency_read_s: f64,
    /// Of writes.
    pub latency_write_s: f64,
    /// Variance of the latency in square seconds, without that between reads and writes.
    pub variance_s2: f64,
    /// Mean and variance of each kind of request.
    pub kinds: [(f64, f64); 3],
    /// The group that is the bottleneck.
    pub bottleneck: usize,
}

/// Depth of the bucket of released background work in seconds' worth, unless that is less than a
/// slice and what comes within one.
const RELEASE_DEPTH_S: f64 = 1e-3;

/// What `rate` requests a second meet.
#[must_use]
pub fn of(server: &Server, demand: &Demand, rate: f64, setting: &Setting) -> Steady {
    let groups = server.groups.len();
    let (capacity, bottleneck) = capacity(server, demand, setting);
    let served = rate.min(capacity * LOAD_MAX);
    let variation = server.cores.time_variation;
    let slice_s = server.background.as_ref().map_or(1.0, |work| work.slice.0);
    let mut waits = [Wait::default(); GROUPS_MAX];
    let mut done = [0.0; GROUPS_MAX];
    let mut slices = 0.0;
    for at in 0..groups {
        let tasks = &demand.groups[at];
        let (cores, stretch) = (setting.cores[at], setting.stretch[at]);
        let clients = served * tasks.time_s * stretch;
        let released = setting.released[at] * stretch;
        let times = TaskTimes {
            clients_s: tasks.mean_s() * stretch,
            slice_s: slice_s * stretch,
            slice_v2: variation * variation,
            depth_s: release_depth_s(setting.released[at], slice_s) * stretch,
        };
        let background = background_busy(cores, clients, released, &times);
        done[at] = background / stretch;
        slices += done[at] / slice_s;
        let pool = Pool {
            cores,
            clients_rate: served * tasks.count,
            clients_s: tasks.mean_s() * stretch,
            clients_variation: tasks.variation_squared(variation),
            background_rate: background / (slice_s * stretch),
            background_s: slice_s * stretch,
            background_variation: variation,
        };
        waits[at] = pool.wait();
    }
    let mut steady = Steady {
        served,
        capacity,
        waits,
        done,
        drives: DriveState::default(),
        latency_s: 0.0,
        latency_read_s: 0.0,
        latency_write_s: 0.0,
        variance_s2: 0.0,
        kinds: [(0.0, 0.0); 3],
        bottleneck,
    };
    if let Some(model) = &server.drives {
        let spread = 1.0 + model.time_variation * model.time_variation;
        let count = demand.drives.count.max(1e-12);
        let load = DriveLoad {
            rate: served * demand.drives.count,
            time_s: demand.drives.time_s / count,
            square_s2: demand.drives.square_s2 * spread / count,
            holds: slices,
        };
        steady.drives = drives::of(model, &load, setting.drives);
    }
    steady.add_latency(server, demand, setting);
    steady
}

/// The rate at which the first group or the drives are full, and which group that is.
fn capacity(server: &Server, demand: &Demand, setting: &Setting) -> (f64, usize) {
    let mut least = (f64::INFINITY, 0);
    for at in 0..server.groups.len() {
        let work_s = demand.groups[at].time_s * setting.stretch[at];
        if work_s > 0.0 && setting.cores[at] / work_s < least.0 {
            least = (setting.cores[at] / work_s, at);
        }
    }
    if let Some(model) = server.drives.as_ref().filter(|_| demand.drives.time_s > 0.0) {
        let places = f64::from(model.count) * f64::from(model.parallel);
        least.0 = least.0.min(places / demand.drives.time_s);
    }
    least
}

/// Depth of the bucket of background work that `cores` of it are released for, in core-seconds at the
/// highest frequency: as in the simulator.
fn release_depth_s(cores: f64, slice_s: f64) -> f64 {
    (cores * RELEASE_DEPTH_S).max((1.0 + cores) * slice_s)
}

/// Cores busy with background work: what is released, as far as clients leave cores. The bucket of
/// released work is a buffer between two walls, whose content moves by what is released less the
/// cores that clients leave, which vary as in a system without queue (`2 a S`): what spills over
/// is `d / (e^(2 d B / s^2) - 1)` for a drift `d` away from the upper wall (J. M. Harrison,
/// Brownian Motion and Stochastic Flow Systems, 1985).
fn background_busy(cores: f64, clients: f64, released: f64, tasks: &TaskTimes) -> f64 {
    let room = (cores - clients).max(0.0);
    if released <= 0.0 || room <= 0.0 {
        return 0.0;
    }
    let depth = tasks.depth_s;
    let variance = 2.0 * clients * tasks.clients_s + released * tasks.slice_s * tasks.slice_v2;
    let drift = room - released;
    let exponent = 2.0 * drift * depth / variance.max(1e-15);
    let spilt = if exponent.abs() < 1e-6 {
        0.5 * variance / depth
    } else if exponent > 50.0 {
        0.0
    } else {
        drift / exponent.exp_m1()
    };
    (released - spilt).clamp(0.0, room)
}

/// Times of a group's tasks.
struct TaskTimes {
    clients_s: f64,
    slice_s: f64,
    /// Squared coefficient of variation of a slice.
    slice_v2: f64,
    /// Depth of the bucket of released work.
    depth_s: f64,
}

impl Steady {
    fn add_latency(&mut self, server: &Server, demand: &Demand, setting: &Setting) {
        let cores_v2 = server.cores.time_variation * server.cores.time_variation;
        let drives_v = server.drives.as_ref().map_or(0.0, |model| model.time_variation);
        let state = &self.drives;
        let drive_wait_s = state.queue_s + state.wake_s;
        let drive_wait_s2 = state.wake_square_s2 - state.wake_s * state.wake_s;
        let mut shares = [0.0; 2];
        let mut sums = [0.0; 2];
        for (kind, class) in demand.classes.iter().enumerate().filter(|(_, kind)| kind.share > 0.0)
        {
            let on_drives = &class.drives_waited;
            let mut mean_s = class.fixed_s + on_drives.time_s + on_drives.count * drive_wait_s;
            let mut variance_s2 =
                on_drives.square_s2 * drives_v * drives_v + on_drives.count * drive_wait_s2;
            for at in 0..server.groups.len() {
                let (tasks, wait, stretch) =
                    (&class.waited[at], &self.waits[at], setting.stretch[at]);
                mean_s += tasks.time_s * stretch + tasks.count * wait.mean_s;
                variance_s2 += tasks.square_s2 * stretch * stretch * cores_v2;
                variance_s2 += tasks.count * wait.variance_s2();
            }
            self.kinds[kind] = (mean_s, variance_s2);
            let of = usize::from(class.is_read);
            shares[of] += class.share;
            sums[of] += class.share * mean_s;
            self.latency_s += class.share * mean_s;
            self.variance_s2 += class.share * (variance_s2 + mean_s * mean_s);
        }
        for of in 0..2 {
            let mean_s = if shares[of] > 0.0 { sums[of] / shares[of] } else { self.latency_s };
            self.variance_s2 -= shares[of] * mean_s * mean_s;
            *[&mut self.latency_write_s, &mut self.latency_read_s][of] = mean_s;
        }
        self.variance_s2 = self.variance_s2.max(0.0);
    }
}

impl Wait {
    /// The variance, as of a wait that is exponential for those who wait at all.
    #[must_use]
    pub fn variance_s2(&self) -> f64 {
        if self.probability <= 0.0 {
            return 0.0;
        }
        self.mean_s * self.mean_s * (2.0 / self.probability - 1.0)
    }
}
