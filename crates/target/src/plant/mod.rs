//! The target as a plant of the driver: turns the figures that reactors publish into a law's
//! observation, and a law's decision into orders for reactors. No threads, no clock: counters are
//! passed in.

mod counters;
mod groups;

pub use counters::{CLASSES, ClassCounters, ReactorCounters, RequestCounters, WorkTime};
pub use groups::{Group, Layout, Setting};

use crate::frequency::Frequency;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use wattio_control::{SettingError, Settings};
use wattio_governor::{LatencySample, ShadowModel, Stepped};
use wattio_host::shadow::{Shadow, SharedFitter};
use wattio_law::{
    Action, BackgroundObservation, Bound, Driver, DriverSettings, Glimpse, GroupObservation,
    LatencyObservation, Law, Observation, Plant, Seen,
};
use wattio_units::{Seconds, Watts};

/// Reactors as a plant needs them.
pub trait Reactors {
    /// What each of them has done until now, on the clock of the driver, in the same order each time.
    fn read(&mut self, now: Duration) -> Vec<ReactorCounters>;

    /// Tells them what to do from now on.
    ///
    /// # Errors
    /// What cannot be done; the plant asks for full speed then.
    fn turn(&mut self, setting: &Setting) -> Result<(), String>;

    /// Mean power of whatever the law can change since the last call, if it is measured.
    fn power(&mut self) -> Option<Watts> {
        None
    }

    /// Why what they publish must not be used, if so.
    fn problem(&mut self) -> Option<String> {
        None
    }
}

/// Processor time of a block of background work until any was done: an estimate, of the order of what
/// one request of 4 KiB takes.
const BLOCK_S_ASSUMED: f64 = 10e-6;

/// The target that is governed.
pub struct TargetPlant<R> {
    reactors: R,
    /// What turns the frequency of their cores, where anything does.
    frequency: Option<Frequency>,
    layout: Layout,
    full: Action,
    in_force: Action,
    /// In shadow mode, the model that the law's loop is closed over.
    shadow: Option<Shadow>,
    /// What the law asked for last, which in shadow mode is not in force.
    held: Action,
    classes: [Arc<str>; CLASSES.len()],
    /// Whether an operator wants full speed.
    pub is_paused: bool,
    now: Duration,
    /// The sums of all reactors now, at the last look, and when the last window was closed.
    last: ReactorCounters,
    looked: (Duration, ReactorCounters),
    closed: ReactorCounters,
    /// The time of each reactor in tasks now, and when the last window was closed.
    works: Vec<WorkTime>,
    works_closed: Vec<WorkTime>,
    /// Why the running window does not count.
    spoiled: Option<String>,
    /// The last failure to turn the reactors, until lanes could be taken off again.
    failure: Option<String>,
    /// What the last window was; without its latency if that must not be used.
    truth: Observation,
    /// The latency of the last window.
    sample: Option<LatencySample>,
}

/// A target with the law that governs it, and the loop around that.
pub struct Governed<R> {
    /// The law, its bounds and its account.
    pub driver: Driver<Box<dyn Law>>,
    /// The target.
    pub plant: TargetPlant<R>,
}

impl<R: Reactors> Governed<R> {
    /// Starts at full speed with the law of a name and its settings. Without bounds, the law's own
    /// hold.
    ///
    /// # Errors
    /// For an unknown law, an unknown parameter or a value out of range.
    pub fn new(
        policy: (&str, &Settings),
        bounds: &[Bound],
        settings: DriverSettings,
        plant: TargetPlant<R>,
        now: Duration,
    ) -> Result<Self, SettingError> {
        let limits = plant.layout.limits();
        let law = wattio_control::build(policy.0, policy.1, &limits)?;
        let driver = Driver::new(law, limits, bounds, settings, now);
        Ok(Self { driver, plant })
    }

    /// Looks at the target; where a window has ended or a burst was seen, the law is asked and obeyed.
    /// When the next look is due, and the step if there was one.
    pub fn tick(&mut self, now: Duration) -> (Duration, Option<Stepped>) {
        let Ok(step) = self.driver.advance(&mut self.plant, now);
        let step = step.map(|step| self.plant.stepped(step));
        (self.driver.next_look(&self.plant), step)
    }
}

