//! A host made of the simulator: the governor's traits over a small world in memory.
//!
//! [`Hosted`] is handed to the simulator as if it were a law. What the simulator observes goes into
//! the world, where the governor's sources find it; what the governor's knobs write into the world
//! goes back to the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wattio_governor::{
    Act, Address, Assignment, BackgroundSource, CoreGroup, CpuSource, Cpus, Governor,
    GovernorSettings, GroupUse, Hands, Knob, LatencySample, LatencySource, Layer, Look, Machine,
    MachineError, Parts, PowerSource, Setting, Snapshot, SnapshotError, SnapshotStore, SourceError,
    Target, Tick,
};
use wattio_law::{
    Action, BackgroundAction, BackgroundObservation, Budget, DriveAction, GroupAction, Law, Limits,
    Observation,
};
use wattio_units::{Hertz, Seconds, Watts};

/// The name of each thing that drives may be told.
const DRIVES: [(&str, DriveAction); 3] =
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

struct FakeMachine(Shared);

impl Look for FakeMachine {
    fn read(&mut self, address: &Address) -> Result<String, MachineError> {
        let world = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || MachineError::Gone { address: address.clone() };
        if world.unreadable.contains(address) && world.writes.iter().any(|w| w.0 == *address) {
            let message = "timed out".to_owned();
            return Err(MachineError::Refused { address: address.clone(), message });
        }
        world.places.get(address).cloned().ok_or_else(gone)
    }

    fn same(&self, _: &Address, one: &str, other: &str) -> bool {
        one == other
    }

    fn outlives_boot(&self, address: &Address) -> bool {
        address.scheme() == "background"
    }

    fn mend(&self, address: &Address, value: &str) -> String {
        format!("set {address} {value}")
    }
}

impl Machine for FakeMachine {
    fn write(&mut self, address: &Address, value: &str) -> Result<(), MachineError> {
        let mut world = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if world.refusing.contains(address) {
            let message = "device or resource busy".to_owned();
            return Err(MachineError::Refused { address: address.clone(), message });
        }
        if !world.places.contains_key(address) {
            return Err(MachineError::Gone { address: address.clone() });
        }
        world.writes.push((address.clone(), value.to_owned()));
        if !world.forgetting.contains(address) {
            world.places.insert(address.clone(), value.to_owned());
        }
        Ok(())
    }

    fn share_time(&mut self, shared: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).shares_time = shared;
    }
}

struct FakeStore(Shared);

impl SnapshotStore for FakeStore {
    fn load(&mut self) -> Result<Option<Snapshot>, SnapshotError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).snapshot.clone())
    }

    fn save(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        let mut world = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if world.disk_full {
            let (path, error) = ("snapshot".into(), std::io::ErrorKind::StorageFull.into());
            return Err(SnapshotError::System { path, error });
        }
        world.snapshot = Some(snapshot.clone());
        Ok(())
    }

    fn clear(&mut self) -> Result<(), SnapshotError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).snapshot = None;
        Ok(())
    }
}

pub fn open_hands(world: &Shared, boot_id: &str) -> (Hands, wattio_governor::Restored) {
    let (machine, store) =
        (Box::new(FakeMachine(world.clone())), Box::new(FakeStore(world.clone())));
    Hands::open(machine, store, boot_id).unwrap()
}

struct CoresKnob(Shared);
struct FrequencyKnob;
struct PaceKnob;
struct DrivesKnob;

/// Full speed puts the old value back, as the knobs of a real host do.
fn assignment(setting: &Setting, address: Address, value: String) -> Assignment {
    let target = if setting.full_speed { Target::Original } else { Target::Set(value) };
    Assignment { address, target, endangers: Vec::new() }
}

impl Knob for CoresKnob {
    fn name(&self) -> &str {
        "cores"
    }
    fn layer(&self) -> Layer {
        Layer::Placement
    }
    fn follows_processes(&self) -> bool {
        true
    }
    fn assignments(
        &mut self,
        setting: &Setting,
        _: &mut dyn Look,
    ) -> Result<Vec<Assignment>, MachineError> {
        let groups = setting.groups.iter().enumerate();
        let world = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |(at, group): (usize, &wattio_governor::GroupSetting)| {
            assignment(setting, world.cores_of(at), group.active.len().to_string())
        };
        Ok(groups.map(count).collect())
    }
}

