//! A host made of the simulator: the governor's traits over a small world in memory.
//!
//! [`Hosted`] is handed to the simulator as if it were a law. What the simulator observes goes into
//! the world, where the governor's sources find it; what the governor's knobs write into the world
//! goes back to the simulator.

mod knobs;
mod machine;
mod sources;
mod world;

pub use knobs::knobs;
pub use machine::machine;
pub use sources::{Sources, cpu_source, latency_source, sources};
pub use world::{
    LatencyFault, PowerFault, Shared, World, action_in, cores_of, drives, frequency_of, lock, pace,
    world,
};

use machine::store;
use std::time::Duration;
use wattio_governor::{
    Actuator, CoreGroup, Governor, GovernorSettings, Parts, Requester, RestorableWriter, Restored,
    Tick,
};
use wattio_law::{Action, GroupLimits, Law, Limits, Observation};
use wattio_units::Seconds;

pub fn open_writer(world: &Shared, boot_id: &str) -> (RestorableWriter, Restored) {
    RestorableWriter::open(machine(world), store(world), boot_id).unwrap()
}

/// A governor over a world that was last seen as its harness says.
pub fn governor(world: &Shared, law: Box<dyn Law>, limits: &Limits, at: Duration) -> Governor {
    governor_with(world, sources(world), law, limits, at)
}

/// A governor over a world with these sources.
pub fn governor_with(
    world: &Shared,
    sources: Sources,
    law: Box<dyn Law>,
    limits: &Limits,
    at: Duration,
) -> Governor {
    Governor::new(parts(world, sources, law, limits), at)
}

/// What a governor over a world with these sources is made of.
pub fn parts(world: &Shared, sources: Sources, law: Box<dyn Law>, limits: &Limits) -> Parts {
    let group = |(at, limits): (usize, &GroupLimits)| CoreGroup {
        name: format!("group {at}"),
        cores: (0..limits.cores_max).collect(),
        limits: limits.clone(),
        saving_max: None,
    };
    let groups: Vec<_> = limits.groups.iter().enumerate().map(group).collect();
    let actuator = Actuator { knobs: knobs(world), writer: open_writer(world, "boot").0 };
    Parts {
        law,
        bounds: Vec::new(),
        machine: Requester::alone(Some(actuator), &groups),
        groups,
        latency: sources.latency,
        cpu: sources.cpu,
        background: Some(sources.background),
        power: Some(sources.power),
        power_is_shared: false,
        followers: Vec::new(),
        guards: Vec::new(),
        shadow_model: None,
        settings: GovernorSettings::default(),
    }
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
        lock(&self.world).observation = Some(observation.clone());
        (self.around)(&mut self.governor, &self.world, Around::Before { now: &mut self.now });
        let tick = self.governor.tick(self.now);
        (self.around)(&mut self.governor, &self.world, Around::After { tick: &tick });
        action_in(&lock(&self.world), &self.limits)
    }
    fn period(&self) -> Seconds {
        self.governor.driver().law().period()
    }
}