impl<R: Reactors> TargetPlant<R> {
    /// Full speed, which the reactors are taken to be at.
    pub fn new(layout: Layout, mut reactors: R, now: Duration) -> Self {
        let full = layout.limits().full_speed();
        let all = reactors.read(now);
        let last = ReactorCounters::sum(&all);
        let works: Vec<_> = all.iter().map(|one| one.work).collect();
        Self {
            reactors,
            frequency: None,
            layout,
            in_force: full.clone(),
            shadow: None,
            held: full.clone(),
            full,
            classes: CLASSES.map(|class| class.name().into()),
            is_paused: false,
            now,
            looked: (now, last.clone()),
            closed: last.clone(),
            last,
            works_closed: works.clone(),
            works,
            spoiled: None,
            failure: None,
            truth: nothing(false),
            sample: None,
        }
    }

    /// Shadow mode from now on: it stays at full speed whatever the law asks for, and the law sees
    /// what the model says that this would bring.
    pub fn observe_only(&mut self, fitter: SharedFitter) {
        self.shadow = Some(Shadow { fitter, full: self.full.clone() });
    }

    /// The same whose cores' frequency is turned, as its layout says.
    #[must_use]
    pub fn with_frequency(mut self, frequency: Frequency) -> Self {
        self.frequency = Some(frequency);
        self
    }

    /// Leaves the frequency of cores as it was found, from now on.
    pub fn let_go(&mut self) {
        self.frequency = None;
    }

    /// What others changed of what was set, since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        self.frequency.as_mut().map(Frequency::take_notes).unwrap_or_default()
    }

    /// Brings an action about: cores get faster before there is more work on them, and slower after.
    fn turn(&mut self, action: &Action) -> Result<(), String> {
        let is_full = action.groups == self.full.groups;
        let setting = self.layout.setting(action);
        let Some(frequency) = &mut self.frequency else { return self.reactors.turn(&setting) };
        if is_full {
            let turned = frequency.turn(action, is_full);
            return self.reactors.turn(&setting).and(turned);
        }
        self.reactors.turn(&setting)?;
        frequency.turn(action, is_full)
    }

    /// The reactors.
    pub fn reactors(&mut self) -> &mut R {
        &mut self.reactors
    }

    /// What all reactors have done since their start, as of the last look.
    pub fn totals(&self) -> &ReactorCounters {
        &self.last
    }

    /// Where lanes may run.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Why the reactors could not be turned, until they can be again.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// A step of the driver with what was measured in its window.
    fn stepped(&self, step: wattio_law::Stepped) -> Stepped {
        Stepped {
            dt: step.dt,
            sample: self.sample.clone(),
            truth: self.truth.clone(),
            seen: step.seen,
            background_share: step.action.background_share(&self.truth.background, step.dt),
            action: step.action,
            insight: step.insight,
            forced: step.forced,
        }
    }

    fn sample_of(&self, latency: &LatencyObservation) -> LatencySample {
        LatencySample {
            at: Seconds(self.now.as_secs_f64()),
            requests: latency.requests,
            arrived: latency.arrived,
            in_flight: latency.in_flight,
            latency_us_mean: latency.latency_us_mean,
            bytes_mean: latency.bytes_mean,
            read_share: latency.read_share,
            histogram: latency.histogram.clone(),
        }
    }

    fn latency(&self) -> LatencyObservation {
        let (now, then) = (&self.last.requests, &self.closed.requests);
        let requests = now.completed - then.completed;
        let mean = |sum: u64| (requests > 0).then(|| sum as f64 / requests as f64);
        LatencyObservation {
            requests,
            latency_us_mean: mean(now.latency_ns - then.latency_ns).map(|ns| ns / 1e3),
            histogram: (requests > 0).then(|| now.latencies.since(&then.latencies)),
            bytes_mean: mean(now.bytes - then.bytes),
            read_share: mean(now.reads - then.reads),
            arrived: Some(now.arrived - then.arrived),
            in_flight: Some(self.last.in_flight(self.now)),
            age: Seconds(0.0),
        }
    }

    /// Each group's share of the time of its reactors that are on.
    fn groups(&self, dt: Seconds) -> Vec<GroupObservation> {
        let group = |(group, held): (&Group, &wattio_law::GroupAction)| {
            let all_ns = f64::from(held.cores) * dt.0 * 1e9;
            let sum = |of: fn(&WorkTime) -> u64| -> u64 {
                let both = group.reactors.clone().filter_map(|reactor| {
                    self.works.get(reactor).zip(self.works_closed.get(reactor))
                });
                both.map(|(now, then)| of(now).saturating_sub(of(then))).sum()
            };
            let share = |ns: u64| if all_ns > 0.0 { (ns as f64 / all_ns).min(1.0) } else { 0.0 };
            GroupObservation {
                cores: held.cores,
                frequency: held.frequency,
                utilisation_clients: share(sum(|work| work.clients_ns)),
                utilisation_background: share(sum(|work| work.background_ns)),
                // What waits for a core lies in the kernel's sockets, uncounted; what waits here (for the
                // log, for a segment) waits for devices.
                queued: None,
                waited_for_drives: sum(|work| work.device_returns) > 0,
            }
        };
        self.layout.groups().iter().zip(&self.in_force.groups).map(group).collect()
    }

    fn background(&self) -> Vec<BackgroundObservation> {
        let classes = self.last.background.iter().zip(&self.closed.background);
        let class = |(name, (now, then)): (&Arc<str>, (&ClassCounters, &ClassCounters))| {
            let block_s = match now.done_blocks {
                0 => BLOCK_S_ASSUMED,
                blocks => now.done_ns as f64 * 1e-9 / blocks as f64,
            };
            let due = (now.done_blocks - then.done_blocks + now.backlog_blocks)
                .saturating_sub(then.backlog_blocks);
            BackgroundObservation {
                class: name.clone(),
                done_core_s: (now.done_ns - then.done_ns) as f64 * 1e-9,
                due_core_s: due as f64 * block_s,
                backlog_core_s: now.backlog_blocks as f64 * block_s,
                urgency: Some(now.urgency),
            }
        };
        self.classes.iter().zip(classes).map(class).collect()
    }
}

