//! What foresight learns from a window: the work, the latency at full speed, the loss, and how far
//! to trust the model.

use super::choice::{Demand, Menu};
use super::doubt::Unknown;
use super::estimate::{Surprise, Window};
use super::load::REQUESTS_MAX;
use super::price::{Account, Spent};
use super::{Foresight, TRUST_FIRST, TRUST_MAX};
use crate::mix::Mix;
use crate::uncovered::keep_cores_busy;
use wattio_law::{GroupAction, LatencyHistogram, LatencyObservation, Observation, Statistic};
use wattio_units::Seconds;

/// What the answers of a window met.
struct Met {
    /// Their mean latency, in microseconds.
    latency_us: f64,
    requests: f64,
    /// Requests that came, a second.
    rate: f64,
    /// Length over the length of a usual window.
    span: f64,
    at_full_speed: bool,
    /// Whether another setting than the one in force shows in their latency.
    unsettled: bool,
    demands: Vec<Demand>,
    /// What they wait at full speed, by the model, in microseconds.
    waiting_us: f64,
    window: Window,
    surprise: Surprise,
}

impl Met {
    /// Whether their latency is that at full speed.
    fn shows_full_speed(&self) -> bool {
        self.at_full_speed && !self.unsettled
    }
}

/// What a setting cost each request of a window, in microseconds.
struct Cost {
    extra_us: f64,
    /// What a request can have lost at most besides; `None` at full speed.
    room_us: Option<f64>,
}

impl Foresight {
    /// Whether requests are under way, none was answered, and none is so fresh that this is no
    /// wonder.
    pub(super) fn is_stalled(&self, latency: &LatencyObservation) -> bool {
        let oldest = latency.in_flight.and_then(|in_flight| in_flight.oldest);
        let patience_s = self.full_speed_us.map_or(0.0, |us| STALLED * us * 1e-6);
        latency.is_stalled() && oldest.is_none_or(|age| age.0.is_nan() || age.0 > patience_s)
    }

    /// Whether no request is seen, yet cores are busy for clients: for some whose latency nobody tells.
    pub(super) fn works_for_others(
        &self,
        seen: &Observation,
        latency: &LatencyObservation,
    ) -> bool {
        let (share, utilisation) =
            (self.settings.others_share_max, self.settings.others_utilisation_max);
        latency.offered() == 0
            && !latency.has_in_flight()
            && latency.requests == 0
            && keep_cores_busy(seen, &self.limits, share, utilisation)
    }

    /// Whether a bound cannot be judged: for want of a histogram, or of requests at full speed in it.
    pub(super) fn lacks_histogram(&self, latency: &LatencyObservation) -> bool {
        let has_requests = latency.requests > 0;
        let untold = self.quantile().is_some() && latency.histogram.is_none();
        has_requests && (untold || self.accounts.iter().any(Account::lacks_limit))
    }

    /// Takes in what a window tells.
    pub(super) fn learn(&mut self, seen: &Observation, latency: &LatencyObservation, dt: Seconds) {
        let at_full_speed = self.is_full();
        self.learn_load(seen, latency, dt);
        let carried = self.carried(latency);
        let mean_us = latency.latency_us_mean.filter(|_| latency.requests > 0);
        let Some(latency_us) = mean_us.map(|us| us.max(LATENCY_US_MIN)) else {
            self.trust_the_quiet();
            self.overtaken = false;
            return;
        };
        let met = self.met(latency, latency_us, carried, at_full_speed, dt);
        let expected_us = self.estimate.full_us(&met.window) + met.waiting_us;
        let cost = self.cost(&met, expected_us);
        let full_speed_us = if met.shows_full_speed() {
            latency_us
        } else if self.estimate.is_known() {
            expected_us.clamp(0.1 * latency_us, 1.5 * latency_us)
        } else {
            latency_us
        };
        self.learn_trust(&met, full_speed_us, seen.alarm);
        self.learn_model(&met, seen.alarm);
        let cost = self.revised(cost, &met);
        if met.shows_full_speed() && !seen.alarm {
            self.limit_crowds(latency, &met);
        }
        self.full_speed_us = Some(full_speed_us);
        self.loss = Some(latency_us / full_speed_us - 1.0);
        self.learn_tail(latency, &met, latency_us / full_speed_us);
        if met.shows_full_speed() && !seen.alarm {
            self.judge_probe(&met.surprise, latency_us);
        } else {
            self.requests_since_probe += met.requests;
        }
        self.charge_accounts(latency, &met, cost, full_speed_us);
    }

