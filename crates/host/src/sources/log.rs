//! Latency from a server's log of requests: nginx's `$request_time`, HAProxy's `%Tt`.
//!
//! Each line that has a number right after a text of your choice counts as one request. Servers log
//! a request when it is over, mostly in whole milliseconds, so shorter latencies are coarse.

use super::followed::Followed;
use super::polled::{Polled, interval};
use super::prometheus::Unit;
use super::tally::Tally;
use crate::{Root, Stopwatch};
use serde::Deserialize;
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::Seconds;

/// The table `kind = "log"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The log, such as `/var/log/nginx/latency.log`. It need not exist yet, and may be rotated.
    /// Allowed: an absolute path.
    pub path: String,
    /// The text right before the latency, such as `"rt="`. If a line contains it several times, the
    /// first one counts: so log it before anything that clients send (addresses, agents), or
    /// clients can forge it. Allowed: any text that is not blank.
    pub after: String,
    /// The unit of the latency: nginx logs seconds, HAProxy milliseconds. Default: `"s"`. Allowed:
    /// `"s"`, `"ms"`, `"us"`.
    #[serde(default)]
    pub unit: Unit,
    /// How often to read the log. Default: half a window, at most `"250 ms"`. Allowed: at least 1
    /// ms.
    pub interval: Option<Seconds>,
}

/// No latency, in microseconds: over eleven days. What is more is something else.
const LATENCY_US_MAX: f64 = 1e12;

/// The latency in a line in units of the log; `None` where there is none (`-`, another kind of line, a
/// number with an exponent, which no server logs).
#[must_use]
pub fn parse(line: &str, after: &str) -> Option<f64> {
    let (_, rest) = line.split_once(after)?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, rest) = rest.split_at_checked(end)?;
    let power = rest.strip_prefix(['e', 'E']).map(|power| power.trim_start_matches(['+', '-']));
    if power.is_some_and(|power| power.starts_with(|c: char| c.is_ascii_digit())) {
        return None;
    }
    number.parse().ok().filter(|latency: &f64| latency.is_finite())
}

/// The log, read where it may take a moment.
#[derive(Debug)]
struct Log {
    name: String,
    followed: Followed,
    after: String,
    unit_us: f64,
    /// Lines since the last that had a latency.
    without: u64,
}

/// Lines without any latency after which the pattern is taken to be wrong.
const WITHOUT_MAX: u64 = 100;

/// Checks what does not depend on the host.
///
/// # Errors
/// The key, and what is allowed.
pub(super) fn check(config: &Config) -> Result<(), (&'static str, String)> {
    if !config.after.trim().is_empty() {
        return Ok(());
    }
    let message = "is empty: say what stands right before the latency, such as after = \"rt=\"";
    Err(("after", message.to_owned()))
}

/// Starts to read in a thread of its own, at the end of the log.
///
/// # Errors
/// When the configuration makes no sense. A log that is not there is not an error yet.
pub fn open(
    config: &Config,
    root: &Root,
    period: Seconds,
    stopwatch: Stopwatch,
) -> Result<Polled, SourceError> {
    let name = format!("log {}", config.path);
    if !config.path.starts_with('/') {
        return Err(SourceError::new(&name, "path must be absolute"));
    }
    check(config).map_err(|(key, message)| SourceError::new(&name, format!("{key} {message}")))?;
    let interval = interval(&name, config.interval, period)?;
    let followed = Followed::at_its_end(root, &config.path);
    let (after, unit_us) = (config.after.clone(), config.unit.us());
    Polled::start(Log { name, followed, after, unit_us, without: 0 }, interval, stopwatch)
}

impl LatencySource for Log {
    fn name(&self) -> &str {
        &self.name
    }

