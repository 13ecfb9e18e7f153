//! The loop around a law: it divides time into windows, decides on alarms, and keeps a law's
//! actions within limits. The same loop drives every plant, so a live host does what was simulated.

mod rate_limit;
mod settings;

pub use settings::DriverSettings;

use crate::account::Account;
use crate::action::Action;
use crate::bound::{Bound, Statistic};
use crate::limits::Limits;
use crate::plant::{Glimpse, Plant, Seen};
use crate::{Insight, LatencyObservation, Law, Observation, Watch};
use rate_limit::RateLimit;
use std::collections::VecDeque;
use std::time::Duration;
use wattio_units::Seconds;

/// A law with its limits, its bounds, its windows and its account.
pub struct Driver<L> {
    law: L,
    limits: Limits,
    full: Action,
    settings: DriverSettings,
    holding: RateLimit,
    account: Account,
    in_force: Action,
    /// The glimpses within the last span that the law watches.
    looks: VecDeque<Glimpse>,
    last_look: Duration,
    last_step: Duration,
    window_end: Duration,
}

/// One step of the law, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped {
    /// Length of the window.
    pub dt: Seconds,
    /// What the law saw.
    pub seen: Observation,
    /// What is in force now.
    pub action: Action,
    /// The law's account of the step.
    pub insight: Insight,
    /// Why full speed was forced, if it was.
    pub forced: Option<String>,
    /// How time jumped in this window, if it did.
    pub jump: Option<String>,
}

/// Why full speed is forced where a window has no latency that can be used.
pub const NO_LATENCY: &str = "no latency to go by";

/// A look that comes this many windows after the previous one means lost time: the machine was
/// suspended, or the caller starved.
const LATE_WINDOWS: f64 = 4.0;

impl<L: Law> Driver<L> {
    /// Starts at full speed at `now`. Without bounds, the account is of the law's own.
    pub fn new(
        mut law: L,
        limits: Limits,
        bounds: &[Bound],
        settings: DriverSettings,
        now: Duration,
    ) -> Self {
        if !bounds.is_empty() {
            law.set_bounds(bounds);
        }
        let own = law.bounds();
        let account = Account::of(if bounds.is_empty() { &own } else { bounds });
        let full = limits.full_speed();
        Self {
            window_end: now.saturating_add(duration(law.period())),
            law,
            holding: RateLimit::new(limits.groups.len()),
            limits,
            in_force: full.clone(),
            full,
            settings,
            account,
            looks: VecDeque::new(),
            last_look: now,
            last_step: now,
        }
    }

    /// What the law watches now: nothing at full speed, unless it learns from it.
    fn watch(&self) -> Option<Watch> {
        self.law.watch().filter(|watch| watch.at_full_speed || self.is_saving())
    }

    /// When to look next: at the end of the window, or sooner if the law watches.
    pub fn next_look<P: Plant>(&self, plant: &P) -> Duration {
        let after = |span: Seconds| {
            self.last_look.saturating_add(duration(span).max(Duration::from_millis(1)))
        };
        if self.last_look >= self.window_end {
            // A sample is due: look again soon.
            after(self.law.watch().map_or(self.law.period() * 0.1, |watch| watch.span))
        } else if let Some(watch) = self.watch() {
            let interval = plant.interval().filter(|&interval| interval > watch.span);
            after(interval.unwrap_or(watch.every)).min(self.window_end)
        } else {
            self.window_end
        }
    }

    /// Advances the plant to `until` and looks at it; when the window has ended or the law is
    /// alarmed, steps the law and applies its action.
    ///
    /// # Errors
    /// The plant's own.
    pub fn advance<P: Plant>(
        &mut self,
        plant: &mut P,
        until: Duration,
    ) -> Result<Option<Stepped>, P::Error> {
        let glimpse = plant.advance(until)?;
        let jump = self.notice_jump(until);
        self.last_look = until;
        let alarm = self.is_alarming(glimpse);
        let over = until >= self.window_end && glimpse.is_ready;
        Ok((alarm || over || jump.is_some()).then(|| self.step(plant, until, alarm, jump)))
    }

    /// Closes the window at `now` whatever its length, and steps the law: for plants whose windows
    /// are cut elsewhere.
    pub fn close<P: Plant>(&mut self, plant: &mut P, now: Duration, alarm: bool) -> Stepped {
        let jump = self.notice_jump(now);
        self.last_look = now;
        self.step(plant, now, alarm, jump)
    }

    /// From `began` to `ended` the caller was at work, on this plant or others: it could not have
    /// looked, and what that took is no jump of time.
    pub fn excuse(&mut self, began: Duration, ended: Duration) {
        let span = ended.saturating_sub(began.max(self.last_look));
        self.last_look = self.last_look.saturating_add(span);
    }

    /// What is in force.
    pub fn in_force(&self) -> &Action {
        &self.in_force
    }

    /// Whether anything is slower than full speed.
    pub fn is_saving(&self) -> bool {
        self.in_force != self.full
    }

    /// The law's account of its last step.
    pub fn insight(&self) -> Insight {
        self.law.insight()
    }

    /// The law.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The account so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Resets the account, at the end of a warm-up.
    pub fn reset_account(&mut self) {
        self.account = Account::of(&self.bounds());
    }

    /// The bounds that are accounted.
    pub fn bounds(&self) -> Vec<Bound> {
        self.account.bounds.iter().map(|account| account.bound).collect()
    }

    /// The share by which latency may exceed that of full speed, if a bound is relative: of the
    /// tightest such bound on the mean, or, without one on the mean, of the first.
    pub fn tolerance(&self) -> Option<f64> {
        let first = || self.account.bounds.iter().find_map(|account| account.bound.share());
        self.mean_tolerance().or_else(first)
    }