    /// Takes in what requests and background work ask for.
    fn learn_load(&mut self, seen: &Observation, latency: &LatencyObservation, dt: Seconds) {
        let stretch =
            |(menu, held): (&Menu, &GroupAction)| menu.points[menu.at(held.frequency)].stretch;
        let stretches: Vec<_> = self.menus.iter().zip(&self.held).map(stretch).collect();
        let near = |(a, b): (&GroupAction, &GroupAction)| a.cores.abs_diff(b.cores) * 8 <= a.cores;
        let steady = self.held.iter().zip(&self.held_before).all(near);
        let same = steady || self.load.work_s(0) <= 0.0;
        self.load.learn(seen, latency, &stretches, same, dt, &self.settings);
        self.learn_surge(seen, latency, &stretches, dt);
        self.background.learn(&seen.background, dt);
    }

    /// Takes in what the busiest moment of a window asked of the cores.
    fn learn_surge(
        &mut self,
        seen: &Observation,
        latency: &LatencyObservation,
        stretches: &[f64],
        dt: Seconds,
    ) {
        if latency.requests < WORK_TOLD || seen.alarm {
            return;
        }
        let requests = (latency.requests as f64).min(REQUESTS_MAX);
        let groups = seen.groups.iter().zip(stretches).take(self.menus.len()).enumerate();
        let work_s = groups.map(|(at, (group, stretch))| {
            let busy = group.utilisation_clients;
            let busy = if busy.is_finite() { busy.clamp(0.0, 1.0) } else { 0.0 };
            let cores = busy * f64::from(group.cores) / stretch - self.load.others(at);
            cores.max(0.0) * dt.0 / requests
        });
        let span = dt / self.settings.window;
        let keep = (-span / self.settings.record_memory_windows).exp();
        self.surges.learn(self.load.busiest().max(requests / dt.0), work_s, keep);
    }

    /// Whoever has been quiet for long is likely to stay so for long; of a server that nobody has
    /// asked for anything yet that is not known, and it has promised nothing yet to pay from.
    fn trust_the_quiet(&mut self) {
        if self.estimate.is_known() {
            self.trust = (self.trust * TRUST_GROWTH_QUIET).min(TRUST_MAX);
        }
    }

    /// What the answers of a window met, by the model as it was before them.
    fn met(
        &mut self,
        latency: &LatencyObservation,
        latency_us: f64,
        carried: f64,
        at_full_speed: bool,
        dt: Seconds,
    ) -> Met {
        let demands = self.demands(self.background.done());
        let offered = (latency.offered() as f64).min(REQUESTS_MAX);
        let rate = offered / dt.0;
        let scenes = self.load.last_scenes(rate, self.settings.window);
        let full = self.features(&demands, &self.full_setting(), &scenes);
        let more = self.features(&demands, &self.held, &scenes).plus(full.times(-1.0));
        let requests = (latency.requests as f64).min(REQUESTS_MAX);
        // Waiting at full speed is taken from the model as it is: it matters near saturation only.
        let waiting_us = full.0[1];

        // A crowd queues at full speed, too, and so do large requests.
        let mix = Mix::of(latency.read_share, latency.bytes_mean);
        let window = Window { more, crowd_us: full.0[2], mix };
        self.mix = mix;
        let surprise = self.estimate.surprise(latency_us - waiting_us, requests, &window);
        let changed = self.held != self.held_before;
        let stragglers = changed && carried * STRAGGLERS > requests;
        // What comes while cores are still waking up meets less than full speed, and so does what
        // has to wait for it.
        self.overtaken =
            changed && at_full_speed && surprise.us > OVERTAKEN * surprise.deviation_us;
        Met {
            latency_us,
            requests,
            rate,
            span: dt / self.settings.window,
            at_full_speed,
            unsettled: !self.settled || stragglers || self.overtaken,
            demands,
            waiting_us,
            window,
            surprise,
        }
    }

