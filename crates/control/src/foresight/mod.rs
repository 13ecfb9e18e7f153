//! Foresight: predicts the power and the latency cost of every setting, and chooses the cheapest.
//!
//! From each window it learns the load on the cores ([`load`]) and how latency depends on the
//! setting ([`learning`], [`estimate`], with the queues of [`wattio_model::Station`]). For each
//! group it then chooses the cores and the frequency with the least power plus priced latency
//! ([`saving`], [`choice`]). The price follows how much of each bound was spent ([`price`]).
//! Between two choices a guard watches for bursts ([`guard`]). Now and then a window runs at full
//! speed, if what it would teach is worth the cost.
//!
//! What it does if a host does not report something:
//! - no power table or no frequency-bound share: it uses the one assumed in the parameters;
//! - no arrivals: it counts completions; no requests in flight: the guard uses arrivals and
//!   latency, and closed loops are not recognised;
//! - no histogram: it cannot steer by bounds on quantiles, and stays at full speed for them;
//! - no background classes: such work runs when it becomes due, and cores keep room for as much of
//!   it as was observed;
//! - no latency: full speed.

mod background;
mod choice;
mod doubt;
mod estimate;
mod guard;
mod learning;
mod load;
mod onsets;
mod peaks;
mod price;
mod saving;
mod settings;
mod surge;
mod tail;

pub use settings::ForesightSettings;

use crate::mix::Mix;
use background::Background;
use choice::{Demand, Features, Menu, Outlook, Scene};
use doubt::Doubt;
use estimate::Estimate;
use guard::Guard;
use load::Load;
use price::Account;
use surge::Surges;
use tail::Tails;
use wattio_law::{
    Action, Bound, Glimpse, GroupAction, Insight, Law, Limits, Observation, Statistic, Watch,
};
use wattio_units::Seconds;

/// What the law is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Learning,
    Saving,
    Guarding,
    Idle,
}

impl Mode {
    const NAMES: [&'static str; 4] = ["learning", "saving", "guarding", "idle"];
}

/// The law and its state.
#[derive(Clone, Debug)]
pub struct Foresight {
    settings: ForesightSettings,
    limits: Limits,
    menus: Vec<Menu>,
    load: Load,
    surges: Surges,
    background: Background,
    estimate: Estimate,
    /// The mix of the last window with requests, where it is told.
    mix: Option<Mix>,
    doubt: Doubt,
    accounts: Vec<Account>,
    guard: Guard,
    mode: Mode,
    reason: &'static str,
    /// What is in force, by what was said last, and the time it was in force for.
    held: Vec<GroupAction>,
    held_before: Vec<GroupAction>,
    /// Where the drives were told to sleep: after how many requests in a window they shall be awake.
    asleep: Option<f64>,
    /// Whether the running window began with the effects of an earlier setting gone.
    settled: bool,
    /// Whether the running window was to tell what full speed is like, and a burst was quicker.
    overtaken: bool,
    /// The share of the last window's queues that full speed would have spared.
    blame: f64,
    /// Whether the setting would be another one if latency had no price.
    price_binds: bool,
    /// Requests that were under way when the last window ended.
    under_way: f64,
    elapsed: Seconds,
    since_probe: Seconds,
    probe_gap: Seconds,
    requests_since_probe: f64,
    /// Requests whose surprises were not charged yet: how many, and the sums of the surprises and of
    /// what was foreseen, in request-microseconds.
    unjudged: (f64, f64, f64),
    /// How many times slower than full speed the model is trusted to be true.
    trust: f64,
    /// Where a bound is on a quantile: the requests by latency.
    tails: Tails,
    /// Of the last window with requests.
    full_speed_us: Option<f64>,
    loss: Option<f64>,
    /// One for each group, of the last step.
    outlooks: Vec<Outlook>,
    power_w: Option<f64>,
}

impl Foresight {
    /// For a server of these limits.
    #[must_use]
    pub fn new(settings: ForesightSettings, limits: Limits) -> Self {
        let assumed = settings.assumed();
        let menu = |group| {
            Menu::new(group, &assumed).without(!settings.adapt_cores, !settings.adapt_frequency)
        };
        let menus: Vec<_> = limits.groups.iter().map(menu).collect();
        let held: Vec<_> = limits.full_speed().groups;
        let estimate = Estimate::new(
            [settings.work_waited_for, settings.waiting, settings.together],
            [
                settings.work_waited_for_deviation,
                settings.waiting_deviation,
                settings.together_deviation,
            ],
        );
        Self {
            load: Load::new(menus.len()),
            surges: Surges::default(),
            background: Background::default(),
            estimate,
            mix: None,
            doubt: Doubt::default(),
            accounts: vec![Account::new(Bound::mean_relative(settings.plf))],
            guard: Guard::default(),
            mode: Mode::Learning,
            reason: "starting",
            held_before: held.clone(),
            held,
            asleep: None,
            settled: true,
            overtaken: false,
            blame: 0.0,
            price_binds: true,
            under_way: 0.0,
            elapsed: Seconds(0.0),
            since_probe: Seconds(0.0),
            probe_gap: settings.probe_first,
            requests_since_probe: 0.0,
            unjudged: (0.0, 0.0, 0.0),
            trust: TRUST_FIRST,
            tails: Tails::default(),
            full_speed_us: None,
            loss: None,
            outlooks: vec![Outlook::default(); menus.len()],
            power_w: None,
            menus,
            limits,
            settings,
        }
    }

    fn is_full(&self) -> bool {
        self.held.iter().zip(&self.menus).all(|(held, menu)| *held == menu.full())
    }

