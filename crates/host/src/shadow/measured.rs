//! What was measured since the start, whatever the law was shown of it.

use super::{Mode, SharedFitter};
use wattio_governor::Stepped;
use wattio_law::NO_LATENCY;

/// Counts of windows and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Client requests.
    pub requests: u64,
    /// Windows without a usable latency.
    pub windows_missing: u64,
    /// Windows after which full speed was forced.
    pub windows_forced: u64,
}

impl Measured {
    /// Takes in a step. Before a model of this host fits, shadow mode hides the latency from the law:
    /// the step then says so, rather than that there is none.
    pub fn window(&mut self, step: &mut Stepped, mode: Mode, fitter: &SharedFitter) {
        let is_hidden = mode == Mode::Observe
            && step.seen.latency.is_none()
            && step.truth.latency.is_some()
            && step.forced.as_deref() == Some(NO_LATENCY)
            && fitter.get().model().is_err();
        if is_hidden {
            step.insight.reason = "no model of this host yet";
            step.forced = None;
        } else if step.forced.is_some() {
            step.insight.reason = "full speed is forced";
        }
        // What was measured counts where the law is not shown it, too: while full speed is forced.
        let sample = step.sample.as_ref().filter(|_| step.dt.0 > 0.0);
        self.requests += sample.map_or(0, |sample| sample.requests);
        self.windows_missing += u64::from(step.seen.latency.is_none() && !is_hidden);
        self.windows_forced += u64::from(step.forced.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_law::{Action, DriveAction, Insight, LatencyObservation, Observation};
    use wattio_units::Seconds;

    /// A window with a latency that the law was not shown, and why full speed follows.
    fn step(forced: &str) -> Stepped {
        let truth = Observation {
            latency: Some(LatencyObservation::quiet(Seconds(0.0))),
            groups: vec![],
            background: vec![],
            power: None,
            alarm: false,
        };
        Stepped {
            dt: Seconds(0.5),
            sample: None,
            seen: Observation { latency: None, ..truth.clone() },
            truth,
            action: Action { groups: vec![], drives: DriveAction::Own, background: vec![] },
            background_share: 1.0,
            insight: Insight { reason: "of the law", ..Insight::default() },
            forced: Some(forced.to_owned()),
        }
    }

    /// After a jump of time it was said that there is no model of this host yet.
    #[test]
    fn only_the_missing_model_is_called_that() {
        let fitter = SharedFitter::new(0.15, None, vec![]);
        let reason = |mode, forced: &str| {
            let (mut measured, mut step) = (Measured::default(), step(forced));
            measured.window(&mut step, mode, &fitter);
            (step.insight.reason, step.forced.is_some(), measured.windows_forced)
        };
        let silent = "no latency to go by";
        assert_eq!(reason(Mode::Observe, silent), ("no model of this host yet", false, 0));
        assert_eq!(reason(Mode::Run, silent), ("full speed is forced", true, 1));
        let jump = "time jumped ahead by 3.0 s";
        assert_eq!(reason(Mode::Observe, jump), ("full speed is forced", true, 1));
    }
}
