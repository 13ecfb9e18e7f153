//! The promise, and how far latency is from it (section IV-C, for any kind of bound).
//!
//! As printed, there is one bound, on the mean, relative to the baseline. Here there may be
//! several, on the mean or a quantile, relative or absolute, over the run or in each window. Each
//! has its loss distance, and the smallest one steers.

use super::baseline::Baseline;
use super::settings::PacerSettings;
use super::stability::Sample;
use wattio_law::{Bound, Limit, Scope, Statistic};

/// The bounds that are steered by.
#[derive(Clone, Debug)]
pub struct Promise {
    bounds: Vec<Bound>,
}

/// A quantile is judged by at least so many requests beyond it.
const BEYOND_QUANTILE: f64 = 5.0;
/// What is left of a share once headroom and noise are taken off; less is no room to steer in.
const SHARE_MIN: f64 = 1e-3;
/// A window's bound is steered at so many times the noise below it: four windows show their
/// farthest at 1.0 standard deviations, and one window in a thousand is three off.
const NOISE: f64 = 3.0;
/// Standard deviations of the baseline that a bound is steered below itself.
const UNSURE: f64 = 2.0;

impl Promise {
    /// The document's: the mean, `plf` above the baseline.
    pub fn new(plf: f64) -> Self {
        Self { bounds: vec![Bound::mean_relative(plf)] }
    }

    /// Other bounds; none at all leaves those that there are.
    pub fn set(&mut self, bounds: &[Bound]) {
        if !bounds.is_empty() {
            self.bounds = bounds.to_vec();
        }
    }

    pub fn bounds(&self) -> &[Bound] {
        &self.bounds
    }

    /// Requests that a sample needs, to say something about every bound.
    pub fn requests_min(&self, least: u64) -> u64 {
        self.quantiles()
            .fold(least, |most, q| most.max((BEYOND_QUANTILE / (1.0 - q)).ceil() as u64))
    }

    /// Whether a bound holds in each window, so that no later one makes up for it.
    pub fn is_for_windows(&self) -> bool {
        self.bounds.iter().any(|bound| bound.scope == Scope::Window)
    }

    /// Whether a quantile is bounded.
    pub fn has_quantile(&self) -> bool {
        self.quantiles().next().is_some()
    }

    /// Each quantile that is bounded, and its value at full speed in microseconds.
    pub fn tails_us(&self, full_speed: &Baseline) -> impl Iterator<Item = (f64, f64)> {
        self.quantiles().filter_map(move |q| {
            Some((q, statistic_us(Statistic::Quantile(q), full_speed.mean())?))
        })
    }

    fn quantiles(&self) -> impl Iterator<Item = f64> {
        self.bounds.iter().filter_map(|bound| match bound.statistic {
            Statistic::Quantile(q) => Some(q),
            Statistic::Mean => None,
        })
    }

    /// The least loss distance over the bounds, of the last window and the last few as one, for a
    /// mix whose latency is `translation` times the baseline's. `None` where a bound cannot be
    /// judged: nobody tells how latencies spread.
    pub fn distance(
        &self,
        last: &Sample,
        lately: &Sample,
        full_speed: &Baseline,
        translation: f64,
        settings: &PacerSettings,
    ) -> Option<f64> {
        let distances = self.bounds.iter().map(|bound| {
            let base_us = statistic_us(bound.statistic, full_speed.mean())? * translation;
            let value_us = match (bound.statistic, bound.scope) {
                (Statistic::Quantile(q), Scope::Run) => lately.histogram.as_ref()?.quantile_us(q),
                (Statistic::Quantile(q), Scope::Window) => last.histogram.as_ref()?.quantile_us(q),
                (Statistic::Mean, _) => Some(last.latency_us_mean),
            };
            // Beyond the last bucket's edge is too far.
            let Some(value_us) = value_us else { return Some(settings.loss_distance_min) };
            let share = share_of(bound, base_us);
            let noise = match bound.scope {
                Scope::Run => 0.0,
                Scope::Window => {
                    let noise = full_speed.noise(|s| statistic_us(bound.statistic, s));
                    NOISE * noise + coarseness(bound.statistic, full_speed.mean(), base_us)
                }
            };
            // The baseline itself is a mean over so many requests.
            let unsure = UNSURE * full_speed.mean().error() * error_of(bound.statistic);
            let headroom = (share * settings.bound_headroom).max(unsure).max(noise);
            Some(settings.loss_distance(value_us, base_us, share - headroom))
        });
        distances.reduce(|a, b| Some(a?.min(b?))).flatten()
    }