    /// What the setting cost the requests of a window that full speed would have answered after
    /// `expected_us`.
    fn cost(&mut self, met: &Met, expected_us: f64) -> Cost {
        let crowd_us = self.estimate.crowd_us(met.window.crowd_us);
        let foreseen_us = met.window.more.weighed(self.estimate.weights()).max(0.0);
        let blame = match self.asleep {
            Some(_) => 1.0,
            None => foreseen_us / (foreseen_us + met.waiting_us + crowd_us).max(1e-9),
        };
        let blame_before = std::mem::replace(&mut self.blame, blame);
        if !met.at_full_speed {
            let extra_us = foreseen_us + self.unforeseen_us(met, foreseen_us);
            // Who waits for a drive to wake waits however fast the cores are.
            let most_us = match self.asleep {
                Some(_) => f64::INFINITY,
                None => self.blame_us_max(met),
            };
            let room_us = Some((most_us.min(met.latency_us) - extra_us).max(0.0));
            Cost { extra_us: extra_us.min(most_us), room_us }
        } else if met.unsettled {
            // What the setting before has kept waiting is answered now.
            let extra_us = blame_before * (met.latency_us - expected_us).max(0.0);
            Cost { extra_us, room_us: None }
        } else {
            Cost { extra_us: 0.0, room_us: None }
        }
    }

    /// A setting cost no more than the model knows of by now, where a window was quicker than was expected.
    fn revised(&self, cost: Cost, met: &Met) -> Cost {
        if met.at_full_speed
            || self.asleep.is_some()
            || met.surprise.us > -met.surprise.deviation_us
        {
            return cost;
        }
        let known_us = met.window.more.weighed(self.estimate.weights()).max(0.0);
        let freed_us = (cost.extra_us - known_us).max(0.0);
        Cost { extra_us: cost.extra_us - freed_us, room_us: cost.room_us.map(|us| us + freed_us) }
    }

    /// Takes a window into the model of latency.
    fn learn_model(&mut self, met: &Met, alarm: bool) {
        if !alarm && !met.unsettled {
            let latency_us = met.latency_us - met.waiting_us;
            let Met { requests, window, at_full_speed, span, .. } = met;
            self.estimate.learn(latency_us, *requests, window, *at_full_speed, *span);
        }
    }

    /// Requests that come together wait for each other no longer than the mean is above the quickest.
    fn limit_crowds(&mut self, latency: &LatencyObservation, met: &Met) {
        if met.requests < CROWD_TOLD || met.window.crowd_us <= 0.0 {
            return;
        }
        let quickest_us = latency.histogram.as_ref().map_or(0.0, LatencyHistogram::least_us);
        let waited_us = (met.latency_us - quickest_us).max(0.0);
        self.estimate.limit_crowds(waited_us / met.window.crowd_us);
    }

    /// Enters what a window cost in the account of every bound.
    fn charge_accounts(
        &mut self,
        latency: &LatencyObservation,
        met: &Met,
        cost: Cost,
        full_speed_us: f64,
    ) {
        let unknown = self.doubt(&met.window, met.requests, cost.room_us, met.span);
        let spent = Spent {
            seen: latency,
            extra_us: cost.extra_us,
            full_speed_us,
            tails: &self.tails,
            at_full_speed: met.at_full_speed,
            aim: self.aim(),
            span: met.span,
            unknown,
            price_binds: self.price_binds,
        };
        for account in &mut self.accounts {
            account.spend(&spent, &self.settings);
        }
    }

