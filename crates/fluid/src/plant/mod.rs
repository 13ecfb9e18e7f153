//! The fluid server as a plant of the driver.

mod flow;
mod sight;

use crate::demand::Demand;
use crate::group::{Group, NEVER};
use crate::load::{Load, Stretch};
use crate::memo::Memo;
use crate::noise::Noise;
use crate::setting::Setting;
use crate::steady::Steady;
use crate::sums::Sums;
use crate::tail::Spread;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use wattio_law::{
    Action, BackgroundObservation, Budget, Glimpse, InFlight, Observation, Plant, Seen,
};
use wattio_plant::{GROUPS_MAX, Server};
use wattio_units::{Seconds, Watts};

/// How a fluid server is to be run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FluidSettings {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Whether counts and means of a window are drawn (Poisson) or are their expectations. Bursts
    /// of the load itself (an index of dispersion above 1) are drawn in either case.
    pub noise: bool,
    /// Whether latencies are told with how they spread, for bounds on quantiles: an approximation.
    pub tails: bool,
    /// So many clients with one request each; `None`: requests come whatever the server does.
    pub clients: Option<u32>,
}

/// Where a plant stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlantState {
    /// The stretch and the slot of the load.
    at: (usize, u64),
    groups: [Group; GROUPS_MAX],
    setting: Setting,
    budgets: [Option<f64>; GROUPS_MAX],
    backlog: [f64; GROUPS_MAX],
    waiting: f64,
    rate_told: f64,
}

impl PlantState {
    /// Whether what follows is the same but for a backlog of background work, which nothing
    /// depends on where that runs as it becomes due.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let as_due = other.budgets.iter().all(Option::is_none);
        self.is_at(other)
            && self.groups == other.groups
            && self.setting == other.setting
            && self.budgets == other.budgets
            && (as_due || self.backlog == other.backlog)
            && self.waiting == other.waiting
            && self.rate_told == other.rate_told
    }

    /// Whether both are at the same rate of the load.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

/// The length of a slot, in which a bursty load has one rate, in nanoseconds.
pub const SLOT_NS: u64 = 500_000_000;
/// A rate that grows by more than this from one window to the next is looked at within it, for the
/// alarms of laws: what grows by less is no burst.
const CALM_GROWTH: f64 = 1.25;
/// The class of all background work.
const CLASS: &str = "background";

/// A server of rates and formulas.
pub struct FluidServer {
    server: Server,
    load: Load,
    settings: FluidSettings,
    clients: f64,
    class: Arc<str>,
    memo: Memo,
    counts: Noise,
    bursts: Noise,
    pub(crate) now_ns: u64,
    at: usize,
    stretch: Stretch,
    slot_end_ns: u64,
    factor: f64,
    factor_next: f64,
    groups: [Group; GROUPS_MAX],
    setting: Setting,
    due_rate: [f64; GROUPS_MAX],
    budgets: [Option<f64>; GROUPS_MAX],
    /// Background work that is due and not done, in core-seconds at the highest frequency.
    pub(crate) backlog: [f64; GROUPS_MAX],
    /// Requests that came and that the server could not take yet.
    pub(crate) waiting: f64,
    steady: Option<Arc<Steady>>,
    /// The equilibrium of what flowed last, and its mix.
    flowed: Option<(Arc<Steady>, u32)>,
    window: Sums,
    /// Sums since the start.
    pub totals: Sums,
    /// Requests by latency since the start; empty without tails.
    pub latencies: Vec<f64>,
    spread: Option<(Arc<Steady>, f64, Spread)>,
    rate_told: f64,
    /// The requests that the last look found under way.
    under_way: InFlight,
}

