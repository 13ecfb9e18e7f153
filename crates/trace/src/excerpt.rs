//! A trace from some time on.

use crate::{Record, TraceError};

/// The records from a time on, their times counted from it.
#[derive(Debug)]
pub struct Excerpt<I> {
    inner: I,
    start_ns: u64,
    /// The latest record before the start, until one from the start on was found.
    left_out_ns: Option<u64>,
}

impl<I: Iterator<Item = Result<Record, TraceError>>> Excerpt<I> {
    /// Leaves out the first `start_s` seconds.
    ///
    /// # Errors
    /// The time is negative, too long or not a number.
    pub fn new(inner: I, start_s: f64) -> Result<Self, TraceError> {
        if !(0.0..=1e9).contains(&start_s) {
            return Err(TraceError::Setting(format!("start is {start_s} s; 0 to 1e9 are allowed")));
        }
        Ok(Self { inner, start_ns: (start_s * 1e9).round() as u64, left_out_ns: None })
    }

    /// The source of the records, for its progress and counts.
    pub fn get_ref(&self) -> &I {
        &self.inner
    }
}

impl<I: Iterator<Item = Result<Record, TraceError>>> Iterator for Excerpt<I> {
    type Item = Result<Record, TraceError>;

    /// The next record; an error where the start is after all of them.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(found) = self.inner.next() else {
                let start_ns = self.start_ns;
                return self.left_out_ns.take().map(|last_ns| Err(nothing_left(start_ns, last_ns)));
            };
            match found {
                Ok(record) if record.time_ns < self.start_ns => {
                    self.left_out_ns = Some(record.time_ns);
                }
                Ok(record) => {
                    self.left_out_ns = None;
                    let time_ns = record.time_ns - self.start_ns;
                    return Some(Ok(Record { time_ns, ..record }));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn nothing_left(start_ns: u64, last_ns: u64) -> TraceError {
    TraceError::Setting(format!(
        "start is {} s, but the last request of the trace comes after {} s",
        start_ns as f64 / 1e9,
        last_ns as f64 / 1e9
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn what_was_before_is_left_out_and_time_counts_from_there() {
        let record =
            |time_ns| Record { time_ns, offset_bytes: 0, bytes: 1, device: 0, kind: Kind::Read };
        let all = || [0, 999_999_999, 1_000_000_000, 3_500_000_000].map(|at| Ok(record(at)));
        let times = |start_s| -> Vec<u64> {
            let excerpt = Excerpt::new(all().into_iter(), start_s).unwrap();
            excerpt.map(|record| record.unwrap().time_ns).collect()
        };
        assert_eq!(times(1.0), [0, 2_500_000_000]);
        assert_eq!(times(0.0).len(), 4);
        assert_eq!(times(3.5), [0]);
        let none: [Result<Record, TraceError>; 0] = [];
        assert!(Excerpt::new(none.into_iter(), f64::NAN).is_err());
    }

    /// It was an empty trace, and so a simulation of nothing.
    #[test]
    fn a_start_after_the_last_request_is_an_error() {
        let record =
            |time_ns| Record { time_ns, offset_bytes: 0, bytes: 1, device: 0, kind: Kind::Read };
        let all = [0, 3_500_000_000].map(|at| Ok(record(at)));
        let mut excerpt = Excerpt::new(all.into_iter(), 4.0).unwrap();
        let error = excerpt.next().unwrap().unwrap_err().to_string();
        assert_eq!(error, "start is 4 s, but the last request of the trace comes after 3.5 s");
        assert!(excerpt.next().is_none());
    }
}
