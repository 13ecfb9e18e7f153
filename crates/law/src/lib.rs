//! What every control law sees, says and is wrapped in.
//!
//! A [`Law`] turns an [`Observation`] of the last window into an [`Action`]. It has no clock, does
//! no I/O and starts no threads: the time that passed is handed in. [`Loop`] is the pure loop
//! around a law (staleness, limits, dwell, accounting); the simulator and a live host drive the
//! very same loop.

mod accounting;
mod action;
mod limits;
mod observation;
mod stepping;

pub use accounting::Accounting;
pub use action::{Action, BackgroundDirective, BackgroundPriority, GroupAction};
pub use limits::{GroupLimits, Limits};
pub use observation::{BackgroundObservation, GroupObservation, LatencyObservation, Observation};
pub use stepping::{Loop, LoopSettings};

use wattio_units::Seconds;

/// The operating state that a law believes the server is in (PACER document, figure 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperatingState {
    /// The load changes or is not yet known: full speed, no saving.
    Unstable,
    /// The load is steady: power is saved within the latency bound.
    Stable,
    /// No client has asked for anything for a while.
    Idle,
}

impl OperatingState {
    /// All states, in the order in which accounts and reports list them.
    pub const ALL: [Self; 3] = [Self::Unstable, Self::Stable, Self::Idle];

    /// The name in results and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unstable => "unstable",
            Self::Stable => "stable",
            Self::Idle => "idle",
        }
    }
}

/// What a law can tell of its last step, for status pages and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Insight {
    /// Why the action is what it is.
    pub reason: &'static str,
    /// The mean latency in microseconds that the load would have at full speed.
    pub baseline_us: Option<f64>,
    /// The mean latency in microseconds that shall not be exceeded.
    pub bound_us: Option<f64>,
    /// `(latency - baseline) / baseline` of the last window.
    pub loss: Option<f64>,
}

/// A control law: observations in, actions out.
pub trait Law: Send {
    /// Decides what the server shall do after a window of length `dt`.
    fn step(&mut self, observation: &Observation, dt: Seconds) -> Action;

    /// The length of window that the law wants to be stepped with.
    fn period(&self) -> Seconds;

    /// The operating state, for laws that have one.
    fn state(&self) -> Option<OperatingState> {
        None
    }

    /// The number of client requests within an [`Law::alarm_span`] at which the law wants to be
    /// stepped at once instead of at its window's end, so that a burst is not seen a window late.
    fn alarm_requests(&self) -> Option<u64> {
        None
    }

    /// The short stretches of time that requests are counted over for the alarm.
    fn alarm_span(&self) -> Seconds {
        self.period()
    }

    /// Whether what completed within an [`Law::alarm_span`] is reason to be stepped at once. For
    /// hosts, which see requests when they complete and not when they arrive.
    fn is_alarming(&self, requests: u64, latency_us_mean: Option<f64>) -> bool {
        let _ = latency_us_mean;
        self.alarm_requests().is_some_and(|alarm| requests >= alarm)
    }

    /// What the law can tell of its last step.
    fn insight(&self) -> Insight {
        Insight::default()
    }

    /// The share by which the mean latency may exceed that of full speed, for laws that have one.
    fn latency_tolerance(&self) -> Option<f64> {
        None
    }

    /// Changes the tolerance from the next step on; laws without one ignore it.
    fn set_latency_tolerance(&mut self, share: f64) {
        let _ = share;
    }
}

impl<L: Law + ?Sized> Law for Box<L> {
    fn step(&mut self, observation: &Observation, dt: Seconds) -> Action {
        (**self).step(observation, dt)
    }
    fn period(&self) -> Seconds {
        (**self).period()
    }
    fn state(&self) -> Option<OperatingState> {
        (**self).state()
    }
    fn alarm_requests(&self) -> Option<u64> {
        (**self).alarm_requests()
    }
    fn alarm_span(&self) -> Seconds {
        (**self).alarm_span()
    }
    fn is_alarming(&self, requests: u64, latency_us_mean: Option<f64>) -> bool {
        (**self).is_alarming(requests, latency_us_mean)
    }
    fn insight(&self) -> Insight {
        (**self).insight()
    }
    fn latency_tolerance(&self) -> Option<f64> {
        (**self).latency_tolerance()
    }
    fn set_latency_tolerance(&mut self, share: f64) {
        (**self).set_latency_tolerance(share);
    }
}

/// The law that always says the same: sweeps and hand-made settings.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// What it says.
    pub action: Action,
    /// How often it is asked.
    pub period: Seconds,
}

impl Law for Fixed {
    fn step(&mut self, _: &Observation, _: Seconds) -> Action {
        self.action.clone()
    }
    fn period(&self) -> Seconds {
        self.period
    }
}

/// The law that follows a plan made beforehand: what the oracle found.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// What it says until when, in seconds since the start.
    pub plan: Vec<(Seconds, Action)>,
    /// What it says afterwards.
    pub last: Action,
    /// How often it is asked.
    pub period: Seconds,
    /// Time that passed.
    pub elapsed: Seconds,
}

impl Law for Schedule {
    fn step(&mut self, _: &Observation, dt: Seconds) -> Action {
        self.elapsed = self.elapsed + dt;
        // Half a period of tolerance, so that a boundary is met by the step that falls on it.
        let now = self.elapsed + self.period * 0.5;
        let at = self.plan.partition_point(|&(until, _)| until < now);
        self.plan.get(at).map_or_else(|| self.last.clone(), |(_, action)| action.clone())
    }
    fn period(&self) -> Seconds {
        self.period
    }
}
