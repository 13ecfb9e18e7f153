//! Latency of each request to block devices from the kernel's tracepoints `block_rq_issue` and
//! `block_rq_complete`, with a histogram.
//!
//! Like `diskstats` this is device time, but to the microsecond. It costs processor time for each
//! request (the kernel writes two lines of text, and this module reads them), so it is meant for up
//! to about ten thousand requests a second. Flushes and discards are not counted. The number of
//! requests in flight is the kernel's own count (the device's `inflight`): some traced requests
//! never show a completion, so counting them here would make a server look stalled for ever. Needs
//! root and tracefs.

pub mod event;
mod instance;
pub mod requests;

use super::polled::{INTERVAL_MIN, Polled, at_least};
use crate::Root;
use crate::Stopwatch;
use instance::Instance;
pub use instance::remove_stale;
use requests::{Requests, UnderWay};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::{Bytes, Seconds};

const EVENTS: [&str; 2] = ["block/block_rq_issue", "block/block_rq_complete"];
/// Sizes of the kernel's buffer that make sense.
const BUFFER_KIB: std::ops::RangeInclusive<u64> = 64..=(64 << 10);
/// The most that is read at once, so that a flood does not occupy the thread for ever.
const READ_BYTES_MAX: usize = 32 << 20;

/// The table `kind = "tracepoint"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The block devices. Allowed: a list of names of whole devices, such as `["nvme0n1"]`.
    pub devices: Vec<String>,
    /// How often to read the trace. Default: `"50 ms"`. Allowed: at least 1 ms.
    #[serde(default = "interval_default")]
    pub interval: Seconds,
    /// The size of the kernel's buffer for each core. An event takes about 100 bytes. Default: `"1
    /// MiB"`. Allowed: 64 KiB to 64 MiB.
    #[serde(default = "buffer_default")]
    pub buffer: Bytes,
}

fn interval_default() -> Seconds {
    Seconds(0.05)
}

fn buffer_default() -> Bytes {
    Bytes(1_048_576.0)
}

/// The trace, read where it may take a moment.
#[derive(Debug)]
struct Trace {
    name: String,
    instance: Instance,
    requests: Requests,
    counts: Vec<Count>,
    told: u64,
    bytes: Vec<u8>,
    begun: usize,
}

/// Starts to record, and to read in a thread of its own.
///
/// # Errors
/// When a device is not there, tracing cannot be used, or the configuration makes no sense.
pub fn open(config: &Config, root: &Root, stopwatch: Stopwatch) -> Result<Polled, SourceError> {
    let name = format!("tracepoint {}", config.devices.join(" "));
    let refused = |message: String| SourceError::new(&name, message);
    let interval = at_least(&name, "interval", config.interval, INTERVAL_MIN)?;
    let buffer_kib = (config.buffer.0 / 1024.0) as u64;
    if !BUFFER_KIB.contains(&buffer_kib) {
        return Err(refused(format!("buffer = {} is not from 64 KiB to 64 MiB", config.buffer)));
    }
    let condition = condition(&config.devices, root).map_err(refused)?;
    let instance = Instance::start(root, &EVENTS, &condition, buffer_kib).map_err(refused)?;
    let counts = config.devices.iter().map(|device| Count::new(root, device)).collect();
    let requests = Requests::default();
    let bytes = vec![0; 64 << 10];
    let trace = Trace { name, instance, requests, counts, told: 0, bytes, begun: 0 };
    Polled::start(trace, interval, stopwatch)
}

/// The kernel's filter for these devices: `dev == 0x800000 || dev == 0x800010`.
fn condition(devices: &[String], root: &Root) -> Result<String, String> {
    let there = || root.list("/sys/block").join(", ");
    let one = |device: &String| {
        let number = root.read(&format!("/sys/block/{device}/dev")).ok();
        let (major, minor) = number.as_deref().and_then(|number| number.split_once(':'))?;
        let (major, minor) = (major.parse::<u64>().ok()?, minor.parse::<u64>().ok()?);
        // As the kernel keeps a device's number: MINORBITS in include/linux/kdev_t.h.
        Some(format!("dev == {:#x}", (major << 20) | minor))
    };
    let mut parts = Vec::new();
    for device in devices {
        parts.push(
            one(device).ok_or_else(|| {
                format!("no whole block device {device:?}; there are {}", there())
            })?,
        );
    }
    if parts.is_empty() {
        return Err(format!("devices is empty; there are {}", there()));
    }
    Ok(parts.join(" || "))
}