    /// What of all that was spent is not known, with a window in which no request can have lost more than
    /// `room_us` besides what is charged; `None` at full speed.
    fn doubt(
        &mut self,
        window: &Window,
        requests: f64,
        room_us: Option<f64>,
        span: f64,
    ) -> Unknown {
        let deviations = self.settings.doubt_deviations;
        self.doubt.forget((-span / self.settings.debt_windows).exp());
        if let Some(room_us) = room_us {
            self.doubt.add(&self.estimate, window, requests, room_us, deviations);
        }
        self.doubt.unknown(&self.estimate, deviations)
    }

    /// Requests of the window before that this one may have answered.
    fn carried(&mut self, latency: &LatencyObservation) -> f64 {
        let under_way = latency.in_flight.map_or(0.0, |in_flight| in_flight.requests as f64);
        std::mem::replace(&mut self.under_way, under_way)
    }

    /// Whoever is right may go further; whoever is wrong goes back towards full speed.
    fn learn_trust(&mut self, met: &Met, full_speed_us: f64, alarm: bool) {
        if alarm || met.unsettled || met.at_full_speed {
            return;
        }
        let off = &met.surprise;
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
    fn unforeseen_us(&mut self, met: &Met, foreseen_us: f64) -> f64 {
        self.unjudged.0 += met.requests;
        self.unjudged.1 += met.surprise.us * met.requests;
        self.unjudged.2 += foreseen_us * met.requests;
        let (all, off, foreseen) = self.unjudged;
        if all < REQUESTS_TELLING {
            return 0.0;
        }
        self.unjudged = (0.0, 0.0, 0.0);
        let believed = off * all / (all + REQUESTS_TELLING);
        let ours = if believed > 0.0 {
            believed * self.share_of_surprise(&met.demands)
        } else {
            believed.max(-0.5 * foreseen)
        };
        ours / met.requests
    }

    /// The most of a window's latency that the setting can be to blame for. While its cores keep up
    /// with the busiest moment, every queue is worked off before the next one forms, and nothing
    /// takes longer than the setting is slower, nor than the weights can be wrong.
    fn blame_us_max(&self, met: &Met) -> f64 {
        let busiest = self.load.busiest().max(met.rate);
        let mut slower: f64 = 1.0;
        for ((demand, menu), held) in met.demands.iter().zip(&self.menus).zip(&self.held) {
            let stretch = menu.points[menu.at(held.frequency)].stretch;
            let capacity = f64::from(held.cores) / stretch;
            if busiest * demand.work_s > KEPT_UP * capacity {
                return met.latency_us;
            }
            slower = slower.max(f64::from(menu.cores_max) / capacity);
        }
        let at_worst = self.estimate.weights_at_worst(BLAME_DEVIATIONS);
        let believable_us = met.window.more.weighed(at_worst);
        (met.latency_us * (1.0 - 1.0 / slower)).min(believable_us.max(0.0))
    }

    /// The share of a surprise that full speed would have spared: little of it where the burst was
    /// more than full speed takes.
    fn share_of_surprise(&self, demands: &[Demand]) -> f64 {
        let swamped = demands.iter().zip(&self.menus).any(|(demand, menu)| {
            self.load.busiest() * demand.work_s > 0.9 * f64::from(menu.cores_max)
        });
        if swamped { 0.3 } else { 1.0 }
    }

    fn learn_tail(&mut self, latency: &LatencyObservation, met: &Met, slower: f64) {
        if self.quantile().is_some()
            && let Some(histogram) = &latency.histogram
        {
            let keep = (-met.span / self.settings.tail_windows).exp();
            self.tails.learn(histogram, met.shows_full_speed(), slower, keep);
        }
    }

    /// The first quantile that there is a bound on.
    pub(super) fn quantile(&self) -> Option<f64> {
        self.accounts.iter().find_map(|account| match account.bound.statistic {
            Statistic::Quantile(q) => Some(q),
            Statistic::Mean => None,
        })
    }
}

/// No request is answered sooner, in microseconds; squares of less would vanish.
const LATENCY_US_MIN: f64 = 1e-3;
/// Requests whose mean tells how long they waited for each other at most.
const CROWD_TOLD: f64 = 50.0;
/// Requests that tell what one of them takes of the cores.
const WORK_TOLD: u64 = 100;
/// Requests from which on half of what is told of their loss is told by their mean.
const REQUESTS_TELLING: f64 = 50.0;
/// Where this many times fewer requests than it answered came before a window, what they met of an
/// earlier setting does not show.
const STRAGGLERS: f64 = 10.0;
/// A first window at full speed that is later than expected by so many standard deviations is not
/// taken for what full speed is like.
const OVERTAKEN: f64 = 2.5;
/// A request that is under way for so many mean latencies is overdue.
const STALLED: f64 = 10.0;
/// Growth of the trust with each window that was foreseen.
const TRUST_GROWTH: f64 = 1.3;
/// The same with each window without a request: what was not asked for was not foreseen either, and
/// the first burst of a server that knows nothing yet must not find it at its slowest.
const TRUST_GROWTH_QUIET: f64 = 1.03;

/// What the weights are not believed to be beyond, in standard deviations. Without a limit few requests
/// that are late by chance are charged: a tenth less was saved on a recorded trace (virtual machines, on
/// `small`).
const BLAME_DEVIATIONS: f64 = 5.0;
/// Cores that are no busier than this keep up.
const KEPT_UP: f64 = 0.7;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot set up its law has failed")]
mod tests {
    use super::super::choice::Features;
    use super::super::settings::ForesightSettings;
    use super::*;
    use wattio_law::{GroupLimits, Limits};
    use wattio_units::Hertz;

