//! The simulated server as a plant of the driver.

use crate::engine::Engine;
use crate::load::{Load, LoadError};
use crate::observe::{self, Reading};
use crate::queue::Nanoseconds;
use crate::sender::Sender;
use std::sync::Arc;
use std::time::Duration;
use wattio_law::{
    Action, BackgroundObservation, CorePower, DriveSleep, Glimpse, GroupLimits, GroupObservation,
    LatencyObservation, Limits, Observation, Plant, Seen,
};
use wattio_plant::{Cores, Drives, IdleKind, Server};
use wattio_units::{Hertz, Seconds, Watts};

/// The class of all background work of a simulated server.
const CLASS: &str = "background";
/// Points of the power table of cores that can run at any frequency.
const POWER_POINTS: u32 = 16;

/// A simulated server, and where its driver looked last.
pub struct SimulatedServer {
    pub(crate) engine: Engine,
    pub(crate) rest_w: f64,
    slice_s: f64,
    class: Arc<str>,
    /// The counters when the driver took its last look and when it closed its last window.
    looked: Reading,
    closed: Reading,
}

impl SimulatedServer {
    /// A server at full speed under a load that begins now; its first phase is longer by
    /// `warmup_s`.
    ///
    /// # Errors
    /// [`LoadError`] when the load cannot be used.
    pub fn new(server: &Server, load: Load, seed: u64, warmup_s: f64) -> Result<Self, LoadError> {
        let sender = Sender::new(load, server, seed, warmup_s)?;
        let limits = limits(server);
        let mut engine = Engine::new(server, &limits, sender, seed);
        engine.apply(&limits.full_speed());
        let slice_s = server.background.as_ref().map_or(0.0, |work| work.slice.0);
        let start = Reading::take(&mut engine, slice_s);
        Ok(Self {
            engine,
            rest_w: server.rest_power.0,
            slice_s,
            class: CLASS.into(),
            looked: start.clone(),
            closed: start,
        })
    }

    /// Simulated time since the start, in nanoseconds.
    #[must_use]
    pub fn now(&self) -> Nanoseconds {
        self.engine.now
    }

    /// Reads every counter.
    pub fn read(&mut self) -> Reading {
        Reading::take(&mut self.engine, self.slice_s)
    }

    /// Runs until `until`.
    ///
    /// # Errors
    /// When the trace turns out to be damaged.
    pub fn run(&mut self, until: Nanoseconds) -> Result<(), LoadError> {
        self.engine.run(until)
    }

    /// Turns the server to an action.
    pub fn turn(&mut self, action: &Action) {
        self.engine.apply(action);
    }

    /// What clients experienced since a reading. How latencies spread is told once: what was told
    /// before is not told again.
    pub fn latency_since(&mut self, before: &Reading) -> LatencyObservation {
        let now = self.read();
        let (spread, in_flight) = (self.engine.spread.take(), self.engine.in_flight());
        observe::latency(before, &now, spread, in_flight)
    }

    /// What the core groups did since a reading.
    pub fn groups_since(&mut self, before: &Reading) -> Vec<GroupObservation> {
        let now = self.read();
        observe::groups(&self.engine, before, &now)
    }

    /// How far background work came since a reading, class by class.
    pub fn background_since(&mut self, before: &Reading) -> Vec<BackgroundObservation> {
        let now = self.read();
        let told = self.engine.has_background();
        told.then(|| observe::background(before, &now, &self.class)).into_iter().collect()
    }

    /// Mean power since a reading, of everything there is; `None` where no time has passed.
    pub fn power_since(&mut self, before: &Reading) -> Option<Watts> {
        let now = self.read();
        let span_s = now.since(before);
        let energy_j = now.energy_cores_j(before) + now.energy_drives_j - before.energy_drives_j;
        (span_s > 0.0).then(|| Watts(self.rest_w + energy_j / span_s))
    }
}

impl Plant for SimulatedServer {
    type Error = LoadError;

    fn advance(&mut self, until: Duration) -> Result<Glimpse, LoadError> {
        self.run(u64::try_from(until.as_nanos()).unwrap_or(Nanoseconds::MAX))?;
        let now = self.read();
        let before = std::mem::replace(&mut self.looked, now);
        let (now, then) = (&self.looked.totals, &before.totals);
        let completed = now.answered - then.answered;
        let latency_ns = (now.latency_ns - then.latency_ns) as f64;
        Ok(Glimpse {
            span: Seconds(self.looked.since(&before)),
            arrived: Some(now.arrivals - then.arrivals),
            completed,
            latency_us_mean: (completed > 0).then(|| latency_ns / completed as f64 / 1e3),
            in_flight: Some(self.engine.in_flight()),
            is_ready: true,
        })
    }

    fn observe(&mut self, _: Seconds, alarm: bool) -> Seen {
        let before = self.closed.clone();
        let observation = Observation {
            latency: Some(self.latency_since(&before)),
            groups: self.groups_since(&before),
            background: self.background_since(&before),
            power: self.power_since(&before),
            alarm,
        };
        self.closed = self.read();
        Seen { observation, forced: None }
    }

    fn apply(&mut self, action: &Action) -> Action {
        self.engine.apply(action);
        action.clone()
    }
}

/// What may be asked of a server, and what its parts draw.
#[must_use]
pub fn limits(server: &Server) -> Limits {
    let cores = &server.cores;
    let power = power_of(cores);
    let groups = server.groups.iter().map(|group| GroupLimits {
        cores_min: group.cores_min,
        cores_max: group.cores,
        frequency_min: cores.frequency_min,
        frequency_max: cores.frequency_max,
        frequency_steps: cores.frequency_steps.clone(),
        idle_cores_sleep: cores.idle == IdleKind::CStates,
        power: power.clone(),
        frequency_bound_share: Some(cores.frequency_bound_share),
    });
    Limits {
        groups: groups.collect(),
        drives: server.drives.as_ref().and_then(sleep_of),
        gate_on: cores.gate_on,
    }
}

fn power_of(cores: &Cores) -> Vec<CorePower> {
    let span = cores.frequency_max - cores.frequency_min;
    let evenly =
        |at: u32| cores.frequency_min + span * (f64::from(at) / f64::from(POWER_POINTS - 1));
    let frequencies: Vec<Hertz> = if cores.frequency_steps.is_empty() {
        (0..POWER_POINTS).map(evenly).collect()
    } else {
        cores.frequency_steps.clone()
    };
    let point = |frequency: Hertz| CorePower {
        frequency,
        running: cores.power_running(frequency),
        idle: cores.power_idle(frequency),
    };
    frequencies.into_iter().map(point).collect()
}

fn sleep_of(drives: &Drives) -> Option<DriveSleep> {
    let deepest = drives.sleep.last()?;
    let saves = drives.power_awake(0.0) - deepest.power;
    Some(DriveSleep {
        count: drives.count,
        saves: Some(Watts(saves.0 * f64::from(drives.count))),
        wake: deepest.wake,
        after: deepest.after,
    })
}
