//! Foresight: predicts what every setting would draw and cost in latency, and takes the cheapest.
//!
//! Each window it learns what the load asks of the cores ([`load`]) and how latency follows the
//! setting ([`estimate`], over the queues of [`wattio_model::Station`]); it then takes for each
//! group the cores and the frequency of least power plus priced latency ([`choice`]). The price
//! follows what was spent of each bound ([`price`]). Between two choices a guard looks for bursts
//! ([`guard`]). Now and then a window runs at full speed, when what it would teach is worth it.
//!
//! What it does without what a host may not tell:
//! - no power table: the assumed one of the parameters; no frequency-bound share likewise;
//! - no arrivals: completions stand for them; no requests in flight: the guard goes by arrivals
//!   and latency, and closed loops are not recognised;
//! - no histogram: bounds on quantiles cannot be steered by, and full speed is kept for them;
//! - no background classes: work is left to run as it becomes due, on cores that have room for
//!   what was seen of it;
//! - no latency: full speed.

mod background;
mod choice;
mod estimate;
mod guard;
mod load;
mod price;
mod settings;

pub use settings::ForesightSettings;

use background::Background;
use choice::{Choice, Demand, Features, Menu, Scene, Terms, best};
use estimate::{Estimate, Surprise};
use guard::{Expected, Guard};
use load::Load;
use price::{Account, Spent};
use wattio_law::{
    Action, Bound, DriveAction, Glimpse, GroupAction, Insight, LatencyHistogram,
    LatencyObservation, Law, Limits, Observation, Statistic, Watch,
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
    background: Background,
    estimate: Estimate,
    accounts: Vec<Account>,
    guard: Guard,
    mode: Mode,
    reason: &'static str,
    /// What is in force, by what was said last, and the time it was in force for.
    held: Vec<GroupAction>,
    held_before: Vec<GroupAction>,
    /// Whether the drives were told to sleep.
    asleep: bool,
    /// Whether the running window began with the effects of an earlier setting gone.
    settled: bool,
    elapsed: Seconds,
    since_probe: Seconds,
    probe_gap: Seconds,
    requests_since_probe: f64,
    /// Requests whose surprises were not charged yet: how many, and the sums of the surprises and of
    /// what was foreseen, in request-microseconds.
    unjudged: (f64, f64, f64),
    /// How many times slower than full speed the model is trusted to be true.
    trust: f64,
    /// The tail at full speed, in microseconds.
    tail_us: Option<f64>,
    /// Of the last window with requests.
    full_speed_us: Option<f64>,
    loss: Option<f64>,
    /// Room for the search.
    priced: Vec<f64>,
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
            background: Background::default(),
            estimate,
            accounts: vec![Account::new(Bound::mean_relative(settings.plf))],
            guard: Guard::default(),
            mode: Mode::Learning,
            reason: "starting",
            held_before: held.clone(),
            held,
            asleep: false,
            settled: true,
            elapsed: Seconds(0.0),
            since_probe: Seconds(0.0),
            probe_gap: settings.probe_first,
            requests_since_probe: 0.0,
            unjudged: (0.0, 0.0, 0.0),
            trust: TRUST_FIRST,
            tail_us: None,
            full_speed_us: None,
            loss: None,
            priced: Vec::new(),
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
        self.asleep = false;
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
            background: background.map_or_else(
                || self.load.background_done(group),
                |cores| cores * self.load.background_share(group),
            ),
            slice_left_s: self.settings.slice.0 * self.settings.left_share,
            task_left: self.settings.left_share,
        };
        (0..self.menus.len()).map(demand).collect()
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

    /// Whether requests are under way, none was answered, and none is so fresh that this is no
    /// wonder.
    fn is_stalled(&self, latency: &LatencyObservation) -> bool {
        let oldest = latency.in_flight.and_then(|in_flight| in_flight.oldest);
        let patience_s = self.full_speed_us.map_or(0.0, |us| STALLED * us * 1e-6);
        latency.is_stalled() && oldest.is_none_or(|age| !(age.0 <= patience_s))
    }

    /// Whether a bound cannot be judged for want of a histogram.
    fn lacks_histogram(&self, latency: &LatencyObservation) -> bool {
        let on_quantile =
            |account: &Account| matches!(account.bound.statistic, Statistic::Quantile(_));
        let needed = self.accounts.iter().any(on_quantile);
        needed && latency.requests > 0 && latency.histogram.is_none()
    }

    /// Takes in what a window tells.
    fn learn(&mut self, seen: &Observation, latency: &LatencyObservation, dt: Seconds) {
        let stretch =
            |(menu, held): (&Menu, &GroupAction)| menu.points[menu.at(held.frequency)].stretch;
        let stretches: Vec<_> = self.menus.iter().zip(&self.held).map(stretch).collect();
        let near = |(a, b): (&GroupAction, &GroupAction)| a.cores.abs_diff(b.cores) * 8 <= a.cores;
        let steady = self.held.iter().zip(&self.held_before).all(near);
        let at_full_speed = self.is_full();
        let same = steady || self.load.work_s(0) <= 0.0;
        self.load.learn(seen, latency, &stretches, same, dt, &self.settings);
        self.background.learn(&seen.background, dt);
        let mean_us = latency.latency_us_mean.filter(|_| latency.requests > 0);
        let Some(latency_us) = mean_us.map(|us| us.max(LATENCY_US_MIN)) else {
            // Where nobody asks for anything nobody is harmed.
            self.trust = (self.trust * TRUST_GROWTH).min(TRUST_MAX);
            return;
        };
        let demands = self.demands(self.background.done());
        let offered = (latency.offered() as f64).min(REQUESTS_MAX);
        let scenes = self.load.last_scenes(offered / dt.0, self.settings.window);
        let full = self.features(&demands, &self.full_setting(), &scenes);
        let more = self.features(&demands, &self.held, &scenes).plus(full.times(-1.0));
        let requests = (latency.requests as f64).min(REQUESTS_MAX);
        let span = dt / self.settings.window;
        // Waiting at full speed is taken from the model as it is: it matters near saturation only.
        let waiting_us = full.0[1];

        let unsettled = !self.settled;
        let surprise = self.estimate.surprise(latency_us - waiting_us, requests, more);
        let mut extra_us = more.weighed(self.estimate.weights()).max(0.0);
        if !at_full_speed || unsettled {
            extra_us += self.unforeseen_us(&surprise, requests, extra_us, &demands);
        }
        let expected_us = self.estimate.base_us() + waiting_us;
        let full_speed_us = if at_full_speed && !unsettled {
            latency_us
        } else if self.estimate.is_known() {
            expected_us.clamp(0.1 * latency_us, 1.5 * latency_us)
        } else {
            latency_us
        };
        self.learn_trust(&surprise, full_speed_us, at_full_speed, seen.alarm || unsettled);
        if !seen.alarm && !unsettled {
            self.estimate.learn(latency_us - waiting_us, requests, more, at_full_speed, span);
        }
        self.full_speed_us = Some(full_speed_us);
        self.loss = Some(latency_us / full_speed_us - 1.0);
        self.learn_tail(latency, at_full_speed && !unsettled);
        if at_full_speed && !unsettled && !seen.alarm {
            self.judge_probe(&surprise, latency_us);
        } else {
            self.requests_since_probe += requests;
        }
        let spent = Spent { seen: latency, extra_us, full_speed_us, tail_us: self.tail_us, span };
        for account in &mut self.accounts {
            account.spend(&spent, &self.settings);
        }
    }

    /// Whoever is right may go further; whoever is wrong goes back towards full speed.
    fn learn_trust(&mut self, off: &Surprise, full_speed_us: f64, at_full_speed: bool, odd: bool) {
        if odd || at_full_speed {
            return;
        }
        let tolerated_us = (2.0 * off.deviation_us).max(0.5 * self.allowance_us(full_speed_us));
        let slowest = self.held.iter().zip(&self.menus).map(|(held, menu)| {
            let stretch = menu.points[menu.at(held.frequency)].stretch;
            f64::from(menu.cores_max) / f64::from(held.cores.max(1)) * stretch
        });
        let here = slowest.fold(1.0, f64::max);
        self.trust = if off.us > tolerated_us {
            self.trust.min(here).sqrt().max(TRUST_FIRST)
        } else {
            (self.trust * TRUST_GROWTH).min(TRUST_MAX)
        };
    }

    /// A window at full speed tells whether what was taken for the latency at full speed was it.
    /// What it was not was charged wrongly since the window before of that kind, on average by half.
    fn judge_probe(&mut self, surprise: &Surprise, latency_us: f64) {
        let allowance_us = self.allowance_us(latency_us);
        let enough_us = (1.5 * surprise.deviation_us).max(0.2 * allowance_us);
        if surprise.us.abs() < enough_us {
            self.probe_gap = Seconds((self.probe_gap.0 * 1.5).min(self.settings.probe_every.0));
        } else {
            self.probe_gap = self.settings.probe_first;
            let wrong_us = -surprise.us - surprise.us.signum() * -surprise.deviation_us;
            for account in &mut self.accounts {
                account.correct(0.5 * wrong_us * self.requests_since_probe);
            }
        }
        self.requests_since_probe = 0.0;
        self.since_probe = Seconds(0.0);
    }

    /// What the requests lost besides what was foreseen, in microseconds for each of this window's. Of
    /// many requests the mean tells it; the few of quiet windows are taken together until they are
    /// many.
    fn unforeseen_us(
        &mut self,
        off: &Surprise,
        requests: f64,
        foreseen_us: f64,
        demands: &[Demand],
    ) -> f64 {
        self.unjudged.0 += requests;
        self.unjudged.1 += off.us * requests;
        self.unjudged.2 += foreseen_us * requests;
        let (all, off, foreseen) = self.unjudged;
        if all < REQUESTS_TELLING {
            return 0.0;
        }
        self.unjudged = (0.0, 0.0, 0.0);
        let believed = off * all / (all + REQUESTS_TELLING);
        let ours = if believed > 0.0 {
            believed * self.share_of_surprise(demands)
        } else {
            believed.max(-0.5 * foreseen)
        };
        ours / requests
    }

    /// The share of a surprise that full speed would have spared: little of it where the burst was
    /// more than full speed takes.
    fn share_of_surprise(&self, demands: &[Demand]) -> f64 {
        let swamped = demands.iter().zip(&self.menus).any(|(demand, menu)| {
            self.load.busiest() * demand.work_s > 0.9 * f64::from(menu.cores_max)
        });
        if swamped { 0.3 } else { 1.0 }
    }

    fn learn_tail(&mut self, latency: &LatencyObservation, teaches: bool) {
        let quantile = self.accounts.iter().find_map(|account| match account.bound.statistic {
            Statistic::Quantile(q) => Some(q),
            Statistic::Mean => None,
        });
        let Some(quantile) = quantile.filter(|_| teaches) else { return };
        let tail_us = latency.histogram.as_ref().and_then(|h| quantile_us(h, quantile));
        if let Some(tail_us) = tail_us {
            let before_us = self.tail_us.unwrap_or(tail_us);
            self.tail_us = Some(before_us + 0.3 * (tail_us - before_us));
        }
    }

    /// The choice for all groups at a price.
    fn choose(&mut self, demands: &[Demand], terms: &Terms) -> Vec<Choice> {
        let mut priced = std::mem::take(&mut self.priced);
        let pairs = self.menus.iter().zip(demands);
        let choices = pairs.map(|(menu, demand)| best(menu, demand, terms, &mut priced)).collect();
        self.priced = priced;
        choices
    }

    /// What the setting is expected to cost a request, with the weights at their worst.
    fn extra_us(
        &self,
        demands: &[Demand],
        choices: &[Choice],
        scenes: &[Scene],
        weights: [f64; 3],
    ) -> f64 {
        let setting: Vec<_> = choices.iter().map(|choice| choice.setting).collect();
        let here = self.features(demands, &setting, scenes);
        let full = self.features(demands, &self.full_setting(), scenes);
        here.plus(full.times(-1.0)).weighed(weights).max(0.0)
    }

    /// Watts for each request under way, by all bounds together.
    fn price_w(&self) -> f64 {
        let prices = self.accounts.iter().map(|account| account.price_w(&self.settings));
        let price_w = prices.fold(0.0, f64::max);
        match (self.load.clients_in_closed_loop(), self.power_w) {
            // Clients that wait send less when they are served later: a joule saved at the price
            // of more than its part of the requests is none.
            (Some(clients), Some(power_w)) => price_w.max(power_w / clients),
            _ => price_w,
        }
    }

    fn step_saving(&mut self, seen: &Observation) -> Action {
        let window = self.settings.window;
        let rate = self.load.rate(window);
        let full_speed_us = self.full_speed_us.unwrap_or(0.0);
        let mut scenes = self.load.scenes(rate, window);
        let usual = scenes.len();
        scenes.extend(self.load.leaps(self.reaction(), &self.settings));
        let asleep = self.may_sleep();
        let wanted = if asleep {
            let most = 0.8 * self.menus.iter().map(|menu| f64::from(menu.cores_max)).sum::<f64>();
            Some(self.background.in_batches(self.elapsed, most, &self.settings))
        } else {
            self.background.wanted(&self.settings)
        };
        let demands = self.demands(wanted);
        let weights = self.estimate.weights_at_worst(self.settings.careful_deviations);
        let mut terms = Terms {
            scenes: &scenes,
            rate,
            weights,
            price_w: 0.0,
            utilisation_max: self.settings.utilisation_max,
            risk: self.risk(),
            slowdown_max: self.trust,
        };
        self.begin_prices(&demands, &terms, &scenes[..usual], full_speed_us);
        terms.price_w = self.price_w();
        let mut choices = self.choose(&demands, &terms);
        let cap_us = self.cap_us(full_speed_us);
        let mut extra_us = self.extra_us(&demands, &choices, &scenes[..usual], weights);
        for _ in 0..PRICE_STEPS {
            if extra_us <= cap_us || rate <= 0.0 {
                break;
            }
            terms.price_w = terms.price_w.max(1e-3) * 3.0;
            choices = self.choose(&demands, &terms);
            extra_us = self.extra_us(&demands, &choices, &scenes[..usual], weights);
        }
        let groups: Vec<_> = choices.iter().map(|choice| choice.setting).collect();
        self.mode = if rate > 0.0 { Mode::Saving } else { Mode::Idle };
        self.reason = "the cheapest setting at the price of latency";
        let more = self.features(&demands, &groups, &scenes[..usual]);
        let more =
            more.plus(self.features(&demands, &self.full_setting(), &scenes[..usual]).times(-1.0));
        self.set_guard(&demands, &groups, rate, full_speed_us + extra_us);
        if self.wants_probe(more, full_speed_us, seen) {
            self.since_probe = Seconds(0.0);
            return self.full_speed(Mode::Learning, "a window at full speed, to learn from");
        }
        let background = match wanted {
            Some(cores) if self.settings.adapt_background => self.background.budgets(cores),
            _ => Vec::new(),
        };
        self.asleep = asleep;
        let drives = if asleep { DriveAction::Asleep } else { DriveAction::Own };
        Action { groups, drives, background }
    }

    /// A burst that the load may come to, and what each group may lose by it.
    fn risk(&self) -> Option<(Scene, f64)> {
        let reserve_us = self.accounts.iter().filter_map(Account::reserve_us).reduce(f64::min)?;
        let scene = self.load.risk(self.reaction(), &self.settings)?;
        Some((scene, reserve_us * self.settings.risk_share / self.menus.len() as f64))
    }

    /// Whether the drives may sleep, with background work in batches: what they save until the next
    /// request must be worth what that request, and those that come while they wake up, wait; and
    /// no promise may be broken by it.
    fn may_sleep(&self) -> bool {
        let Some(drives) = self.limits.drives.filter(|_| self.settings.adapt_background) else {
            return false;
        };
        let (loss_s, often) = self.load.waking(drives.wake);
        let quiet = self.load.quiet_s() >= self.settings.quiet_min.0;
        // A request that waits for a drive is over any quantile's limit, however long it waits.
        let reserve_us = |account: &Account| account.reserve_us().unwrap_or(0.0);
        let reserve_us = self.accounts.iter().map(reserve_us).fold(f64::INFINITY, f64::min);
        // A server that nobody has asked for anything yet has promised nothing yet, either.
        let affordable =
            loss_s * 1e6 < reserve_us * RESERVE_AT_ONCE || self.full_speed_us.is_none();
        quiet
            && affordable
            && drives.saves.0 > self.price_w() * loss_s * often
            && self.background.can_wait(self.elapsed, &self.settings)
    }

    /// Sets the first prices so that the load as it is would spend just what it may.
    fn begin_prices(
        &mut self,
        demands: &[Demand],
        terms: &Terms,
        scenes: &[Scene],
        full_speed_us: f64,
    ) {
        if self.accounts.iter().all(Account::has_price) || terms.rate <= 0.0 {
            return;
        }
        let target_us = self.allowance_us(full_speed_us) * self.settings.spend_share;
        let (mut low, mut high) = (0.0_f64, 20.0_f64);
        for _ in 0..PRICE_STEPS {
            let middle = 0.5 * (low + high);
            let priced = Terms { price_w: middle.exp(), slowdown_max: TRUST_MAX, ..*terms };
            let choices = self.choose(demands, &priced);
            let extra_us = self.extra_us(demands, &choices, scenes, terms.weights);
            if extra_us > target_us { low = middle } else { high = middle }
        }
        for account in &mut self.accounts {
            account.begin(high.exp());
        }
    }

    /// By how much the mean may grow by the strictest bound, in microseconds.
    fn allowance_us(&self, full_speed_us: f64) -> f64 {
        let allowed = |account: &Account| account.allowance_us(full_speed_us, self.tail_us);
        self.accounts.iter().map(allowed).fold(f64::INFINITY, f64::min)
    }

    /// The greatest extra latency that the window may be expected to have, in microseconds.
    fn cap_us(&self, full_speed_us: f64) -> f64 {
        let cap = |account: &Account| {
            account.window_share(&self.settings) * account.allowance_us(full_speed_us, self.tail_us)
        };
        self.accounts.iter().map(cap).fold(f64::INFINITY, f64::min)
    }

    /// Time from the first request of a burst to full speed.
    fn reaction(&self) -> Seconds {
        self.settings.look_span + self.limits.gate_on
    }

    /// The rate from which on this setting costs more than can be let pass until the next choice.
    fn tolerable_rate(
        &self,
        demands: &[Demand],
        groups: &[GroupAction],
        rate: f64,
        latency_us: f64,
    ) -> f64 {
        let full = self.full_setting();
        let allowed_us = self.allowance_us(latency_us) * ALARMING;
        let mut tolerable = rate.max(50.0);
        for _ in 0..RATE_STEPS {
            let next = tolerable * 1.4;
            let scene = [Scene { rate: next, weight: 1.0, overload_s: 0.02, half_crowd: 0.0 }];
            let here = self.features(demands, groups, &scene);
            let more = here.plus(self.features(demands, &full, &scene).times(-1.0));
            if more.weighed(self.estimate.weights()) > allowed_us {
                break;
            }
            tolerable = next;
        }
        tolerable
    }

    fn set_guard(
        &mut self,
        demands: &[Demand],
        groups: &[GroupAction],
        rate: f64,
        latency_us: f64,
    ) {
        let capacity = |((demand, menu), group): ((&Demand, &Menu), &GroupAction)| {
            let stretch = menu.points[menu.at(group.frequency)].stretch;
            f64::from(group.cores) / (demand.work_s * stretch).max(1e-9)
        };
        let capacities = demands.iter().zip(&self.menus).zip(groups).map(capacity);
        let expected = Expected {
            rate,
            capacity: capacities.fold(f64::INFINITY, f64::min),
            tolerable: self.tolerable_rate(demands, groups, rate, latency_us),
            latency_us,
            wake_s: match self.limits.drives {
                Some(drives) if self.may_sleep() => drives.wake.0,
                _ => 0.0,
            },
        };
        self.guard = Guard::new(&expected, self.settings.look_span);
    }

    /// Whether a window at full speed would teach enough about what this setting costs.
    fn wants_probe(&self, more: Features, full_speed_us: f64, seen: &Observation) -> bool {
        if seen.latency.as_ref().is_none_or(|latency| latency.requests < PROBE_REQUESTS_MIN) {
            return false;
        }
        if self.estimate.is_leaning() && self.since_probe >= self.settings.probe_first {
            return true;
        }
        if self.since_probe < self.probe_gap {
            return false;
        }
        let allowance_us = self.allowance_us(full_speed_us);
        let unsure =
            self.estimate.deviation_us(more) > self.settings.probe_uncertainty * allowance_us;
        unsure || self.since_probe >= self.settings.probe_every
    }
}

