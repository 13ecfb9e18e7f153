//! Foresight's decision for the next window: the choice at a price, sleep, probes, the guard.

use super::choice::{Choice, Demand, Features, Menu, Scene, Terms, best};
use super::guard::{Expected, Guard};
use super::load::Reaction;
use super::onsets::{Costs, Waking};
use super::price::Account;
use super::{Foresight, Mode, TRUST_MAX};
use wattio_law::{Action, DriveAction, GroupAction, Limit, Observation};
use wattio_units::Seconds;

impl Foresight {
    /// The choice for all groups at a price, by their outlooks.
    fn choose(&self, demands: &[Demand], terms: &Terms) -> Vec<Choice> {
        let groups = self.menus.iter().zip(demands).zip(&self.outlooks);
        groups.map(|((menu, demand), outlook)| best(menu, demand, terms, outlook)).collect()
    }

    /// What of a request's latency is due to the choices and not to full speed.
    fn more(&self, demands: &[Demand], choices: &[Choice], scenes: &[Scene]) -> Features {
        let (mut here, mut full) = (Features::default(), Features::default());
        let groups = demands.iter().zip(&self.menus).zip(&self.outlooks);
        for (((demand, menu), outlook), choice) in groups.zip(choices) {
            here = here.plus(outlook.at(menu, demand, choice.setting, scenes));
            full = full.plus(outlook.at(menu, demand, menu.full(), scenes));
        }
        here.plus(full.times(-1.0))
    }

    /// What the choices are expected to cost a request, in microseconds, with these weights.
    fn extra_us(
        &self,
        demands: &[Demand],
        choices: &[Choice],
        scenes: &[Scene],
        weights: [f64; 3],
    ) -> f64 {
        self.more(demands, choices, scenes).weighed(weights).max(0.0)
    }

    /// Watts for each request under way, by what is owed to the bounds.
    fn owed_price_w(&self) -> f64 {
        let aim = self.aim();
        let prices = self.accounts.iter().map(|account| account.price_w(&self.settings, aim));
        prices.fold(0.0, f64::max)
    }

    /// The least that a request under way is worth, in watts, whatever the bounds have left. Clients that
    /// wait send less when they are served later: a joule saved at the price of more than its part of the
    /// requests is none.
    fn price_w_least(&self) -> f64 {
        let price_w = self.load.clients_in_closed_loop().zip(self.power_w);
        price_w.map_or(0.0, |(clients, power_w)| power_w / clients)
    }

    /// Watts for each request under way, by all bounds together.
    fn price_w(&self) -> f64 {
        self.owed_price_w().max(self.price_w_least())
    }

    pub(super) fn step_saving(&mut self, seen: &Observation) -> Action {
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
        let in_burst = self.demands_of_burst(&demands);
        let weights = self.estimate.weights_at_worst(self.settings.careful_deviations);
        let mut terms = Terms {
            scenes: &scenes,
            rate,
            weights,
            price_w: 0.0,
            utilisation_max: self.settings.utilisation_max,
            risk: self.risk(&in_burst),
            slowdown_max: self.slowdown_max(),
        };
        let groups = self.menus.iter().zip(&demands).zip(&in_burst).zip(&mut self.outlooks);
        for (((menu, demand), in_burst), outlook) in groups {
            outlook.fill(menu, demand, in_burst, &terms);
        }
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
        let floor_us = self.floor_us(full_speed_us);
        if extra_us < floor_us && rate > 0.0 {
            (choices, extra_us) = self
                .spend(&demands, terms, &scenes[..usual], floor_us)
                .unwrap_or((choices, extra_us));
        }
        let groups: Vec<_> = choices.iter().map(|choice| choice.setting).collect();
        terms.price_w = 0.0;
        let free = self.choose(&demands, &terms);
        let owed = self.owed_price_w() >= self.price_w();
        self.price_binds =
            owed && free.iter().zip(&groups).any(|(choice, &at)| choice.setting != at);
        self.mode = if rate > 0.0 { Mode::Saving } else { Mode::Idle };
        self.reason = "the cheapest setting at the price of latency";
        let more = self.more(&demands, &choices, &scenes[..usual]);
        self.set_guard(&demands, &groups, &scenes[..usual], full_speed_us + extra_us);
        if self.wants_probe(more, full_speed_us, seen) {
            self.since_probe = Seconds(0.0);
            return self.full_speed(Mode::Learning, "a window at full speed, to learn from");
        }
        let background = match wanted {
            Some(cores) if self.settings.adapt_background => self.background.budgets(cores),
            _ => Vec::new(),
        };
        self.asleep = asleep.then(|| self.slept_through());
        let drives = if asleep { DriveAction::Asleep } else { DriveAction::Own };
        Action { groups, drives, background }
    }

    /// How many times slower than full speed a group may be: as far as the model is trusted. Before anybody
    /// has asked it is as far as the promise goes, so that whatever comes first keeps it by itself.
    fn slowdown_max(&self) -> f64 {
        let share = |account: &Account| match account.bound.limit {
            Limit::Relative(share) => share,
            Limit::Absolute(_) => self.settings.plf,
        };
        match self.estimate.is_known() {
            true => self.trust,
            false => self.accounts.iter().map(share).fold(self.trust - 1.0, f64::min) + 1.0,
        }
    }