/// A window of which nothing is known.
fn nothing(alarm: bool) -> Observation {
    Observation { latency: None, groups: vec![], background: vec![], power: None, alarm }
}

impl<R: Reactors> Plant for TargetPlant<R> {
    type Error = Infallible;

    fn advance(&mut self, until: Duration) -> Result<Glimpse, Infallible> {
        self.now = until;
        let all = self.reactors.read(until);
        self.last = ReactorCounters::sum(&all);
        self.works = all.iter().map(|one| one.work).collect();
        if !self.last.goes_on_from(&self.looked.1) {
            self.spoiled = Some("what the reactors count went back".to_owned());
            self.looked = (until, self.last.clone());
            self.closed = self.last.clone();
            self.works_closed.clone_from(&self.works);
        }
        let (from, before) = std::mem::replace(&mut self.looked, (until, self.last.clone()));
        let (now, then) = (&self.last.requests, &before.requests);
        let completed = now.completed - then.completed;
        let latency_ns = (now.latency_ns - then.latency_ns) as f64;
        Ok(Glimpse {
            span: Seconds(until.saturating_sub(from).as_secs_f64()),
            arrived: Some(now.arrived - then.arrived),
            completed,
            latency_us_mean: (completed > 0).then(|| latency_ns / completed as f64 / 1e3),
            in_flight: Some(self.last.in_flight(until)),
            is_ready: true,
        })
    }

    fn observe(&mut self, dt: Seconds, alarm: bool) -> Seen {
        let paused = self.is_paused.then(|| "paused".to_owned());
        let problem = self.reactors.problem();
        let forced = paused.or(problem).or(self.spoiled.take());
        let latency = self.latency();
        self.sample = Some(self.sample_of(&latency));
        self.truth = Observation {
            latency: Some(latency).filter(|_| forced.is_none()),
            groups: self.groups(dt),
            background: self.background(),
            power: self.reactors.power(),
            alarm,
        };
        self.closed = self.last.clone();
        self.works_closed.clone_from(&self.works);
        let observation = match &mut self.shadow {
            Some(shadow) => shadow.see(&self.truth, &self.held, dt),
            None => self.truth.clone(),
        };
        Seen { observation, forced }
    }

    fn apply(&mut self, action: &Action) -> Action {
        self.held = action.clone();
        if self.shadow.is_some() {
            return action.clone();
        }
        let failure = self.turn(action).err();
        self.in_force = action.clone();
        if failure.is_none() && action.groups != self.full.groups {
            self.failure = None;
        }
        if failure.is_some() {
            self.failure = failure;
            // Half a setting is none. If that fails too, nobody knows what is in force, and what is
            // measured must not be learned from.
            self.in_force = self.full.clone();
            if let Err(error) = self.turn(&self.full.clone()) {
                self.spoiled = Some(format!("full speed cannot be brought about: {error}"));
            }
        }
        self.in_force.clone()
    }
}

#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod tests;
