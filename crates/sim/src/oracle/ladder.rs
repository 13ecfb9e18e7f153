//! Settings worth trying, found by analysis: the least power at a given price of latency.
//!
//! A group of `c` cores is modelled as an M/M/c queue whose cores also run background tasks: a
//! client waits if all cores are busy (Erlang's C formula at the load of both) and is served before
//! background work. By Little's law the sum of latencies grows each second by the mean number of
//! requests in the group. This is only a first guess, because arrivals come in bursts and not every
//! client waits for every stage. The search's result always comes from simulation.

use std::collections::BTreeMap;
use wattio_law::{
    Action, BackgroundAction, BackgroundPriority, Budget, DriveAction, GroupAction, Limits,
};
use wattio_plant::{Server, Work};
use wattio_units::Hertz;

/// How much background work is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// None.
    Paused,
    /// As it becomes due.
    AsDue,
    /// So many times as much as becomes due, or as much as fits.
    Times(f64),
    /// As much as fits.
    Most,
}

/// A kind of setting: the ladder has a rung of it for each price.
pub type Kind = (Pace, DriveAction);

/// The settings of a server.
pub struct Ladder<'a> {
    server: &'a Server,
    limits: &'a Limits,
    /// The frequencies to try, ascending.
    pub frequencies: Vec<Hertz>,
    /// Background work due in all groups, in cores.
    pub due_cores: f64,
    /// Time of a background task over that of a client's task, by group.
    slices: Vec<f64>,
    known: BTreeMap<(Vec<i32>, u64, u64), Vec<GroupAction>>,
}

/// Frequencies to try where the cores can run at any.
const FREQUENCIES: u32 = 16;
/// Clients keep a group's cores at most this busy, and together with background work ...
const BUSY_CLIENTS_MAX: f64 = 0.9;
/// ... this busy, of the settings that are tried first.
const BUSY_MAX: f64 = 0.97;
/// Background work is tried in steps of this share of what becomes due.
const TIMES_STEP: f64 = 0.125;
/// Loads within a sixteenth of an octave are alike.
const ALIKE: f64 = 16.0;

impl<'a> Ladder<'a> {
    pub fn new(server: &'a Server, limits: &'a Limits) -> Self {
        let cores = &server.cores;
        let (least, most) = (cores.frequency_min, cores.frequency_max);
        let step = (most - least) / f64::from(FREQUENCIES - 1);
        let frequencies = if cores.frequency_steps.is_empty() {
            (0..FREQUENCIES).map(|at| least + step * f64::from(at)).collect()
        } else {
            cores.frequency_steps.clone()
        };
        let exists = f64::from(u8::from(server.background.is_some()));
        let due_cores = server.groups.iter().map(|group| group.background_cores).sum::<f64>();
        Self {
            due_cores: due_cores * exists,
            slices: slices(server),
            server,
            limits,
            frequencies,
            known: BTreeMap::new(),
        }
    }

    /// The kinds of settings that this server has, the most telling ones first.
    pub fn kinds(&self) -> Vec<Kind> {
        use DriveAction::{Asleep, Awake, Own};
        let sleeps = self.server.drives.as_ref().is_some_and(|drives| !drives.sleep.is_empty());
        let mut kinds = vec![(Pace::AsDue, Own)];
        if self.due_cores > 0.0 {
            kinds.extend([(Pace::Paused, Own), (Pace::Most, Own), (Pace::Times(2.0), Own)]);
        }
        if sleeps {
            let resting = if self.due_cores > 0.0 { Pace::Paused } else { Pace::AsDue };
            kinds.extend([(resting, Asleep), (resting, Awake)]);
        }
        kinds
    }

    /// The setting of a kind that is best for a slot with these clients, by analysis; `price_w` is
    /// what a request in the server costs.
    pub fn rung(&mut self, clients: &[f64], (pace, drives): Kind, price_w: f64) -> Action {
        let times = self.times(clients, pace);
        let alike = |&cores: &f64| ((cores.max(1e-4).log2() * ALIKE).round()) as i32;
        let key = (clients.iter().map(alike).collect(), times.to_bits(), price_w.to_bits());
        let groups = match self.known.get(&key) {
            Some(groups) => groups.clone(),
            None => {
                let groups: Vec<_> = (0..clients.len())
                    .map(|at| self.best(at, clients[at], times, price_w))
                    .collect();
                self.known.insert(key, groups.clone());
                groups
            }
        };
        Action { groups, drives, background: self.background(times) }
    }

    /// The entry of an action that does so many times as much background work as becomes due.
    fn background(&self, times: f64) -> Vec<BackgroundAction> {
        if self.due_cores == 0.0 {
            return Vec::new();
        }
        let budget = if times == 1.0 {
            Budget::AsDue
        } else {
            Budget::CoreSecondsPerSecond(times * self.due_cores)
        };
        vec![BackgroundAction { budget, priority: BackgroundPriority::Low }]
    }

