//! Shadow mode: the law's control loop, closed over a model of this host.
//!
//! The host runs at full speed and is measured there. Once a model fits those measurements
//! ([`wattio_model::HostModel`]), the law sees what, according to the model, the same load would
//! experience with the setting that the law asked for. Until then it sees nothing, and saves
//! nothing. The model's error is measured on windows that were kept out of the fit. These are
//! windows at full speed: what fewer cores would do is only the model's prediction, and remains an
//! estimate.

mod compared;
mod measured;
mod status;

pub use compared::Compared;
pub use measured::Measured;
pub use status::{ComparedStatus, ShadowStatus};

use crate::Root;
use crate::lock::Lock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wattio_governor::ShadowModel;
use wattio_law::{Action, Observation};
use wattio_model::Fitter;
use wattio_plant::PowerModel;
use wattio_units::{Hertz, Seconds};

/// Share of a request's time on a core that scales with `1/f`, where no power model tells: assumed.
const FREQUENCY_BOUND_SHARE: f64 = 0.6;

/// Whether a program acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Shadow mode: acts on nothing.
    Observe,
    /// Does what the law asks for.
    Run,
}

impl Mode {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Run => "run",
        }
    }
}

/// What is wrong where another program acts on this host: shadow mode takes what it measures for full
/// speed.
#[must_use]
pub fn others(root: &Root) -> Option<&'static str> {
    Lock::host_is_held(root).then_some(
        "a daemon acts on this host, and what it slows down is taken for full speed here; pause it \
         meanwhile (wattiod pause)",
    )
}

/// A model of this host, to be fitted; the shadow model and whatever reports on it share it.
#[derive(Clone, Debug)]
pub struct SharedFitter(Arc<Mutex<Fitter>>);

impl SharedFitter {
    /// Fits with at most this error, for groups with these highest frequencies.
    #[must_use]
    pub fn new(error_max: f64, model: Option<&PowerModel>, frequencies_max: Vec<Hertz>) -> Self {
        let share = model.map_or(FREQUENCY_BOUND_SHARE, |model| model.frequency_bound_share);
        Self(Arc::new(Mutex::new(Fitter::new(error_max, share, frequencies_max))))
    }

    /// The fitter.
    pub fn get(&self) -> MutexGuard<'_, Fitter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns from a window in which `at_full` speed was in force if it acts, as in shadow mode
    /// [`Shadow`] does; the loss that it predicts for `here`.
    pub fn forecast(
        &self,
        window: (&Observation, Seconds),
        rate: f64,
        full: &Action,
        here: &Action,
        mode: Mode,
    ) -> Option<f64> {
        let (truth, dt) = window;
        let mut fitter = self.get();
        let at_full = truth
            .groups
            .iter()
            .zip(&full.groups)
            .all(|(seen, full)| seen.cores == full.cores && seen.frequency == full.frequency);
        if mode == Mode::Run && at_full {
            fitter.learn(truth, dt);
        }
        let forecast = fitter.forecast(rate, full, here).filter(|_| rate > 0.0);
        forecast.map(|forecast| forecast.stretch - 1.0)
    }
}

/// Measured over predicted latency of a window is clamped to this.
const RATIO_MAX: f64 = 10.0;

/// The shadow model.
pub struct Shadow {
    /// Shared with whatever reports on it.
    pub fitter: SharedFitter,
    /// Full speed.
    pub full: Action,
}

impl ShadowModel for Shadow {
    fn see(&mut self, truth: &Observation, held: &Action, dt: Seconds) -> Observation {
        let mut fitter = self.fitter.get();
        fitter.learn(truth, dt);
        view(&fitter, truth, &self.full, held, dt)
    }
}

