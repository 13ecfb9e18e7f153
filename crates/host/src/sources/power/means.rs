//! Computes the mean power of a window from readings.

use wattio_units::{Seconds, Watts};

/// If a counter moves less often than once in this many windows, no window's power is known.
const WINDOWS_MAX: f64 = 1.5;
/// A counter that stands still for this long does not count at all.
const STUCK_AFTER: Seconds = Seconds(10.0);

/// What was read since the last window.
#[derive(Debug)]
pub(super) struct Means {
    scale: f64,
    readings: Readings,
    /// Time between two readings, where they do not come when a window ends.
    interval: Seconds,
    told_at: Option<Seconds>,
}

#[derive(Debug)]
enum Readings {
    /// Sum and count of readings of power.
    Power(f64, u32),
    Energy(Counter),
}

/// A counter at two times; each is when it was first seen to be there.
#[derive(Debug, Default)]
struct Counter {
    range: Option<f64>,
    /// What it has counted since the first reading.
    sum: f64,
    value: Option<f64>,
    /// When it last moved, and what it had counted then.
    moved: Option<(Seconds, f64)>,
    /// The same at the end of the last window.
    told: Option<(Seconds, f64)>,
}

impl Means {
    /// Of readings of power; one unit is `scale` watts.
    pub const fn of_power(scale: f64, interval: Seconds) -> Self {
        Self { scale, readings: Readings::Power(0.0, 0), interval, told_at: None }
    }

    /// Of a counter of energy; one unit is `scale` joules. `range` is the value after which it
    /// starts at zero again, if known.
    pub const fn of_energy(scale: f64, range: Option<f64>, interval: Seconds) -> Self {
        let counter = Counter { range, sum: 0.0, value: None, moved: None, told: None };
        Self { scale, readings: Readings::Energy(counter), interval, told_at: None }
    }

    /// Adds a reading.
    ///
    /// # Errors
    /// When it is implausible, or the counter was reset.
    pub fn take(&mut self, at: Seconds, value: f64) -> Result<(), String> {
        if !(value.is_finite() && value >= 0.0) {
            return Err(format!("says {value}, which is neither power nor energy"));
        }
        match &mut self.readings {
            Readings::Power(sum, count) => {
                *sum += value;
                *count += 1;
                Ok(())
            }
            Readings::Energy(counter) => counter.take(at, value),
        }
    }

    /// Mean power since the last call; `None` if nothing was read since, and at the first call.
    ///
    /// # Errors
    /// When nothing is counted, or too rarely for windows of this length.
    pub fn tell(&mut self, now: Seconds) -> Result<Option<Watts>, String> {
        let window = self.told_at.replace(now).map(|told_at| now - told_at);
        match &mut self.readings {
            Readings::Power(sum, count) => {
                let mean = (*count > 0).then(|| *sum / f64::from(*count) * self.scale);
                (*sum, *count) = (0.0, 0);
                // Readings before the first call belong to no window.
                Ok(mean.filter(|_| window.is_some()).map(Watts))
            }
            Readings::Energy(counter) => {
                let Some((span, grown)) = counter.tell(now)? else { return Ok(None) };
                let Some(window) = window else { return Ok(None) };
                if span.0 > window.0 * WINDOWS_MAX + self.interval.0 {
                    return Err(format!(
                        "covers {span} at once, and a window took {window}: read it more often, \
                         or use longer windows"
                    ));
                }
                Ok(Some(Watts(grown * self.scale / span.0)))
            }
        }
    }

    /// Drops what was read: the time until the next reading belongs to no window.
    pub fn miss(&mut self) {
        match &mut self.readings {
            Readings::Power(sum, count) => (*sum, *count) = (0.0, 0),
            Readings::Energy(counter) => counter.restart(),
        }
    }
}

impl Counter {
    fn restart(&mut self) {
        *self = Self { range: self.range, ..Self::default() };
    }

    fn take(&mut self, at: Seconds, value: f64) -> Result<(), String> {
        if let Some(range) = self.range.filter(|&range| value > range) {
            self.restart();
            return Err(format!("counts {value}, beyond its range of {range}"));
        }
        let Some(before) = self.value.replace(value) else {
            self.moved = Some((at, self.sum));
            return Ok(());
        };
        let grown = match self.range {
            Some(range) if value < before => range - before + value,
            _ => value - before,
        };
        if grown < 0.0 {
            self.restart();
            self.value = Some(value);
            self.moved = Some((at, self.sum));
            return Err(format!("went back from {before} to {value}: it was reset"));
        }
        if grown > 0.0 {
            self.sum += grown;
            self.moved = Some((at, self.sum));
        }
        Ok(())
    }