    /// What a pace comes to with these clients.
    fn times(&self, clients: &[f64], pace: Pace) -> f64 {
        let groups = self.server.groups.iter().zip(clients);
        let working = groups.filter(|(group, _)| group.background_cores > 0.0);
        let room = working.map(|(group, clients)| {
            (f64::from(group.cores) * BUSY_MAX - clients).max(0.0) / group.background_cores
        });
        let most = room.fold(f64::INFINITY, f64::min);
        let most = (most / TIMES_STEP).floor() * TIMES_STEP;
        match pace {
            _ if self.due_cores == 0.0 => 0.0,
            Pace::Paused => 0.0,
            Pace::AsDue => 1.0,
            Pace::Times(times) => times.min(most.max(1.0)),
            Pace::Most => most.max(1.0),
        }
    }

    /// The setting of one group.
    fn best(&self, at: usize, clients: f64, times: f64, price_w: f64) -> GroupAction {
        let cores = &self.server.cores;
        let limits = &self.limits.groups[at];
        let background = self.server.groups[at].background_cores * times;
        let mut best = (f64::INFINITY, limits.full());
        for &frequency in &self.frequencies {
            let stretch = cores.stretch(frequency);
            let (clients, background) = (clients * stretch, background * stretch);
            let busy = clients + background;
            let idle_w = cores.power_idle(frequency).0;
            let extra_w = cores.power_running(frequency).0 - idle_w;
            // Erlang's B by its recursion over cores, and C from B.
            let mut blocked = 1.0;
            for count in 1..=limits.cores_max {
                let servers = f64::from(count);
                blocked = busy * blocked / (servers + busy * blocked);
                let fits = clients <= servers * BUSY_CLIENTS_MAX && busy <= servers * BUSY_MAX;
                if count < limits.cores_min || !fits {
                    continue;
                }
                let all_busy = servers * blocked / (servers - busy * (1.0 - blocked));
                let mix =
                    if busy > 0.0 { (clients + background * self.slices[at]) / busy } else { 1.0 };
                let waiting = all_busy * mix * clients / (servers - clients);
                let cost = servers * idle_w + busy * extra_w + price_w * (clients + waiting);
                if cost < best.0 {
                    best = (cost, GroupAction { cores: count, frequency });
                }
            }
        }
        best.1
    }
}

/// Time of a background task over the mean time of the paths' tasks, by group.
fn slices(server: &Server) -> Vec<f64> {
    let slice_s = server.background.as_ref().map_or(0.0, |background| background.slice.0);
    let of_group = |name: &str| {
        let stages = server.paths.iter().flat_map(|path| &path.stages);
        let times: Vec<f64> = stages
            .filter(|stage| matches!(&stage.on, Work::Group(on) if on == name))
            .map(|stage| stage.time.0)
            .collect();
        let mean_s = times.iter().sum::<f64>() / times.len().max(1) as f64;
        if mean_s > 0.0 { slice_s / mean_s } else { 1.0 }
    };
    server.groups.iter().map(|group| of_group(&group.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use wattio_plant::{DORADO6000, SMALL};

    #[test]
    fn a_higher_price_never_asks_for_a_slower_setting() {
        for text in [DORADO6000, SMALL] {
            let server = Server::from_toml(text).unwrap();
            let limits = limits(&server);
            let mut ladder = Ladder::new(&server, &limits);
            let clients = vec![1.0; server.groups.len()];
            for kind in ladder.kinds() {
                let mut before = 0.0;
                for price_w in [0.0, 1.0, 10.0, 100.0, 1e6] {
                    let action = ladder.rung(&clients, kind, price_w);
                    let speed: f64 = action
                        .groups
                        .iter()
                        .map(|group| f64::from(group.cores) / server.cores.stretch(group.frequency))
                        .sum();
                    assert!(speed >= before - 1e-9, "{kind:?} at {price_w}: {speed} {before}");
                    before = speed;
                    assert_eq!(limits.clamp(&action), action);
                }
            }
        }
    }

    #[test]
    fn background_work_that_does_not_fit_is_not_asked_for() {
        let server = Server::from_toml(SMALL).unwrap();
        let limits = limits(&server);
        let ladder = Ladder::new(&server, &limits);
        assert_eq!(ladder.times(&[1.0, 1.0], Pace::Most), 6.75);
        assert_eq!(ladder.times(&[6.0, 1.0], Pace::Times(2.0)), 1.75);
        assert_eq!(ladder.times(&[8.0, 8.0], Pace::Most), 1.0);
    }
}