/// Steps in which a tolerable rate is found: up to 400 times the expected one.
const RATE_STEPS: usize = 18;
/// Steps in which a price is found.
const PRICE_STEPS: usize = 12;
/// No request is answered sooner, in microseconds; squares of less would vanish.
const LATENCY_US_MIN: f64 = 1e-3;
/// No window has more requests; a count that says so is not believed beyond this.
const REQUESTS_MAX: f64 = 1e9;
/// Requests from which on half of what is told of their loss is told by their mean.
const REQUESTS_TELLING: f64 = 50.0;
/// A window at full speed with fewer requests would teach nothing.
const PROBE_REQUESTS_MIN: u64 = 4;
/// What of the unspent promise one sleep of the drives may cost.
const RESERVE_AT_ONCE: f64 = 0.5;
/// A request that is under way for so many mean latencies is overdue.
const STALLED: f64 = 10.0;
/// A rate at which latency grows by so much more than is allowed is cause for alarm.
const ALARMING: f64 = 1.5;
/// How far from full speed the model is trusted at first, and how that grows.
const TRUST_FIRST: f64 = 1.6;
const TRUST_GROWTH: f64 = 1.3;
const TRUST_MAX: f64 = 100.0;
/// Windows at full speed to begin with.
const FIRST_WINDOWS: f64 = 2.0;

