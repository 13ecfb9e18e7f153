//! The circuit breaker: forces full speed if a law keeps changing its mind, or things keep failing.

use std::collections::VecDeque;
use wattio_units::Seconds;

/// When the breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerSettings {
    /// This many returns from saving to full speed within `span` open the breaker.
    pub flaps_max: usize,
    /// This many failures of sources and knobs within `span` open it: the error budget.
    pub errors_max: usize,
    /// The time over which both are counted.
    pub span: Seconds,
    /// How long the breaker stays open the first time. Each further opening lasts twice as long,
    /// until `cool_down_max` has passed without one.
    pub cool_down: Seconds,
    /// The longest opening, and how long all must go well before the next one is short again.
    pub cool_down_max: Seconds,
}

impl Default for BreakerSettings {
    /// One burst a minute is a normal load; three a minute for ten minutes are flapping.
    fn default() -> Self {
        Self {
            flaps_max: 30,
            errors_max: 30,
            span: Seconds(600.0),
            cool_down: Seconds(600.0),
            cool_down_max: Seconds(7200.0),
        }
    }
}

/// Why the breaker opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trip {
    /// Too many returns to full speed.
    Flapping,
    /// Too many failures.
    Errors,
}

impl Trip {
    /// What to tell an operator.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Flapping => "breaker: too many changes between saving and full speed",
            Self::Errors => "breaker: the error budget is spent",
        }
    }
}

/// Counts flaps and failures.
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    flaps: VecDeque<Seconds>,
    errors: VecDeque<Seconds>,
    open: Option<(Trip, Seconds)>,
    cool_down: Seconds,
    /// When the last opening ended, or would have ended had nobody closed it by hand.
    over: Option<Seconds>,
    trips: u64,
}

impl Breaker {
    /// Closed.
    #[must_use]
    pub fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            flaps: VecDeque::new(),
            errors: VecDeque::new(),
            open: None,
            cool_down: settings.cool_down,
            over: None,
            trips: 0,
        }
    }

    /// A return from saving to full speed. Returns whether that opened the breaker.
    pub fn flap(&mut self, now: Seconds) -> Option<Trip> {
        count(&mut self.flaps, now, self.settings.span);
        (self.flaps.len() > self.settings.flaps_max).then(|| self.trip(Trip::Flapping, now))
    }

    /// A failure. Returns whether that opened the breaker.
    pub fn error(&mut self, now: Seconds) -> Option<Trip> {
        count(&mut self.errors, now, self.settings.span);
        (self.errors.len() > self.settings.errors_max).then(|| self.trip(Trip::Errors, now))
    }

    /// Why it is open, if it is; closes it when its time is over.
    pub fn open(&mut self, now: Seconds) -> Option<Trip> {
        if let Some((_, until)) = self.open
            && now >= until
        {
            self.close();
        }
        self.open.map(|(trip, _)| trip)
    }

    /// Closes it by hand.
    pub fn close(&mut self) {
        self.open = None;
        self.flaps.clear();
        self.errors.clear();
    }

    /// How often it opened.
    #[must_use]
    pub fn trips(&self) -> u64 {
        self.trips
    }

    fn trip(&mut self, trip: Trip, now: Seconds) -> Trip {
        if self.open.is_none() {
            self.trips += 1;
            let longest = self.settings.cool_down_max;
            if self.over.is_some_and(|over| now - over >= longest) {
                self.cool_down = self.settings.cool_down;
            }
            self.open = Some((trip, now + self.cool_down));
            self.over = Some(now + self.cool_down);
            let longer = self.cool_down * 2.0;
            self.cool_down = if longer < longest { longer } else { longest };
        }
        trip
    }
}

/// Counts an event and forgets those before the span.
fn count(events: &mut VecDeque<Seconds>, now: Seconds, span: Seconds) {
    events.push_back(now);
    while events.front().is_some_and(|&at| at < now - span) {
        events.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> Breaker {
        let settings = BreakerSettings { flaps_max: 3, errors_max: 1, ..Default::default() };
        Breaker::new(settings)
    }

    #[test]
    fn too_many_flaps_open_it_and_time_closes_it() {
        let mut breaker = breaker();
        for second in 0..3 {
            assert_eq!(breaker.flap(Seconds(f64::from(second))), None);
        }
        assert_eq!(breaker.flap(Seconds(3.0)), Some(Trip::Flapping));
        assert_eq!(breaker.open(Seconds(602.9)), Some(Trip::Flapping));
        assert_eq!(breaker.open(Seconds(603.0)), None);
        assert_eq!(breaker.flap(Seconds(604.0)), None, "closing forgets the flaps");
    }

    #[test]
    fn flaps_that_are_far_apart_do_not_count_together() {
        let mut breaker = breaker();
        for at in 0..20 {
            assert_eq!(breaker.flap(Seconds(f64::from(at) * 250.0)), None);
        }
    }

    #[test]
    fn each_opening_lasts_longer_up_to_a_limit() {
        let mut breaker = breaker();
        let mut now = 0.0;
        for lasts in [600.0, 1200.0, 2400.0, 4800.0, 7200.0, 7200.0] {
            breaker.error(Seconds(now));
            assert_eq!(breaker.error(Seconds(now)), Some(Trip::Errors));
            assert!(breaker.open(Seconds(now + lasts - 1.0)).is_some());
            assert!(breaker.open(Seconds(now + lasts)).is_none());
            now += lasts + 1.0;
        }
        assert_eq!(breaker.trips(), 6);
    }

    /// After five bad hours, every trip for the rest of the daemon's life cost two hours.
    #[test]
    fn after_a_long_good_stretch_an_opening_is_short_again() {
        let longest = BreakerSettings::default().cool_down_max.0;
        for (good, lasts) in [(longest - 1.0, 2400.0), (longest, 600.0)] {
            let mut breaker = breaker();
            let trip = |breaker: &mut Breaker, now: f64| {
                breaker.error(Seconds(now));
                assert_eq!(breaker.error(Seconds(now)), Some(Trip::Errors));
            };
            trip(&mut breaker, 0.0);
            assert_eq!(breaker.open(Seconds(600.0)), None);
            trip(&mut breaker, 600.0);
            let over = 600.0 + 1200.0;
            assert_eq!(breaker.open(Seconds(over)), None);
            trip(&mut breaker, over + good);
            assert!(breaker.open(Seconds(over + good + lasts - 1.0)).is_some(), "{good}");
            assert!(breaker.open(Seconds(over + good + lasts)).is_none(), "{good}");
        }
    }
}