impl Knob for FrequencyKnob {
    fn name(&self) -> &str {
        "frequency"
    }
    fn layer(&self) -> Layer {
        Layer::Speed
    }
    fn assignments(
        &mut self,
        setting: &Setting,
        _: &mut dyn Look,
    ) -> Result<Vec<Assignment>, MachineError> {
        let groups = setting.groups.iter().enumerate();
        let hertz = |(at, group): (usize, &wattio_governor::GroupSetting)| {
            assignment(setting, frequency_of(at), group.frequency.0.to_string())
        };
        Ok(groups.map(hertz).collect())
    }
}

impl Knob for PaceKnob {
    fn name(&self) -> &str {
        "background"
    }
    fn layer(&self) -> Layer {
        Layer::Speed
    }
    fn assignments(
        &mut self,
        setting: &Setting,
        _: &mut dyn Look,
    ) -> Result<Vec<Assignment>, MachineError> {
        let value = match setting.background.first().map(|class| class.budget) {
            Some(Budget::CoreSecondsPerSecond(rate)) => rate.to_string(),
            _ => "due".to_owned(),
        };
        Ok(vec![assignment(setting, pace(), value)])
    }
}

impl Knob for DrivesKnob {
    fn name(&self) -> &str {
        "drives"
    }
    fn layer(&self) -> Layer {
        Layer::Speed
    }
    fn assignments(
        &mut self,
        setting: &Setting,
        _: &mut dyn Look,
    ) -> Result<Vec<Assignment>, MachineError> {
        let (name, _) = DRIVES.iter().find(|(_, action)| *action == setting.drives).unwrap();
        Ok(vec![assignment(setting, drives(), (*name).to_owned())])
    }
}

struct FakeLatency {
    world: Shared,
    /// When it was asked last: there is nothing new at the same time.
    last: Option<Seconds>,
}

impl LatencySource for FakeLatency {
    fn name(&self) -> &str {
        "simulated latency"
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        if self.last.replace(now) == Some(now) {
            return Ok(None);
        }
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = world.latency_fault.take();
        let Some(seen) = world.observation.as_ref() else { return Ok(None) };
        let Some(latency) = seen.latency.clone() else { return Ok(None) };
        let mut sample = LatencySample {
            at: now,
            requests: latency.requests,
            arrived: latency.arrived,
            in_flight: latency.in_flight,
            latency_us_mean: latency.latency_us_mean,
            bytes_mean: latency.bytes_mean,
            read_share: latency.read_share,
            histogram: latency.histogram,
        };
        match fault {
            None => {}
            Some(LatencyFault::Lost) => return Ok(None),
            Some(LatencyFault::Late(seconds)) => sample.at = now - Seconds(seconds),
            Some(LatencyFault::Absurd(value)) => sample.latency_us_mean = Some(value),
            Some(LatencyFault::Failed) => {
                return Err(SourceError::new("simulated latency", "does not answer"));
            }
        }
        Ok(Some(sample))
    }

    fn note(&mut self) -> Option<String> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner).note.take()
    }
}

impl Drop for FakeLatency {
    fn drop(&mut self) {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.places_at_end = world.places.clone();
    }
}

struct FakeCpu(Shared);

impl CpuSource for FakeCpu {
    fn name(&self) -> &str {
        "simulated cores"
    }

    fn sample(&mut self, _: Seconds, _: &[Cpus]) -> Result<Vec<GroupUse>, SourceError> {
        let world = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if world.cpu_fails {
            return Err(SourceError::new("simulated cores", "does not answer"));
        }
        let groups = world.observation.iter().flat_map(|seen| &seen.groups);
        Ok(groups
            .map(|group| GroupUse {
                utilisation_clients: group.utilisation_clients,
                utilisation_background: group.utilisation_background,
                queued: group.queued,
                waited_for_drives: group.waited_for_drives,
            })
            .collect())
    }
}

struct FakeBackground(Shared);

impl BackgroundSource for FakeBackground {
    fn name(&self) -> &str {
        "simulated background work"
    }

    fn sample(&mut self, _: Seconds) -> Result<Vec<BackgroundObservation>, SourceError> {
        Ok(self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .observation
            .as_ref()
            .map(|seen| seen.background.clone())
            .unwrap_or_default())
    }
}

