//! One value on a metrics page, selected by the metric's full name: a gauge or a counter.

use super::access::Access;
use super::http::Client;
use super::{is_metric_name, text};
use crate::root::as_text;
use crate::sources::polled::INTERVAL_MIN;
use std::collections::BTreeMap;
use std::time::Duration;
use wattio_governor::SourceError;
use wattio_units::Seconds;

/// The series of a metric that have these labels, summed.
pub(in crate::sources) struct Gauge {
    client: Client,
    metric: String,
    labels: BTreeMap<String, String>,
}

/// Checks the keys of a gauge's table that do not need the host.
///
/// # Errors
/// The key, and what is allowed.
pub(in crate::sources) fn check(
    access: Result<Access, (&'static str, String)>,
    metric: &str,
    interval: Option<Seconds>,
) -> Result<(), (&'static str, String)> {
    access?;
    if !is_metric_name(metric) {
        return Err(("metric", format!("is {metric:?}, not a metric name")));
    }
    if interval.is_some_and(|interval| interval < INTERVAL_MIN) {
        return Err(("interval", format!("is too short; at least {INTERVAL_MIN}")));
    }
    Ok(())
}

impl Gauge {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// When the address makes no sense; `source_name` is for the message.
    pub fn new(
        source_name: &str,
        access: Result<Access, (&'static str, String)>,
        metric: &str,
        labels: &BTreeMap<String, String>,
        timeout: Duration,
    ) -> Result<Self, SourceError> {
        let wrong = |(key, message)| SourceError::new(source_name, format!("{key}: {message}"));
        let client = Client::new(access.map_err(wrong)?, timeout);
        Ok(Self { client, metric: metric.to_owned(), labels: labels.clone() })
    }

    /// The value now, and the page that it stands on.
    ///
    /// # Errors
    /// Says what went wrong: no page, or no such series on it.
    pub fn read(&mut self) -> Result<(f64, &[u8]), String> {
        let page = self.client.get()?;
        let value = text::value(&as_text(page), &self.metric, &self.labels)?;
        Ok((value, page))
    }
}
