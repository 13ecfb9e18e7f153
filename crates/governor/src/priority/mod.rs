//! Decides which of the knobs that only follow the law to use. The best come first: those that, as
//! measured on this host, save most watts for each microsecond that they add to the mean latency.
//!
//! A knob such as turbo has two values, and the law does not account for it. While the law's own
//! setting does not change, one such knob is released for a few windows and then acts again. This
//! makes a pair: the windows on both sides, with the knob, and those between, without. So a steady
//! drift of the load cancels, and the difference is due to the knob. A released knob is as at full
//! speed, so clients never get less than the law asked for, however wrong a guess is.
//!
//! `value = (P_without - P_with) / max(L_with - L_without, 1 us)`, with means over pairs. Knobs are
//! admitted in this order as long as the latency that they add together fits between full speed's
//! latency and the bound. Without a meter nothing is tried, and all knobs act as configured.

mod evidence;

use evidence::{Evidence, PAIRS_ENOUGH, Stretch};

use crate::effect::Interval;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::time::Duration;
use wattio_law::Action;
use wattio_units::splitmix64_share;

/// Windows without it, and on each side of these.
const WINDOWS: u32 = 4;
/// Time between trials, drawn between half and one and a half times that: a load that comes round
/// must not pass for an effect.
const BETWEEN: Duration = Duration::from_secs(15);
/// A knob that is known well enough is tried again after this.
const KNOWN: Duration = Duration::from_secs(120);
/// A knob that is not used is taken up again after this, and is unknown then: loads change.
const LEFT_ALONE: Duration = Duration::from_secs(3600);
/// A meter that told nothing for longer than this is missing.
const METER_MISSING: Duration = Duration::from_secs(600);
/// A knob that did not fit is taken up again when it needs no more than this share of the room.
const FITS_AGAIN: f64 = 0.8;

/// A knob that follows the law: it acts while cores or frequency save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Its name.
    pub name: &'static str,
    /// Whether cores are no faster than [`crate::CoreGroup::saving_max`] while it acts.
    pub lowers_frequency: bool,
}

/// What the place of a knob among the others rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Pairs of windows with and without it.
    Measured,
    /// Nothing: it follows as the configuration has it.
    #[default]
    AsConfigured,
}

/// A knob that follows, as shown in the status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FollowerStatus {
    /// Its name.
    pub name: String,
    /// What its place rests on.
    pub basis: Basis,
    /// Pairs of stretches with and without it.
    pub pairs: u64,
    /// Power without it less that with it.
    pub power_w_saved: Option<Interval>,
    /// Mean latency with it less that without it.
    pub latency_us_added: Option<Interval>,
    /// Why it is not used, if it is not.
    pub left_out: Option<String>,
}

/// A window that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'a> {
    /// When.
    pub now: Duration,
    /// Its length.
    pub dt_s: f64,
    /// What was in force; `None` where nothing saved, or the window must not be used.
    pub saving: Option<&'a Action>,
    /// By the meter.
    pub power_w: Option<f64>,
    /// Requests, and their mean latency.
    pub requests: u64,
    pub latency_us_mean: Option<f64>,
}

/// Why a knob is not used.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Why {
    SavesNothing,
    DoesNotFit,
}

#[derive(Debug)]
struct Known {
    follower: Follower,
    evidence: Evidence,
    left_out: Option<(Why, Duration)>,
    tried_at: Duration,
}

/// A knob that is let go for some windows, and taken up again.
#[derive(Debug)]
struct Trial {
    of: usize,
    before: Stretch,
    /// Once it is taken up again.
    without: Option<Stretch>,
}

/// Which followers are used.
#[derive(Debug, Default)]
pub(crate) struct Priorities {
    known: Vec<Known>,
    trial: Option<Trial>,
    /// The setting of the law, and the windows since it or a knob changed.
    setting: Option<Action>,
    stretch: Stretch,
    trials: u64,
    next_trial: Duration,
    metered_at: Option<Duration>,
    /// How much the bound lets the mean latency be above that of full speed.
    room_us: Option<f64>,
}

