//! One line of a measuring command: a JSON object.

use crate::sources::differences::{Differences, Totals};
use serde::Deserialize;
use wattio_governor::{GroupUse, LatencySample};
use wattio_law::{InFlight, LatencyHistogram};
use wattio_units::Seconds;

/// Each line that a command prints is a JSON object that reports on the time since the previous
/// line. A source of latency needs `requests`, or the two totals; a source of utilisation needs
/// `utilisation`; a source of power needs `power_w`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Line {
    /// Requests that completed. Allowed: a whole number.
    pub requests: Option<u64>,
    /// Requests that arrived. Allowed: a whole number.
    pub arrived: Option<u64>,
    /// Requests in flight now. Allowed: a whole number.
    pub in_flight: Option<u64>,
    /// All requests since the server started, in place of `requests` and `latency_us_mean`.
    /// Allowed: a whole number, together with `latency_us_total`.
    pub requests_total: Option<u64>,
    /// The sum of the latencies of all these requests, in microseconds. Allowed: a number, at least
    /// 0.
    pub latency_us_total: Option<f64>,
    /// A number that changes whenever the server drops some of what it had counted. A line with a
    /// new number begins a new window, and reports nothing about the time before. Allowed: a whole
    /// number, together with the totals.
    pub totals_epoch: Option<u64>,
    /// How long the oldest request in flight has been waiting, in seconds. Allowed: a number, at
    /// least 0.
    pub oldest_s: Option<f64>,
    /// The mean latency of the completed requests, in microseconds. Allowed: a number, at least 0;
    /// required if `requests` is above 0.
    pub latency_us_mean: Option<f64>,
    /// The mean size of the completed requests, in bytes. Allowed: a number, at least 0.
    pub bytes_mean: Option<f64>,
    /// The share of reads among the completed requests. Allowed: 0 to 1.
    pub read_share: Option<f64>,
    /// A latency histogram: pairs of a bucket's upper edge in microseconds and the number of
    /// requests between the previous edge and this one. Allowed: a list of pairs with ascending
    /// edges, such as `[[100, 80], [1000, 39], [null, 1]]`; the last edge may be `null`, for no
    /// upper limit.
    pub buckets: Option<Vec<(Option<f64>, u64)>>,
    /// The share of the active cores' time that was spent on client work. Allowed: a list with one
    /// number from 0 to 1 for each group.
    pub utilisation: Option<Vec<f64>>,
    /// The same for background work. Default: 0 for each group. Allowed: as for `utilisation`.
    pub utilisation_background: Option<Vec<f64>>,
    /// Client tasks that are waiting for a core now. Allowed: a list with one whole number for each
    /// group.
    pub queued: Option<Vec<u64>>,
    /// The mean power in watts. Allowed: a number, at least 0.
    pub power_w: Option<f64>,
}

/// No latency, in microseconds; what is more is something else.
const LATENCY_US_MAX: f64 = 1e12;

/// Reads a line.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse(text: &str) -> Result<Line, String> {
    let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let positive = |key: &str, value: Option<f64>| match value {
        Some(value) if !(value.is_finite() && value >= 0.0) => {
            Err(format!("{key} = {value} is negative"))
        }
        _ => Ok(()),
    };
    positive("latency_us_mean", line.latency_us_mean)?;
    if let Some(mean) = line.latency_us_mean.filter(|mean| *mean > LATENCY_US_MAX) {
        return Err(format!("latency_us_mean = {mean:e} is no latency: that is over eleven days"));
    }
    positive("latency_us_total", line.latency_us_total)?;
    positive("bytes_mean", line.bytes_mean)?;
    positive("oldest_s", line.oldest_s)?;
    positive("power_w", line.power_w)?;
    let shares = [&line.utilisation, &line.utilisation_background];
    let shares = shares.into_iter().flatten().flatten().chain(&line.read_share);
    for share in shares {
        if !(0.0..=1.0).contains(share) {
            return Err(format!("{share} is not a share from 0 to 1"));
        }
    }
    if line.requests.is_some_and(|requests| requests > 0) && line.latency_us_mean.is_none() {
        return Err("it has requests and no latency_us_mean".to_owned());
    }
    if line.requests_total.is_some() != line.latency_us_total.is_some() {
        return Err("requests_total and latency_us_total belong together".to_owned());
    }
    if line.totals_epoch.is_some() && line.requests_total.is_none() {
        return Err("totals_epoch belongs to requests_total".to_owned());
    }
    if line.requests.is_some() && line.requests_total.is_some() {
        return Err("it has requests and requests_total: one of them".to_owned());
    }
    if let Some(buckets) = &line.buckets {
        let edges = || buckets.iter().map(|bucket| bucket.0.unwrap_or(f64::INFINITY));
        if !edges().zip(edges().skip(1)).all(|(edge, next)| edge < next) {
            return Err("the edges of buckets do not ascend".to_owned());
        }
    }
    Ok(line)
}

