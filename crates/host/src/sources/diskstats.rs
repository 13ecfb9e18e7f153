//! Latency of block devices from `/proc/diskstats`.
//!
//! This is the time that the device and its queue took, seen from the kernel: it ends at the block
//! layer, so it excludes time in the server's own queues, network and tasks. Flushes and discards
//! are not counted. The kernel counts whole milliseconds; within a millisecond the sum is
//! interpolated with the last mean, see `interpolated.rs`.

use super::counted::{Counted, Counters};
use crate::Root;
use serde::Deserialize;
use wattio_governor::SourceError;

const FILE: &str = "/proc/diskstats";
/// The kernel's sectors are of this size, whatever the device's are.
const SECTOR_BYTES: u64 = 512;

/// The table `kind = "diskstats"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The block devices. If devices are stacked (a RAID over disks), name only one layer, or each
    /// request is counted once per layer. Allowed: a list of names as in `/proc/diskstats`, such as
    /// `["nvme0n1"]`; no duplicates, and no partition together with its disk.
    pub devices: Vec<String>,
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
    let bytes = sectors.saturating_mul(SECTOR_BYTES);
    // Some kernels printed the milliseconds in 64 bits: their low half wraps alike.
    Ok(Some(Counters {
        reads,
        writes,
        bytes,
        reading_ms: reading_ms as u32,
        writing_ms: writing_ms as u32,
        under_way: Some(under_way),
    }))
}

/// The devices listed in the text of `/proc/diskstats`.
pub fn devices(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.split_ascii_whitespace().nth(2))
}

/// Reads the counters for the first time.
///
/// # Errors
/// When a device is not there, or is a partition of another one that is named too.
pub fn open(config: &Config, root: &Root) -> Result<Counted, SourceError> {
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
    Counted::open(name, root, FILE, parse, &config.devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wattio_governor::LatencySource;
    use wattio_units::Seconds;

    fn line(device: &str, counters: Counters) -> String {
        let Counters { reads, writes, bytes, reading_ms, writing_ms, under_way } = counters;
        let (sectors, under_way) = (bytes / SECTOR_BYTES, under_way.unwrap_or_default());
        format!(
            " 259 0 {device} {reads} 7 {sectors} {reading_ms} {writes} 9 0 {writing_ms} {under_way} 5 9 0 0 0 0 1 2\n"
        )
    }

    const START: Counters = Counters {
        reads: 60,
        writes: 40,
        bytes: 800 * SECTOR_BYTES,
        reading_ms: 6,
        writing_ms: 4,
        under_way: Some(3),
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

        fn open(&self, devices: &[&str]) -> Result<Counted, SourceError> {
            let devices = devices.iter().map(|&device| device.to_owned()).collect();
            open(&Config { devices }, &Root::new(self.folder.path()))
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
            bytes: (800 + 4_000 * 8) * SECTOR_BYTES,
            reading_ms: 406,
            writing_ms: 1_604,
            under_way: Some(8),
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
        let back = |reads: u64| line("sda", Counters { reads, ..START });
        host.say(&back(90_000));
        assert_eq!(source.sample(Seconds(600.0)), Ok(None), "whatever it did meanwhile");
        host.say(&back(90_007));
        assert_eq!(source.sample(Seconds(601.0)).unwrap().unwrap().requests, 7);
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
