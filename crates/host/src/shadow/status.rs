//! How good shadow mode's model is, and what its law and another one would have achieved.

use serde::{Deserialize, Serialize};
use wattio_model::{Fitter, NoModel};

/// The model of this host in shadow mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShadowStatus {
    /// Whether the model is good enough to estimate with.
    pub fitted: bool,
    /// Why not, if it is not, and what would help.
    pub why: Option<String>,
    /// Median of `|predicted - measured| / measured` over windows kept out of the fit.
    pub error_median: Option<f64>,
    /// Its 90th percentile.
    pub error_p90: Option<f64>,
    /// Windows that were fitted.
    pub windows_fitted: u64,
    /// Windows that were kept out.
    pub windows_kept_out: u64,
}

impl ShadowStatus {
    /// How good the model is of a host, or of a server that measures its `own` latency.
    #[must_use]
    pub fn of(fitter: &Fitter, own: bool) -> Self {
        match fitter.model() {
            Ok(model) => Self {
                fitted: true,
                why: None,
                error_median: Some(model.error_median),
                error_p90: Some(model.error_p90),
                windows_fitted: model.windows.0 as u64,
                windows_kept_out: model.windows.1 as u64,
            },
            Err(why) => {
                // A model that is not good enough was fitted all the same: its error is known.
                let poor = match why {
                    NoModel::Poor { error_median, windows, fitted, .. } => Self {
                        error_median: Some(error_median),
                        windows_fitted: fitted as u64,
                        windows_kept_out: windows as u64,
                        ..Self::default()
                    },
                    _ => Self::default(),
                };
                Self { why: Some(format!("{why}; {}", why.help(own))), ..poor }
            }
        }
    }
}

impl ShadowStatus {
    /// How far off the model is, in a sentence.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        let (median, p90) = self.error_median.zip(self.error_p90)?;
        Some(format!(
            "the model is off by {:.1} % (median; 90th percentile {:.1} %) over {} at full speed that \
             were kept out of its fit; what fewer cores do is only its prediction",
            median * 100.0,
            p90 * 100.0,
            windows(self.windows_kept_out)
        ))
    }
}

fn windows(count: u64) -> String {
    format!("{count} window{}", if count == 1 { "" } else { "s" })
}

/// What another law would have achieved in shadow mode; all of it is an estimate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedStatus {
    /// The law.
    pub policy: String,
    /// Time over which there was an estimate.
    pub estimated_span_s: f64,
    /// Share of the energy at full speed that it would have saved.
    pub estimated_saving_share: Option<f64>,
    /// Growth of the mean latency over full speed.
    pub estimated_loss_mean: Option<f64>,
    /// Windows in which its first bound was in force.
    pub windows_bounded: u64,
    /// Of these, windows above it.
    pub violations: u64,
}

impl ComparedStatus {
    /// The same in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let percent = |share: Option<f64>| {
            share.map_or("unknown".to_owned(), |share| format!("{:.1} %", share * 100.0))
        };
        format!(
            "beside it, {} would have saved {} at a mean latency of {} above full speed, with {} of {} \
             above the bound (estimates)",
            self.policy,
            percent(self.estimated_saving_share),
            percent(self.estimated_loss_mean),
            self.violations,
            windows(self.windows_bounded)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_law::{GroupObservation, LatencyObservation, Observation};
    use wattio_units::{Hertz, Seconds};

    /// Of a host whose latency has nothing to do with its load.
    fn shown(windows: u32, utilisation: impl Fn(u32) -> f64) -> ShadowStatus {
        let mut fitter = Fitter::new(0.15, 0.6, vec![Hertz(3e9)]);
        for at in 0..windows {
            let latency_us = if at.wrapping_mul(2_654_435_761) >> 31 == 0 { 100.0 } else { 900.0 };
            let requests = 1000 + u64::from(at % 40) * 100;
            let latency = LatencyObservation {
                requests,
                latency_us_mean: Some(latency_us),
                ..LatencyObservation::quiet(Seconds(0.0))
            };
            let group = GroupObservation {
                cores: 8,
                frequency: Hertz(3e9),
                utilisation_clients: utilisation(at),
                utilisation_background: 0.0,
                queued: None,
                waited_for_drives: false,
            };
            let truth = Observation {
                latency: Some(latency),
                groups: vec![group],
                background: vec![],
                power: None,
                alarm: false,
            };
            fitter.learn(&truth, Seconds(0.5));
        }
        ShadowStatus::of(&fitter, false)
    }

    /// It said "the fitted model is off by 56283 %", and not that the cores were busy all the time.
    #[test]
    fn a_host_that_is_too_busy_to_learn_from_says_what_would_help() {
        let busy = shown(400, |_| 0.9).why.unwrap();
        assert!(busy.contains("is allowed; its cores were busy for 90 % of the time"), "{busy}");
        assert!(busy.contains("observe at a quieter hour"), "{busy}");
        let saturated = shown(400, |_| 1.0).why.unwrap();
        assert!(saturated.contains("saturated") && saturated.contains("quieter"), "{saturated}");
    }

    /// It said "49 windows with requests so far, 40 are needed": saturated ones counted, and are of
    /// no use.
    #[test]
    fn windows_that_cannot_be_used_are_not_counted() {
        let why = shown(49, |at| if at % 2 == 0 { 0.2 } else { 1.0 }).why.unwrap();
        assert!(why.starts_with("25 windows with requests so far, 40 are needed; wait"), "{why}");
    }

    /// The page said "windows fitted, kept out 0, 0" beside "32 windows kept out of the fit".
    #[test]
    fn a_model_that_is_not_good_enough_tells_what_it_was_fitted_to() {
        let status = shown(400, |_| 0.1);
        let why = status.why.unwrap();
        assert!(!status.fitted && why.contains("kept out of the fit"), "{why}");
        assert!(why.contains(&format!("over {} windows", status.windows_kept_out)), "{why}");
        assert!(status.windows_fitted > 3 * status.windows_kept_out);
        assert!(status.error_median.unwrap() > 0.15);
    }
}
