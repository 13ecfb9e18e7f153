//! The resource manager: reads what reactors publish, and carries out a law's decisions by moving
//! connections and volumes.

pub mod placement;
mod processor_time;

use crate::handle::Handle;
use crate::plant::{ReactorCounters, Reactors, Setting};
use crate::reactor::{Loads, Moves};
use crate::volume::Rates;
use placement::{PlacedConnection, PlacedVolume, plan};
use processor_time::ProcessorTime;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often it is looked whether what runs is where it should be, while there is something to do.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often at most, where a reactor has too much to do.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// A reactor with more of a core to do than this, and this much more than another one, has too much.
const BUSY: f64 = 0.6;
const UNEVEN: f64 = 0.25;
/// Less than this share of a core is nothing.
const NOTHING: f64 = 0.001;

/// The reactors of a server that runs.
#[derive(Debug)]
pub struct LiveReactors {
    handle: Handle,
    /// By reactor: absent until its thread runs.
    times: Vec<Option<ProcessorTime>>,
    problem: Option<String>,
    last: Vec<ReactorCounters>,
    setting: Setting,
    rates: Rates,
    volumes: usize,
    planned: Planned,
}

/// What was counted when it was last planned.
#[derive(Debug)]
struct Planned {
    at: Instant,
    busy_ns: Vec<u64>,
    requests: BTreeMap<u64, u64>,
    volumes: BTreeMap<usize, u64>,
}

impl LiveReactors {
    /// Those of a server with so many volumes, which are taken to be at full speed as `setting` says.
    #[must_use]
    pub fn new(handle: Handle, volumes: usize, setting: Setting) -> Self {
        let count = handle.reactors();
        let planned = Planned {
            at: Instant::now(),
            busy_ns: vec![0; count],
            requests: BTreeMap::new(),
            volumes: BTreeMap::new(),
        };
        let mut manager = Self {
            handle,
            times: (0..count).map(|_| None).collect(),
            problem: None,
            last: vec![ReactorCounters::default(); count],
            setting,
            rates: Rates::default(),
            volumes,
            planned,
        };
        manager.accept();
        if manager.setting.connections != manager.setting.volumes {
            manager.place();
        }
        manager
    }

    /// New connections go where connections may be.
    fn accept(&self) {
        for reactor in 0..self.handle.reactors() {
            self.handle.set_accepting(reactor, self.setting.connections.contains(&reactor));
        }
    }

    /// The processor time of a reactor's thread; 0 if it is not known.
    fn processor_ns(&mut self, reactor: usize) -> u64 {
        let Some(thread) = self.handle.published(reactor).thread() else { return 0 };
        let time = match &mut self.times[reactor] {
            Some(time) => Ok(time),
            none => ProcessorTime::of(thread).map(|time| none.insert(time)),
        };
        time.and_then(|time| time.read_ns()).unwrap_or_else(|error| {
            self.problem = Some(format!("processor time of reactor {reactor}: {error}"));
            0
        })
    }

    /// The share of a core that each reactor was busy since it was last planned.
    fn busy(&self) -> Vec<f64> {
        let span_ns = self.planned.at.elapsed().as_nanos().max(1) as f64;
        let then = self.planned.busy_ns.iter();
        let share = |(now, then): (&ReactorCounters, &u64)| {
            busy_ns(now).saturating_sub(*then) as f64 / span_ns
        };
        self.last.iter().zip(then).map(share).collect()
    }

    /// Moves what is not where it should be, if it is time to look for that.
    pub fn look_after(&mut self) {
        let since = self.planned.at.elapsed();
        if since < LOOK_SOON {
            return;
        }
        let busy = self.busy();
        let most = busy.iter().copied().fold(0.0, f64::max);
        let active = self.setting.active();
        let least = active.iter().map(|&at| busy[at]).fold(f64::INFINITY, f64::min);
        let is_uneven = most > BUSY && most - least > UNEVEN;
        if is_uneven || (since >= LOOK_EVERY && most > NOTHING) {
            self.place();
        }
    }

