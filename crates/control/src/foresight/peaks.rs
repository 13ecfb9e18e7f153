//! The busiest moments of windows, and how much busier one may yet be.

/// The busiest moments of windows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peaks {
    /// Mean logarithm, and mean excess of the logarithm over it.
    ln_mean: f64,
    ln_above: f64,
    /// The greatest so far; `None` before there was a request.
    ln_record: Option<f64>,
    windows: f64,
}

impl Peaks {
    pub fn learn(&mut self, rate: f64, span: f64, memory: f64) {
        // Windows without a request tell nothing of those with.
        if rate <= 0.0 {
            return;
        }
        self.windows = (self.windows + span).min(memory);
        let ln = rate.ln();
        let record = self.ln_record.unwrap_or_else(|| {
            (self.ln_mean, self.ln_above) = (ln, LN_ABOVE_FIRST);
            ln
        });
        // A record is forgotten at the pace at which the next one is expected.
        self.ln_record = Some((record - self.ln_above * span / memory).max(ln));
        let windows = self.windows.clamp(1.0, PEAK_WINDOWS);
        self.ln_mean += (ln - self.ln_mean) / windows;
        let above = (ln - self.ln_mean).max(0.0) * 2.0;
        self.ln_above += (above - self.ln_above) / (windows + ABOVE_WINDOWS);
    }

    /// How alike the busiest moments are: 1 if they are all the same, 0 if they usually differ much.
    pub fn steadiness(&self) -> f64 {
        let is_known = self.ln_record.is_some();
        if is_known { (1.0 - self.ln_above / LN_ABOVE_UNSTEADY).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Records of few windows are soon broken: what to reckon with above them.
    pub fn youth(&self) -> f64 {
        YOUTH_WINDOWS / (self.windows + 0.5 * YOUTH_WINDOWS)
    }

    /// A moment so many times the usual excess above the busiest so far, in requests a second.
    pub fn at_risk(&self, above: f64) -> Option<f64> {
        self.ln_record.map(|record| (record + above * self.ln_above).exp().min(RATE_MAX))
    }

    /// The busiest moment of a usual window, in requests a second.
    pub fn usual(&self) -> f64 {
        self.ln_record.map_or(0.0, |_| self.ln_mean.exp())
    }

    /// What the busiest moments of windows are usually at most, in requests a second.
    pub fn usually_at_most(&self) -> f64 {
        self.ln_record.map_or(0.0, |_| (self.ln_mean + USUALLY * self.ln_above).exp())
    }

    /// The chances that the next window has a moment busier than any before, and how busy it is then.
    /// Of `N + 1` windows in no order the last is the busiest with a chance of `1 / (N + 1)`; the
    /// tail is taken as exponential in the logarithm, as of a power law, and cut in three.
    pub fn next_records(&self) -> [(f64, f64); 3] {
        let chance = if self.ln_record.is_some() { 1.0 / (self.windows + 1.0) } else { 0.0 };
        RECORD_PARTS.map(|(part, above)| (chance * part, self.at_risk(above).unwrap_or(0.0)))
    }
}

/// Parts of an exponential tail, and their means in units of its mean.
const RECORD_PARTS: [(f64, f64); 3] = [(0.5, 0.31), (0.4, 1.24), (0.1, 3.3)];
/// The excess that is reckoned with before windows were seen to differ, a factor of 1.5, and the
/// windows that it counts for.
const LN_ABOVE_FIRST: f64 = 0.4;
const ABOVE_WINDOWS: f64 = 2.0;
/// The excess of loads that nothing is to be expected of: a factor of 1.3. That of requests that come
/// by chance is below 0.1 from a thousand a second on.
const LN_ABOVE_UNSTEADY: f64 = 0.25;
/// Windows after which the busiest moment is one to go by.
const YOUTH_WINDOWS: f64 = 10.0;
/// What the busiest moments of windows are usually at most, in excesses above their mean.
const USUALLY: f64 = 3.0;
/// No more requests a second come to any server.
const RATE_MAX: f64 = 1e8;
/// Windows over which the mean of peaks is taken.
const PEAK_WINDOWS: f64 = 60.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// The logarithm of 1 was taken for that of no record.
    #[test]
    fn a_request_a_second_is_a_record_like_any_other() {
        let mut peaks = Peaks::default();
        peaks.learn(0.0, 1.0, 2000.0);
        assert_eq!((peaks.at_risk(0.0), peaks.next_records()[0]), (None, (0.0, 0.0)));
        peaks.learn(1.0, 1.0, 2000.0);
        assert_eq!((peaks.at_risk(0.0), peaks.usual()), (Some(1.0), 1.0));
        assert!(peaks.next_records()[0].0 > 0.0);
    }

    /// One window says nothing of how far others go above it.
    #[test]
    fn after_one_window_a_denser_burst_is_reckoned_with() {
        let mut peaks = Peaks::default();
        peaks.learn(1000.0, 1.0, 2000.0);
        let first = peaks.at_risk(peaks.youth()).unwrap_or(0.0);
        for _ in 0..200 {
            peaks.learn(1000.0, 1.0, 2000.0);
        }
        let later = peaks.at_risk(peaks.youth()).unwrap_or(0.0);
        assert!(first > 1500.0, "{first}");
        assert!((later - 1000.0).abs() < 10.0, "{later}");
    }

    #[test]
    fn a_load_is_steady_when_its_busiest_moments_are_alike() {
        let steadiness = |rates: [f64; 2]| {
            let mut peaks = Peaks::default();
            for at in 0..200 {
                peaks.learn(rates[at % 2], 1.0, 2000.0);
            }
            peaks.steadiness()
        };
        assert!(steadiness([1000.0, 1000.0]) > 0.9);
        assert!(
            (0.2..0.8).contains(&steadiness([1000.0, 1300.0])),
            "{}",
            steadiness([1000.0, 1300.0])
        );
        assert_eq!(steadiness([1000.0, 3000.0]), 0.0);
    }
}