    /// The share by which the tightest relative bound on the mean lets it exceed that at full speed,
    /// which is what the loss in its account compares with; `None` if there is none.
    pub fn mean_tolerance(&self) -> Option<f64> {
        self.account.on_mean()?.bound.share()
    }

    /// The tolerance, or why there is none to change. `policy` is the law's name, for the message.
    ///
    /// # Errors
    /// There is no bound, or only bounds that are times.
    pub fn tolerance_to_change(&self, policy: &str) -> Result<f64, String> {
        self.tolerance().ok_or_else(|| match self.account.bounds.first() {
            None => format!("policy {policy} has no latency bound"),
            Some(account) => format!(
                "the bound is \"{}\", a time: a tolerance is of bounds above full speed",
                account.bound
            ),
        })
    }

    /// Changes the share of every relative bound on the mean from the next step on, or, without one
    /// on the mean, that of every relative bound; the caller checks the range.
    pub fn set_tolerance(&mut self, share: f64) {
        let any = self.mean_tolerance().is_none();
        for account in &mut self.account.bounds {
            if any || account.bound.statistic == Statistic::Mean {
                account.set_share(share);
            }
        }
        let bounds = self.bounds();
        self.law.set_bounds(&bounds);
    }

    /// Skips `span`, in which everything since `before` (a copy of the account) repeats `times`
    /// over: for plants that know it would.
    pub fn repeat(&mut self, before: &Account, times: u64, span: Duration) {
        self.account.repeat(before, times);
        for time in [&mut self.last_look, &mut self.last_step, &mut self.window_end] {
            *time = time.saturating_add(span);
        }
    }

    /// Whether a sample is recent and plausible; otherwise it counts as missing.
    fn can_use(&self, sample: &LatencyObservation) -> bool {
        let oldest = self.law.period() * self.settings.stale_after_windows;
        // Written so that an age that is not a number counts as too old.
        sample.age <= oldest && sample.is_plausible()
    }

    /// A look that comes far too late, or earlier than the previous one, spoils the running window.
    fn notice_jump(&mut self, now: Duration) -> Option<String> {
        let late = duration(self.law.period() * LATE_WINDOWS);
        let Some(gap) = now.checked_sub(self.last_look) else {
            self.last_step = self.last_step.min(now);
            return Some("time jumped back".to_owned());
        };
        let expected = self.window_end.saturating_sub(self.last_look).max(late);
        (gap > expected).then(|| format!("time jumped ahead by {:.1} s", gap.as_secs_f64()))
    }

    /// Takes in a glimpse; returns whether those of the last span alarm the law.
    fn is_alarming(&mut self, glimpse: Glimpse) -> bool {
        let Some(watch) = self.watch() else {
            self.looks.clear();
            return false;
        };
        self.law.glance(&glimpse);
        self.looks.push_back(glimpse);
        let mut span: Seconds = self.looks.iter().map(|look| look.span).sum();
        // Rounding tolerance: two halves must make one span.
        while self.looks.len() > 1 && span - self.looks[0].span >= watch.span * (1.0 - 1e-9) {
            span = span - self.looks[0].span;
            self.looks.pop_front();
        }
        let seen = self.looks.iter().copied().reduce(Glimpse::merge);
        self.is_saving() && seen.is_some_and(|seen| self.law.is_alarming(&seen))
    }

    fn step<P: Plant>(
        &mut self,
        plant: &mut P,
        now: Duration,
        alarm: bool,
        jump: Option<String>,
    ) -> Stepped {
        let dt = Seconds(now.saturating_sub(self.last_step).as_nanos() as f64 * 1e-9);
        let Seen { mut observation, forced } = plant.observe(dt, alarm);
        let forced = jump.clone().or(forced);
        let possible = forced.is_none() && dt.0 > 0.0;
        observation.latency = observation.latency.filter(|s| possible && self.can_use(s));
        let silent = observation.latency.is_none().then(|| NO_LATENCY.to_owned());
        let forced = forced.or(silent);

        let before = self.law.insight();
        let wanted = self.limits.clamped(self.law.step(&observation, dt));
        let held = self.holding.hold_back(wanted, &self.in_force, &self.settings, dt);
        let wanted = if forced.is_some() { self.full.clone() } else { held };
        let insight = self.law.insight();
        self.count(&observation, &before, &insight, forced.is_some(), dt);

        let in_force = plant.apply(&wanted);
        self.account.knob_changes += u64::from(in_force.sets_otherwise(&self.in_force));
        self.in_force = in_force;
        // As a rule what was wanted is in force, and need not be copied.
        let action = if self.in_force == wanted { wanted } else { self.in_force.clone() };
        self.looks.clear();
        self.last_step = now;
        self.window_end = now.saturating_add(duration(self.law.period()));
        Stepped { dt, seen: observation, action, insight, forced, jump }
    }

    /// Adds a window that ran under the law's state `before` to the account.
    fn count(
        &mut self,
        seen: &Observation,
        before: &Insight,
        after: &Insight,
        forced: bool,
        dt: Seconds,
    ) {
        self.account.spend(before.mode, dt);
        self.account.windows += 1;
        self.account.windows_missing += u64::from(seen.latency.is_none());
        self.account.windows_forced += u64::from(forced);
        self.account.windows_alarmed += u64::from(seen.alarm);
        self.account.mode_changes += u64::from(before.mode != after.mode);
        let Some(latency) = &seen.latency else { return };
        self.account.requests = self.account.requests.saturating_add(latency.requests);
        if before.bound_in_force {
            for account in &mut self.account.bounds {
                account.judge_against(latency, self.law.full_speed_us(account.bound.statistic));
            }
        }
    }
}

fn duration(span: Seconds) -> Duration {
    Duration::try_from_secs_f64(span.0).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
