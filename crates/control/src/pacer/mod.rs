//! PACER (section IV of the paper), with the flaws of the printed law fixed.
//!
//! Each module says how it differs from the printed law, and why. The baseline is learned only at
//! full speed and kept for each load level ([`baseline`]). One error, the least over all bounds
//! ([`promise`]), drives one adaptor at a time ([`adaptor`]): the one that saves more for what it
//! costs ([`order`]). A step that overshoots is not tried again at once ([`tried`]). Clients that
//! wait for answers are distinguished from those that do not ([`closed_loop`]). Background work may
//! be late but is not dropped ([`background`]). A missing latency means full speed. A burst closes
//! the window early, and few or unanswered requests also count as signs of one ([`burst`]). Idle
//! means that nobody waits ([`idle`]), and the request that ends it must fit in the promise
//! ([`credit`]).

mod adaptor;
mod background;
mod baseline;
mod burst;
mod by_source;
mod closed_loop;
mod credit;
mod expectation;
mod idle;
mod order;
mod promise;
mod settings;
mod stability;
mod state;
mod tried;
mod window;

pub use settings::PacerSettings;

use crate::mix::Mix;
use adaptor::Adaptor;
use background::BackgroundKeeper;
use baseline::{Baselines, Level};
use burst::BurstCheck;
use closed_loop::{ClosedLoop, power_of};
use credit::Credit;
use expectation::Expectation;
use promise::Promise;
use stability::Stability;
use state::OperatingState;
use wattio_law::{
    Action, Bound, Glimpse, Insight, LatencyObservation, Law, Limits, Observation, Statistic, Watch,
};
use wattio_units::Seconds;

/// The law and its state.
#[derive(Clone, Debug)]
pub struct Pacer {
    settings: PacerSettings,
    limits: Limits,
    promise: Promise,
    state: OperatingState,
    stability: Stability,
    baselines: Baselines,
    expectation: Expectation,
    adaptor: Adaptor,
    closed_loop: ClosedLoop,
    credit: Credit,
    background: BackgroundKeeper,
    /// The baseline in force while stable.
    level: Option<Level>,
    /// The level at which the adaptor's steps were tried.
    tried_at: Option<Level>,
    /// Time since the last client request.
    quiet: Seconds,
    /// Time at full speed since the load was last steady, but for windows that are silent, quiet or
    /// stalled.
    unsteady: Seconds,
    /// Whether requests were under way when the last window whose latency was told ended.
    was_in_flight: bool,
    held: Action,
    burst: BurstCheck,
    /// Why the last action is what it is.
    reason: &'static str,
    /// The baseline and the loss of the last window that had requests.
    baseline_us: Option<f64>,
    /// The same for each quantile that is bounded.
    baseline_tails_us: Vec<(f64, f64)>,
    loss: Option<f64>,
}

impl Pacer {
    /// For a server of these limits.
    #[must_use]
    pub fn new(settings: PacerSettings, limits: Limits) -> Self {
        let held = limits.full_speed();
        Self {
            promise: Promise::new(settings.plf),
            state: OperatingState::Unstable,
            stability: Stability::new(settings.windows, settings.requests_min),
            baselines: Baselines::new(settings.baseline_octaves, settings.baseline_age_max),
            expectation: Expectation::default(),
            adaptor: Adaptor::new(limits.groups.len()),
            closed_loop: ClosedLoop::default(),
            credit: Credit::default(),
            background: BackgroundKeeper::default(),
            level: None,
            tried_at: None,
            quiet: Seconds(0.0),
            unsteady: Seconds(0.0),
            was_in_flight: false,
            burst: BurstCheck::new(limits.groups.len()),
            reason: "starting",
            baseline_us: None,
            baseline_tails_us: Vec::new(),
            loss: None,
            held,
            settings,
            limits,
        }
    }

    /// Back to full speed: nothing is known about the load.
    fn destabilise(&mut self, reason: &'static str) -> Action {
        self.reason = reason;
        self.state = if self.state.is_at_full_speed() {
            OperatingState::Unstable
        } else {
            OperatingState::Settling
        };
        self.stability.clear();
        self.level = None;
        self.limits.full_speed()
    }