    /// Plans anew where everything runs, and orders it.
    fn place(&mut self) {
        let busy = self.busy();
        let loads = self.handle.loads();
        if loads.len() < self.handle.reactors() {
            // A volume could not leave before that one says that it holds what it would ask.
            self.planned.at = Instant::now();
            self.planned.busy_ns = self.last.iter().map(busy_ns).collect();
            return;
        }
        let planned = &self.planned;
        let requests = |load: &crate::normal::ConnectionLoad| {
            load.requests - planned.requests.get(&load.id).copied().unwrap_or(0)
        };
        let asked = |&(number, asked): &(usize, u64)| {
            asked - planned.volumes.get(&number).copied().unwrap_or(0)
        };
        let (mut volumes, mut connections) = (Vec::new(), Vec::new());
        for Loads { reactor, connections: own, volumes: own_volumes } in &loads {
            let sum: u64 =
                own.iter().map(requests).chain(own_volumes.iter().map(asked)).sum::<u64>();
            // What one of its lanes takes for a request is taken to be what another one takes.
            let share = |count: u64| busy[*reactor] * count as f64 / sum.max(1) as f64;
            let volume = |volume: &(usize, u64)| PlacedVolume {
                number: volume.0,
                at: *reactor,
                share: share(asked(volume)),
            };
            volumes.extend(own_volumes.iter().map(volume));
            let connection = |load: &crate::normal::ConnectionLoad| PlacedConnection {
                load: *load,
                at: *reactor,
                share: share(requests(load)),
            };
            connections.extend(own.iter().map(connection));
        }
        let sets = (&self.setting.connections, &self.setting.volumes);
        let plan = plan(sets, &volumes, &connections);
        let mut moves = BTreeMap::<usize, Moves>::new();
        for (volume, to) in plan.volumes {
            moves.entry(volume.at).or_default().volumes.push((volume.number, to));
        }
        for (connection, to) in plan.connections {
            moves.entry(connection.at).or_default().connections.push(connection.load.to(to));
        }
        for (reactor, moves) in moves {
            self.handle.move_from(reactor, moves);
        }
        let all = loads.iter();
        self.planned = Planned {
            at: Instant::now(),
            busy_ns: self.last.iter().map(busy_ns).collect(),
            requests: all
                .clone()
                .flat_map(|loads| &loads.connections)
                .map(|load| (load.id, load.requests))
                .collect(),
            volumes: all.flat_map(|loads| &loads.volumes).copied().collect(),
        };
    }
}

const fn busy_ns(counters: &ReactorCounters) -> u64 {
    counters.work.clients_ns + counters.work.background_ns
}

/// What each volume may take of the law's budgets: those that have something to do of a class share
/// its budget; while none has, whichever comes first gets its part of all.
fn shares(budgets: &Rates, now: &ReactorCounters, volumes: usize) -> Rates {
    std::array::from_fn(|class| {
        let due = now.background[class].volumes_due;
        let sharing = if due > 0 { due as f64 } else { volumes.max(1) as f64 };
        budgets[class].map(|rate| rate / sharing)
    })
}

impl Reactors for LiveReactors {
    fn read(&mut self, now: Duration) -> Vec<ReactorCounters> {
        self.problem = None;
        for reactor in 0..self.last.len() {
            let processor_ns = self.processor_ns(reactor);
            let before = &self.last[reactor];
            let published = self.handle.published(reactor);
            let mut counters = published.read(now, processor_ns, &before.requests);
            // What was interrupted while it looked for work seems to have looked for longer.
            let least_ns = before.work.clients_ns;
            counters.work.clients_ns = counters.work.clients_ns.max(least_ns);
            self.last[reactor] = counters;
        }
        self.last.clone()
    }

    fn turn(&mut self, setting: &Setting) -> Result<(), String> {
        let rates = shares(&setting.budgets, &ReactorCounters::sum(&self.last), self.volumes);
        if self.rates != rates {
            self.rates = rates;
            self.handle.set_budgets(rates);
        }
        let (before, active) = (self.setting.active(), setting.active());
        let has_changed = self.setting.connections != setting.connections
            || self.setting.volumes != setting.volumes;
        self.setting = setting.clone();
        if has_changed {
            for reactor in before.symmetric_difference(&active) {
                self.handle.set_active(*reactor, active.contains(reactor));
            }
            self.accept();
            self.place();
        }
        Ok(())
    }

    fn problem(&mut self) -> Option<String> {
        self.problem.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget was divided by all volumes: the only one of eight that was being filled got an eighth.
    #[test]
    fn those_that_have_something_to_do_share_the_budget() {
        let mut budgets = Rates::default();
        (budgets[0], budgets[1]) = (Some(0.4), Some(0.4));
        let reactors = [0, 1, 2].map(|due| {
            let mut one = ReactorCounters::default();
            one.background[1].volumes_due = due;
            one
        });
        let shared = |reactors: &[ReactorCounters]| {
            let rates = shares(&budgets, &ReactorCounters::sum(reactors), 8);
            assert_eq!(rates[2..], [None, None]);
            (rates[0].unwrap(), rates[1].unwrap())
        };
        assert_eq!(shared(&reactors[..1]), (0.05, 0.05), "nobody knows whose turn comes");
        assert_eq!(shared(&reactors[..2]), (0.05, 0.4));
        assert_eq!(shared(&reactors[1..2]), (0.05, 0.4));
        assert_eq!(shared(&reactors[..]), (0.05, 0.4 / 3.0));
    }
}
