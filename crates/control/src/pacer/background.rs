//! The background task scheduler (section IV-D).
//!
//! Starving background work looks like saving, and PACER does not limit it. Here every class has an
//! account of the work that full speed would have done by now but is not done yet. This debt is
//! worked off within `background_horizon`, so work is late but never lost. Work done ahead at full
//! speed is not a credit that allows starving it later.

use super::credit::Rest;
use super::settings::PacerSettings;
use std::sync::Arc;
use wattio_law::{
    Action, BackgroundAction, BackgroundObservation, Budget, DriveAction, GroupAction, Limits,
};
use wattio_units::Seconds;

/// The accounts of all classes.
#[derive(Clone, Debug, Default)]
pub struct BackgroundKeeper {
    classes: Vec<Class>,
    /// Time that was accounted for.
    elapsed: Seconds,
    /// Whether an idle server is working its backlog off.
    draining: bool,
}

/// The account of one class, in core-seconds at the highest frequency.
#[derive(Clone, Debug)]
struct Class {
    name: Arc<str>,
    /// What full speed would have done by now and is not done.
    owed_core_s: f64,
    /// Work that becomes due in a second, a mean over [`RATE_MEMORY_S`]. The first rate stands for
    /// all time before, and so does the one after a rate that is no number.
    due_rate: f64,
    backlog_core_s: f64,
    urgency: f64,
}

/// Work may become due in lumps; the rate is a decaying mean over this time.
const RATE_MEMORY_S: f64 = 10.0;
/// A backlog below so many seconds' worth counts as done, and so does one below so many
/// core-seconds: less than a task cannot begin.
const DONE_S: f64 = 0.02;
const DONE_CORE_S: f64 = 0.01;
/// An idle server collects work up to this part of what the floor leaves of the time that passed:
/// with half of it, a run that is counted only after a warm-up as long as itself keeps the floor.
const COLLECTED_PART: f64 = 0.5;

impl Class {
    fn new(seen: &BackgroundObservation) -> Self {
        Self {
            name: seen.class.clone(),
            owed_core_s: 0.0,
            due_rate: f64::NAN,
            backlog_core_s: 0.0,
            urgency: 0.0,
        }
    }

    fn account(&mut self, seen: &BackgroundObservation, at_full_speed: bool, dt: Seconds) {
        if dt.0 > 0.0 {
            let rate = seen.due_core_s / dt.0;
            let news = 1.0 - (-dt.0 / RATE_MEMORY_S).exp();
            let before = if self.due_rate.is_finite() { self.due_rate } else { rate };
            self.due_rate = before + (rate - before) * news;
        }
        let late = seen.due_core_s - seen.done_core_s;
        // At full speed, what was done is what full speed does; more of it pays a debt.
        self.owed_core_s += if at_full_speed { late.min(0.0) } else { late };
        self.owed_core_s = self.owed_core_s.clamp(0.0, seen.backlog_core_s);
        self.backlog_core_s = seen.backlog_core_s;
        self.urgency = seen.urgency.unwrap_or(0.0).clamp(0.0, 1.0);
    }

    /// The rate at which work becomes due, 0 before anything is known of it.
    fn rate(&self) -> f64 {
        if self.due_rate.is_finite() { self.due_rate } else { 0.0 }
    }

    /// What becomes due, and of the debt what brings it down within the horizon; a pressing class
    /// has less time.
    fn catching_up(&self, settings: &PacerSettings) -> BackgroundAction {
        let horizon_s = settings.background_horizon.0 * (1.0 - self.urgency);
        let debt_rate = if self.owed_core_s > 0.0 { self.owed_core_s / horizon_s } else { 0.0 };
        within_reason(self.rate() + debt_rate)
    }

    fn is_done(&self) -> bool {
        self.backlog_core_s <= (DONE_S * self.rate()).max(DONE_CORE_S)
    }
}

