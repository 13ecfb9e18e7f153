//! Latency of block devices from `/proc/diskstats`.
//!
//! This is the time that the device and its queue took, seen from the kernel: it ends at the block
//! layer, so it excludes time in the server's own queues, network and tasks. Flushes and discards
//! are not counted. The kernel counts whole milliseconds; within a millisecond the sum is
//! interpolated with the last mean, see `interpolated.rs`.

use super::differences::{Differences, Totals, sum_windows};
use super::interpolated::InterpolatedSum;
use crate::Root;
use crate::kept_files::KeptFiles;
use serde::Deserialize;
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::Seconds;

const FILE: &str = "/proc/diskstats";
/// The kernel's sectors are of this size, whatever the device's are.
const SECTOR_BYTES: u64 = 512;

/// The table `kind = "diskstats"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Names of block devices as in `/proc/diskstats`: `["nvme0n1"]`. Where devices are stacked
    /// (a RAID over disks), name one layer only, or each request is counted once a layer.
    pub devices: Vec<String>,
}

/// One device's counters since it appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Sectors of 512 bytes read and written.
    pub sectors: u64,
    /// Milliseconds of reads; the kernel counts in 32 bits, so it wraps within days.
    pub reading_ms: u32,
    /// Milliseconds of writes; wraps too.
    pub writing_ms: u32,
    /// Requests that the device has and did not complete yet.
    pub under_way: u64,
}

/// The counters of a device in the text of `/proc/diskstats`; `None` if it is not listed.
///
/// # Errors
/// Says what is wrong with the device's line.
pub fn parse(text: &str, device: &str) -> Result<Option<Counters>, String> {
    let line = text.lines().find(|line| line.split_ascii_whitespace().nth(2) == Some(device));
    let Some(line) = line else { return Ok(None) };
    let mut fields = line.split_ascii_whitespace().skip(3);
    let mut next = |what: &str| {
        let field = fields.next().unwrap_or_default();
        field
            .parse::<u64>()
            .map_err(|_| format!("{FILE}: {what} of {device} is {field:?}, not a number: {line:?}"))
    };
    let (reads, _, read_sectors, reading_ms) = (
        next("reads completed")?,
        next("reads merged")?,
        next("sectors read")?,
        next("milliseconds reading")?,
    );
    let (writes, _, written_sectors, writing_ms) = (
        next("writes completed")?,
        next("writes merged")?,
        next("sectors written")?,
        next("milliseconds writing")?,
    );
    let under_way = next("requests under way")?;
    let sectors = read_sectors.saturating_add(written_sectors);
    // Some kernels printed the milliseconds in 64 bits: their low half wraps alike.
    Ok(Some(Counters {
        reads,
        writes,
        sectors,
        reading_ms: reading_ms as u32,
        writing_ms: writing_ms as u32,
        under_way,
    }))
}

/// The devices listed in the text of `/proc/diskstats`.
pub fn devices(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.split_ascii_whitespace().nth(2))
}

/// The source.
#[derive(Debug)]
pub struct Diskstats {
    name: String,
    files: KeptFiles,
    disks: Vec<Disk>,
}

#[derive(Debug)]
struct Disk {
    device: String,
    last: Option<Counters>,
    busy_ms: u64,
    fine: InterpolatedSum,
    differences: Differences,
}

