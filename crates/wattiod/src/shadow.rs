//! Shadow mode: the law's loop, closed over a model of this host.
//!
//! The host runs at full speed and is measured there. Once a model fits those measurements
//! ([`HostModel`]), the law is shown what the model says the same load would meet with the setting
//! that the law asked for; until then it is shown nothing, and saves nothing. How far the model is
//! off is measured on windows that were kept out of the fit. They are windows at full speed: what
//! fewer cores do is the model's word, and stays an estimate.

use crate::status::ShadowStatus;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use wattio_governor::Lens;
use wattio_law::{Action, GroupObservation, LatencyObservation, Observation};
use wattio_plant::{HostModel, NoModel, Window};
use wattio_units::{Hertz, Seconds};

/// Windows that are remembered: an hour and a half at two a second.
const WINDOWS_MAX: usize = 10_000;
/// The model is fitted again after so many windows at full speed.
const REFIT_EVERY: usize = 60;
/// Measured over predicted latency of a window: kept, but not believed beyond this.
const RATIO_MAX: f64 = 10.0;

/// Windows at full speed, and the model fitted to them.
#[derive(Debug)]
pub struct Fitter {
    windows: VecDeque<Window>,
    since_fit: usize,
    error_max: f64,
    /// Share of a request's time on a core that scales with `1/f`: assumed, or of a power model.
    frequency_bound_share: f64,
    frequencies_max: Vec<Hertz>,
    model: Result<HostModel, NoModel>,
}

/// What the model says of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Latency at the asked setting over that at full speed.
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
            model: Err(NoModel::TooFew { have: 0, need: wattio_plant::WINDOWS_MIN }),
        }
    }

    /// Takes in a window that was measured at full speed.
    pub fn learn(&mut self, seen: &Observation, dt: Seconds) {
        let Some(latency) = seen.latency.filter(LatencyObservation::is_plausible) else { return };
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

    /// What the model says of `action` and of `full` speed under a load; `None` without a model.
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
                    waited_for_drives: group.waited_for_drives,
                }
            })
            .collect()
    }

    /// How good the model is.
    #[must_use]
    pub fn status(&self) -> ShadowStatus {
        match &self.model {
            Ok(model) => ShadowStatus {
                fitted: true,
                why: None,
                error_median: Some(model.error_median),
                error_p90: Some(model.error_p90),
                windows_fitted: model.windows.0 as u64,
                windows_kept_out: model.windows.1 as u64,
                estimated_span_s: 0.0,
            },
            Err(why) => {
                let why = match why {
                    NoModel::TooFew { need, .. } => {
                        NoModel::TooFew { have: self.windows.len(), need: *need }
                    }
                    why => why.clone(),
                };
                ShadowStatus { why: Some(why.to_string()), ..ShadowStatus::default() }
            }
        }
    }
}

/// The lens of shadow mode.
pub struct Shadow {
    /// Shared with the daemon, which tells of it.
    pub fitter: Arc<Mutex<Fitter>>,
    /// Full speed.
    pub full: Action,
}

impl Lens for Shadow {
    fn see(&mut self, truth: &Observation, held: &Action, dt: Seconds) -> Observation {
        let mut fitter = self.fitter.lock().unwrap_or_else(PoisonError::into_inner);
        fitter.learn(truth, dt);
        let mut seen = truth.clone();
        let Some(latency) = &mut seen.latency else { return seen };
        let rate = latency.requests as f64 / dt.0;
        let Some(forecast) = fitter.forecast(rate, &self.full, held) else {
            // Nothing is known of any other setting than full speed: no latency, no saving.
            seen.latency = None;
            return seen;
        };
        // What the model does not explain of this window (a slow drive, luck) stays in it.
        latency.latency_us_mean = latency.latency_us_mean.map(|measured_us| {
            let unexplained = measured_us / forecast.full_speed_us;
            let kept = unexplained.clamp(1.0 / RATIO_MAX, RATIO_MAX);
            measured_us + kept * forecast.full_speed_us * (forecast.stretch - 1.0)
        });
        seen.groups = fitter.groups_with(&truth.groups, held);
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_law::{BackgroundDirective, GroupAction};

    fn observed(requests: u64, latency_us: f64, utilisation: f64) -> Observation {
        Observation {
            latency: Some(LatencyObservation {
                requests,
                latency_us_mean: (requests > 0).then_some(latency_us),
                bytes_mean: None,
                read_share: None,
                age: Seconds(0.0),
            }),
            groups: vec![GroupObservation {
                cores: 8,
                frequency: Hertz(3e9),
                utilisation_clients: utilisation,
                utilisation_background: 0.0,
                waited_for_drives: false,
            }],
            background: None,
            alarm: false,
        }
    }

    fn action(cores: u32, frequency: f64) -> Action {
        let groups = vec![GroupAction { cores, frequency: Hertz(frequency) }];
        Action { groups, background: BackgroundDirective::AS_DUE }
    }

    fn shadow() -> Shadow {
        let fitter = Fitter::new(0.15, 0.6, vec![Hertz(3e9)]);
        Shadow { fitter: Arc::new(Mutex::new(fitter)), full: action(8, 3e9) }
    }

    /// 20 us of work a request on 8 cores, 200 us in all.
    fn learned() -> Shadow {
        let mut shadow = shadow();
        for at in 0..100u64 {
            let requests = 10_000 + 500 * (at % 40);
            let utilisation = requests as f64 / 0.5 * 20e-6 / 8.0;
            shadow.see(&observed(requests, 200.0, utilisation), &action(8, 3e9), Seconds(0.5));
        }
        shadow
    }

    #[test]
    fn without_a_model_the_law_is_shown_no_latency() {
        let seen = shadow().see(&observed(100, 200.0, 0.1), &action(8, 3e9), Seconds(0.5));
        assert_eq!(seen.latency, None);
    }

    #[test]
    fn at_full_speed_the_law_sees_what_was_measured() {
        let truth = observed(12_345, 217.0, 0.05);
        assert_eq!(learned().see(&truth, &action(8, 3e9), Seconds(0.5)), truth);
    }

    #[test]
    fn fewer_and_slower_cores_are_busier_and_later() {
        let mut shadow = learned();
        let truth = observed(20_000, 200.0, 0.1);
        let half = shadow.see(&truth, &action(2, 3e9), Seconds(0.5));
        assert!((half.groups[0].utilisation_clients - 0.4).abs() < 1e-12);
        let slow = shadow.see(&truth, &action(2, 1e9), Seconds(0.5));
        assert!(slow.groups[0].utilisation_clients > 0.8);
        let mean = |seen: &Observation| seen.latency.unwrap().latency_us_mean.unwrap();
        assert!(mean(&half) > 200.0 && mean(&slow) > mean(&half));
    }

    #[test]
    fn silence_stays_silence() {
        let seen = learned().see(&observed(0, 0.0, 0.0), &action(4, 3e9), Seconds(0.5));
        assert_eq!(seen.latency.unwrap().requests, 0);
    }
}
