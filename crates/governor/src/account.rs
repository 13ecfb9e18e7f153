//! What a governor did, and how the bound fared.

use serde::Serialize;
use wattio_law::{Insight, LatencyObservation, Observation, OperatingState};
use wattio_units::Seconds;

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// Time accounted for, in seconds.
    pub span_s: f64,
    /// Windows in all.
    pub windows: u64,
    /// Windows without a latency to go by, or whose latency must not be gone by.
    pub windows_missing: u64,
    /// Windows after which full speed was forced: paused, breaker, guard, fault, no latency.
    pub windows_forced: u64,
    /// Windows in the state `stable`, with requests and a known bound.
    pub windows_bounded: u64,
    /// Of these, windows whose mean latency was above the bound.
    pub windows_broken: u64,
    /// Client requests that completed.
    pub requests: u64,
    /// Requests in windows with a known bound.
    pub requests_bounded: u64,
    /// Sum over those requests of the latency, in microseconds.
    pub latency_us_sum: f64,
    /// Sum over those requests of the latency at full speed, in microseconds.
    pub baseline_us_sum: f64,
    /// Values written to the machine.
    pub writes: u64,
    /// Values that could not be read, written or saved.
    pub failures: u64,
    /// Samples that could not be had.
    pub source_errors: u64,
    /// Places that somebody else took over.
    pub foreign: u64,
    /// Returns from saving to full speed.
    pub flaps: u64,
}

impl Account {
    /// `(latency - baseline) / baseline` over all requests of windows with a known bound.
    #[must_use]
    pub fn loss_mean(&self) -> Option<f64> {
        (self.baseline_us_sum > 0.0).then(|| self.latency_us_sum / self.baseline_us_sum - 1.0)
    }

    /// Takes in a window as it was measured and as the law saw it while it was in `state`.
    pub(crate) fn window(
        &mut self,
        dt: Seconds,
        truth: &Observation,
        seen: &Observation,
        insight: &Insight,
        state: Option<OperatingState>,
        forced: bool,
    ) {
        self.span_s += dt.0;
        self.windows += 1;
        self.windows_forced += u64::from(forced);
        let plausible = |seen: &Observation| seen.latency.filter(LatencyObservation::is_plausible);
        match plausible(truth) {
            Some(measured) => self.requests = self.requests.saturating_add(measured.requests),
            None => self.windows_missing += 1,
        }
        let Some(latency) = plausible(seen) else { return };
        let known = latency.latency_us_mean.zip(insight.baseline_us).zip(insight.bound_us);
        let saving = state == Some(OperatingState::Stable) && latency.requests > 0;
        let Some(((latency_us, baseline_us), bound_us)) = known.filter(|_| saving) else { return };
        let requests = latency.requests as f64;
        self.windows_bounded += 1;
        self.windows_broken += u64::from(latency_us > bound_us);
        self.requests_bounded = self.requests_bounded.saturating_add(latency.requests);
        self.latency_us_sum += latency_us * requests;
        self.baseline_us_sum += baseline_us * requests;
    }
}
