//! Background work: how much is due, how much is overdue, and how much may run.

use super::settings::ForesightSettings;
use wattio_law::{BackgroundAction, BackgroundObservation};
use wattio_units::Seconds;

/// What is known of the work that no client waits for.
#[derive(Clone, Debug, Default)]
pub struct Background {
    /// Work that becomes due in a second, class by class, in core-seconds.
    due: Vec<f64>,
    /// Work that is due and not done, likewise.
    backlog: Vec<f64>,
    /// What was done of them in the last window, in cores' worth.
    done: f64,
    /// The most pressing class.
    urgency: f64,
    is_told: bool,
    /// Whether saved-up work is being worked off, while clients are quiet.
    draining: bool,
}

/// So many seconds' worth of work are none: tasks come one by one.
const DONE_S: f64 = 0.05;
/// No server has more cores; work that would need more is not believed beyond this.
const CORES_MAX: f64 = 1e6;
/// Weight of the last window in the rate at which work becomes due.
const DUE_WEIGHT: f64 = 0.3;

impl Background {
    /// Takes in a window.
    pub fn learn(&mut self, seen: &[BackgroundObservation], dt: Seconds) {
        self.is_told = !seen.is_empty() && seen.iter().all(BackgroundObservation::is_plausible);
        if !self.is_told {
            *self = Self::default();
            return;
        }
        let rate = |core_s: f64| (core_s / dt.0).min(CORES_MAX);
        self.done = seen.iter().map(|class| rate(class.done_core_s)).sum();
        let fresh = self.due.len() != seen.len();
        self.due.resize(seen.len(), 0.0);
        self.backlog = seen.iter().map(|class| class.backlog_core_s).collect();
        for (due, class) in self.due.iter_mut().zip(seen) {
            let weight = if fresh { 1.0 } else { DUE_WEIGHT };
            *due += weight * (rate(class.due_core_s) - *due);
        }
        let urgencies = seen.iter().filter_map(|class| class.urgency).filter(|u| u.is_finite());
        self.urgency = urgencies.fold(0.0, f64::max);
    }

    /// Work that becomes due in a second, in core-seconds; `None` where nobody tells.
    pub fn due(&self) -> Option<f64> {
        self.is_told.then(|| self.due.iter().sum())
    }

    /// Cores' worth of work that was done in the last window; `None` where nobody tells.
    pub fn done(&self) -> Option<f64> {
        self.is_told.then_some(self.done)
    }

    /// Work that is due and not done, in core-seconds.
    pub fn backlog(&self) -> f64 {
        self.backlog.iter().sum()
    }

    /// Cores' worth of work that shall run: what becomes due, and what is owed within the horizon.
    pub fn wanted(&self, settings: &ForesightSettings) -> Option<f64> {
        let due = self.due()?;
        Some(due + self.backlog() / settings.backlog_horizon.0)
    }

    /// The budgets by which so many cores' worth of work run.
    pub fn budgets(&self, cores: f64) -> Vec<BackgroundAction> {
        let all: f64 = self.due.iter().sum::<f64>() + self.backlog.iter().sum::<f64>();
        let part = |(due, backlog): (&f64, &f64)| {
            let share = if all > 0.0 { (due + backlog) / all } else { 0.0 };
            BackgroundAction::of(cores * share)
        };
        self.due.iter().zip(&self.backlog).map(part).collect()
    }

    /// While clients are quiet: the cores' worth of work that shall run, at most `most`. It is saved
    /// up for as long as it may, and then worked off, so that the drives can sleep between.
    pub fn in_batches(&mut self, elapsed: Seconds, most: f64, settings: &ForesightSettings) -> f64 {
        let due = self.due().unwrap_or(0.0);
        let delay_core_s = self.delay_s(elapsed, settings) * due;
        // What a window saves up must fit, too.
        let next = self.backlog() + due * settings.window.0;
        self.draining =
            if self.draining { self.backlog() > due * DONE_S } else { next > delay_core_s };
        if !self.draining {
            return 0.0;
        }
        (due + self.backlog() / settings.window.0).min(most)
    }

    /// Whether work can be put off at all for a whole window.
    pub fn can_wait(&self, elapsed: Seconds, settings: &ForesightSettings) -> bool {
        self.is_told && self.delay_s(elapsed, settings) >= settings.window.0
    }

    /// How many seconds' worth of work may be put off now.
    pub fn delay_s(&self, elapsed: Seconds, settings: &ForesightSettings) -> f64 {
        let calm = (1.0 - self.urgency).clamp(0.0, 1.0);
        let share_s = elapsed.0 * settings.background_delay_share;
        share_s.min(settings.background_delay.0) * calm
    }
}
