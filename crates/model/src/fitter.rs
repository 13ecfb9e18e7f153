//! The fitter: windows at full speed in, a model of the host out.

use crate::host_model::{HostModel, NoModel, WINDOWS_MIN, Window};
use std::collections::VecDeque;
use wattio_law::{Action, GroupObservation, Observation};
use wattio_units::{Hertz, Seconds};

/// Windows that are remembered: an hour and a half at two a second.
const WINDOWS_MAX: usize = 10_000;
/// The model is fitted again after so many windows at full speed.
const REFIT_EVERY: usize = 60;

/// Windows at full speed, and the model fitted to them.
#[derive(Debug)]
pub struct Fitter {
    windows: VecDeque<Window>,
    since_fit: usize,
    error_max: f64,
    /// Share of a request's time on a core that scales with `1/f`: assumed, or from a power model.
    frequency_bound_share: f64,
    frequencies_max: Vec<Hertz>,
    model: Result<HostModel, NoModel>,
}

/// The model's prediction for one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Latency at the setting asked for over that at full speed.
    pub stretch: f64,
    /// Predicted latency at full speed in microseconds.
    pub full_speed_us: f64,
}

impl Fitter {
    /// Fits with at most this error, for groups with these highest frequencies.
    #[must_use]
    pub fn new(error_max: f64, frequency_bound_share: f64, frequencies_max: Vec<Hertz>) -> Self {
        Self {
            windows: VecDeque::new(),
            since_fit: 0,
            error_max,
            frequency_bound_share,
            frequencies_max,
            model: Err(NoModel::TooFew { have: 0, need: WINDOWS_MIN }),
        }
    }

    /// Takes in a window that was measured at full speed.
    pub fn learn(&mut self, seen: &Observation, dt: Seconds) {
        let Some(latency) = seen.latency.as_ref().filter(|l| l.is_plausible()) else { return };
        let Some(latency_us) = latency.latency_us_mean.filter(|_| latency.requests > 0) else {
            return;
        };
        let groups =
            seen.groups.iter().map(|g| (f64::from(g.cores), g.utilisation().clamp(0.0, 1.0)));
        let rate = latency.requests as f64 / dt.0;
        self.windows.push_back(Window { rate, latency_us, groups: groups.collect() });
        if self.windows.len() > WINDOWS_MAX {
            self.windows.pop_front();
        }
        self.since_fit += 1;
        let early = self.model.is_err() && self.since_fit >= 10;
        if early || self.since_fit >= REFIT_EVERY {
            self.since_fit = 0;
            self.model = HostModel::fit(self.windows.make_contiguous(), self.error_max);
        }
    }

    /// The model's prediction for `action` and for `full` speed under a load; `None` without a
    /// model.
    #[must_use]
    pub fn forecast(&self, rate: f64, full: &Action, action: &Action) -> Option<Forecast> {
        let model = self.model.as_ref().ok()?;
        let predict_us = |action: &Action| {
            let groups = action.groups.iter().zip(&self.frequencies_max);
            let groups: Vec<_> =
                groups.map(|(g, &most)| (f64::from(g.cores), g.frequency / most)).collect();
            model.predict(rate, &groups, self.frequency_bound_share).latency_us
        };
        let (full_speed_us, latency_us) = (predict_us(full), predict_us(action));
        Some(Forecast { stretch: latency_us / full_speed_us, full_speed_us })
    }

    /// The groups as they would be with `action`: the same work on other cores.
    #[must_use]
    pub fn groups_with(&self, seen: &[GroupObservation], action: &Action) -> Vec<GroupObservation> {
        let zipped = seen.iter().zip(&action.groups).zip(&self.frequencies_max);
        zipped
            .map(|((group, asked), &most)| {
                let share = self.frequency_bound_share;
                let stretch = |frequency: Hertz| 1.0 - share + share * (most / frequency);
                let cores = f64::from(group.cores) / f64::from(asked.cores.max(1));
                let work = cores * stretch(asked.frequency) / stretch(group.frequency);
                let clients = (group.utilisation_clients * work).min(1.0);
                let background = (group.utilisation_background * work).min(1.0 - clients);
                GroupObservation {
                    cores: asked.cores,
                    frequency: asked.frequency,
                    utilisation_clients: clients,
                    utilisation_background: background,
                    queued: None,
                    waited_for_drives: group.waited_for_drives,
                }
            })
            .collect()
    }

    /// The model, or why there is none.
    ///
    /// # Errors
    /// [`NoModel`].
    pub fn model(&self) -> Result<&HostModel, NoModel> {
        self.model.as_ref().map_err(|why| match why {
            NoModel::TooFew { need, .. } => {
                let have = self.windows.iter().filter(|window| window.is_unsaturated()).count();
                NoModel::TooFew { have, need: *need }
            }
            why => why.clone(),
        })
    }
}