    /// Whether requests wait and none is answered for longer than any load explains: the opposite
    /// of idle, whatever the counters of completions say.
    fn stalls(&self, latency: &LatencyObservation) -> bool {
        let oldest = latency.in_flight.and_then(|in_flight| in_flight.oldest);
        latency.is_stalled()
            && oldest.map_or(self.was_in_flight, |oldest| oldest >= self.settings.window * 0.5)
    }

    /// While no client has asked for anything for long. Clients that the source does not tell of
    /// show in the cores.
    fn step_quiet(&mut self, seen: &Observation) -> Action {
        let idles = self.state == OperatingState::Idle;
        if !idle::is_idle(seen, idles, &self.limits, &self.settings) {
            return self.destabilise("no request is seen, yet tasks of clients keep cores busy");
        }
        if !idles {
            self.destabilise("no request for a while");
            self.state = OperatingState::Idle;
            debug_assert!(!self.was_in_flight, "idle with requests under way");
        }
        let rest = idle::at_rest(seen, &self.limits, &self.settings);
        let affords = self.credit.affords(&rest, &self.promise, &self.limits, &self.settings);
        if !affords.drives {
            self.reason =
                "no request for a while, and no room for requests that wait for a wake-up";
        }
        self.background.while_idle(rest, affords, &self.limits, &self.settings)
    }

    fn step_asked(
        &mut self,
        seen: &Observation,
        latency: &LatencyObservation,
        dt: Seconds,
    ) -> Action {
        match self.state {
            OperatingState::Idle => self.destabilise("the first request after a quiet time"),
            OperatingState::Stable => self.step_stable(seen, latency, dt),
            OperatingState::Settling | OperatingState::Unstable => {
                self.unsteady = self.unsteady + dt;
                let mut action = self.step_unstable(seen, latency, dt);
                // A load that does not become steady must not keep work waiting for good.
                if self.unsteady > self.settings.background_horizon {
                    action.background = self.background.debts(&self.settings);
                }
                action
            }
        }
    }

    fn step_unstable(
        &mut self,
        seen: &Observation,
        latency: &LatencyObservation,
        dt: Seconds,
    ) -> Action {
        let full = self.limits.full_speed();
        self.reason = "learning the latency at full speed";
        if self.state == OperatingState::Settling {
            self.state = OperatingState::Unstable;
            return full;
        }
        let mix = Mix::of(latency.read_share, latency.bytes_mean);
        if let (Some(mix), Some(latency_us), 1..) = (mix, latency.latency_us_mean, latency.requests)
        {
            self.expectation.learn(mix, latency_us, latency.requests);
        }
        if !self.stability.push(latency, power_of(seen, &self.limits), dt) {
            return full;
        }
        let divergence = self.stability.divergence(&self.expectation);
        let Some(mean) = self.stability.over_all_windows() else { return full };
        if divergence >= self.settings.stable_threshold {
            return full;
        }
        if self.promise.has_quantile() && mean.histogram.is_none() {
            self.reason = NO_HISTOGRAM;
            return full;
        }
        let level = self.baselines.learn(mean.clone(), self.stability.windows());
        self.move_to(Some(level));
        self.state = OperatingState::Stable;
        self.unsteady = Seconds(0.0);
        self.reason = "the latency has become steady";
        self.adaptor.begin(seen, &self.limits);
        full
    }

    fn step_stable(
        &mut self,
        seen: &Observation,
        latency: &LatencyObservation,
        dt: Seconds,
    ) -> Action {
        if let Some(reason) = self.burst_seen(seen, latency) {
            self.blame(latency);
            return self.destabilise(reason);
        }
        if !self.stability.push(latency, power_of(seen, &self.limits), dt) {
            self.reason = "too few requests for a mean: waiting";
            let mut action = self.held.clone();
            action.background = self.background.budgets(&self.settings);
            return action;
        }
        if self.stability.divergence(&self.expectation) > self.settings.unstable_threshold {
            if !self.blame(latency) {
                return self.destabilise("the latency diverges");
            }
            self.stability.clear();
            self.reason = "the last step went too far and is undone";
            let mut action = self.adaptor.undo(seen, &self.limits, &self.settings);
            action.background = self.background.budgets(&self.settings);
            return action;
        }
        self.move_to(self.level_of_load());
        match self.distance() {
            Err(reason) => self.destabilise(reason),
            Ok(distance) => {
                let held = &self.held.groups;
                let mut action =
                    self.adaptor.step(distance, held, seen, &self.limits, &self.settings);
                action.background = self.background.budgets(&self.settings);
                action
            }
        }
    }
}