    /// The time from the last move that was reported to the latest one, and what was counted
    /// between them.
    fn tell(&mut self, now: Seconds) -> Result<Option<(Seconds, f64)>, String> {
        let Some(moved) = self.moved else { return Ok(None) };
        if now - moved.0 > STUCK_AFTER {
            return Err(format!("nothing was counted for {}", now - moved.0));
        }
        let told = self.told.replace(moved);
        Ok(told.map(|told| (moved.0 - told.0, moved.1 - told.1)).filter(|(span, _)| span.0 > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT_ONCE: Seconds = Seconds(0.0);

    fn at(counter: &mut Means, now: f64, value: f64) -> Result<Option<f64>, String> {
        counter.take(Seconds(now), value)?;
        counter.tell(Seconds(now)).map(|watts| watts.map(|watts| watts.0))
    }

    #[test]
    fn a_counter_tells_the_mean_of_each_window_and_a_wrap_is_no_loss() {
        let mut counter = Means::of_energy(1e-6, Some(1e9), AT_ONCE);
        assert_eq!(at(&mut counter, 0.0, 900e6), Ok(None));
        assert_eq!(at(&mut counter, 0.5, 950e6), Ok(Some(100.0)));
        assert_eq!(at(&mut counter, 1.5, 50e6), Ok(Some(100.0)));
        assert!(at(&mut counter, 2.0, 2e9).unwrap_err().contains("beyond its range"));
        assert_eq!(at(&mut counter, 2.5, 60e6), Ok(None));
        assert_eq!(at(&mut counter, 3.0, 80e6), Ok(Some(40.0)));
    }

    #[test]
    fn a_counter_that_began_anew_tells_of_no_window_across_it() {
        let mut counter = Means::of_energy(1.0, None, AT_ONCE);
        assert_eq!(at(&mut counter, 0.0, 500.0), Ok(None));
        assert_eq!(at(&mut counter, 1.0, 600.0), Ok(Some(100.0)));
        assert!(at(&mut counter, 2.0, 5.0).unwrap_err().contains("was reset"));
        assert_eq!(at(&mut counter, 3.0, 55.0), Ok(None));
        assert_eq!(at(&mut counter, 4.0, 95.0), Ok(Some(40.0)));
    }

    /// A page that is updated every five seconds says nothing about windows of half a second.
    #[test]
    fn a_counter_that_moves_seldom_tells_of_no_window_and_says_so() {
        let mut counter = Means::of_energy(1.0, None, Seconds(0.25));
        let mut said = Vec::new();
        for window in 0..40 {
            let now = f64::from(window) * 0.5;
            let value = (now / 5.0).floor() * 500.0;
            said.push(at(&mut counter, now, value));
        }
        assert!(said.iter().all(|said| !matches!(said, Ok(Some(_)))), "{said:?}");
        assert_eq!(said.iter().filter(|said| said.is_err()).count(), 3);
        let message = said.into_iter().find_map(Result::err).unwrap();
        assert!(message.contains("covers 5 s at once, and a window took 500 ms"), "{message}");
        assert!(
            at(&mut counter, 30.0, 1500.0).unwrap_err().contains("nothing was counted for 15 s")
        );
    }

    #[test]
    fn a_reading_that_was_missed_is_made_up_by_none() {
        let mut counter = Means::of_energy(1.0, None, AT_ONCE);
        assert_eq!(at(&mut counter, 0.0, 0.0), Ok(None));
        counter.miss();
        assert_eq!(counter.tell(Seconds(1.0)), Ok(None));
        assert_eq!(at(&mut counter, 2.0, 200.0), Ok(None));
        assert_eq!(at(&mut counter, 3.0, 250.0), Ok(Some(50.0)));
    }

    #[test]
    fn readings_of_power_are_averaged_over_their_window() {
        let mut power = Means::of_power(1e-3, Seconds(0.25));
        power.take(Seconds(0.1), 9e9).unwrap();
        assert_eq!(power.tell(Seconds(0.2)), Ok(None), "of the time before the first window");
        power.take(Seconds(0.3), 50e3).unwrap();
        power.take(Seconds(0.5), 70e3).unwrap();
        assert_eq!(power.tell(Seconds(0.7)), Ok(Some(Watts(60.0))));
        assert_eq!(power.tell(Seconds(1.2)), Ok(None), "nobody read it");
        for absurd in [f64::NAN, -1.0, f64::INFINITY] {
            assert!(power.take(Seconds(1.3), absurd).unwrap_err().contains("neither"));
        }
    }

    proptest! {
        /// Windows add up to what was counted, wherever they end.
        #[test]
        fn energy_is_neither_made_nor_lost(
            steps in proptest::collection::vec((0.1f64..1.0, 1.0f64..200.0), 2..60),
        ) {
            let mut counter = Means::of_energy(1.0, Some(1000.0), AT_ONCE);
            let (mut now, mut value) = (0.0, 0.0);
            at(&mut counter, now, value).unwrap();
            let (mut told_j, mut truth_j) = (0.0, 0.0);
            for (span, joules) in steps {
                now += span;
                truth_j += joules;
                value = if value + joules > 1000.0 { value + joules - 1000.0 } else { value + joules };
                if let Some(watts) = at(&mut counter, now, value).unwrap() {
                    told_j += watts * span;
                }
            }
            prop_assert!((told_j - truth_j).abs() < 1e-6 * truth_j, "{told_j} {truth_j}");
        }

        #[test]
        fn no_readings_panic(
            readings in proptest::collection::vec((any::<f64>(), any::<f64>(), any::<bool>()), 0..50),
            range in proptest::option::of(any::<f64>()),
        ) {
            let mut energy = Means::of_energy(1.0, range, AT_ONCE);
            let mut power = Means::of_power(1.0, AT_ONCE);
            for (now, value, missed) in readings {
                for means in [&mut energy, &mut power] {
                    let _ = means.take(Seconds(now), value);
                    if missed {
                        means.miss();
                    }
                    let _ = means.tell(Seconds(now));
                }
            }
        }
    }
}
