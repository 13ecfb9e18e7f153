//! Detection of a page that is a copy, renewed more rarely than windows end.
//!
//! `/federate` of a Prometheus server shows what it scraped last, many seconds ago. Between two
//! scrapes such a page counts no requests, which would pass for a server without load. But it gives
//! the time of each value, which a server's own page has no need to.

use wattio_units::Seconds;

/// Values that are the same for more than this many windows are no window's own.
const WINDOWS_MAX: f64 = 2.0;

/// The last time that a page gave for its values.
#[derive(Clone, Debug)]
pub struct Copied {
    period: Seconds,
    /// The time that the page gave, and since when it has.
    last: Option<(f64, Seconds)>,
    is_late: bool,
}

impl Copied {
    /// Before the first page, for windows of this length.
    #[must_use]
    pub const fn new(period: Seconds) -> Self {
        Self { period, last: None, is_late: false }
    }

    /// Takes in the time that a page gives, if any, and answers whether its values are new.
    ///
    /// # Errors
    /// When it is renewed too rarely, in words.
    pub fn look(&mut self, now: Seconds, told_at: Option<f64>) -> Result<bool, String> {
        let Some(told_at) = told_at else {
            (self.last, self.is_late) = (None, false);
            return Ok(true);
        };
        let is_new = self.last.is_none_or(|(before, _)| before != told_at);
        let age = self.last.map_or(Seconds(0.0), |(_, since)| now - since);
        if age.0 > self.period.0 * WINDOWS_MAX {
            self.is_late = true;
        } else if is_new {
            self.is_late = false;
        }
        if is_new {
            self.last = Some((told_at, now));
        }
        if self.is_late {
            return Err(format!(
                "the page is a copy of values that were measured before (it gives their time), and is \
                 renewed less often than every {} windows of {}: name the page of the server itself",
                WINDOWS_MAX, self.period
            ));
        }
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Between two scrapes, a federated page looked like a server without requests.
    #[test]
    fn a_copy_that_is_renewed_each_ten_seconds_is_refused() {
        let mut copied = Copied::new(Seconds(0.5));
        assert_eq!(copied.look(Seconds(0.0), Some(100.0)), Ok(true));
        assert_eq!(copied.look(Seconds(0.5), Some(100.0)), Ok(false));
        for step in 3..100 {
            let now = f64::from(step) * 0.5;
            let message =
                copied.look(Seconds(now), Some(100.0 + (now / 10.0).floor())).unwrap_err();
            assert!(message.contains("name the page of the server itself"), "{message}");
        }
    }

    #[test]
    fn a_copy_that_is_renewed_in_time_and_a_page_without_times_will_do() {
        let mut copied = Copied::new(Seconds(0.5));
        for step in 0..20 {
            assert_eq!(
                copied.look(Seconds(f64::from(step) * 0.5), Some(f64::from(step))),
                Ok(true)
            );
        }
        assert!(copied.look(Seconds(60.0), Some(19.0)).is_err());
        assert!(copied.look(Seconds(60.5), Some(20.0)).is_err(), "new, and late");
        assert_eq!(copied.look(Seconds(61.0), Some(21.0)), Ok(true), "in time again");
        for now in [61.0, 90.0] {
            assert_eq!(copied.look(Seconds(now), None), Ok(true));
        }
    }
}