impl Diskstats {
    /// Reads the counters for the first time.
    ///
    /// # Errors
    /// When a device is not there, or is a partition of another one that is named too.
    pub fn open(config: &Config, root: &Root) -> Result<Self, SourceError> {
        let name = format!("diskstats {}", config.devices.join(" "));
        let refused = |message: String| SourceError::new(&name, message);
        let text = root.read(FILE).map_err(|error| refused(format!("{FILE}: {error}")))?;
        let there = || devices(&text).collect::<Vec<_>>().join(", ");
        if config.devices.is_empty() {
            return Err(refused(format!("devices is empty; there are {}", there())));
        }
        for (at, device) in config.devices.iter().enumerate() {
            if !devices(&text).any(|name| name == device) {
                return Err(refused(format!("no block device {device:?}; there are {}", there())));
            }
            let whole = |other: &&String| root.exists(&format!("/sys/block/{other}/{device}"));
            if let Some(whole) = config.devices.iter().find(whole) {
                return Err(refused(format!(
                    "{device} is a part of {whole}: its requests would count twice; name one"
                )));
            }
            let switch = format!("/sys/block/{device}/queue/iostats");
            if root.read(&switch).is_ok_and(|value| value == "0") {
                return Err(refused(format!("{device} is not counted; write 1 to {switch}")));
            }
            if config.devices.iter().take(at).any(|other| other == device) {
                return Err(refused(format!("{device} is named twice; name it once")));
            }
        }
        let disks = config.devices.iter().map(|device| Disk::new(&name, device)).collect();
        let mut source = Self { name, files: KeptFiles::new(root), disks };
        source.sample(Seconds(0.0))?;
        Ok(source)
    }
}

impl LatencySource for Diskstats {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        let text = self
            .files
            .read(FILE)
            .map_err(|error| SourceError::new(&self.name, format!("{FILE}: {error}")))?;
        sum_windows(self.disks.iter_mut().map(|disk| disk.window(now, &text, &self.name)))
    }
}

impl Disk {
    fn new(source_name: &str, device: &str) -> Self {
        Self {
            device: device.to_owned(),
            last: None,
            busy_ms: 0,
            fine: InterpolatedSum::default(),
            differences: Differences::new(format!("{source_name}: {device}")),
        }
    }