    /// A law on 16 cores, 8 of them awake, that knows of requests that take 100 us at full speed.
    fn law() -> Foresight {
        let group = GroupLimits {
            cores_min: 2,
            cores_max: 16,
            frequency_min: Hertz(0.8e9),
            frequency_max: Hertz(2.6e9),
            frequency_steps: vec![],
            idle_cores_sleep: false,
            power: vec![],
            frequency_bound_share: None,
        };
        let mut law = Foresight::new(ForesightSettings::usual(), Limits::of(vec![group]));
        law.estimate.learn(100.0, 1000.0, &Window::default(), true, 1.0);
        law.held[0].cores = 8;
        law
    }

    /// A window in which a crowd was expected to wait, with what it was measured to take.
    fn crowded(law: &mut Foresight, latency_us: f64) -> Met {
        let window = Window { more: Features([0.0, 0.0, 200.0]), crowd_us: 0.0, mix: None };
        let surprise = law.estimate.surprise(latency_us, 500.0, &window);
        Met {
            latency_us,
            requests: 500.0,
            rate: 1000.0,
            span: 1.0,
            at_full_speed: false,
            unsettled: false,
            demands: law.demands(None),
            waiting_us: 0.0,
            window,
            surprise,
        }
    }

    const CHARGED_US: f64 = 60.0;

    /// What a first crowd's requests were charged, as revised once they were learned from.
    fn revised_us(latency_us: f64) -> f64 {
        let mut law = law();
        let met = crowded(&mut law, latency_us);
        law.learn_model(&met, false);
        let revised = law.revised(Cost { extra_us: CHARGED_US, room_us: Some(5.0) }, &met);
        assert!((revised.room_us.unwrap() - 5.0 - (CHARGED_US - revised.extra_us)).abs() < 1e-9);
        revised.extra_us
    }

    /// A burst whose requests turned out not to wait for each other was charged as if they had: 62 us
    /// for each where it was 7, more than the promise of all requests so far, and half a minute at full
    /// speed followed.
    #[test]
    fn a_crowd_that_did_not_wait_is_not_charged_for_waiting() {
        assert!(revised_us(100.0) < 0.3 * CHARGED_US, "{}", revised_us(100.0));
        // One that is as slow as was expected, or slower, costs what was charged.
        assert_eq!([200.0, 400.0].map(revised_us), [CHARGED_US; 2]);
    }
}