struct FakePower(Shared);

impl PowerSource for FakePower {
    fn name(&self) -> &str {
        "simulated meter"
    }

    fn sample(&mut self, _: Seconds) -> Result<Option<Watts>, SourceError> {
        let world = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match world.power_fault {
            None => Ok(world.observation.as_ref().and_then(|seen| seen.power)),
            Some(PowerFault::Nothing) => Ok(None),
            Some(PowerFault::Absurd(value)) => Ok(Some(Watts(value))),
            Some(PowerFault::Failed) => Err(SourceError::new("simulated meter", "does not answer")),
        }
    }
}

/// The knobs of a world, in the order of slowing down.
pub fn knobs(world: &Shared) -> Vec<Box<dyn Knob>> {
    vec![
        Box::new(CoresKnob(world.clone())),
        Box::new(FrequencyKnob),
        Box::new(PaceKnob),
        Box::new(DrivesKnob),
    ]
}

/// The places of a world.
pub fn machine(world: &Shared) -> Box<dyn Machine> {
    Box::new(FakeMachine(world.clone()))
}

/// The latency that a world was last seen with, once at each time.
pub fn latency_source(world: &Shared) -> Box<dyn LatencySource> {
    Box::new(FakeLatency { world: world.clone(), last: None })
}

/// The use of a world's cores.
pub fn cpu_source(world: &Shared) -> Box<dyn CpuSource> {
    Box::new(FakeCpu(world.clone()))
}

/// The sources of a world.
pub struct Sources {
    pub latency: Box<dyn LatencySource>,
    pub cpu: Box<dyn CpuSource>,
    pub background: Box<dyn BackgroundSource>,
    pub power: Box<dyn PowerSource>,
}

/// A governor over a world that was last seen as its harness says.
pub fn governor(world: &Shared, law: Box<dyn Law>, limits: &Limits, at: Duration) -> Governor {
    let sources = Sources {
        latency: latency_source(world),
        cpu: cpu_source(world),
        background: Box::new(FakeBackground(world.clone())),
        power: Box::new(FakePower(world.clone())),
    };
    governor_with(world, sources, law, limits, at)
}

/// A governor over a world with these sources.
pub fn governor_with(
    world: &Shared,
    sources: Sources,
    law: Box<dyn Law>,
    limits: &Limits,
    at: Duration,
) -> Governor {
    let group = |(at, limits): (usize, &wattio_law::GroupLimits)| CoreGroup {
        name: format!("group {at}"),
        cores: (0..limits.cores_max).collect(),
        limits: limits.clone(),
    };
    let parts = Parts {
        law,
        bounds: Vec::new(),
        groups: limits.groups.iter().enumerate().map(group).collect(),
        latency: sources.latency,
        cpu: sources.cpu,
        background: Some(sources.background),
        power: Some(sources.power),
        guards: Vec::new(),
        act: Some(Act { knobs: knobs(world), hands: open_hands(world, "boot").0 }),
        lens: None,
        settings: GovernorSettings::default(),
    };
    Governor::new(parts, at)
}

/// A law that is a governor: the simulator steps it, its knobs set the simulator.
pub struct Hosted<F> {
    pub governor: Governor,
    pub world: Shared,
    pub limits: Limits,
    pub now: Duration,
    /// Called before each tick (to do mischief) and after it (to look).
    pub around: F,
}

/// What is told around a tick.
pub enum Around<'a> {
    Before { now: &'a mut Duration },
    After { tick: &'a Tick },
}

impl<F: FnMut(&mut Governor, &Shared, Around<'_>) + Send> Law for Hosted<F> {
    fn step(&mut self, observation: &Observation, dt: Seconds) -> Action {
        self.now += Duration::from_nanos((dt.0 * 1e9).round() as u64);
        self.world.lock().unwrap_or_else(PoisonError::into_inner).observation =
            Some(observation.clone());
        (self.around)(&mut self.governor, &self.world, Around::Before { now: &mut self.now });
        let tick = self.governor.tick(self.now);
        (self.around)(&mut self.governor, &self.world, Around::After { tick: &tick });
        action_in(&self.world.lock().unwrap_or_else(PoisonError::into_inner), &self.limits)
    }
    fn period(&self) -> Seconds {
        self.governor.driver().law().period()
    }
}
