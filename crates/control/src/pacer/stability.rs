//! The stability check: how far the latency of the last k windows diverges.

use super::by_source::BySource;
use super::expectation::Expectation;
use crate::mix::Mix;
use std::collections::VecDeque;
use wattio_law::{LatencyHistogram, LatencyObservation};
use wattio_units::Seconds;

/// The standard deviation of latencies over their mean where nobody tells it.
const SPREAD: f64 = 0.5;

/// The requests of one window, or of several merged ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub requests: u64,
    pub latency_us_mean: f64,
    pub bytes_mean: Option<f64>,
    pub read_share: Option<f64>,
    /// How latencies spread, where the source tells it of all windows.
    pub histogram: Option<LatencyHistogram>,
    /// Requests under way at the windows' ends, a mean weighed by the windows' requests.
    pub in_flight: Option<f64>,
    /// What was drawn, in joules, for each who tells it of all windows; time without a request
    /// counts at the power of the window after it.
    pub energy_j: BySource,
    pub span: Seconds,
}

impl Sample {
    /// Takes another one in.
    pub fn add(&mut self, other: &Self) {
        let requests = self.requests.saturating_add(other.requests);
        let share = other.requests as f64 / requests as f64;
        let blend = |a: f64, b: f64| a + (b - a) * share;
        let blend_known = |a: Option<f64>, b: Option<f64>| Some(blend(a?, b?));
        self.requests = requests;
        self.latency_us_mean = blend(self.latency_us_mean, other.latency_us_mean);
        self.bytes_mean = blend_known(self.bytes_mean, other.bytes_mean);
        self.read_share = blend_known(self.read_share, other.read_share);
        match (&mut self.histogram, &other.histogram) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            _ => self.histogram = None,
        }
        self.in_flight = blend_known(self.in_flight, other.in_flight);
        self.energy_j = self.energy_j.with(other.energy_j, |mine, theirs| mine + theirs);
        self.span = self.span + other.span;
    }

    /// Several samples as one.
    pub fn of<'a>(samples: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut samples = samples.into_iter();
        let mut all = samples.next()?.clone();
        samples.for_each(|sample| all.add(sample));
        Some(all)
    }

    /// The mix of requests, where the source tells it.
    pub fn mix(&self) -> Option<Mix> {
        Mix::of(self.read_share, self.bytes_mean)
    }

    /// What a request takes, in joules.
    pub fn energy_of_request_j(&self) -> BySource {
        self.energy_j.map(|energy_j| energy_j / self.requests as f64)
    }

    /// By how much a mean over so many requests may be off, as a share of it: one standard
    /// deviation, with the latencies' own spread where a histogram tells it.
    pub fn error(&self) -> f64 {
        let spread = self.histogram.as_ref().and_then(|histogram| {
            let (mut from, mut sum, mut squares, mut count) = (0.0, 0.0, 0.0, 0.0);
            for &(to, requests) in histogram.buckets.iter().filter(|bucket| bucket.0.is_finite()) {
                let (middle_us, requests) = ((from + to) * 0.5, requests as f64);
                sum += middle_us * requests;
                squares += middle_us * middle_us * requests;
                count += requests;
                from = to;
            }
            let mean = sum / count;
            // Where nothing lies below an edge nothing is told, and 0 / 0 is no spread of zero.
            (mean > 0.0).then_some(())?;
            Some((squares / count / (mean * mean) - 1.0).max(0.0).sqrt()).filter(|s| s.is_finite())
        });
        spread.unwrap_or(SPREAD) / (self.requests as f64).sqrt()
    }

    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.span.0
    }
}

/// The last k windows. Windows with few requests are merged until they have enough for a mean.
#[derive(Clone, Debug)]
pub struct Stability {
    windows: usize,
    requests_min: u64,
    samples: VecDeque<Sample>,
    /// Room for their latencies, translated.
    translated: Vec<f64>,
    /// All k windows as one, once there are k.
    all: Option<Sample>,
    growing: Option<Sample>,
    /// Time without any request since the last window that had one.
    empty: Seconds,
}

impl Stability {
    pub fn new(windows: usize, requests_min: u64) -> Self {
        Self {
            windows,
            requests_min,
            samples: VecDeque::with_capacity(windows),
            translated: Vec::with_capacity(windows),
            all: None,
            growing: None,
            empty: Seconds(0.0),
        }
    }

