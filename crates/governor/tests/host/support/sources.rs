//! What tells of a world.

use super::world::{LatencyFault, PowerFault, Shared, lock};
use wattio_governor::{
    BackgroundSource, CpuSource, Cpus, GroupUse, LatencySample, LatencySource, PowerSource,
    SourceError,
};
use wattio_law::BackgroundObservation;
use wattio_units::{Seconds, Watts};

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
        let mut world = lock(&self.world);
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
        lock(&self.world).note.take()
    }
}

impl Drop for FakeLatency {
    fn drop(&mut self) {
        let mut world = lock(&self.world);
        world.places_at_end = world.places.clone();
    }
}

struct FakeCpu(Shared);

impl CpuSource for FakeCpu {
    fn name(&self) -> &str {
        "simulated cores"
    }

    fn sample(&mut self, _: Seconds, _: &[Cpus]) -> Result<Vec<GroupUse>, SourceError> {
        let world = lock(&self.0);
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
        Ok(lock(&self.0)
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
        let world = lock(&self.0);
        match world.power_fault {
            None => Ok(world.observation.as_ref().and_then(|seen| seen.power)),
            Some(PowerFault::Nothing) => Ok(None),
            Some(PowerFault::Absurd(value)) => Ok(Some(Watts(value))),
            Some(PowerFault::Failed) => Err(SourceError::new("simulated meter", "does not answer")),
        }
    }
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

/// The sources of a world.
pub fn sources(world: &Shared) -> Sources {
    Sources {
        latency: latency_source(world),
        cpu: cpu_source(world),
        background: Box::new(FakeBackground(world.clone())),
        power: Box::new(FakePower(world.clone())),
    }
}
