//! Latency from a metrics page in the text format of Prometheus.
//!
//! A histogram gives count, mean and buckets; a summary, or any pair of `_sum` and `_count`, gives
//! count and mean. Buckets alone (MinIO) give a mean that is only as precise as they are narrow.
//! Matching series are summed. The page may be asked for by HTTPS, and with a token.

pub(super) mod access;
mod copied;
pub(super) mod frozen;
pub(super) mod gauge;
mod http;
pub mod text;
mod url;

use super::differences::{Differences, Totals};
use super::polled::{Polled, at_least, interval};
use crate::Stopwatch;
use crate::root::as_text;
use access::Access;
use copied::Copied;
use frozen::Frozen;
use http::Client;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use text::Selector;
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::Seconds;

/// The table `kind = "prometheus"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The metrics page, such as `http://127.0.0.1:2379/metrics`. Allowed: an address that begins
    /// with `http://` or `https://`.
    pub url: String,
    /// A file with the token that the server asks for (`Authorization: Bearer`), which not every
    /// user may read; it is read for each request. Default: none. Allowed: an absolute path; with
    /// `http://`, only for an address of this host.
    pub token_file: Option<String>,
    /// The authorities whose certificates are trusted, in PEM, for `https://`; read again once it
    /// changes. Default: the host's own. Allowed: an absolute path.
    pub ca_file: Option<String>,
    /// The histogram, summary or `_sum`/`_count` pair, such as
    /// `etcd_disk_wal_fsync_duration_seconds`. Allowed: the name of a metric on the page, without
    /// `_bucket`, `_sum` or `_count`.
    pub metric: String,
    /// Labels that a series must have. Default: `{}` (all series). Allowed: a table such as `{
    /// method = "PUT" }`, without `le`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The unit of the metric. Default: `"s"`. Allowed: `"s"`, `"ms"`, `"us"`.
    #[serde(default)]
    pub unit: Unit,
    /// How often to read the page. Default: half a window, at most `"250 ms"`. Allowed: at least 1
    /// ms.
    pub interval: Option<Seconds>,
    /// How long to wait for the page. Default: `"1 s"`. Allowed: at least 1 ms; more than 1 min
    /// means 1 min.
    #[serde(default = "timeout_default")]
    pub timeout: Seconds,
}

fn timeout_default() -> Seconds {
    Seconds(1.0)
}

/// The unit of a metric's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Unit {
    /// Seconds.
    #[default]
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
}

impl Unit {
    pub(super) fn us(self) -> f64 {
        match self {
            Self::Seconds => 1e6,
            Self::Milliseconds => 1e3,
            Self::Microseconds => 1.0,
        }
    }
}

/// The page, asked for where it is needed.
#[derive(Debug)]
struct Page {
    name: String,
    client: Client,
    selector: Selector,
    differences: Differences,
    frozen: Frozen,
    copied: Copied,
}

/// Checks the keys that do not need the host.
///
/// # Errors
/// The key, and what is allowed.
pub(super) fn check(config: &Config) -> Result<(), (&'static str, String)> {
    access(config)?;
    if !is_metric_name(&config.metric) {
        return Err(("metric", format!("{:?} is not a metric name", config.metric)));
    }
    for part in ["_bucket", "_sum", "_count"] {
        if let Some(metric) = config.metric.strip_suffix(part) {
            return Err(("metric", format!("leave {part} out: metric = {metric:?}")));
        }
    }
    if config.labels.contains_key("le") {
        return Err(("labels", "cannot choose buckets (\"le\"); leave it out".to_owned()));
    }
    Ok(())
}

fn access(config: &Config) -> Result<Access, (&'static str, String)> {
    Access::new(&config.url, config.token_file.as_deref(), config.ca_file.as_deref())
}

/// Starts to read the page in a thread of its own.
///
/// # Errors
/// When the configuration makes no sense. A server that does not answer is not an error yet: it may
/// start later.
pub fn open(config: &Config, period: Seconds, stopwatch: Stopwatch) -> Result<Polled, SourceError> {
    let name = format!("prometheus {} {}", config.url, config.metric);
    let refused = |message: String| SourceError::new(&name, message);
    check(config).map_err(|(key, message)| refused(format!("{key}: {message}")))?;
    let access = access(config).map_err(|(key, message)| refused(format!("{key}: {message}")))?;
    let interval = interval(&name, config.interval, period)?;
    let timeout = at_least(&name, "timeout", config.timeout, Seconds(0.001))?;
    let timeout = Duration::try_from_secs_f64(timeout.0.min(60.0)).unwrap_or(Duration::MAX);
    let selector = Selector {
        metric: config.metric.clone(),
        labels: config.labels.clone(),
        unit_us: config.unit.us(),
    };
    let client = Client::new(access, timeout);
    let differences = Differences::new(&name);
    let (frozen, copied) = (Frozen::default(), Copied::new(period));
    let page = Page { name, client, selector, differences, frozen, copied };
    Polled::start(page, interval, stopwatch)
}

/// Whether a text can be the name of a metric.
fn is_metric_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Page {
    /// `None` where the page still has the values of before.
    fn totals(&mut self, now: Seconds) -> Result<Option<Totals>, String> {
        let page = self.client.get()?;
        let (totals, told_at) = text::read_timed(&as_text(page), &self.selector)?;
        self.frozen.look(now, page, totals.requests)?;
        Ok(self.copied.look(now, told_at)?.then_some(totals))
    }
}

impl LatencySource for Page {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        let totals = self.totals(now).map_err(|message| SourceError::new(&self.name, message));
        match totals.transpose() {
            Some(totals) => self.differences.answer(now, totals),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::page_fake;
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_page_that_failed_is_followed_by_a_new_window() {
        let page = Arc::new(Mutex::new(String::new()));
        let name = "prometheus".to_owned();
        let (metric, labels) = ("waits".to_owned(), BTreeMap::new());
        let access = Access::new(&page_fake::serve(&page), None, None).unwrap();
        let mut source = Page {
            client: Client::new(access, Duration::from_secs(20)),
            selector: Selector { metric, labels, unit_us: Unit::Seconds.us() },
            differences: Differences::new(&name),
            frozen: Frozen::default(),
            copied: Copied::new(Seconds(0.5)),
            name,
        };
        let mut next = |at: f64, text: String| {
            *page.lock().unwrap() = text;
            source.sample(Seconds(at)).map(|sample| sample.map(|sample| sample.requests))
        };
        let counted = |count: u32| format!("waits_sum {count}\nwaits_count {count}\n");
        assert_eq!(next(1.0, counted(10)), Ok(None));
        assert_eq!(next(2.0, counted(12)), Ok(Some(2)));
        assert!(next(3.0, "starting\n".to_owned()).is_err());
        assert_eq!(next(600.0, counted(9000)), Ok(None));
        assert_eq!(next(601.0, counted(9003)), Ok(Some(3)));
        let timed = |count: u32| format!("waits_sum {count} 10\nwaits_count {count} 10\n");
        assert_eq!(next(601.5, timed(9004)), Ok(Some(1)));
        assert_eq!(next(602.0, timed(9004)), Ok(None), "not a window without requests");
    }
}
