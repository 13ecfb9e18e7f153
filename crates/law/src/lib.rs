//! The contract of control laws: what they see, what they decide, and the driver around them.
//!
//! A [`Law`] turns an [`Observation`] of the last window into an [`Action`]. It has no clock, does
//! no I/O and starts no threads: the elapsed time is passed in. [`Driver`] is the loop around a law
//! (windows, alarms, staleness, limits, dwell, the account of the [`Bound`]s). The simulator, a
//! live host and everything else that is governed are [`Plant`]s of the same driver.

mod account;
mod action;
mod bound;
mod driver;
mod histogram;
mod limits;
mod observation;
mod octaves;
mod plant;
mod scripted;

pub use account::{Account, BoundAccount};
pub use action::{Action, BackgroundAction, BackgroundPriority, Budget, DriveAction, GroupAction};
pub use bound::{Bound, BoundError, Limit, Scope, Statistic};
pub use driver::{Driver, DriverSettings, NO_LATENCY, Stepped};
pub use histogram::LatencyHistogram;
pub use limits::{CorePower, DriveSleep, GroupLimits, Limits};
pub use observation::{
    BackgroundObservation, GroupObservation, InFlight, LatencyObservation, Observation,
};
pub use octaves::{Octaves, SharedOctaves};
pub use plant::{Glimpse, Plant, Seen};
pub use scripted::Scripted;

use wattio_units::Seconds;

/// A law's account of its last step, for the driver, status pages and metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Insight {
    /// Why the action is what it is.
    pub reason: &'static str,
    /// The law's mode (one of [`Law::modes`]), for laws that have modes.
    pub mode: Option<&'static str>,
    /// The mean latency in microseconds that the load would have at full speed.
    pub baseline_us: Option<f64>,
    /// The mean latency in microseconds that must not be exceeded.
    pub bound_us: Option<f64>,
    /// `(latency - baseline) / baseline` of the last window.
    pub loss: Option<f64>,
    /// Whether latency is controlled to stay within its bounds in the window to come; not so while
    /// the server idles or the law learns at full speed.
    pub bound_in_force: bool,
    /// Whether the window to come is at full speed in order to learn its latency.
    pub is_learning: bool,
}

impl Default for Insight {
    fn default() -> Self {
        Self {
            reason: "",
            mode: None,
            baseline_us: None,
            bound_us: None,
            loss: None,
            bound_in_force: true,
            is_learning: false,
        }
    }
}

/// How a law wants requests watched between its steps, so that a burst is not seen a window late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watch {
    /// The stretch of time that is judged.
    pub span: Seconds,
    /// How often it is judged.
    pub every: Seconds,
    /// Whether the law also learns from looks at full speed, where there is nothing to speed up.
    pub at_full_speed: bool,
}

/// A control law: observations in, actions out.
pub trait Law: Send {
    /// Decides what the server should do after a window of length `dt`.
    fn step(&mut self, observation: &Observation, dt: Seconds) -> Action;

    /// The length of window that the law wants to be stepped with.
    fn period(&self) -> Seconds;

    /// Whether its action depends only on the latency and the core groups of the last observation,
    /// so that a plant in which these repeat may skip windows without stepping it.
    fn is_memoryless(&self) -> bool {
        false
    }

    /// How requests should be watched until the next step; `None`: they need not be.
    fn watch(&self) -> Option<Watch> {
        None
    }

    /// Takes in a glimpse between two steps, made because the law watches: how requests arrived
    /// within the window.
    fn glance(&mut self, seen: &Glimpse) {
        let _ = seen;
    }

    /// Whether what was seen over the last [`Watch::span`] (less after a step, more where the
    /// source tells less often) is a reason to step at once.
    fn is_alarming(&self, seen: &Glimpse) -> bool {
        let _ = seen;
        false
    }

    /// The law's account of its last step.
    fn insight(&self) -> Insight {
        Insight::default()
    }

    /// What a statistic of the last window's latency would be at full speed, in microseconds, as far
    /// as the law knows.
    fn full_speed_us(&self, statistic: Statistic) -> Option<f64> {
        self.insight().baseline_us.filter(|_| statistic == Statistic::Mean)
    }

    /// Every mode that [`Insight::mode`] may name, in the order of accounts and reports.
    fn modes(&self) -> &'static [&'static str] {
        &[]
    }

    /// The bounds that the law keeps; empty for laws that ignore latency.
    fn bounds(&self) -> Vec<Bound> {
        Vec::new()
    }

    /// Keeps these bounds from the next step on; laws that ignore latency ignore them.
    fn set_bounds(&mut self, bounds: &[Bound]) {
        let _ = bounds;
    }
}

impl<L: Law + ?Sized> Law for Box<L> {
    fn step(&mut self, observation: &Observation, dt: Seconds) -> Action {
        (**self).step(observation, dt)
    }
    fn period(&self) -> Seconds {
        (**self).period()
    }
    fn is_memoryless(&self) -> bool {
        (**self).is_memoryless()
    }
    fn watch(&self) -> Option<Watch> {
        (**self).watch()
    }
    fn glance(&mut self, seen: &Glimpse) {
        (**self).glance(seen);
    }
    fn is_alarming(&self, seen: &Glimpse) -> bool {
        (**self).is_alarming(seen)
    }
    fn insight(&self) -> Insight {
        (**self).insight()
    }
    fn full_speed_us(&self, statistic: Statistic) -> Option<f64> {
        (**self).full_speed_us(statistic)
    }
    fn modes(&self) -> &'static [&'static str] {
        (**self).modes()
    }
    fn bounds(&self) -> Vec<Bound> {
        (**self).bounds()
    }
    fn set_bounds(&mut self, bounds: &[Bound]) {
        (**self).set_bounds(bounds);
    }
}

/// The law with a constant action: for sweeps and manual settings.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// The action.
    pub action: Action,
    /// How often it is asked.
    pub period: Seconds,
}

impl Law for Fixed {
    fn step(&mut self, _: &Observation, _: Seconds) -> Action {
        self.action.clone()
    }
    fn is_memoryless(&self) -> bool {
        true
    }
    fn period(&self) -> Seconds {
        self.period
    }
}
