//! The burst guard: reasons to go to full speed at once, between two choices.

use wattio_law::Glimpse;
use wattio_units::Seconds;

/// Thresholds for what a look may show, made anew with each choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guard {
    /// Requests that may come in `span`.
    arrivals: f64,
    span_s: f64,
    /// Requests that may be under way.
    in_flight: f64,
    /// How old the oldest of them may be, in seconds.
    oldest_s: f64,
    /// Their mean latency, in microseconds, once `completed_min` are answered.
    latency_us: f64,
}

/// What the guard goes by.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Requests a second.
    pub rate: f64,
    /// The same in the busiest moments that windows usually have.
    pub busiest: f64,
    /// Requests a second that the active cores can take.
    pub capacity: f64,
    /// Requests a second that are served without undue loss.
    pub tolerable: f64,
    /// Mean latency in microseconds.
    pub latency_us: f64,
    /// What a request may wait for besides, in seconds: drives that wake up.
    pub wake_s: f64,
}

/// The share of what the active cores can take at which they are said to be overrun.
const OVERRUN: f64 = 0.85;
/// Standard deviations that are noise.
const NOISE: f64 = 6.0;
/// Work that is waiting is tolerated for so long, in seconds.
const DRAIN_S: f64 = 3e-3;
/// Latency over the expected one that is tolerated in a look.
const LATE: f64 = 3.0;
/// Answers that make a mean.
const COMPLETED_MIN: u64 = 20;
/// The oldest request may be so much older than the mean latency, and so many seconds.
const OLDEST: f64 = 10.0;
const OLDEST_S: f64 = 0.03;

impl Guard {
    pub fn new(expected: &Expected, span: Seconds) -> Self {
        let most = expected.busiest * span.0;
        let noisy = |mean: f64| mean + NOISE * mean.sqrt() + 4.0;
        let under_way = expected.rate * expected.latency_us * 1e-6;
        let latency_s = expected.latency_us * 1e-6;
        Self {
            arrivals: (expected.capacity * OVERRUN)
                .min(expected.tolerable)
                .mul_add(span.0, 0.0)
                .max(noisy(most)),
            span_s: span.0,
            in_flight: (expected.capacity * DRAIN_S).max(noisy(under_way)),
            oldest_s: latency_s * OLDEST + OLDEST_S + 2.0 * expected.wake_s,
            latency_us: (expected.latency_us + expected.wake_s * 1e6) * LATE,
        }
    }

    /// Whether what was seen is a burst, or a server that falls behind.
    pub fn is_alarming(&self, seen: &Glimpse) -> bool {
        let spans = (seen.span.0 / self.span_s).max(1.0);
        let under_way = seen.in_flight.unwrap_or_default();
        let oldest_s = under_way.oldest.map_or(0.0, |age| age.0);
        let late = seen.completed >= COMPLETED_MIN
            && seen.latency_us_mean.is_some_and(|mean_us| mean_us > self.latency_us);
        seen.offered() as f64 > self.arrivals * spans
            || under_way.requests as f64 > self.in_flight
            || oldest_s > self.oldest_s
            || late
    }
}
