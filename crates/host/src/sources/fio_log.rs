//! Latency from fio's logs, for tests: `--write_lat_log` with one line for each request.
//!
//! fio must not average (with `log_avg_msec`, each averaged line would count as one request); it
//! writes its logs when a job ends. Lines are `time ms, latency ns, direction, block size, offset`,
//! with more fields in newer versions; trims are left out. Reading begins at the end of the log as
//! it is found.

use super::followed::Followed;
use super::tally::Tally;
use crate::Root;
use serde::Deserialize;
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::Seconds;

/// The table `kind = "fio-log"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The log, such as `/tmp/job_lat.1.log`. It need not exist yet. Allowed: a path.
    pub path: String,
}

/// One request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its latency.
    pub latency_ns: u64,
    /// Its size.
    pub bytes: u64,
    /// Whether it read.
    pub read: bool,
}

/// Reads one line; `None` for a trim.
///
/// # Errors
/// Says what is wrong with the line.
pub fn parse(line: &str) -> Result<Option<Request>, String> {
    let mut fields = line.split(',').map(|field| field.trim().parse::<u64>());
    let wrong = || format!("{line:?} is not \"time, latency, direction, block size, offset\"");
    let mut next = || fields.next().and_then(Result::ok).ok_or_else(wrong);
    let (_, latency_ns, direction, bytes) = (next()?, next()?, next()?, next()?);
    match direction {
        0 | 1 => Ok(Some(Request { latency_ns, bytes, read: direction == 0 })),
        2 => Ok(None),
        other => Err(format!("{line:?} has the direction {other}, which is not 0, 1 or 2")),
    }
}

/// The source.
#[derive(Debug)]
pub struct FioLog {
    name: String,
    followed: Followed,
}

impl FioLog {
    /// Begins at the end of the log.
    #[must_use]
    pub fn open(config: &Config, root: &Root) -> Self {
        let followed = Followed::at_its_end(root, &config.path);
        Self { name: format!("fio-log {}", config.path), followed }
    }
}

impl LatencySource for FioLog {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        let name = self.name.clone();
        let retry = |message: String| SourceError::new(&name, message);
        let news = self.followed.news().map_err(retry)?;
        let mut tally = Tally::default();
        for line in news.lines() {
            if let Some(request) = parse(line).map_err(retry)? {
                tally.add(request.latency_ns as f64 / 1e3, request.bytes, request.read);
            }
        }
        Ok(Some(tally.sample(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn a_growing_log_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let write = |text: &str| {
            let mut options = File::options();
            let mut file = options.append(true).create(true).open(root.path("/lat.log")).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let mut source = FioLog::open(&Config { path: "/lat.log".to_owned() }, &root);
        assert!(source.sample(Seconds(0.0)).unwrap_err().to_string().contains("/lat.log"));
        write("0, 100000, 0, 4096, 0\n1, 300000, 1, 8192, 0, 0\n2, 5, 2, 1, 0\n3, 90");
        let sample = source.sample(Seconds(1.0)).unwrap().unwrap();
        assert_eq!((sample.requests, sample.latency_us_mean), (2, Some(200.0)));
        assert_eq!((sample.bytes_mean, sample.read_share), (Some(6144.0), Some(0.5)));
        write("0000, 0, 4096, 0\n");
        let sample = source.sample(Seconds(2.0)).unwrap().unwrap();
        assert_eq!((sample.requests, sample.latency_us_mean), (1, Some(900.0)));
        assert_eq!(source.sample(Seconds(3.0)).unwrap().unwrap().requests, 0);
        write("watt\n");
        let error = source.sample(Seconds(4.0)).unwrap_err().to_string();
        assert!(error.contains("\"watt\" is not"), "{error}");
        std::fs::write(root.path("/lat.log"), "").unwrap();
        assert_eq!(source.sample(Seconds(5.0)).unwrap().unwrap().requests, 0);
    }

    #[test]
    fn what_was_there_before_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("lat.log"), "0, 1, 0, 4096, 0\n").unwrap();
        let config = Config { path: "/lat.log".to_owned() };
        let mut source = FioLog::open(&config, &Root::new(folder.path()));
        assert_eq!(source.sample(Seconds(1.0)).unwrap().unwrap().requests, 0);
        assert!(parse("0, 1, 7, 4096, 0").unwrap_err().contains("direction 7"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String, line in "([0-9]{0,21}, ?){0,6}[0-9]?") {
            let _ = (parse(&text), parse(&line));
        }
    }
}