const NO_HISTOGRAM: &str = "nobody tells how latencies spread, and a quantile is bounded";

impl Law for Pacer {
    fn step(&mut self, seen: &Observation, dt: Seconds) -> Action {
        self.baselines.grow_older(dt);
        self.adaptor.grow_older(dt);
        self.look_back(seen.latency.as_ref());
        let at_full_speed = self.state.is_at_full_speed();
        self.background.account(&seen.background, at_full_speed, dt);
        let action = match seen.latency.as_ref().filter(|latency| latency.is_plausible()) {
            // Silent, stale or impossible: nobody knows what clients experience, so they get full
            // speed.
            None => {
                self.quiet = Seconds(0.0);
                self.destabilise("no latency to go by")
            }
            Some(latency) => {
                self.burst.learn_work(seen, latency.requests, dt);
                let known = self.level.and_then(|level| self.baselines.known(level));
                let mix = Mix::of(latency.read_share, latency.bytes_mean);
                let known =
                    known.map(|known| (known, self.expectation.translation(known.mix(), mix)));
                self.credit.account(latency, known, &self.promise, dt);
                // A request that raised the alarm has arrived, even if none is answered yet.
                let asked = latency.requests > 0 || latency.has_in_flight() || seen.alarm;
                self.quiet = if asked { Seconds(0.0) } else { self.quiet + dt };
                let stalls = self.stalls(latency);
                self.was_in_flight = latency.has_in_flight();
                if stalls {
                    self.destabilise("requests are under way and none is answered")
                } else if self.quiet >= self.settings.idle_after {
                    self.step_quiet(seen)
                } else {
                    self.step_asked(seen, latency, dt)
                }
            }
        };
        debug_assert!(
            !self.state.is_at_full_speed() || action.groups == self.limits.full_speed().groups,
            "{:?} saves: {action:?}",
            self.state
        );
        self.held.clone_from(&action);
        self.watch_for(seen.latency.as_ref());
        action
    }

    fn period(&self) -> Seconds {
        self.settings.window
    }

    fn watch(&self) -> Option<Watch> {
        let span = self.settings.burst_window;
        self.burst.arrivals.map(|_| Watch { span, every: span * 0.5, at_full_speed: false })
    }

    fn is_alarming(&self, seen: &Glimpse) -> bool {
        let wakes = self.state == OperatingState::Idle
            && seen.in_flight.is_some_and(|in_flight| in_flight.requests > 0);
        wakes || self.burst.is_alarming(seen, &self.settings)
    }

    fn insight(&self) -> Insight {
        Insight {
            reason: self.reason,
            mode: Some(self.state.name()),
            bound_in_force: self.state == OperatingState::Stable,
            is_learning: self.state.is_at_full_speed(),
            baseline_us: self.baseline_us,
            bound_us: self.promise.limit_us(self.baseline_us),
            loss: self.loss,
        }
    }

    fn full_speed_us(&self, statistic: Statistic) -> Option<f64> {
        let Statistic::Quantile(quantile) = statistic else { return self.baseline_us };
        self.baseline_tails_us.iter().find(|(q, _)| *q == quantile).map(|&(_, tail_us)| tail_us)
    }

    fn modes(&self) -> &'static [&'static str] {
        &OperatingState::NAMES
    }

    fn bounds(&self) -> Vec<Bound> {
        self.promise.bounds().to_vec()
    }

    fn set_bounds(&mut self, bounds: &[Bound]) {
        self.promise.set(bounds);
        let least = self.promise.requests_min(self.settings.requests_min);
        self.stability.set_requests_min(least);
    }
}
