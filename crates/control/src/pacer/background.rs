//! The background task scheduler (section IV-D).
//!
//! Starving background work looks like saving. Here it is accounted over the run: what was put off
//! is owed, and the pace rises until it is done.

use super::settings::PacerSettings;
use wattio_law::{Action, BackgroundAction, BackgroundObservation, DriveAction, Limits};
use wattio_units::Seconds;

/// The account of background work, in core-seconds at the highest frequency.
#[derive(Clone, Debug, Default)]
pub struct BackgroundKeeper {
    /// What full speed would have done, times the floor, less what was done; negative: credit.
    owed_core_s: f64,
    /// Work that becomes due in a second, class by class and in all.
    due_rates: Vec<f64>,
    due_rate: f64,
    backlog_core_s: f64,
    /// Whether an idle server is working its backlog off.
    draining: bool,
}

/// The share of full speed's work that is aimed at: half-way from the floor to all of it, so that
/// the floor itself holds over any stretch of a run and not just in the limit.
fn aim(settings: &PacerSettings) -> f64 {
    (settings.background_floor + 1.0) / 2.0
}

/// A backlog below so many seconds' worth counts as done.
const DONE_S: f64 = 0.02;

impl BackgroundKeeper {
    /// Takes a window into the account, all classes as one. At full speed, what was done is what
    /// full speed does.
    pub fn account(
        &mut self,
        seen: &[BackgroundObservation],
        at_full_speed: bool,
        settings: &PacerSettings,
        dt: Seconds,
    ) {
        if seen.is_empty() || !seen.iter().all(BackgroundObservation::is_plausible) {
            *self = Self::default();
            return;
        }
        let sum = |of: fn(&BackgroundObservation) -> f64| seen.iter().map(of).sum::<f64>();
        let (done, due) = (sum(|class| class.done_core_s), sum(|class| class.due_core_s));
        let full_speed = if at_full_speed { done } else { due };
        self.owed_core_s += aim(settings) * full_speed - done;
        self.due_rates.clear();
        if dt.0 > 0.0 {
            self.due_rates.extend(seen.iter().map(|class| class.due_core_s / dt.0));
        }
        self.due_rate = self.due_rates.iter().sum();
        self.backlog_core_s = sum(|class| class.backlog_core_s);
    }

    /// While stable: the floor's pace, slower with a credit and faster with a debt.
    pub fn budgets(&self, settings: &PacerSettings) -> Vec<BackgroundAction> {
        if !settings.adapt_background || self.due_rate <= 0.0 {
            return Vec::new();
        }
        let pace = if settings.background_floor > 0.0 {
            let horizon_core_s = self.due_rate * settings.background_horizon.0;
            aim(settings) + self.owed_core_s / horizon_core_s
        } else {
            settings.background_pace
        };
        self.at_pace(pace.clamp(settings.background_pace, settings.background_pace_max))
    }

    /// The budgets of all classes at a multiple of the rates at which they become due.
    fn at_pace(&self, pace: f64) -> Vec<BackgroundAction> {
        self.due_rates.iter().map(|&rate| BackgroundAction::of(rate * pace)).collect()
    }

    /// While idle: everything that is due at full speed, then fewest cores at the lowest
    /// frequency, until enough has become due again. Work that nobody tells of is never paused:
    /// it would stand still for as long as no client asks for anything.
    pub fn while_idle(&mut self, limits: &Limits, settings: &PacerSettings) -> Action {
        if !settings.adapt_background {
            return limits.full_speed();
        }
        let backlog_s = if self.due_rate > 0.0 { self.backlog_core_s / self.due_rate } else { 0.0 };
        self.draining = match self.draining {
            true => backlog_s > DONE_S,
            false => backlog_s >= settings.idle_batch.0,
        };
        if self.draining {
            let background = self.at_pace(settings.idle_pace);
            return Action { background, drives: DriveAction::Asleep, ..limits.full_speed() };
        }
        let mut action = limits.full_speed();
        action.drives = DriveAction::Asleep;
        for (group, limits) in action.groups.iter_mut().zip(&limits.groups) {
            if settings.adapt_cores {
                group.cores = limits.cores_min;
            }
            if settings.adapt_frequency {
                group.frequency = limits.frequency_min;
            }
        }
        action.background = vec![BackgroundAction::PAUSED; self.due_rates.len()];
        action
    }
}
