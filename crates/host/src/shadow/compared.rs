//! A second law in shadow mode, for comparison: what it would have done with the same requests.
//!
//! It has its own driver over the same model of this host, and sees the windows of the first law's
//! driver.

use super::{ComparedStatus, SharedFitter, view};
use std::convert::Infallible;
use std::time::Duration;
use wattio_control::{SettingError, Settings};
use wattio_law::{
    Action, Bound, Driver, DriverSettings, Glimpse, GroupObservation, Law, Limits, Observation,
    Plant, Seen,
};
use wattio_units::Seconds;

/// The other law, and what it would have achieved.
pub struct Compared {
    name: String,
    driver: Driver<Box<dyn Law>>,
    shown: ModelledHost,
    span_s: f64,
    estimated_j: f64,
    full_speed_j: f64,
}

/// The host as the model shows it to a law that acts on nothing.
struct ModelledHost {
    fitter: SharedFitter,
    full: Action,
    held: Action,
    truth: Option<Observation>,
    seen: Option<Observation>,
}

impl Plant for ModelledHost {
    type Error = Infallible;

    fn advance(&mut self, _: Duration) -> Result<Glimpse, Infallible> {
        Ok(Glimpse { is_ready: true, ..Glimpse::default() })
    }

    fn observe(&mut self, dt: Seconds, alarm: bool) -> Seen {
        let truth = self.truth.take().unwrap_or(Observation {
            latency: None,
            groups: Vec::new(),
            background: Vec::new(),
            power: None,
            alarm,
        });
        let observation = view(&self.fitter.get(), &truth, &self.full, &self.held, dt);
        self.seen = Some(observation.clone());
        Seen { observation, forced: None }
    }

    fn apply(&mut self, action: &Action) -> Action {
        self.held = action.clone();
        action.clone()
    }
}

impl Compared {
    /// A law by its name, with the same bounds, over the model that the first law's shadow is fitted
    /// to.
    ///
    /// # Errors
    /// For an unknown law.
    pub fn new(
        name: &str,
        limits: Limits,
        bounds: &[Bound],
        settings: DriverSettings,
        fitter: SharedFitter,
        now: Duration,
    ) -> Result<Self, SettingError> {
        let law = wattio_control::build(name, &Settings::new(), &limits)?;
        Ok(Self::of(name, Driver::new(law, limits, bounds, settings, now), fitter))
    }

    fn of(name: &str, driver: Driver<Box<dyn Law>>, fitter: SharedFitter) -> Self {
        let full = driver.limits().full_speed();
        let shown = ModelledHost { fitter, held: full.clone(), full, truth: None, seen: None };
        let name = name.to_owned();
        Self { name, driver, shown, span_s: 0.0, estimated_j: 0.0, full_speed_j: 0.0 }
    }

    /// Takes in a window as measured. `estimate_w` estimates the power of groups of cores.
    pub fn window(
        &mut self,
        now: Duration,
        truth: &Observation,
        estimate_w: impl Fn(&[GroupObservation]) -> Option<f64>,
    ) {
        self.shown.truth = Some(truth.clone());
        let stepped = self.driver.close(&mut self.shown, now, truth.alarm);
        let seen = self.shown.seen.take().filter(|seen| seen.latency.is_some());
        let powers = seen.and_then(|seen| estimate_w(&seen.groups).zip(estimate_w(&truth.groups)));
        if let Some((here_w, full_w)) = powers {
            self.span_s += stepped.dt.0;
            self.estimated_j += here_w * stepped.dt.0;
            self.full_speed_j += full_w * stepped.dt.0;
        }
    }

    /// What it would have achieved so far; all of it is an estimate.
    #[must_use]
    pub fn status(&self) -> ComparedStatus {
        let account = self.driver.account();
        let bound = account.bounds.first();
        let saved = 1.0 - self.estimated_j / self.full_speed_j;
        ComparedStatus {
            policy: self.name.clone(),
            estimated_span_s: self.span_s,
            estimated_saving_share: (self.full_speed_j > 0.0).then_some(saved),
            estimated_loss_mean: account.on_mean().and_then(wattio_law::BoundAccount::loss),
            windows_bounded: bound.map_or(0, |bound| bound.windows),
            violations: bound.map_or(0, |bound| bound.windows_over),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_control::Value;
    use wattio_law::{GroupLimits, LatencyObservation};
    use wattio_units::Hertz;

    const WINDOW: Seconds = Seconds(0.5);

    /// 20 us of work for each request on eight cores, 200 us in all.
    fn truth(requests: u64) -> Observation {
        let group = GroupObservation {
            cores: 8,
            frequency: Hertz(3e9),
            utilisation_clients: requests as f64 / WINDOW.0 * 20e-6 / 8.0,
            utilisation_background: 0.0,
            queued: None,
            waited_for_drives: false,
        };
        let latency = LatencyObservation {
            requests,
            latency_us_mean: Some(200.0),
            ..LatencyObservation::quiet(Seconds(0.0))
        };
        let (latency, groups) = (Some(latency), vec![group]);
        Observation { latency, groups, background: vec![], power: None, alarm: false }
    }

    /// Half a watt for each core that is on.
    fn compared(policy: &str, settings: Settings) -> (Compared, SharedFitter) {
        let limits = Limits::of(vec![GroupLimits {
            cores_min: 1,
            cores_max: 8,
            frequency_min: Hertz(3e9),
            frequency_max: Hertz(3e9),
            frequency_steps: vec![],
            idle_cores_sleep: false,
            power: vec![],
            frequency_bound_share: None,
        }]);
        let law = wattio_control::build(policy, &settings, &limits).unwrap();
        let settings = DriverSettings::default();
        let driver = Driver::new(law, limits, &[], settings, Duration::ZERO);
        let fitter = SharedFitter::new(0.15, None, vec![Hertz(3e9)]);
        (Compared::of(policy, driver, fitter.clone()), fitter)
    }

    fn play(compared: &mut Compared, fitter: &SharedFitter, windows: u32) -> ComparedStatus {
        for at in 1..=windows {
            let truth = truth(10_000 + 300 * u64::from(at % 40));
            fitter.get().learn(&truth, WINDOW);
            let watts = |groups: &[GroupObservation]| Some(0.5 * f64::from(groups[0].cores));
            compared.window(Duration::from_millis(500) * at, &truth, watts);
        }
        compared.status()
    }

    #[test]
    fn another_law_is_told_what_the_model_says_and_saves_by_estimate() {
        let half = Settings::from([("cores_share".to_owned(), Value::Number(0.5))]);
        let (mut other, fitter) = compared("fixed", half);
        let status = play(&mut other, &fitter, 200);
        assert_eq!(status.policy, "fixed");
        // Nothing is estimated before a model fits; from then on half of the cores are off.
        assert!((50.0..100.0).contains(&status.estimated_span_s), "{status:?}");
        assert!((status.estimated_saving_share.unwrap() - 0.5).abs() < 0.02, "{status:?}");
    }

    #[test]
    fn a_law_that_changes_nothing_saves_nothing() {
        let (mut native, fitter) = compared("native", Settings::new());
        assert_eq!(play(&mut native, &fitter, 100).estimated_saving_share, Some(0.0));
    }
}
