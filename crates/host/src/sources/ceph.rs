//! Latency of operations of Ceph OSDs, from their admin sockets.
//!
//! `perf dump` tells count and sum of `op_latency`: client operations from their arrival at the OSD
//! to the reply, replication included, the client's network not. Several OSDs are summed.

use super::asking::{ANSWER_BYTES_MAX, connect, explain};
use super::differences::{Differences, Totals, sum_windows};
use super::polled::{Polled, at_least, interval};
use crate::Root;
use crate::Stopwatch;
use crate::processes::matches;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::Seconds;

/// Ends with a zero byte; the answer begins with its length in four bytes, highest first.
const QUESTION: &[u8] = b"{\"prefix\": \"perf dump\"}\0";

/// The table `kind = "ceph"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Admin sockets of OSDs; `*` in the last part stands for any text:
    /// `["/var/run/ceph/ceph-osd.*.asok"]`.
    pub sockets: Vec<String>,
    /// How often to ask; when left out twice a window and at least four times a second.
    pub interval: Option<Seconds>,
    /// How long to wait for an answer.
    #[serde(default = "timeout_default")]
    pub timeout: Seconds,
}

fn timeout_default() -> Seconds {
    Seconds(1.0)
}

#[derive(Deserialize)]
struct Dump {
    osd: Osd,
}

#[derive(Deserialize)]
struct Osd {
    op_latency: Latency,
    op_r_latency: Option<Latency>,
    op_in_bytes: Option<u64>,
    op_out_bytes: Option<u64>,
    op_wip: Option<u64>,
}

#[derive(Deserialize)]
struct Latency {
    avgcount: u64,
    /// In seconds.
    sum: f64,
}

/// The counters in the answer to `perf dump`.
///
/// # Errors
/// Says what the answer has not.
pub fn parse(answer: &[u8]) -> Result<Totals, String> {
    let Dump { osd } = serde_json::from_slice(answer)
        .map_err(|error| format!("its perf dump is not an OSD's: {error}"))?;
    if !(osd.op_latency.sum >= 0.0 && osd.op_latency.sum.is_finite()) {
        return Err(format!("its op_latency has the sum {} s", osd.op_latency.sum));
    }
    let bytes = osd.op_in_bytes.zip(osd.op_out_bytes);
    Ok(Totals {
        requests: osd.op_latency.avgcount,
        under_way: osd.op_wip,
        latency_us_sum: Some(osd.op_latency.sum * 1e6),
        bytes_sum: bytes.map(|(received, sent)| received.saturating_add(sent)),
        reads: osd.op_r_latency.map(|reads| reads.avgcount),
        buckets: None,
    })
}

/// The OSDs, asked where it may take a moment.
#[derive(Debug)]
struct Osds {
    name: String,
    root: Root,
    sockets: Vec<String>,
    timeout: Seconds,
    differences: BTreeMap<String, Differences>,
}

/// Starts to ask in a thread of its own.
///
/// # Errors
/// Where the configuration makes no sense. An OSD that does not run is no error yet.
pub fn open(
    config: &Config,
    root: &Root,
    period: Seconds,
    stopwatch: Stopwatch,
) -> Result<Polled, SourceError> {
    let name = format!("ceph {}", config.sockets.join(" "));
    let whole =
        |path: &String| path.rsplit_once('/').is_some_and(|(folder, _)| !folder.contains('*'));
    if config.sockets.is_empty() || !config.sockets.iter().all(whole) {
        return Err(SourceError::new(
            &name,
            "sockets must be absolute paths with * in the last part only, such as \
             [\"/var/run/ceph/ceph-osd.*.asok\"]",
        ));
    }
    let interval = interval(&name, config.interval, period)?;
    let timeout = at_least(&name, "timeout", config.timeout, Seconds(0.001))?;
    let (root, sockets) = (root.clone(), config.sockets.clone());
    let osds = Osds { name, root, sockets, timeout, differences: BTreeMap::new() };
    Polled::start(osds, interval, stopwatch)
}

impl Osds {
    /// The sockets that are there now.
    fn paths(&self) -> BTreeSet<String> {
        let mut paths = BTreeSet::new();
        for pattern in &self.sockets {
            let (folder, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
            if !name.contains('*') {
                paths.insert(pattern.clone());
                continue;
            }
            let found = self.root.list(folder).into_iter().filter(|entry| matches(name, entry));
            paths.extend(found.map(|entry| format!("{folder}/{entry}")));
        }
        paths
    }

    fn ask(&self, path: &str) -> Result<Totals, SourceError> {
        let answer = self.answer(path).map_err(|error| explain(&error, self.timeout));
        answer
            .and_then(|answer| parse(&answer))
            .map_err(|message| SourceError::new(&self.name, format!("{path}: {message}")))
    }

    fn answer(&self, path: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = connect(&self.root.path(path), self.timeout)?;
        stream.write_all(QUESTION)?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u64::from(u32::from_be_bytes(length));
        if length > ANSWER_BYTES_MAX {
            let message = format!("the answer has {length} bytes, more than {ANSWER_BYTES_MAX}");
            return Err(std::io::Error::other(message));
        }
        let mut answer = Vec::new();
        stream.take(length).read_to_end(&mut answer)?;
        if (answer.len() as u64) < length {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(answer)
    }
}

impl LatencySource for Osds {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        let paths = self.paths();
        if paths.is_empty() {
            let message = "there is no such socket; is an OSD running?";
            return Err(SourceError::new(&self.name, message));
        }
        let totals: Vec<_> = paths.iter().map(|path| (path, self.ask(path))).collect();
        self.differences.retain(|path, _| paths.contains(path));
        let name = &self.name;
        let differences = &mut self.differences;
        sum_windows(totals.into_iter().map(|(path, totals)| {
            let new = || Differences::new(format!("{name}: {path}"));
            differences.entry(path.clone()).or_insert_with(new).window(now, totals?)
        }))
    }
}

#[cfg(test)]
mod tests;