/// What a law is shown of a window that was measured at `full` speed, if its `held` action had been
/// in force. Latencies of the histogram grow as the mean does.
pub fn view(
    fitter: &Fitter,
    truth: &Observation,
    full: &Action,
    held: &Action,
    dt: Seconds,
) -> Observation {
    let mut seen = truth.clone();
    let Some(latency) = &mut seen.latency else { return seen };
    let rate = latency.requests as f64 / dt.0;
    let Some(forecast) = fitter.forecast(rate, full, held) else {
        // Only full speed is known: no latency, no saving.
        seen.latency = None;
        return seen;
    };
    if let Some(measured_us) = latency.latency_us_mean {
        // Whatever the model does not explain of this window (a slow drive, chance) is kept.
        let unexplained = measured_us / forecast.full_speed_us;
        let kept = unexplained.clamp(1.0 / RATIO_MAX, RATIO_MAX);
        let shown_us = measured_us + kept * forecast.full_speed_us * (forecast.stretch - 1.0);
        latency.latency_us_mean = Some(shown_us);
        if let Some(histogram) = &mut latency.histogram {
            histogram.stretch(shown_us / measured_us);
        }
    }
    seen.groups = fitter.groups_with(&truth.groups, held);
    if held.groups != full.groups || held.drives != full.drives {
        // The measured power is that of full speed; the other is unknown.
        seen.power = None;
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_law::{DriveAction, GroupAction, GroupObservation, LatencyObservation};
    use wattio_units::Watts;

    fn observed(requests: u64, latency_us: f64, utilisation: f64) -> Observation {
        Observation {
            latency: Some(LatencyObservation {
                requests,
                latency_us_mean: (requests > 0).then_some(latency_us),
                ..LatencyObservation::quiet(Seconds(0.0))
            }),
            groups: vec![GroupObservation {
                cores: 8,
                frequency: Hertz(3e9),
                utilisation_clients: utilisation,
                utilisation_background: 0.0,
                queued: None,
                waited_for_drives: false,
            }],
            background: vec![],
            power: None,
            alarm: false,
        }
    }

    fn action(cores: u32, frequency: f64) -> Action {
        let groups = vec![GroupAction { cores, frequency: Hertz(frequency) }];
        Action { groups, drives: DriveAction::Own, background: vec![] }
    }

    fn shadow() -> Shadow {
        let fitter = SharedFitter::new(0.15, None, vec![Hertz(3e9)]);
        Shadow { fitter, full: action(8, 3e9) }
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

    /// The meter shows full speed; passed on as the power of half of the cores, it would say that
    /// they save nothing.
    #[test]
    fn the_power_of_full_speed_is_shown_at_full_speed_only() {
        let truth = Observation { power: Some(Watts(61.0)), ..observed(12_345, 217.0, 0.05) };
        let shown = |held: &Action| learned().see(&truth, held, Seconds(0.5)).power;
        assert_eq!(shown(&action(8, 3e9)), Some(Watts(61.0)));
        assert_eq!((shown(&action(4, 3e9)), shown(&action(8, 1e9))), (None, None));
        let asleep = Action { drives: DriveAction::Asleep, ..action(8, 3e9) };
        assert_eq!(shown(&asleep), None);
    }

    #[test]
    fn fewer_and_slower_cores_are_busier_and_later() {
        let mut shadow = learned();
        let truth = observed(20_000, 200.0, 0.1);
        let half = shadow.see(&truth, &action(2, 3e9), Seconds(0.5));
        assert!((half.groups[0].utilisation_clients - 0.4).abs() < 1e-12);
        let slow = shadow.see(&truth, &action(2, 1e9), Seconds(0.5));
        assert!(slow.groups[0].utilisation_clients > 0.8);
        let mean = |seen: &Observation| seen.latency.as_ref().unwrap().latency_us_mean.unwrap();
        assert!(mean(&half) > 200.0 && mean(&slow) > mean(&half));
    }

    #[test]
    fn silence_stays_silence() {
        let seen = learned().see(&observed(0, 0.0, 0.0), &action(4, 3e9), Seconds(0.5));
        assert_eq!(seen.latency.unwrap().requests, 0);
    }
}