    /// Says full speed, and why.
    fn full_speed(&mut self, mode: Mode, reason: &'static str) -> Action {
        self.mode = mode;
        self.reason = reason;
        self.asleep = None;
        let mut action = self.limits.full_speed();
        if self.settings.adapt_background {
            let wanted = self.background.wanted(&self.settings);
            action.background = wanted.map_or_else(Vec::new, |w| self.background.budgets(w));
        }
        action
    }

    /// What the requests of each group cost, with so many cores' worth of background work in all.
    fn demands(&self, background: Option<f64>) -> Vec<Demand> {
        let demand = |group: usize| Demand {
            work_s: self.load.work_s(group),
            visits: self.settings.visits,
            others: self.load.others(group),
            others_room: self.settings.others_room,
            background: background.map_or_else(
                || self.load.background_done(group),
                |cores| cores * self.load.background_share(group),
            ),
            slice_left_s: self.settings.slice.0 * self.settings.left_share,
            task_left: self.settings.left_share,
        };
        (0..self.menus.len()).map(demand).collect()
    }

    /// What requests of a burst cost each group.
    fn demands_of_burst(&self, demands: &[Demand]) -> Vec<Demand> {
        let groups = demands.iter().enumerate();
        groups.map(|(group, usual)| self.surges.demand(group, usual)).collect()
    }

    /// The features of a setting, over all groups.
    fn features(&self, demands: &[Demand], setting: &[GroupAction], scenes: &[Scene]) -> Features {
        let groups = demands.iter().zip(&self.menus).zip(setting);
        groups.fold(Features::default(), |sum, ((demand, menu), &setting)| {
            sum.plus(demand.at(menu, setting, scenes))
        })
    }

    fn full_setting(&self) -> Vec<GroupAction> {
        self.menus.iter().map(Menu::full).collect()
    }
}

/// How far from full speed the model is trusted at first, and at most.
const TRUST_FIRST: f64 = 1.6;
const TRUST_MAX: f64 = 100.0;
/// Windows at full speed to begin with.
const FIRST_WINDOWS: f64 = 2.0;

impl Law for Foresight {
    fn step(&mut self, seen: &Observation, dt: Seconds) -> Action {
        let dt = Seconds(if dt.0.is_finite() { dt.0.max(1e-3) } else { self.settings.window.0 });
        self.elapsed = self.elapsed + dt;
        self.since_probe = self.since_probe + dt;
        self.power_w = seen.power.map(|power| power.0).filter(|power_w| power_w.is_finite());
        let latency = seen.latency.as_ref().filter(|latency| latency.is_plausible());
        let slept = self.asleep.is_some();
        let action = match latency {
            None => self.full_speed(Mode::Guarding, "no latency to go by"),
            Some(latency) => {
                self.learn(seen, latency, dt);
                if self.is_stalled(latency) {
                    self.full_speed(Mode::Guarding, "requests are under way and none is answered")
                } else if self.lacks_histogram(latency) {
                    self.full_speed(
                        Mode::Guarding,
                        "a bound on a quantile, and no histogram that tells it",
                    )
                } else if seen.alarm {
                    self.full_speed(Mode::Guarding, "a burst")
                } else if self.works_for_others(seen, latency) {
                    self.full_speed(
                        Mode::Guarding,
                        "no request is seen, yet tasks of clients keep cores busy",
                    )
                } else if self.elapsed < self.settings.window * FIRST_WINDOWS {
                    self.full_speed(Mode::Learning, "learning the latency at full speed")
                } else if self.overtaken {
                    self.full_speed(
                        Mode::Learning,
                        "a burst came before cores were awake: once more",
                    )
                } else {
                    self.step_saving(seen)
                }
            }
        };
        let action = self.limits.clamp(&action);
        // Requests that woke a drive are answered in the window after, too.
        self.settled = !seen.alarm && latency.is_some() && self.asleep.is_none() && !slept;
        self.held_before = std::mem::replace(&mut self.held, action.groups.clone());
        action
    }

    fn period(&self) -> Seconds {
        self.settings.window
    }

    fn watch(&self) -> Option<Watch> {
        let (span, every) = (self.settings.look_span, self.settings.look_every);
        Some(Watch { span, every, at_full_speed: true })
    }

    fn glance(&mut self, seen: &Glimpse) {
        self.load.glance(seen);
    }

    fn is_alarming(&self, seen: &Glimpse) -> bool {
        let wakes = self.asleep.is_some_and(|requests| self.load.arrived() > requests);
        wakes || (!self.is_full() && self.guard.is_alarming(seen))
    }

    fn insight(&self) -> Insight {
        let bound_us = self.full_speed_us.map(|us| us + self.allowance_us(us));
        Insight {
            reason: self.reason,
            mode: Some(Mode::NAMES[self.mode as usize]),
            baseline_us: self.full_speed_us,
            bound_us: bound_us.filter(|us| us.is_finite()),
            loss: self.loss,
            bound_in_force: true,
            is_learning: self.mode == Mode::Learning,
        }
    }

    fn full_speed_us(&self, statistic: Statistic) -> Option<f64> {
        match statistic {
            Statistic::Mean => self.full_speed_us,
            Statistic::Quantile(q) => self.tails.full_speed_us(q, 0.0),
        }
    }

    fn modes(&self) -> &'static [&'static str] {
        &Mode::NAMES
    }

    fn bounds(&self) -> Vec<Bound> {
        self.accounts.iter().map(|account| account.bound).collect()
    }

    fn set_bounds(&mut self, bounds: &[Bound]) {
        if !bounds.is_empty() {
            self.accounts = bounds.iter().map(|&bound| Account::new(bound)).collect();
        }
    }
}
