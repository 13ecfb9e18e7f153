//! The background task scheduler (section IV-D).
//!
//! Starving background work looks like saving. Here it is accounted over the run: what was put off
//! is owed, and the pace rises until it is done.

use super::settings::PacerSettings;
use wattio_law::{Action, BackgroundDirective, BackgroundObservation, Limits};
use wattio_units::Seconds;

/// The account of background work, in core-seconds at the highest frequency.
#[derive(Clone, Debug, Default)]
pub struct BackgroundKeeper {
    /// What full speed would have done, times the floor, less what was done; negative: credit.
    owed_core_s: f64,
    /// Work that becomes due in a second.
    due_rate: f64,
    backlog_core_s: f64,
    /// Whether an idle server is working its backlog off.
    draining: bool,
    /// Whether the server tells of its background work.
    known: bool,
}

/// The share of full speed's work that is aimed at: half-way from the floor to all of it, so that
/// the floor itself holds over any stretch of a run and not just in the limit.
fn aim(settings: &PacerSettings) -> f64 {
    (settings.background_floor + 1.0) / 2.0
}

/// A backlog below so many seconds' worth counts as done.
const DONE_S: f64 = 0.02;

impl BackgroundKeeper {
    /// Takes a window into the account. At full speed, what was done is what full speed does.
    pub fn account(
        &mut self,
        seen: Option<&BackgroundObservation>,
        at_full_speed: bool,
        settings: &PacerSettings,
        dt: Seconds,
    ) {
        let possible = |core_s: f64| core_s.is_finite() && core_s >= 0.0;
        let Some(seen) = seen.filter(|seen| {
            [seen.done_core_s, seen.offered_core_s, seen.backlog_core_s].into_iter().all(possible)
        }) else {
            *self = Self::default();
            return;
        };
        self.known = true;
        let full_speed = if at_full_speed { seen.done_core_s } else { seen.offered_core_s };
        self.owed_core_s += aim(settings) * full_speed - seen.done_core_s;
        self.due_rate = if dt.0 > 0.0 { seen.offered_core_s / dt.0 } else { self.due_rate };
        self.backlog_core_s = seen.backlog_core_s;
    }

    /// While stable: the floor's pace, slower with a credit and faster with a debt.
    pub fn directive(&self, settings: &PacerSettings) -> BackgroundDirective {
        if !settings.adapt_background || self.due_rate <= 0.0 {
            return BackgroundDirective::AS_DUE;
        }
        let pace = if settings.background_floor > 0.0 {
            let horizon_core_s = self.due_rate * settings.background_horizon.0;
            aim(settings) + self.owed_core_s / horizon_core_s
        } else {
            settings.background_pace
        };
        let pace = pace.clamp(settings.background_pace, settings.background_pace_max);
        BackgroundDirective { pace, ..BackgroundDirective::AS_DUE }
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
            let background =
                BackgroundDirective { pace: settings.idle_pace, ..BackgroundDirective::AS_DUE };
            return Action { background, ..limits.full_speed() };
        }
        let mut action = limits.full_speed();
        for (group, limits) in action.groups.iter_mut().zip(&limits.groups) {
            if settings.adapt_cores {
                group.cores = limits.cores_min;
            }
            if settings.adapt_frequency {
                group.frequency = limits.frequency_min;
            }
        }
        if self.known {
            action.background = BackgroundDirective::PAUSED;
        }
        action
    }
}
