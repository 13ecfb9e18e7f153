//! Latency of each request to block devices from the kernel's tracepoints `block_rq_issue` and
//! `block_rq_complete`, with a histogram.
//!
//! Like `diskstats` this is device time, but to the microsecond. It costs processor time for each
//! request (the kernel writes two lines of text, this reads them): meant for up to about ten
//! thousand requests a second. Flushes and discards are not counted. Needs root and tracefs.

pub mod event;
mod instance;
pub mod requests;

use super::polled::{INTERVAL_MIN, Polled, at_least};
use super::worker::Stopwatch;
use crate::Root;
use instance::Instance;
use requests::Requests;
use serde::Deserialize;
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::{Bytes, Seconds};

const EVENTS: [&str; 2] = ["block/block_rq_issue", "block/block_rq_complete"];
/// Sizes of the kernel's buffer that make sense.
const BUFFER_KIB: std::ops::RangeInclusive<u64> = 64..=(64 << 10);
/// The most that is read at once, so that a flood does not keep the thread for ever.
const READ_BYTES_MAX: usize = 32 << 20;

/// The table `kind = "tracepoint"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Names of whole block devices: `["nvme0n1"]`.
    pub devices: Vec<String>,
    /// How often to read the trace.
    #[serde(default = "interval_default")]
    pub interval: Seconds,
    /// The kernel's buffer for each core. An event takes about 100 bytes.
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
    bytes: Vec<u8>,
    begun: usize,
}

/// Starts to record, and to read in a thread of its own.
///
/// # Errors
/// Where a device is not there, tracing cannot be used, or the configuration makes no sense.
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
    let trace =
        Trace { name, instance, requests: Requests::default(), bytes: vec![0; 64 << 10], begun: 0 };
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

impl Trace {
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

    /// Takes the whole lines in, and leaves a begun one at the beginning.
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
        self.drain().map_err(|message| SourceError::new(&self.name, message))?;
        if !self.instance.is_on() {
            // Silence would look as if nobody asked for anything.
            return Err(SourceError::new(&self.name, "its recording was stopped by others"));
        }
        self.requests.sample(now).map(Some).map_err(|lost| {
            let message = format!(
                "{lost} events were lost: raise buffer, shorten interval, or take diskstats"
            );
            SourceError::new(&self.name, message)
        })
    }
}
