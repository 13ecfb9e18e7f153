//! Power from a metrics page in the text format of Prometheus: a gauge of power or a counter of
//! energy. Matching series are summed.

use super::means::Means;
use super::unit::Unit;
use crate::Stopwatch;
use crate::sources::polled::{at_least, interval};
use crate::sources::prometheus::access::Access;
use crate::sources::prometheus::frozen::Frozen;
use crate::sources::prometheus::gauge::{self, Gauge};
use crate::sources::worker::Worker;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use wattio_governor::{PowerSource, SourceError};
use wattio_units::{Seconds, Watts};

const TIMEOUT_MIN: Seconds = Seconds(0.001);
const TIMEOUT_MAX: Seconds = Seconds(60.0);

/// The table `kind = "prometheus"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The metrics page, such as `http://127.0.0.1:9290/metrics`. Allowed: an address that begins
    /// with `http://` or `https://`.
    pub url: String,
    /// A file with the token that the server asks for (`Authorization: Bearer`), which not every
    /// user may read; it is read for each request. Default: none. Allowed: an absolute path; with
    /// `http://`, only for an address of this host.
    pub token_file: Option<String>,
    /// The authorities whose certificates are trusted, in PEM, for `https://`; read again once it
    /// changes. Default: the host's own. Allowed: an absolute path.
    pub ca_file: Option<String>,
    /// The gauge or counter, such as `ipmi_dcmi_power_consumption_watts`. Matching series are
    /// summed. Allowed: the full name of a metric on the page.
    pub metric: String,
    /// Labels that a series must have. Default: `{}` (all series). Allowed: a table such as `{
    /// package = "0" }`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The unit of the metric. Allowed: `"uW"`, `"mW"`, `"W"` for power; `"uJ"`, `"mJ"`, `"J"` for
    /// a counter of energy.
    pub unit: Unit,
    /// How often to read the page. Default: half a window, at most `"250 ms"`. Allowed: at least 1
    /// ms.
    pub interval: Option<Seconds>,
    /// How long to wait for the page. Default: `"1 s"`. Allowed: 1 ms to 1 min.
    #[serde(default = "timeout_default")]
    pub timeout: Seconds,
}

fn timeout_default() -> Seconds {
    Seconds(1.0)
}

impl Config {
    fn access(&self) -> Result<Access, (&'static str, String)> {
        Access::new(&self.url, self.token_file.as_deref(), self.ca_file.as_deref())
    }

    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        gauge::check(self.access(), &self.metric, self.interval)?;
        if !(TIMEOUT_MIN..=TIMEOUT_MAX).contains(&self.timeout) {
            let message = format!("is {}; allowed is {TIMEOUT_MIN} to {TIMEOUT_MAX}", self.timeout);
            return Err(("timeout", message));
        }
        Ok(())
    }
}

/// The page, asked for in a thread of its own.
pub(super) struct PageMeter {
    name: String,
    stopwatch: Stopwatch,
    worker: Worker<Slot>,
}

/// What was read since it was last fetched.
#[derive(Debug)]
struct Slot {
    means: Means,
    error: Option<String>,
}

impl Slot {
    fn post(&mut self, (at, read): (Seconds, Result<f64, String>)) {
        let taken = read.and_then(|value| self.means.take(at, value));
        if taken.is_err() {
            self.means.miss();
        }
        self.error = taken.err();
    }
}

/// Starts to read the page.
///
/// # Errors
/// When the configuration makes no sense. A server that does not answer is not an error yet: it may
/// start later.
pub(super) fn open(
    config: &Config,
    period: Seconds,
    stopwatch: Stopwatch,
) -> Result<PageMeter, SourceError> {
    let name = format!("prometheus {} {}", config.url, config.metric);
    let interval = interval(&name, config.interval, period)?;
    let timeout = at_least(&name, "timeout", config.timeout, TIMEOUT_MIN)?;
    let timeout = Duration::try_from_secs_f64(timeout.0.min(TIMEOUT_MAX.0));
    let timeout = timeout.unwrap_or(Duration::MAX);
    let mut gauge = Gauge::new(&name, config.access(), &config.metric, &config.labels, timeout)?;
    let mut frozen = Frozen::default();
    let theirs = stopwatch.clone();
    let read = move || {
        // As old as the request.
        let at = theirs();
        let value = gauge.read().and_then(|(value, page)| {
            frozen.look(at, page, value.to_bits())?;
            Ok(value)
        });
        (at, value)
    };
    let scale = config.unit.scale();
    let means = if config.unit.is_energy() {
        Means::of_energy(scale, None, interval)
    } else {
        Means::of_power(scale, interval)
    };
    let slot = Slot { means, error: None };
    let worker = Worker::start(&name, interval, slot, read, Slot::post)?;
    Ok(PageMeter { name, stopwatch, worker })
}

impl PowerSource for PageMeter {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, _: Seconds) -> Result<Option<Watts>, SourceError> {
        if self.worker.is_dead() {
            return Err(SourceError::new(&self.name, "its thread died; this is a bug"));
        }
        let now = (self.stopwatch)();
        let told = self.worker.with(|slot| match &slot.error {
            Some(error) => Err(error.clone()),
            None => slot.means.tell(now),
        });
        told.map_err(|message| SourceError::new(&self.name, message))
    }
}
