//! The burst check (section IV-B): latency or utilisation leaps within one window.
//!
//! As printed, it checks at the end of each window. Here requests are also counted over a tenth of
//! a window, and requests in flight are used too, because they show what completed ones cannot: at
//! ten requests a second a mean takes ten seconds, the age of the oldest request in flight a
//! moment.

use super::settings::PacerSettings;
use super::stability::Sample;
use wattio_law::{Glimpse, GroupAction, InFlight, Observation};
use wattio_units::Seconds;

/// What requests cost on the cores, and what is alarming until the next step.
#[derive(Clone, Debug, Default)]
pub struct BurstCheck {
    /// Clients' work in core-seconds by group, and the requests it was for, of late windows.
    work: Vec<f64>,
    work_requests: f64,
    /// Requests in a span that are a burst.
    pub arrivals: Option<u64>,
    /// From when on requests are late.
    pub late: Option<Late>,
}

/// From when on requests are as late as those of a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// Their mean latency at full speed, in microseconds.
    pub base_us: f64,
    /// The mean that is a burst's.
    pub limit_us: f64,
    /// How many are under way at that mean.
    pub in_flight: f64,
}

/// Weight of the past that is kept with each window's work.
const WORK_MEMORY: f64 = 0.5;
/// Requests vary: the mean of few is late from this much more on, in full speed's means, for one
/// request, and less with the root of their number. One in a thousand is as late where latencies
/// spread exponentially.
const FEW: f64 = 6.0;
/// A request that waits for so many times as long as a burst's mean is late whatever the spread.
const OLD: f64 = 8.0;

impl BurstCheck {
    /// For so many groups.
    pub fn new(groups: usize) -> Self {
        Self { work: vec![0.0; groups], ..Self::default() }
    }

    /// Takes in what the requests of a window cost on the cores; late windows count more.
    pub fn learn_work(&mut self, seen: &Observation, requests: u64, dt: Seconds) {
        if requests == 0 {
            return;
        }
        self.work_requests = self.work_requests * WORK_MEMORY + requests as f64;
        for (work, group) in self.work.iter_mut().zip(&seen.groups) {
            let core_s = group.utilisation_clients * f64::from(group.cores) * dt.0;
            // What cannot be is taken for none, and leaves the other parts of the alarm.
            let core_s = if core_s.is_finite() { core_s.max(0.0) } else { 0.0 };
            *work = *work * WORK_MEMORY + core_s;
        }
    }

    /// The number of requests in an alarm span that is on its way to load the active cores beyond
    /// `burst_utilisation`, and that is no mere fluctuation.
    pub fn requests_of_a_burst(
        &self,
        mean: &Sample,
        held: &[GroupAction],
        settings: &PacerSettings,
    ) -> Option<u64> {
        let span_s = settings.burst_window.0;
        let expected = mean.requests as f64 * (span_s / mean.span.0);
        let mut most = f64::INFINITY;
        for (&work, group) in self.work.iter().zip(held) {
            if work > 0.0 {
                let room = settings.burst_utilisation * f64::from(group.cores) * span_s;
                most = most.min(room * self.work_requests / work);
            }
        }
        let most = if most.is_finite() { most * settings.burst_alarm } else { 0.0 };
        let least = expected * (1.0 + settings.rate_change);
        let noise = expected + 5.0 * expected.sqrt();
        let alarm = most.max(least).max(noise);
        alarm.is_finite().then_some(alarm.ceil() as u64)
    }

    /// Too many requests, or requests as late as those of a burst: a tenth of the requests that a
    /// window needs is enough for a mean over a tenth of its time. The mean of a look that is not
    /// much shorter than a window is no news: it is judged when the window ends.
    pub fn is_alarming(&self, seen: &Glimpse, settings: &PacerSettings) -> bool {
        let longer = (seen.span / settings.burst_window).max(1.0);
        let arrived = match seen.offered() {
            arrived if longer > 1.0 => (arrived as f64 / longer).ceil() as u64,
            arrived => arrived,
        };
        if self.arrivals.is_some_and(|alarm| arrived >= alarm) {
            return true;
        }
        let Some(late) = self.late else { return false };
        let spans = (settings.window / settings.burst_window).max(1.0);
        let enough = seen.completed as f64 * spans >= settings.requests_min as f64;
        let mean_us = seen.latency_us_mean.filter(|_| seen.span < settings.window * 0.5);
        (enough && mean_us.is_some_and(|mean_us| mean_us > late.limit_us))
            || seen.in_flight.is_some_and(|in_flight| late.is_crowded(in_flight))
    }
}

impl Late {
    /// Whether the requests of a window are late, those that are not answered included.
    pub fn is_late(
        &self,
        requests: u64,
        mean_us: Option<f64>,
        in_flight: Option<InFlight>,
        settings: &PacerSettings,
    ) -> bool {
        let (mut count, mut mean_us) = (requests as f64, mean_us.unwrap_or(0.0));
        let oldest_us = in_flight.and_then(|in_flight| in_flight.oldest).map(|age| age.0 * 1e6);
        // One that has waited for longer than the others took will take longer still.
        if let Some(oldest_us) = oldest_us.filter(|&age_us| age_us > mean_us.max(self.base_us)) {
            mean_us = (mean_us * count + oldest_us) / (count + 1.0);
            count += 1.0;
        }
        let few = 1.0 / count.sqrt() - 1.0 / (settings.requests_min as f64).sqrt();
        let limit_us = self.limit_us + self.base_us * FEW * few.max(0.0);
        (count > 0.0 && mean_us > limit_us)
            || in_flight.is_some_and(|in_flight| self.is_crowded(in_flight))
    }

    /// Whether more requests are under way, or one of them for longer, than any fluctuation
    /// explains.
    fn is_crowded(&self, in_flight: InFlight) -> bool {
        let most = self.in_flight + 5.0 * self.in_flight.sqrt() + 5.0;
        let old = in_flight.oldest.is_some_and(|age| age.0 * 1e6 > OLD * self.limit_us);
        in_flight.requests as f64 > most || old
    }
}