/// A budget, or none where it would be no number.
fn within_reason(core_s_per_s: f64) -> BackgroundAction {
    if core_s_per_s.is_finite() {
        BackgroundAction::of(core_s_per_s)
    } else {
        BackgroundAction { budget: Budget::AsDue, ..BackgroundAction::AS_DUE }
    }
}

impl BackgroundKeeper {
    /// Takes a window into the accounts. At full speed, what was done is what full speed does.
    pub fn account(&mut self, seen: &[BackgroundObservation], at_full_speed: bool, dt: Seconds) {
        if seen.is_empty() || !seen.iter().all(BackgroundObservation::is_plausible) {
            *self = Self { elapsed: self.elapsed + dt, ..Self::default() };
            return;
        }
        let known = seen.len() == self.classes.len()
            && seen.iter().zip(&self.classes).all(|(seen, class)| seen.class == class.name);
        if !known {
            self.classes = seen.iter().map(Class::new).collect();
        }
        self.elapsed = self.elapsed + dt;
        for (class, seen) in self.classes.iter_mut().zip(seen) {
            class.account(seen, at_full_speed, dt);
        }
    }

    /// While stable: what becomes due, and what is owed within the horizon; without a floor the
    /// printed constant pace.
    pub fn budgets(&self, settings: &PacerSettings) -> Vec<BackgroundAction> {
        let nothing = self.classes.iter().all(|class| class.rate() + class.owed_core_s <= 0.0);
        if !settings.adapt_background || nothing {
            return Vec::new();
        }
        let budget = |class: &Class| {
            if settings.background_floor > 0.0 {
                class.catching_up(settings)
            } else {
                within_reason(class.rate() * settings.background_pace)
            }
        };
        self.classes.iter().map(budget).collect()
    }

    /// At full speed for long: as it becomes due, and what is owed beside it.
    pub fn debts(&self, settings: &PacerSettings) -> Vec<BackgroundAction> {
        let owes = self.classes.iter().any(|class| class.owed_core_s > DONE_CORE_S);
        let bounded = settings.background_floor > 0.0;
        if bounded && owes { self.budgets(settings) } else { Vec::new() }
    }

    /// While idle: everything that is due at full speed until it is done, then the cores rest,
    /// until enough has become due again. Work that nobody tells of is never paused: it would
    /// stand still for as long as no client asks for anything.
    pub fn while_idle(
        &mut self,
        rest: Vec<GroupAction>,
        affords: Rest,
        limits: &Limits,
        settings: &PacerSettings,
    ) -> Action {
        if !settings.adapt_background {
            return limits.full_speed();
        }
        let batch_s = self.batch_s(settings);
        self.draining = self.classes.iter().any(|class| {
            let least = if self.draining { 0.0 } else { class.rate() * batch_s };
            !class.is_done() && (class.backlog_core_s >= least || class.urgency >= 1.0)
        });
        let mut action = limits.full_speed();
        action.drives = match affords.drives {
            true => DriveAction::Asleep,
            // Work that is put off would have kept them awake.
            false if !self.classes.is_empty() => DriveAction::Awake,
            false => DriveAction::Own,
        };
        if self.draining {
            // No more than all cores can be had.
            let cores: u32 = limits.groups.iter().map(|group| group.cores_max).sum();
            let budget = BackgroundAction::of(f64::from(cores));
            action.background = vec![budget; self.classes.len()];
            return action;
        }
        if affords.cores {
            action.groups = rest;
        }
        action.background = vec![BackgroundAction::PAUSED; self.classes.len()];
        action
    }

    /// Seconds' worth of work that an idle server may collect now.
    fn batch_s(&self, settings: &PacerSettings) -> f64 {
        if settings.background_floor <= 0.0 {
            return settings.idle_batch.0;
        }
        // What is collected is looked at once a window.
        let left_s = (1.0 - settings.background_floor) * self.elapsed.0 * COLLECTED_PART;
        settings.idle_batch.0.min((left_s - settings.window.0).max(0.0))
    }
}
