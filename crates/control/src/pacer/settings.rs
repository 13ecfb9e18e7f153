//! The hyperparameters, typed. Units, ranges and sources are in `parameters/pacer.toml`.

use crate::parameters::{Settings, flag, number};
use wattio_units::Seconds;

/// All hyperparameters of the law.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each is documented in parameters/pacer.toml")]
pub struct PacerSettings {
    pub plf: f64,
    pub window: Seconds,
    pub windows: usize,
    pub stable_threshold: f64,
    pub unstable_threshold: f64,
    pub burst_margin: f64,
    pub burst_utilisation: f64,
    pub burst_window: Seconds,
    pub burst_alarm: f64,
    pub rate_change: f64,
    pub idle_after: Seconds,
    pub idle_utilisation_max: f64,
    pub requests_min: u64,
    pub merged_gain_max: f64,
    pub alpha: f64,
    pub beta: f64,
    pub utilisation_max: f64,
    pub utilisation_clients_max: f64,
    pub gamma: f64,
    pub loss_distance_min: f64,
    pub overshoot_max: f64,
    pub retry_after: Seconds,
    pub bound_headroom: f64,
    pub baseline_octaves: f64,
    pub baseline_age_max: Seconds,
    pub background_floor: f64,
    pub background_pace: f64,
    pub background_horizon: Seconds,
    pub idle_batch: Seconds,
    pub adapt_cores: bool,
    pub adapt_frequency: bool,
    pub adapt_background: bool,
    pub coordinated: bool,
}

impl PacerSettings {
    pub(crate) fn from_resolved(settings: &Settings) -> Self {
        let number = |name| number(settings, name);
        let seconds = |name| Seconds(number(name));
        let flag = |name| flag(settings, name);
        Self {
            plf: number("plf"),
            window: seconds("window"),
            windows: number("windows") as usize,
            stable_threshold: number("stable_threshold"),
            unstable_threshold: number("unstable_threshold"),
            burst_margin: number("burst_margin"),
            burst_utilisation: number("burst_utilisation"),
            burst_window: seconds("burst_window"),
            burst_alarm: number("burst_alarm"),
            rate_change: number("rate_change"),
            idle_after: seconds("idle_after"),
            idle_utilisation_max: number("idle_utilisation_max"),
            requests_min: number("requests_min") as u64,
            merged_gain_max: number("merged_gain_max"),
            alpha: number("alpha"),
            beta: number("beta"),
            utilisation_max: number("utilisation_max"),
            utilisation_clients_max: number("utilisation_clients_max"),
            gamma: number("gamma"),
            loss_distance_min: number("loss_distance_min"),
            overshoot_max: number("overshoot_max"),
            retry_after: seconds("retry_after"),
            bound_headroom: number("bound_headroom"),
            baseline_octaves: number("baseline_octaves"),
            baseline_age_max: seconds("baseline_age_max"),
            background_floor: number("background_floor"),
            background_pace: number("background_pace"),
            background_horizon: seconds("background_horizon"),
            idle_batch: seconds("idle_batch"),
            adapt_cores: flag("adapt_cores"),
            adapt_frequency: flag("adapt_frequency"),
            adapt_background: flag("adapt_background"),
            coordinated: flag("coordinated"),
        }
    }
}