    fn window(
        &mut self,
        at: Seconds,
        text: &str,
        source_name: &str,
    ) -> Result<Option<LatencySample>, SourceError> {
        let counters = parse(text, &self.device)
            .map_err(|message| SourceError::new(source_name, message))?
            .ok_or_else(|| SourceError::new(source_name, format!("{} is gone", self.device)))?;
        let same = |last: &Counters| counters.reads >= last.reads && counters.writes >= last.writes;
        // Milliseconds that went back have wrapped, unless the device was taken out and put in.
        if let Some(last) = self.last.filter(same) {
            let grown = |new: u32, old: u32| u64::from(new.wrapping_sub(old));
            let busy_ms = grown(counters.reading_ms, last.reading_ms)
                + grown(counters.writing_ms, last.writing_ms);
            self.busy_ms = self.busy_ms.saturating_add(busy_ms);
        }
        self.last = Some(counters);
        let requests = counters.reads.saturating_add(counters.writes);
        self.differences.window(
            at,
            Totals {
                requests,
                under_way: Some(counters.under_way),
                latency_us_sum: Some(self.fine.sum_ms(self.busy_ms, requests) * 1e3),
                bytes_sum: Some(counters.sectors.saturating_mul(SECTOR_BYTES)),
                reads: Some(counters.reads),
                buckets: None,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(device: &str, counters: Counters) -> String {
        let Counters { reads, writes, sectors, reading_ms, writing_ms, under_way } = counters;
        format!(
            " 259 0 {device} {reads} 7 {sectors} {reading_ms} {writes} 9 0 {writing_ms} {under_way} 5 9 0 0 0 0 1 2\n"
        )
    }

    const START: Counters = Counters {
        reads: 60,
        writes: 40,
        sectors: 800,
        reading_ms: 6,
        writing_ms: 4,
        under_way: 3,
    };

    struct Host {
        folder: tempfile::TempDir,
    }

    impl Host {
        fn new(text: &str) -> Self {
            let host = Self { folder: tempfile::tempdir().unwrap() };
            std::fs::create_dir_all(host.folder.path().join("proc")).unwrap();
            host.say(text);
            host
        }

        fn say(&self, text: &str) {
            std::fs::write(self.folder.path().join("proc/diskstats"), text).unwrap();
        }

        fn open(&self, devices: &[&str]) -> Result<Diskstats, SourceError> {
            let devices = devices.iter().map(|&device| device.to_owned()).collect();
            Diskstats::open(&Config { devices }, &Root::new(self.folder.path()))
        }
    }

    #[test]
    fn a_window_has_count_mean_size_and_share() {
        let host = Host::new(&line("nvme0n1", START));
        let mut source = host.open(&["nvme0n1"]).unwrap();
        let quiet = source.sample(Seconds(0.5)).unwrap().unwrap();
        assert_eq!((quiet.requests, quiet.latency_us_mean), (0, None));
        let later = Counters {
            reads: 1_060,
            writes: 3_040,
            sectors: 800 + 4_000 * 8,
            reading_ms: 406,
            writing_ms: 1_604,
            under_way: 8,
        };
        host.say(&line("nvme0n1", later));
        let window = source.sample(Seconds(1.0)).unwrap().unwrap();
        assert_eq!(
            (window.at, window.requests, window.arrived),
            (Seconds(1.0), 4_000, Some(4_005))
        );
        assert!((window.latency_us_mean.unwrap() - 500.0).abs() < 1.0, "{window:?}");
        assert_eq!((window.bytes_mean, window.read_share), (Some(4096.0), Some(0.25)));
    }

    #[test]
    fn several_devices_are_one_source() {
        let text = |a: Counters, b: Counters| line("sda", a) + &line("sdb", b);
        let host = Host::new(&text(START, START));
        let mut source = host.open(&["sda", "sdb"]).unwrap();
        let more = Counters { reads: 1_060, reading_ms: 1_006, ..START };
        let slow = Counters { writes: 1_040, writing_ms: 3_004, ..START };
        host.say(&text(more, slow));
        let window = source.sample(Seconds(1.0)).unwrap().unwrap();
        assert_eq!((window.requests, window.read_share), (2_000, Some(0.5)));
        assert!((window.latency_us_mean.unwrap() - 2_000.0).abs() < 2.0, "{window:?}");
    }

    #[test]
    fn milliseconds_wrap_and_devices_are_replaced() {
        let near = Counters { writing_ms: u32::MAX - 99, ..START };
        let host = Host::new(&line("sda", near));
        let mut source = host.open(&["sda"]).unwrap();
        host.say(&line("sda", Counters { writes: 1_040, writing_ms: 900, ..near }));
        let window = source.sample(Seconds(1.0)).unwrap().unwrap();
        assert!((window.latency_us_mean.unwrap() - 1_000.0).abs() < 2.0, "{window:?}");

        host.say(&line("sda", Counters { reads: 1, writes: 1, ..START }));
        let error = source.sample(Seconds(2.0)).unwrap_err().to_string();
        assert!(error.contains("sda") && error.contains("counters went back"), "{error}");
        host.say(&line("sda", Counters { reads: 1_001, writes: 1, reading_ms: 2_006, ..START }));
        let window = source.sample(Seconds(3.0)).unwrap().unwrap();
        assert_eq!(window.requests, 1_000);
        assert!((window.latency_us_mean.unwrap() - 2_000.0).abs() < 3.0, "{window:?}");

        host.say(&line("sdb", START));
        assert!(source.sample(Seconds(4.0)).unwrap_err().to_string().contains("sda is gone"));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let host = Host::new(&(line("sda", START) + &line("sda1", START)));
        let message = |devices: &[&str]| host.open(devices).unwrap_err().to_string();
        assert!(message(&["sdb"]).contains("there are sda, sda1"));
        assert!(message(&[]).contains("devices is empty; there are sda, sda1"));
        assert!(message(&["sda", "sda"]).contains("named twice"));
        let sys = host.folder.path().join("sys/block/sda");
        std::fs::create_dir_all(sys.join("sda1")).unwrap();
        assert!(message(&["sda", "sda1"]).contains("sda1 is a part of sda"));
        std::fs::create_dir_all(sys.join("queue")).unwrap();
        std::fs::write(sys.join("queue/iostats"), "0\n").unwrap();
        assert!(message(&["sda"]).contains("write 1 to /sys/block/sda/queue/iostats"));
        let error = parse("8 0 sda 1 2 x 4 5 6 7 8", "sda").unwrap_err();
        assert!(error.contains("sectors read of sda is \"x\""), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([0-9a-z .-]{0,12} ?){0,30}\n?.*") {
            let _ = parse(&text, "sda");
            let _ = parse(&format!("8 0 sda {text}"), "sda");
            let _ = devices(&text).count();
        }
    }
}