impl FluidServer {
    /// A server at full speed under a load that begins now.
    #[must_use]
    pub fn new(server: Server, load: Load, settings: FluidSettings) -> Self {
        let mut groups = [Group::full(1, &server.cores); GROUPS_MAX];
        let mut due_rate = [0.0; GROUPS_MAX];
        for (at, group) in server.groups.iter().enumerate() {
            groups[at] = Group::full(group.cores, &server.cores);
            due_rate[at] = if server.background.is_some() { group.background_cores } else { 0.0 };
        }
        let setting = Setting {
            cores: [0.0; GROUPS_MAX],
            stretch: [1.0; GROUPS_MAX],
            released: [0.0; GROUPS_MAX],
            drives: wattio_law::DriveAction::Own,
        };
        let buckets = if settings.tails { crate::tail::BUCKETS } else { 0 };
        let mut plant = Self {
            clients: settings.clients.map_or(f64::INFINITY, f64::from),
            class: CLASS.into(),
            memo: Memo::new(),
            counts: Noise::new(settings.seed ^ 0x0c0f_fee5),
            // Bursts have a stream of their own, so that twins see the same load.
            bursts: Noise::new(settings.seed),
            now_ns: 0,
            at: 0,
            stretch: load.stretch(0),
            slot_end_ns: 0,
            factor: 1.0,
            factor_next: 1.0,
            groups,
            setting,
            due_rate,
            budgets: [None; GROUPS_MAX],
            backlog: [0.0; GROUPS_MAX],
            waiting: 0.0,
            steady: None,
            flowed: None,
            window: Sums::default(),
            totals: Sums::default(),
            latencies: vec![0.0; buckets],
            spread: None,
            rate_told: 0.0,
            under_way: InFlight::default(),
            server,
            load,
            settings,
        };
        plant.factor_next = plant.draw_slot();
        plant.enter_slot();
        plant.reset_setting();
        plant
    }

    /// Whether counts and means of windows are drawn.
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        self.settings.noise
    }

    /// All that what follows depends on, but for the load and what is in force.
    pub(crate) fn state(&self) -> PlantState {
        let now_ns = self.now_ns;
        let after = |at: u64| if at == NEVER { NEVER } else { at - now_ns };
        let group = |group: Group| Group {
            on_at: after(group.on_at),
            off_at: after(group.off_at),
            ..group
        };
        PlantState {
            at: (self.at, self.slot_end_ns),
            groups: self.groups.map(group),
            setting: self.setting,
            budgets: self.budgets,
            backlog: self.backlog,
            waiting: self.waiting,
            rate_told: self.rate_told,
        }
    }

    /// Adds what came since the last window to the totals.
    pub(crate) fn close(&mut self) {
        let window = std::mem::take(&mut self.window);
        self.totals.add(&window, 1.0, self.server.groups.len());
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// When the load leaves its present rate.
    #[must_use]
    pub fn constant_until_ns(&self) -> u64 {
        if self.is_bursty() {
            self.slot_end_ns.min(self.stretch.until_ns)
        } else {
            self.stretch.until_ns
        }
    }

    /// Background work that is due and not done, in core-seconds at the highest frequency.
    #[must_use]
    pub fn backlog_core_s(&self) -> f64 {
        self.backlog.iter().sum()
    }

    /// Lets time pass in which everything adds up `times` over as it did since `then`.
    pub(crate) fn repeat(
        &mut self,
        then: &PlantState,
        sums: &Sums,
        latencies: &[f64],
        times: u64,
        span_ns: u64,
    ) {
        let (groups, more) = (self.server.groups.len(), times as f64);
        let mut added = self.totals;
        added.add(sums, -1.0, groups);
        self.totals.add(&added, more, groups);
        for (sum, &before) in self.latencies.iter_mut().zip(latencies) {
            *sum += (*sum - before) * more;
        }
        for at in 0..groups {
            let grown = self.backlog[at] + (self.backlog[at] - then.backlog[at]) * more;
            self.backlog[at] = grown.clamp(0.0, self.backlog_max(at));
        }
        self.now_ns += span_ns;
        for group in &mut self.groups[..groups] {
            for at in [&mut group.on_at, &mut group.off_at] {
                *at = if *at == NEVER { NEVER } else { *at + span_ns };
            }
        }
    }

    fn backlog_max(&self, at: usize) -> f64 {
        let limit_s = self.server.background.as_ref().map_or(0.0, |work| work.backlog_limit.0);
        self.due_rate[at] * limit_s
    }

    fn is_bursty(&self) -> bool {
        self.load.dispersion > 1.0
    }

    fn draw_slot(&mut self) -> f64 {
        if !self.is_bursty() {
            return 1.0;
        }
        let expected = self.stretch.rate * SLOT_NS as f64 * 1e-9;
        self.bursts.slot(expected, self.load.dispersion)
    }

    fn enter_slot(&mut self) {
        self.factor = self.factor_next;
        self.slot_end_ns = if self.is_bursty() { self.slot_end_ns + SLOT_NS } else { NEVER };
        self.factor_next = self.draw_slot();
    }

    fn rate(&self) -> f64 {
        self.stretch.rate * self.factor
    }

    /// The rate of the next slot or stretch when one begins within `span_ns`.
    fn rate_to_come(&self, span_ns: u64) -> f64 {
        let soon = self.now_ns.saturating_add(span_ns);
        let mut rate = self.rate();
        if self.slot_end_ns < soon {
            rate = rate.max(self.stretch.rate * self.factor_next);
        }
        if self.stretch.until_ns < soon {
            rate =
                rate.max(self.load.stretch(self.at + 1).rate * self.factor_next.max(self.factor));
        }
        rate
    }

    /// Brings the setting in line with groups and budgets.
    fn reset_setting(&mut self) {
        for at in 0..self.server.groups.len() {
            let group = &self.groups[at];
            self.setting.cores[at] = f64::from(group.usable);
            self.setting.stretch[at] = group.stretch;
            let due = self.due_rate[at];
            self.setting.released[at] = match self.budgets[at] {
                None => due,
                Some(budget) if self.backlog[at] > 0.0 => budget,
                Some(budget) => budget.min(due),
            };
        }
        self.steady = None;
    }

    fn demand(&self) -> &Demand {
        &self.load.demands[self.stretch.demand as usize]
    }
}