/// The kernel's count of a device's requests.
#[derive(Clone, Debug)]
struct Count {
    root: Root,
    inflight: String,
    switch: String,
}

impl Count {
    fn new(root: &Root, device: &str) -> Self {
        let folder = format!("/sys/block/{device}");
        let (inflight, switch) = (format!("{folder}/inflight"), format!("{folder}/queue/iostats"));
        Self { root: root.clone(), inflight, switch }
    }

    /// Reads and writes under way; `None` if the kernel does not count.
    fn read(&self) -> Option<u64> {
        // While it is off, new requests are not counted.
        self.root.read(&self.switch).ok().filter(|switch| switch != "0")?;
        let text = self.root.read(&self.inflight).ok()?;
        let counts: Option<Vec<u64>> =
            text.split_ascii_whitespace().map(|count| count.parse().ok()).collect();
        match counts?.as_slice() {
            &[reads, writes] => Some(reads.saturating_add(writes)),
            _ => None,
        }
    }
}

/// Microseconds of the clock that the trace is stamped with (`trace_clock` is `mono`).
fn trace_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1000)
}

impl Trace {
    /// Requests in flight; read before the trace, so that everything it counts has been traced.
    fn under_way(&self) -> Option<UnderWay> {
        let at_us = trace_us();
        let counts: Option<Vec<_>> = self.counts.iter().map(Count::read).collect();
        let requests = counts?.into_iter().fold(0, u64::saturating_add);
        Some(UnderWay { requests, at_us })
    }

    fn drain(&mut self) -> Result<(), String> {
        let mut read = 0;
        while read < READ_BYTES_MAX {
            let room = self.bytes.get_mut(self.begun..).unwrap_or_default();
            let count = self.instance.read(room)?;
            if count == 0 {
                break;
            }
            read += count;
            self.begun = (self.begun + count).min(self.bytes.len());
            self.take_lines();
        }
        Ok(())
    }

    /// Parses the whole lines, and moves an incomplete one to the beginning.
    fn take_lines(&mut self) {
        let bytes = self.bytes.get(..self.begun).unwrap_or_default();
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        for line in bytes.get(..end).unwrap_or_default().split(|&byte| byte == b'\n') {
            // A task's name may be any bytes; it is not looked at.
            if let Some(event) = event::parse(&String::from_utf8_lossy(line)) {
                self.requests.take(event);
            }
        }
        self.bytes.copy_within(end..self.begun, 0);
        self.begun -= end;
        if self.begun > event::LINE_BYTES_MAX {
            self.begun = 0;
        }
    }
}

impl LatencySource for Trace {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        let under_way = self.under_way();
        self.drain().map_err(|message| SourceError::new(&self.name, message))?;
        if !self.instance.is_on() {
            // Silence would look like no requests.
            return Err(SourceError::new(&self.name, "somebody else stopped its recording"));
        }
        self.requests.sample(now, under_way).map(Some).map_err(|lost| {
            let message = format!(
                "{lost} events were lost: raise buffer, shorten interval, or use diskstats"
            );
            SourceError::new(&self.name, message)
        })
    }

    /// Reported at the first one, and whenever there are ten times as many as last reported.
    fn note(&mut self) -> Option<String> {
        let overlooked = self.requests.overlooked();
        let news = overlooked > 0 && overlooked >= self.told.saturating_mul(10);
        news.then(|| {
            self.told = overlooked;
            format!(
                "the completions of {overlooked} requests were missed so far: their latency is in \
                 no sample"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_count_is_read_and_none_where_it_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let count = Count::new(&root, "sda");
        assert_eq!(count.read(), None);
        std::fs::create_dir_all(root.path("/sys/block/sda/queue")).unwrap();
        let say = |file: &str, text: &str| {
            std::fs::write(root.path(&format!("/sys/block/sda/{file}")), text).unwrap();
        };
        say("queue/iostats", "1\n");
        for (text, told) in [
            ("       3        4\n", Some(7)),
            ("0 0\n", Some(0)),
            ("3\n", None),
            ("3 x\n", None),
            ("", None),
        ] {
            say("inflight", text);
            assert_eq!(count.read(), told, "{text:?}");
        }
        say("inflight", "1 1\n");
        say("queue/iostats", "0\n");
        assert_eq!(count.read(), None);
    }
}