/// The quantile, by straight lines within buckets: an edge would be too high by half a bucket.
fn quantile_us(histogram: &LatencyHistogram, quantile: f64) -> Option<f64> {
    let above = (1.0 - quantile) * histogram.requests() as f64;
    let (mut low, mut high) = (0.0, histogram.quantile_us(quantile)?);
    for _ in 0..20 {
        let middle = 0.5 * (low + high);
        if histogram.requests_above(middle) > above { low = middle } else { high = middle }
    }
    Some(high)
}

impl Law for Foresight {
    fn step(&mut self, seen: &Observation, dt: Seconds) -> Action {
        let dt = Seconds(if dt.0.is_finite() { dt.0.max(1e-3) } else { self.settings.window.0 });
        self.elapsed = self.elapsed + dt;
        self.since_probe = self.since_probe + dt;
        self.power_w = seen.power.map(|power| power.0).filter(|power_w| power_w.is_finite());
        let latency = seen.latency.as_ref().filter(|latency| latency.is_plausible());
        let action = match latency {
            None => self.full_speed(Mode::Guarding, "no latency to go by"),
            Some(latency) => {
                self.learn(seen, latency, dt);
                if self.is_stalled(latency) {
                    self.full_speed(Mode::Guarding, "requests are under way and none is answered")
                } else if self.lacks_histogram(latency) {
                    self.full_speed(Mode::Guarding, "a bound on a quantile, and no histogram")
                } else if seen.alarm {
                    self.full_speed(Mode::Guarding, "a burst")
                } else if self.elapsed < self.settings.window * FIRST_WINDOWS {
                    self.full_speed(Mode::Learning, "learning the latency at full speed")
                } else {
                    self.step_saving(seen)
                }
            }
        };
        let action = self.limits.clamp(&action);
        self.settled = !seen.alarm && latency.is_some() && !self.asleep;
        self.held_before = std::mem::replace(&mut self.held, action.groups.clone());
        action
    }

    fn period(&self) -> Seconds {
        self.settings.window
    }

    fn watch(&self) -> Option<Watch> {
        Some(Watch { span: self.settings.look_span, every: self.settings.look_every })
    }

    fn glance(&mut self, seen: &Glimpse) {
        self.load.glance(seen);
    }

    fn is_alarming(&self, seen: &Glimpse) -> bool {
        !self.is_full() && self.guard.is_alarming(seen)
    }

    fn insight(&self) -> Insight {
        let bound_us = self.full_speed_us.map(|us| us + self.allowance_us(us));
        Insight {
            reason: self.reason,
            mode: Some(Mode::NAMES[self.mode as usize]),
            baseline_us: self.full_speed_us,
            baseline_us_tail: self.tail_us,
            bound_us: bound_us.filter(|us| us.is_finite()),
            loss: self.loss,
            bound_in_force: true,
            is_learning: self.mode == Mode::Learning,
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