impl Priorities {
    /// All of them are used.
    pub fn new(followers: Vec<Follower>) -> Self {
        let known = |follower| Known {
            follower,
            evidence: Evidence::default(),
            left_out: None,
            tried_at: Duration::ZERO,
        };
        Self { known: followers.into_iter().map(known).collect(), ..Self::default() }
    }

    /// The knobs that are as at full speed in the next window, whatever the law saves.
    pub fn held_back(&self) -> Vec<&'static str> {
        let is_held = |at: &usize| self.is_held(*at);
        (0..self.known.len()).filter(is_held).map(|at| self.known[at].follower.name).collect()
    }

    /// Whether a follower that lowers the frequency is used.
    pub fn lowers_frequency(&self) -> bool {
        let lowers = |at: usize| self.known[at].follower.lowers_frequency && !self.is_held(at);
        self.known.is_empty() || (0..self.known.len()).any(lowers)
    }

    fn is_held(&self, at: usize) -> bool {
        let on_trial = self.trial.as_ref().is_some_and(|t| t.without.is_none() && t.of == at);
        on_trial || self.known[at].left_out.is_some()
    }

    /// How much the bound leaves for followers; `None` where there is none, or it is not known yet.
    pub fn set_room(&mut self, room_us: Option<f64>) {
        self.room_us = room_us.filter(|room_us| room_us.is_finite());
    }

    /// Takes in a window; says so where knobs are used that were not, or the other way round.
    pub fn window(&mut self, window: &Window<'_>) -> Option<String> {
        if self.known.is_empty() {
            return None;
        }
        if window.power_w.is_some() {
            self.metered_at = Some(window.now);
        }
        let whole = window.power_w.zip(window.latency_us_mean).zip(window.saving);
        match whole {
            Some(((power_w, latency_us_mean), setting)) => {
                if self.setting.as_ref() != Some(setting) {
                    self.interrupt();
                    self.setting = Some(setting.clone());
                }
                self.stretch.add(window.dt_s, power_w, window.requests, latency_us_mean);
                self.go_on(window.now);
            }
            None => {
                self.interrupt();
                self.setting = None;
            }
        }
        self.decide(window.now)
    }

    /// The law's setting changed, or a window tells nothing: what there is of a pair counts.
    fn interrupt(&mut self) {
        if let Some(trial) = self.trial.take() {
            self.pair(&trial);
        }
        self.stretch = Stretch::default();
    }

    fn go_on(&mut self, now: Duration) {
        if self.stretch.windows < WINDOWS {
            return;
        }
        match self.trial.take() {
            Some(trial) if trial.without.is_none() => {
                self.trial = Some(Trial { without: Some(self.stretch), ..trial });
            }
            Some(trial) => self.pair(&trial),
            None if now >= self.next_trial => {
                if let Some(of) = self.candidate(now) {
                    self.known[of].tried_at = now;
                    self.trial = Some(Trial { of, before: self.stretch, without: None });
                    let spread = 0.5 + splitmix64_share(0, self.trials);
                    self.next_trial = now + BETWEEN.mul_f64(spread);
                    self.trials += 1;
                }
            }
            // The newest ones only.
            None => {}
        }
        self.stretch = Stretch::default();
    }

    fn pair(&mut self, trial: &Trial) {
        let (with, without) = match trial.without {
            Some(without) => (trial.before.and(&self.stretch), without),
            None => (trial.before, self.stretch),
        };
        self.known[trial.of].evidence.add(&with, &without);
    }

    /// The knob to be tried: of those in use the one of which least is known, and of those of which
    /// enough is, the one that was tried longest ago.
    fn candidate(&self, now: Duration) -> Option<usize> {
        let due = |at: &usize| {
            let known = &self.known[*at];
            let enough = known.evidence.pairs() >= PAIRS_ENOUGH;
            known.left_out.is_none() && (!enough || now >= known.tried_at + KNOWN)
        };
        let rank = |at: &usize| {
            let known = &self.known[*at];
            (known.evidence.pairs().min(PAIRS_ENOUGH), known.tried_at)
        };
        (0..self.known.len()).filter(due).min_by_key(rank)
    }

    fn is_metered(&self, now: Duration) -> bool {
        self.metered_at.is_some_and(|at| now.saturating_sub(at) <= METER_MISSING)
    }

    /// Best first; those of which too little is known come last, as they are configured.
    fn order(&self) -> Vec<usize> {
        let value = |at: &usize| self.known[*at].evidence.value().unwrap_or(f64::NEG_INFINITY);
        let mut order: Vec<_> = (0..self.known.len()).collect();
        order.sort_by(|one, other| value(other).total_cmp(&value(one)));
        order
    }

    fn decide(&mut self, now: Duration) -> Option<String> {
        let before: Vec<_> = self.known.iter().map(reason).collect();
        if self.is_metered(now) {
            self.forget_what_is_old(now);
            self.fit(now);
        } else {
            // What was measured may be true no more, and nobody could tell.
            self.known.iter_mut().for_each(|known| known.left_out = None);
        }
        let is_new = before.into_iter().ne(self.known.iter().map(reason));
        is_new.then(|| self.told(now))
    }

    /// Best first, as far as the bound leaves room.
    fn fit(&mut self, now: Duration) {
        let mut used_us = 0.0;
        for at in self.order() {
            let known = &mut self.known[at];
            let (before, cost_us) = (reason(known), known.evidence.cost_us());
            let share = if before == Some(Why::DoesNotFit) { FITS_AGAIN } else { 1.0 };
            let is_known = known.evidence.value().is_some();
            let within = |room_us: f64| used_us + cost_us <= share * room_us;
            let why = if known.evidence.saves_nothing() {
                Some(Why::SavesNothing)
            } else {
                (is_known && !self.room_us.is_none_or(within)).then_some(Why::DoesNotFit)
            };
            if why.is_none() {
                used_us += cost_us;
            }
            if why != before {
                known.left_out = why.map(|why| (why, now));
            }
        }
    }

    fn forget_what_is_old(&mut self, now: Duration) {
        for known in &mut self.known {
            if known.left_out.is_some_and(|(_, since)| now.saturating_sub(since) >= LEFT_ALONE) {
                known.left_out = None;
                known.evidence = Evidence::default();
            }
        }
    }

    /// The knobs in their order, in a sentence.
    fn told(&self, now: Duration) -> String {
        if !self.is_metered(now) {
            return "the meter is missing: all knobs are used as configured".to_owned();
        }
        let mut text = "knobs by measured watts for each microsecond: ".to_owned();
        for (nth, status) in self.statuses(now).iter().enumerate() {
            let comma = if nth == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{}", status.name);
            if let (Some(saved), Some(added)) = (status.power_w_saved, status.latency_us_added) {
                let _ = write!(text, " ({:.1} W for {:.0} us", saved.mean, added.mean);
                let _ = match &status.left_out {
                    Some(why) => write!(text, "; not used: {why})"),
                    None => write!(text, ")"),
                };
            }
        }
        text
    }

    /// For the status: best first.
    pub fn statuses(&self, now: Duration) -> Vec<FollowerStatus> {
        let is_metered = self.is_metered(now);
        let status = |at: usize| {
            let Known { follower, evidence, left_out, .. } = &self.known[at];
            let is_measured = is_metered && evidence.value().is_some();
            FollowerStatus {
                name: follower.name.to_owned(),
                basis: if is_measured { Basis::Measured } else { Basis::AsConfigured },
                pairs: evidence.pairs() as u64,
                power_w_saved: evidence.power_w_saved.filter(|_| is_measured),
                latency_us_added: evidence.latency_us_added.filter(|_| is_measured),
                left_out: left_out.map(|(why, _)| self.words(why)),
            }
        };
        let as_configured = || (0..self.known.len()).collect();
        let order = if is_metered { self.order() } else { as_configured() };
        order.into_iter().map(status).collect()
    }

    fn words(&self, why: Why) -> String {
        match (why, self.room_us) {
            (Why::SavesNothing, _) => "what it saves cannot be told from chance".to_owned(),
            (Why::DoesNotFit, Some(room_us)) => {
                format!("the bound leaves {room_us:.0} us, and those before it take their part")
            }
            (Why::DoesNotFit, None) => "the bound leaves no room".to_owned(),
        }
    }
}

fn reason(known: &Known) -> Option<Why> {
    known.left_out.map(|(why, _)| why)
}

#[cfg(test)]
mod tests;