    /// A burst that the load may come to, and what each group may lose by it: of what the promise
    /// has left, and what the burst's own requests are allowed.
    fn risk(&self, demands: &[Demand]) -> Option<(Scene, f64)> {
        let scene = self.load.risk(self.reaction(), &self.settings)?;
        let queue = self.features(demands, &self.full_setting(), &[scene.with_waking()]);
        let full_speed_us = self.estimate.base_us() + queue.weighed(self.estimate.weights());
        let left_us = |account: &Account| {
            let own_us = account.own_us(full_speed_us) * scene.weight;
            account.reserve_us() * self.settings.risk_share + own_us * self.aim()
        };
        let left_us = self.accounts.iter().map(left_us).reduce(f64::min)?;
        Some((scene, left_us / self.menus.len() as f64))
    }

    /// Whether the drives may sleep, with background work in batches: what they save until the next
    /// request must be worth what that request, and those that come while they wake up, wait; and
    /// no promise may be broken by it.
    fn may_sleep(&self) -> bool {
        let Some(drives) = self.limits.drives.filter(|_| self.settings.adapt_background) else {
            return false;
        };
        let Costs { usual, at_risk, .. } = self.load.waking(drives.count, drives.wake);
        // So they stay awake until the first requests have earned a promise.
        let affordable =
            |account: &Account| account.lost_us(&at_risk) < account.reserve_us() * RESERVE_AT_ONCE;
        let aim = self.aim();
        let worth = |account: &Account| {
            account.price_w(&self.settings, aim) * account.lost_us(&usual) / 1e6
        };
        let least_w = self.price_w_least() * usual.waited_s;
        let cost_w = self.accounts.iter().map(worth).fold(least_w, f64::max);
        // Whoever has been quiet for long stays so for as long again.
        let often = 1.0 / self.load.quiet_s().max(1e-3);
        self.load.quiet_s() >= self.settings.quiet_min.0
            && self.accounts.iter().all(affordable)
            && drives.saves.is_some_and(|saves| saves.0 > cost_w * often)
            && self.background.can_wait(self.elapsed, &self.settings)
    }