impl Plant for FluidServer {
    type Error = Infallible;

    fn advance(&mut self, until: Duration) -> Result<Glimpse, Infallible> {
        let until_ns = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        let mut sums = Sums::default();
        while self.now_ns < until_ns {
            self.flow(until_ns, &mut sums);
        }
        if self.settings.noise && sums.span_s > 0.0 {
            self.draw(&mut sums);
        }
        self.look_at_in_flight();
        let groups = self.server.groups.len();
        self.window.add(&sums, 1.0, groups);
        let completed = sums.completed.round() as u64;
        Ok(Glimpse {
            span: Seconds(sums.span_s),
            arrived: Some(sums.arrived.round() as u64),
            completed,
            latency_us_mean: (completed > 0).then(|| sums.latency_s / sums.completed * 1e6),
            in_flight: Some(self.in_flight()),
            is_ready: true,
        })
    }

    fn observe(&mut self, _: Seconds, alarm: bool) -> Seen {
        let latency = Some(self.latency());
        let groups = self.groups_seen();
        let window = std::mem::take(&mut self.window);
        let told = self.due_rate.iter().any(|&rate| rate > 0.0);
        let background = told.then(|| BackgroundObservation {
            class: self.class.clone(),
            done_core_s: window.done,
            due_core_s: window.due,
            backlog_core_s: self.backlog_core_s(),
            urgency: None,
        });
        let power_w = self.server.rest_power.0 + (window.cores_j + window.drives_j) / window.span_s;
        self.totals.add(&window, 1.0, self.server.groups.len());
        self.rate_told = window.arrived / window.span_s;
        let observation = Observation {
            latency,
            groups,
            background: background.into_iter().collect(),
            power: (window.span_s > 0.0).then_some(Watts(power_w)),
            alarm,
        };
        Seen { observation, forced: None }
    }

    fn apply(&mut self, action: &Action) -> Action {
        let mut changed = false;
        let cores = &self.server.cores;
        for (group, &setting) in self.groups.iter_mut().zip(&action.groups) {
            changed |= group.apply(setting, cores, self.now_ns);
        }
        changed |= self.setting.drives != action.drives;
        self.setting.drives = action.drives;
        let all: f64 = self.due_rate.iter().sum();
        for (budget, &due) in self.budgets.iter_mut().zip(&self.due_rate) {
            let released = match action.background_of(0).budget {
                Budget::AsDue => None,
                Budget::CoreSecondsPerSecond(_) if all <= 0.0 => None,
                // Each group gets the part of the budget that it has of the work.
                Budget::CoreSecondsPerSecond(cores) => Some(cores * due / all),
            };
            changed |= *budget != released;
            *budget = released;
        }
        if changed {
            self.reset_setting();
        }
        action.clone()
    }

    /// A fluid of one rate has nothing new to tell before the window ends; a rate that grows has,
    /// for the alarms of laws.
    fn interval(&self) -> Option<Seconds> {
        let before = self.rate_told.max(1e-9) * CALM_GROWTH;
        let calm = self.waiting <= 0.0 && self.rate_to_come(SLOT_NS) <= before;
        calm.then_some(Seconds(1e6))
    }
}