    /// Seconds are logged with three digits.
    fn latency_us_resolution(&self) -> f64 {
        self.unit_us.min(1e3)
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        let news = self.followed.news().map_err(|message| SourceError::new(&self.name, message))?;
        let mut tally = Tally::default();
        for line in news.lines() {
            let latency_us = parse(line, &self.after).map(|latency| latency * self.unit_us);
            match latency_us.filter(|&latency| latency <= LATENCY_US_MAX) {
                Some(latency_us) => {
                    tally.add(latency_us, 0, false);
                    self.without = 0;
                }
                None => self.without += 1,
            }
        }
        if self.without > WITHOUT_MAX {
            let message =
                format!("its last {} lines have no number after {:?}", self.without, self.after);
            return Err(SourceError::new(&self.name, message));
        }
        // Neither sizes nor kinds are read.
        let sample = tally.sample(now);
        Ok(Some(LatencySample { bytes_mean: None, read_share: None, ..sample }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    #[test]
    fn the_number_after_the_text_is_the_latency() {
        for (line, latency) in [
            ("rt=0.012 GET /", Some(0.012)),
            ("a rt=3", Some(3.0)),
            ("rt=0.1 GET /?rt=0.000", Some(0.1)),
            ("rt=-", None),
            ("GET /", None),
            ("rt=1.2.3", None),
            ("rt=", None),
            ("rt=-0.5", None),
            ("rt=NaN", None),
            ("rt=inf", None),
            ("rt=1e308", None),
            ("rt=2E+5", None),
            ("rt=12ms", Some(12.0)),
            ("rt=1 e5", Some(1.0)),
        ] {
            assert_eq!(parse(line, "rt="), latency, "{line}");
        }
    }

    fn source(root: &Root) -> Log {
        let followed = Followed::at_its_end(root, "/log");
        Log { name: "log /log".into(), followed, after: "rt=".into(), unit_us: 1e6, without: 0 }
    }

    #[test]
    fn lines_become_requests() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut source = source(&Root::new(folder.path()));
        write!(log, "rt=0.001 a\nstarted\nrt=0.003 b\n").unwrap();
        let sample = source.sample(Seconds(1.0)).unwrap().unwrap();
        assert_eq!((sample.requests, sample.latency_us_mean), (2, Some(2000.0)));
        assert_eq!((sample.bytes_mean, sample.read_share), (None, None));
        assert_eq!(sample.histogram.unwrap().buckets.iter().map(|bucket| bucket.1).sum::<u64>(), 2);
        assert_eq!(source.sample(Seconds(2.0)).unwrap().unwrap().requests, 0);
    }

    /// Of `rt=1e308` the 1 was taken, and ten days of seconds were a latency.
    #[test]
    fn what_is_no_latency_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut source = source(&Root::new(folder.path()));
        write!(log, "rt=1e308\nrt=-1\nrt=NaN\nrt=1000001\nrt=0.001\n").unwrap();
        let sample = source.sample(Seconds(1.0)).unwrap().unwrap();
        assert_eq!((sample.requests, sample.latency_us_mean), (1, Some(1000.0)));
    }

    #[test]
    fn a_log_without_any_latency_is_an_error_until_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut source = source(&Root::new(folder.path()));
        write!(log, "{}", "GET /\n".repeat(101)).unwrap();
        let error = source.sample(Seconds(1.0)).unwrap_err().to_string();
        assert!(error.contains("last 101 lines have no number after \"rt=\""), "{error}");
        writeln!(log, "rt=1").unwrap();
        assert_eq!(source.sample(Seconds(2.0)).unwrap().unwrap().requests, 1);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let open = |path: &str, after: &str| {
            let (path, after) = (path.to_owned(), after.to_owned());
            let config = Config { path, after, unit: Unit::default(), interval: None };
            open(&config, &Root::default(), Seconds(0.5), crate::stopwatch()).err()
        };
        assert!(open("log", "rt=").unwrap().to_string().contains("absolute"));
        assert!(open("/log", " ").unwrap().to_string().contains("after is empty"));
    }

    proptest! {
        #[test]
        fn no_text_panics(line: String, more in "rt=[0-9.eé-]{0,8}", after: String) {
            let _ = (parse(&line, &after), parse(&more, "rt="));
        }
    }
}