    /// How many requests drives may sleep through, one after the other, before they shall be awake. Each
    /// may find one that fell asleep behind the request before it, so that a burst waits over and over:
    /// where pauses within a window were short, five bursts cost eleven times what one was to cost.
    fn slept_through(&self) -> f64 {
        let Some(drives) = self.limits.drives else { return f64::INFINITY };
        let worst = self.load.waking(drives.count, drives.wake).worst;
        let one = Waking { requests: 1.0, waited_s: drives.wake.0 };
        let requests = |account: &Account| {
            let paid_us = account.reserve_us() * RESERVE_ASLEEP;
            account.lost_us(&worst).max(paid_us) / account.lost_us(&one)
        };
        self.accounts.iter().map(requests).fold(f64::INFINITY, f64::min)
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
        let target_us = self.allowance_us(full_speed_us) * self.aim();
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
    pub(super) fn allowance_us(&self, full_speed_us: f64) -> f64 {
        let allowed = |account: &Account| account.allowance_us(full_speed_us);
        self.accounts.iter().map(allowed).fold(f64::INFINITY, f64::min)
    }

    /// The share of the promise that is meant to be spent: what is left covers the error of the estimate,
    /// which is small where windows are alike; that of a quantile is told by few requests even there.
    pub(super) fn aim(&self) -> f64 {
        let (least, most) = (self.settings.spend_share, self.settings.spend_share_steady);
        let sure = if self.quantile().is_some() { 0.0 } else { self.load.steadiness() };
        least + (most - least).max(0.0) * sure
    }

    /// The greatest extra latency that the window may be expected to have, in microseconds.
    fn cap_us(&self, full_speed_us: f64) -> f64 {
        let aim = self.aim();
        let cap = |account: &Account| {
            account.window_share(&self.settings, aim) * account.allowance_us(full_speed_us)
        };
        self.accounts.iter().map(cap).fold(f64::INFINITY, f64::min)
    }

    /// The extra latency that a window may always be expected to have while the promise is not spent,
    /// in microseconds.
    fn floor_us(&self, full_speed_us: f64) -> f64 {
        let aim = self.aim();
        let floor = |account: &Account| {
            (aim - account.spent_share()).max(0.0) * account.allowance_us(full_speed_us)
        };
        self.accounts.iter().map(floor).fold(f64::INFINITY, f64::min)
    }

    /// The choice at the price at which a window is expected to cost its requests `floor_us`, and
    /// what it costs them, if there is one that costs no more; the prices come down towards it. A
    /// price that an unlucky window drove up would come down by itself only when much of the promise
    /// had been left unspent. What clients that wait are worth does not come down: at 1 to 4 of them the
    /// joules for each request rose by up to a fifth to spend a promise that nobody had asked to spend.
    fn spend(
        &mut self,
        demands: &[Demand],
        mut terms: Terms,
        scenes: &[Scene],
        floor_us: f64,
    ) -> Option<(Vec<Choice>, f64)> {
        let before = terms.price_w.max(1e-9).ln();
        let least = (before - PRICE_SPAN).max(self.price_w_least().max(1e-9).ln());
        if least >= before {
            return None;
        }
        let (mut low, mut high) = (least, before);
        let mut found = None;
        for _ in 0..PRICE_STEPS {
            let middle = 0.5 * (low + high);
            terms.price_w = middle.exp();
            let choices = self.choose(demands, &terms);
            let extra_us = self.extra_us(demands, &choices, scenes, terms.weights);
            if extra_us > floor_us {
                low = middle;
            } else {
                high = middle;
                found = Some((choices, extra_us));
            }
        }
        // Where no price would spend as much, something else is in the way, and it may not stay there.
        if low > least {
            for account in &mut self.accounts {
                account.relax(self.settings.relax_gain * (high - before));
            }
        }
        found
    }

    /// Time from the first request of a burst to full speed.
    fn reaction(&self) -> Reaction {
        let awake = self.settings.look_span;
        Reaction { waking: awake + self.limits.gate_on, awake }
    }

    /// The rate from which on this setting costs more than can be let pass until the next choice: all that
    /// is allowed. Where less of the promise is left than is meant to be, rates that are not usual may cost
    /// by that part less; a burst that lost what it was allowed broke the promise of a load that had been
    /// sparse and had spent nearly all of its own.
    fn tolerable_rate(
        &self,
        demands: &[Demand],
        groups: &[GroupAction],
        rate: f64,
        latency_us: f64,
    ) -> f64 {
        let full = self.full_setting();
        let allowed_us = self.allowance_us(latency_us);
        let left = |account: &Account| (1.0 - account.spent_share()) / (1.0 - self.aim()).max(0.01);
        let left = self.accounts.iter().map(left).fold(1.0, f64::min).max(LEFT_MIN);
        let usual = self.load.usually_at_most();
        let weights = self.estimate.weights_at_worst(self.settings.careful_deviations);
        let mut tolerable = rate.max(50.0);
        // One after the other: a higher rate may cost less, where it makes long tasks a smaller part of all.
        for _ in 0..RATE_STEPS {
            let next = tolerable * 1.4;
            let scene = [Scene {
                rate: next,
                weight: 1.0,
                overload_s: 0.02,
                overload_awake_s: 0.02,
                crowd: 0.0,
            }];
            let here = self.features(demands, groups, &scene);
            let more = here.plus(self.features(demands, &full, &scene).times(-1.0));
            let part = if next > usual { left } else { 1.0 };
            if more.weighed(weights) > allowed_us * part {
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
        usual: &[Scene],
        latency_us: f64,
    ) {
        let rate = self.load.rate(self.settings.window);
        // The setting was chosen with these moments in mind; far busier ones are bursts all the same.
        let busiest = usual.iter().map(|scene| scene.rate).fold(rate, f64::max).min(BUSY * rate);
        let capacity = |((demand, menu), group): ((&Demand, &Menu), &GroupAction)| {
            let stretch = menu.points[menu.at(group.frequency)].stretch;
            f64::from(group.cores) / (demand.work_s * stretch).max(1e-9)
        };
        let capacities = demands.iter().zip(&self.menus).zip(groups).map(capacity);
        let expected = Expected {
            rate,
            busiest,
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
        if self.estimate.is_leaning() {
            return self.since_probe.0 >= self.probe_gap.0.min(LEANING_GAP_S);
        }
        if self.since_probe < self.probe_gap {
            return false;
        }
        let allowance_us = self.allowance_us(full_speed_us);
        let (cost, base) =
            (self.settings.probe_uncertainty, self.settings.probe_uncertainty_full_speed);
        let unsure = self.estimate.deviation_us(more) > cost * allowance_us
            || self.estimate.full_deviation_us(self.mix) > base * allowance_us;
        unsure || self.since_probe >= self.settings.probe_every
    }
}

/// Steps in which a tolerable rate is found: up to 400 times the expected one.
const RATE_STEPS: usize = 18;
/// Steps in which a price is found.
const PRICE_STEPS: usize = 12;
/// How far below the price that is asked a lower one is looked for, in logarithms.
const PRICE_SPAN: f64 = 10.0;
/// Longest time between two windows at full speed while those between are off to one side, in
/// seconds: what full speed is like may be confirmed each time, and the weights be what is wrong.
const LEANING_GAP_S: f64 = 20.0;
/// A window at full speed with fewer requests would teach nothing.
const PROBE_REQUESTS_MIN: u64 = 4;
/// What of the unspent promise one sleep of the drives may cost.
const RESERVE_AT_ONCE: f64 = 0.75;
/// What of it may be lost to drives that sleep before they are woken, if that is more than what one end of
/// the silence costs.
const RESERVE_ASLEEP: f64 = 0.3;
/// Moments of a usual window are no bursts up to so many times its rate.
const BUSY: f64 = 3.0;
/// However little of the promise is left, what costs less than this part of what is allowed is let pass.
const LEFT_MIN: f64 = 0.2;