/// Why a line yields nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The line makes no sense.
    Line(String),
    /// It does, and says that what is measured began anew.
    Server(String),
}

impl<T: Into<String>> From<T> for Problem {
    fn from(why: T) -> Self {
        Self::Line(why.into())
    }
}

impl Line {
    /// Its latency sample; `None` where it has the first totals, or the first of another epoch: they
    /// open a window.
    ///
    /// # Errors
    /// When it has none, or totals went back.
    pub fn sample(
        self,
        at: Seconds,
        differences: &mut Differences,
    ) -> Result<Option<LatencySample>, Problem> {
        if let (Some(requests), Some(sum)) = (self.requests_total, self.latency_us_total) {
            let (epoch, latency_us_sum) = (self.totals_epoch, Some(sum));
            let totals = Totals { epoch, requests, latency_us_sum, ..Totals::default() };
            let window = differences.window(at, totals);
            return window.map_err(|error| Problem::Server(error.message));
        }
        let Some(requests) = self.requests else {
            differences.restart();
            return Err("it has no requests".into());
        };
        let some = requests > 0;
        let edge = |(edge, count): (Option<f64>, u64)| (edge.unwrap_or(f64::INFINITY), count);
        Ok(Some(LatencySample {
            at,
            requests,
            arrived: self.arrived,
            in_flight: self
                .in_flight
                .map(|requests| InFlight { requests, oldest: self.oldest_s.map(Seconds) }),
            latency_us_mean: self.latency_us_mean.filter(|_| some),
            bytes_mean: self.bytes_mean.filter(|_| some),
            read_share: self.read_share.filter(|_| some),
            histogram: self.buckets.map(|buckets| LatencyHistogram {
                buckets: buckets.into_iter().map(edge).collect(),
            }),
        }))
    }

