//! Everything outside the governor, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wattio_governor::{Address, Snapshot};
use wattio_law::{Action, BackgroundAction, DriveAction, GroupAction, Limits, Observation};
use wattio_units::Hertz;

/// The name of each thing that drives may be told.
pub const DRIVES: [(&str, DriveAction); 3] =
    [("own", DriveAction::Own), ("awake", DriveAction::Awake), ("asleep", DriveAction::Asleep)];

/// Everything outside the governor.
#[derive(Default)]
pub struct World {
    pub places: BTreeMap<Address, String>,
    /// How often the service of each group of cores was restarted.
    restarts: BTreeMap<usize, u32>,
    /// Places that refuse to be written.
    pub refusing: BTreeSet<Address>,
    /// Places that take a write and cannot be read after it.
    pub unreadable: BTreeSet<Address>,
    /// Places that take a write and do not keep it.
    pub forgetting: BTreeSet<Address>,
    /// Every write: place and value.
    pub writes: Vec<(Address, String)>,
    pub observation: Option<Observation>,
    /// What the latency source does at its next call.
    pub latency_fault: Option<LatencyFault>,
    pub cpu_fails: bool,
    /// What the latency source has to tell.
    pub note: Option<String>,
    /// What the meter does instead of telling the power that was observed.
    pub power_fault: Option<PowerFault>,
    pub snapshot: Option<Snapshot>,
    /// What the places held when the latency source was dropped.
    pub places_at_end: BTreeMap<Address, String>,
    pub disk_full: bool,
    /// Whether what waits for others shares its time.
    pub shares_time: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LatencyFault {
    /// Nothing new.
    Lost,
    /// A sample that was taken that many seconds ago.
    Late(f64),
    /// An error.
    Failed,
    /// Numbers that cannot be.
    Absurd(f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PowerFault {
    /// An error.
    Failed,
    /// Nothing new.
    Nothing,
    /// A number that cannot be.
    Absurd(f64),
}

pub type Shared = Arc<Mutex<World>>;

/// The world, also after a test's thread panicked.
pub fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn cores_of(group: usize) -> Address {
    Address::new("cores", &group.to_string())
}

pub fn frequency_of(group: usize) -> Address {
    Address::new("frequency", &group.to_string())
}

pub fn pace() -> Address {
    Address::new("background", "pace")
}

pub fn drives() -> Address {
    Address::new("drives", "all")
}

impl World {
    /// Where the cores of a group are set: another place after each restart of its service.
    pub fn cores_of(&self, group: usize) -> Address {
        match self.restarts.get(&group) {
            None => cores_of(group),
            Some(count) => Address::new("cores", &format!("{group}@{count}")),
        }
    }

    /// Ends a group's service and starts it again, with `cores` of its own.
    pub fn restart(&mut self, group: usize, cores: &str) {
        self.places.remove(&self.cores_of(group));
        *self.restarts.entry(group).or_default() += 1;
        self.places.insert(self.cores_of(group), cores.to_owned());
    }
}

/// A world at full speed.
pub fn world(limits: &Limits) -> Shared {
    let mut world = World::default();
    for (at, group) in limits.groups.iter().enumerate() {
        world.places.insert(cores_of(at), group.cores_max.to_string());
        world.places.insert(frequency_of(at), group.frequency_max.0.to_string());
    }
    world.places.insert(pace(), "due".to_owned());
    world.places.insert(drives(), "own".to_owned());
    Arc::new(Mutex::new(world))
}

/// What the world is set to.
pub fn action_in(world: &World, limits: &Limits) -> Action {
    let number = |address: &Address| world.places[address].parse::<f64>().unwrap();
    let groups = (0..limits.groups.len()).map(|at| GroupAction {
        cores: number(&world.cores_of(at)) as u32,
        frequency: Hertz(number(&frequency_of(at))),
    });
    let budget = world.places[&pace()].parse().map(BackgroundAction::of);
    let name = &world.places[&drives()];
    let known = DRIVES.iter().find(|(known, _)| known == name);
    Action {
        groups: groups.collect(),
        drives: known.map_or(DriveAction::Own, |&(_, action)| action),
        background: budget.into_iter().collect(),
    }
}
