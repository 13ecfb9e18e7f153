//! The hyperparameters, typed. Units, ranges and sources are in `parameters/foresight.toml`.

use super::choice::Assumed;
use crate::parameters::{Settings, flag, number};
use wattio_units::Seconds;

/// All hyperparameters of the law.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each is documented in parameters/foresight.toml")]
pub struct ForesightSettings {
    pub plf: f64,
    pub window: Seconds,
    pub look_every: Seconds,
    pub look_span: Seconds,
    pub spend_share: f64,
    pub spend_share_steady: f64,
    pub window_share_max: f64,
    pub careful_deviations: f64,
    pub doubt_deviations: f64,
    pub price_gain: f64,
    pub share_gain: f64,
    pub relax_gain: f64,
    pub debt_gain: f64,
    pub debt_windows: f64,
    pub usual_windows: f64,
    pub tail_windows: f64,
    pub leap_memory_windows: f64,
    pub record_memory_windows: f64,
    pub risk_deviations: f64,
    pub risk_share: f64,
    pub utilisation_max: f64,
    pub others_share_max: f64,
    pub others_utilisation_max: f64,
    pub others_room: f64,
    pub visits: f64,
    pub slice: Seconds,
    pub left_share: f64,
    pub work_waited_for: f64,
    pub work_waited_for_deviation: f64,
    pub waiting: f64,
    pub waiting_deviation: f64,
    pub together: f64,
    pub together_deviation: f64,
    pub probe_first: Seconds,
    pub probe_every: Seconds,
    pub probe_uncertainty: f64,
    pub probe_uncertainty_full_speed: f64,
    pub backlog_horizon: Seconds,
    pub background_delay: Seconds,
    pub quiet_min: Seconds,
    pub background_delay_share: f64,
    pub assumed_frequency_bound_share: f64,
    pub assumed_core_power_w: f64,
    pub assumed_core_static_share: f64,
    pub assumed_core_sleeping_share: f64,
    pub adapt_cores: bool,
    pub adapt_frequency: bool,
    pub adapt_background: bool,
}

impl ForesightSettings {
    pub(crate) fn from_resolved(settings: &Settings) -> Self {
        let number = |name| number(settings, name);
        let seconds = |name| Seconds(number(name));
        let flag = |name| flag(settings, name);
        Self {
            plf: number("plf"),
            window: seconds("window"),
            look_every: seconds("look_every"),
            look_span: seconds("look_span"),
            spend_share: number("spend_share"),
            spend_share_steady: number("spend_share_steady"),
            window_share_max: number("window_share_max"),
            careful_deviations: number("careful_deviations"),
            doubt_deviations: number("doubt_deviations"),
            price_gain: number("price_gain"),
            share_gain: number("share_gain"),
            relax_gain: number("relax_gain"),
            debt_gain: number("debt_gain"),
            debt_windows: number("debt_windows"),
            usual_windows: number("usual_windows"),
            tail_windows: number("tail_windows"),
            leap_memory_windows: number("leap_memory_windows"),
            record_memory_windows: number("record_memory_windows"),
            risk_deviations: number("risk_deviations"),
            risk_share: number("risk_share"),
            utilisation_max: number("utilisation_max"),
            others_share_max: number("others_share_max"),
            others_utilisation_max: number("others_utilisation_max"),
            others_room: number("others_room"),
            visits: number("visits"),
            slice: seconds("slice"),
            left_share: number("left_share"),
            work_waited_for: number("work_waited_for"),
            work_waited_for_deviation: number("work_waited_for_deviation"),
            waiting: number("waiting"),
            waiting_deviation: number("waiting_deviation"),
            together: number("together"),
            together_deviation: number("together_deviation"),
            probe_first: seconds("probe_first"),
            probe_every: seconds("probe_every"),
            probe_uncertainty: number("probe_uncertainty"),
            probe_uncertainty_full_speed: number("probe_uncertainty_full_speed"),
            backlog_horizon: seconds("backlog_horizon"),
            background_delay: seconds("background_delay"),
            quiet_min: seconds("quiet_min"),
            background_delay_share: number("background_delay_share"),
            assumed_frequency_bound_share: number("assumed_frequency_bound_share"),
            assumed_core_power_w: number("assumed_core_power_w"),
            assumed_core_static_share: number("assumed_core_static_share"),
            assumed_core_sleeping_share: number("assumed_core_sleeping_share"),
            adapt_cores: flag("adapt_cores"),
            adapt_frequency: flag("adapt_frequency"),
            adapt_background: flag("adapt_background"),
        }
    }

    /// What holds where nobody sets anything.
    #[cfg(test)]
    pub(super) fn usual() -> Self {
        let policy = crate::registry::policy("foresight").expect("a policy of ours");
        Self::from_resolved(&policy.resolve(&Settings::new()).expect("nothing is set"))
    }

    pub(super) fn assumed(&self) -> Assumed {
        Assumed {
            frequency_bound_share: self.assumed_frequency_bound_share,
            core_running_w: self.assumed_core_power_w,
            core_static_share: self.assumed_core_static_share,
            core_sleeping_share: self.assumed_core_sleeping_share,
        }
    }
}