    /// Its utilisation by group.
    ///
    /// # Errors
    /// When it has none, or its lists differ in length.
    pub fn uses(self) -> Result<Vec<GroupUse>, String> {
        let clients = self.utilisation.ok_or("it has no utilisation")?;
        let background = self.utilisation_background.unwrap_or_else(|| vec![0.0; clients.len()]);
        if clients.len() != background.len() {
            return Err("utilisation and utilisation_background differ in length".to_owned());
        }
        let queued = self.queued.map(|queued| queued.into_iter().map(Some).collect());
        let queued: Vec<_> = queued.unwrap_or_else(|| vec![None; clients.len()]);
        if clients.len() != queued.len() {
            return Err("utilisation and queued differ in length".to_owned());
        }
        let group = |((clients, background), queued)| GroupUse {
            utilisation_clients: clients,
            utilisation_background: background,
            queued,
            waited_for_drives: false,
        };
        Ok(clients.into_iter().zip(background).zip(queued).map(group).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(line: Line) -> Result<Option<LatencySample>, Problem> {
        line.sample(Seconds(3.0), &mut Differences::new("test"))
    }

    /// A mean of 1e300 us went into the journal, and its report's axis had 290 digits.
    #[test]
    fn a_mean_that_is_no_latency_makes_no_sense() {
        for (mean, is_one) in [("0", true), ("1e12", true), ("1.1e12", false), ("1e300", false)] {
            let text = format!("{{\"requests\": 1, \"latency_us_mean\": {mean}}}");
            assert_eq!(parse(&text).is_ok(), is_one, "{mean}");
        }
        let error = parse("{\"requests\": 1, \"latency_us_mean\": 1e300}").unwrap_err();
        assert_eq!(error, "latency_us_mean = 1e300 is no latency: that is over eleven days");
    }

    #[test]
    fn totals_make_windows() {
        let mut differences = Differences::new("test");
        let mut next = |requests: u64, sum: f64| {
            let text = format!("{{\"requests_total\": {requests}, \"latency_us_total\": {sum}}}");
            parse(&text).unwrap().sample(Seconds(1.0), &mut differences)
        };
        assert_eq!(next(10, 5000.0), Ok(None));
        let window = next(14, 5600.0).unwrap().unwrap();
        assert_eq!((window.requests, window.latency_us_mean), (4, Some(150.0)));
        let began_anew =
            |problem| matches!(problem, Problem::Server(why) if why.contains("went back"));
        assert!(began_anew(next(3, 10.0).unwrap_err()));
        assert_eq!(next(4, 20.0).unwrap().unwrap().latency_us_mean, Some(10.0));
        assert!(Line::default().sample(Seconds(1.0), &mut differences).is_err());
        let text = "{\"requests_total\": 900, \"latency_us_total\": 9000}";
        let sample = parse(text).unwrap().sample(Seconds(1.0), &mut differences);
        assert_eq!(sample, Ok(None), "whatever was served meanwhile");
    }

    /// PostgreSQL forgets statements where there are more than it keeps. It was told to have been
    /// restarted, or, where others were asked more often meanwhile, to have been faster than it was.
    #[test]
    fn totals_that_lost_something_open_a_window() {
        let mut differences = Differences::new("test");
        let mut next = |epoch: u64, requests: u64, sum: f64| {
            let text = format!(
                "{{\"requests_total\": {requests}, \"latency_us_total\": {sum}, \"totals_epoch\": {epoch}}}"
            );
            parse(&text).unwrap().sample(Seconds(1.0), &mut differences)
        };
        assert_eq!(next(7, 10, 5000.0), Ok(None));
        assert_eq!(next(8, 4, 100.0), Ok(None), "smaller");
        assert_eq!(next(8, 6, 300.0).unwrap().unwrap().latency_us_mean, Some(100.0));
        assert_eq!(next(9, 16, 310.0), Ok(None), "larger");
        assert!(matches!(next(9, 3, 10.0), Err(Problem::Server(why)) if why.contains("went back")));
    }

    #[test]
    fn a_whole_line_is_read() {
        let text = r#"{"requests": 12, "arrived": 13, "latency_us_mean": 310.5, "bytes_mean": 4096,
            "read_share": 0.5, "buckets": [[100, 3], [null, 9]], "utilisation": [0.4, 0.2]}"#;
        let line = parse(text).unwrap();
        let sample = sample(line.clone()).unwrap().unwrap();
        assert_eq!((sample.at, sample.requests, sample.arrived), (Seconds(3.0), 12, Some(13)));
        assert_eq!((sample.latency_us_mean, sample.bytes_mean), (Some(310.5), Some(4096.0)));
        assert_eq!(sample.histogram.unwrap().buckets, [(100.0, 3), (f64::INFINITY, 9)]);
        let uses = line.uses().unwrap();
        assert_eq!((uses[1].utilisation_clients, uses[1].utilisation_background), (0.2, 0.0));
        assert_eq!(uses[1].queued, None);
        let uses =
            parse(r#"{"utilisation": [0.4, 0.2], "queued": [3, 0]}"#).unwrap().uses().unwrap();
        assert_eq!((uses[0].queued, uses[1].queued), (Some(3), Some(0)));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (text, why) in [
            ("{\"request\": 1}", "unknown field"),
            ("{\"requests\": 1}", "no latency_us_mean"),
            ("{\"requests\": -1}", "invalid value"),
            ("{\"latency_us_mean\": -1}", "negative"),
            ("{\"power_w\": -5}", "negative"),
            ("{\"requests_total\": 5}", "belong together"),
            ("{\"requests\": 0, \"totals_epoch\": 5}", "belongs to requests_total"),
            ("{\"requests\": 0, \"requests_total\": 5, \"latency_us_total\": 1}", "one of them"),
            ("{\"read_share\": 1.5}", "share"),
            ("{\"utilisation\": [0.5, 40]}", "40 is not a share"),
            ("{\"buckets\": [[2, 1], [1, 1]]}", "ascend"),
            ("{\"buckets\": [[null, 1], [1, 1]]}", "ascend"),
            ("12", "invalid type"),
            ("", "EOF"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(sample(parse("{}").unwrap()).is_err());
        let lengths = "{\"utilisation\": [0.5], \"utilisation_background\": []}";
        assert!(parse(lengths).unwrap().uses().unwrap_err().contains("differ in length"));
        let lengths = "{\"utilisation\": [0.5], \"queued\": [1, 2]}";
        assert!(parse(lengths).unwrap().uses().unwrap_err().contains("queued differ in length"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String, value in "[\\[\\]0-9.e,-]{0,20}|null") {
            let _ = parse(&text);
            for key in ["requests", "latency_us_mean", "buckets", "utilisation"] {
                if let Ok(line) = parse(&format!("{{\"{key}\": {value}}}")) {
                    let _ = (sample(line.clone()), line.uses());
                }
            }
        }
    }
}