    /// Whether the last few windows as one keep every bound, without the headroom that is steered at; a
    /// bound that holds in each window is not known to be kept by what noise lies in them. `None` as for
    /// [`Self::distance`].
    pub fn is_kept(
        &self,
        lately: &Sample,
        full_speed: &Baseline,
        translation: f64,
    ) -> Option<bool> {
        let kept = self.bounds.iter().map(|bound| {
            let base_us = statistic_us(bound.statistic, full_speed.mean())? * translation;
            let value_us = statistic_us(bound.statistic, lately)?;
            let room = share_of(bound, base_us) - (value_us / base_us - 1.0);
            Some(room >= 0.0 && bound.scope == Scope::Run)
        });
        kept.reduce(|a, b| Some(a? && b?)).flatten()
    }

    /// The share above full speed that is promised to a mix whose latency is `translation` times the
    /// baseline's: of the mean, or where only quantiles are bounded, of those.
    pub fn share(&self, full_speed: &Baseline, translation: f64) -> f64 {
        self.room(full_speed, translation).max(0.0)
    }

    /// The same, but below 0 where full speed itself is over an absolute limit.
    pub fn room(&self, full_speed: &Baseline, translation: f64) -> f64 {
        let least = |mean: bool| {
            let of = self.bounds.iter().filter(|b| (b.statistic == Statistic::Mean) == mean);
            of.filter_map(|bound| {
                let base_us = statistic_us(bound.statistic, full_speed.mean())? * translation;
                Some(share_of(bound, base_us))
            })
            .reduce(f64::min)
        };
        least(true).or_else(|| least(false)).unwrap_or(0.0)
    }

    /// The mean latency that shall not be exceeded, where a bound says so.
    pub fn limit_us(&self, base_us: Option<f64>) -> Option<f64> {
        let means = self.bounds.iter().filter(|bound| bound.statistic == Statistic::Mean);
        means.filter_map(|bound| bound.limit_us(base_us)).reduce(f64::min)
    }
}

/// How far a bound lies above what full speed has.
fn share_of(bound: &Bound, base_us: f64) -> f64 {
    match bound.limit {
        Limit::Relative(share) => share,
        Limit::Absolute(limit) => limit.0 * 1e6 / base_us - 1.0,
    }
}

fn statistic_us(statistic: Statistic, of: &Sample) -> Option<f64> {
    match statistic {
        Statistic::Mean => Some(of.latency_us_mean),
        Statistic::Quantile(q) => of.histogram.as_ref()?.quantile_us(q),
    }
}

/// The error of a statistic over that of a mean: for the 99th percentile of latencies that spread
/// exponentially, `sqrt(q / (1 - q) / n) / -ln(1 - q)` is twice `1 / sqrt(n)`.
fn error_of(statistic: Statistic) -> f64 {
    match statistic {
        Statistic::Mean => 1.0,
        Statistic::Quantile(_) => 2.0,
    }
}

/// The width of the bucket of a quantile as a share of its value: nobody tells where in it a window's
/// requests lie.
fn coarseness(statistic: Statistic, of: &Sample, base_us: f64) -> f64 {
    let Statistic::Quantile(q) = statistic else { return 0.0 };
    let Some(histogram) = &of.histogram else { return 0.0 };
    histogram.width_us(q).unwrap_or(0.0) / base_us
}

impl PacerSettings {
    /// Section IV-C: `loss = (l - l_base) / l_base`, `d = (plf - loss) / plf`, with the share that
    /// is steered at for plf; between `loss_distance_min` and 1.
    fn loss_distance(&self, latency_us: f64, baseline_us: f64, share: f64) -> f64 {
        if share < SHARE_MIN {
            return self.loss_distance_min;
        }
        let loss = (latency_us - baseline_us) / baseline_us;
        ((share - loss) / share).clamp(self.loss_distance_min, 1.0)
    }
}