    pub fn clear(&mut self) {
        self.samples.clear();
        self.all = None;
        self.growing = None;
        self.empty = Seconds(0.0);
    }

    /// Adds a window; returns whether that completes a sample, which is the last one then.
    pub fn push(&mut self, latency: &LatencyObservation, power_w: BySource, dt: Seconds) -> bool {
        let Some(latency_us_mean) = latency.latency_us_mean.filter(|_| latency.requests > 0) else {
            self.empty = self.empty + dt;
            return false;
        };
        let window = Sample {
            requests: latency.requests,
            latency_us_mean,
            bytes_mean: latency.bytes_mean,
            read_share: latency.read_share,
            histogram: latency.histogram.clone(),
            in_flight: latency.in_flight.map(|in_flight| in_flight.requests as f64),
            energy_j: power_w.map(|power_w| power_w * (dt + self.empty).0),
            span: dt + self.empty,
        };
        self.empty = Seconds(0.0);
        let sample = match self.growing.take() {
            Some(mut growing) => {
                growing.add(&window);
                growing
            }
            None => window,
        };
        if sample.requests < self.requests_min {
            self.growing = Some(sample);
            return false;
        }
        if self.samples.len() == self.windows {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        let full = self.samples.len() == self.windows;
        self.all = full.then(|| Sample::of(&self.samples)).flatten();
        true
    }

    /// The last sample.
    pub fn last(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// `max |l_i - l_avg| / l_avg`, with `l_avg = (1/k) sum l_i` (section IV-B; the equation of
    /// the divergence is lost in print, this is our reading), each l_i translated to the mix of
    /// the last window.
    pub fn divergence(&mut self, expectation: &Expectation) -> f64 {
        let mix = self.samples.back().and_then(Sample::mix);
        let translated = |s: &Sample| s.latency_us_mean * expectation.translation(s.mix(), mix);
        self.translated.clear();
        self.translated.extend(self.samples.iter().map(translated));
        let count = self.samples.len() as f64;
        let average = self.translated.iter().sum::<f64>() / count;
        let off = self.translated.iter().map(|latency_us| (latency_us - average).abs() / average);
        off.fold(0.0, f64::max)
    }

    /// All k windows as one sample, once there are k.
    pub fn over_all_windows(&self) -> Option<&Sample> {
        self.all.as_ref()
    }

    /// The last windows, oldest first.
    pub fn windows(&self) -> Vec<Sample> {
        self.samples.iter().cloned().collect()
    }

    /// A sample needs so many requests from now on.
    pub fn set_requests_min(&mut self, requests_min: u64) {
        self.requests_min = requests_min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(requests: u64, latency_us: f64) -> LatencyObservation {
        LatencyObservation {
            requests,
            latency_us_mean: (requests > 0).then_some(latency_us),
            bytes_mean: Some(8192.0),
            ..LatencyObservation::quiet(Seconds(0.0))
        }
    }

    #[test]
    fn sparse_windows_are_merged_and_their_time_is_kept() {
        let mut stability = Stability::new(2, 10);
        let half = Seconds(0.5);
        assert!(!stability.push(&window(4, 100.0), BySource::default(), half));
        assert!(!stability.push(&window(0, 0.0), BySource::default(), half));
        assert!(stability.push(&window(6, 200.0), BySource::default(), half));
        let sample = stability.last().unwrap();
        assert_eq!((sample.requests, sample.span), (10, Seconds(1.5)));
        assert!((sample.latency_us_mean - 160.0).abs() < 1e-9);
        assert_eq!(sample.read_share, None);
    }

    #[test]
    fn divergence_is_the_farthest_window_over_the_average() {
        let mut stability = Stability::new(3, 1);
        for latency_us in [90.0, 100.0, 140.0] {
            stability.push(&window(5, latency_us), BySource::default(), Seconds(0.5));
        }
        assert!((stability.divergence(&Expectation::default()) - 30.0 / 110.0).abs() < 1e-12);
        stability.push(&window(5, 100.0), BySource::default(), Seconds(0.5));
        stability.push(&window(5, 100.0), BySource::default(), Seconds(0.5));
        stability.push(&window(5, 100.0), BySource::default(), Seconds(0.5));
        assert_eq!(stability.divergence(&Expectation::default()), 0.0, "only the last three count");
    }
}
