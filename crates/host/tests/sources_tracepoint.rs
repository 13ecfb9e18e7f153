//! The tracepoint and diskstats sources see real requests to this machine's disk. Needs root and
//! tracefs; without them this says so and ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its host has failed")]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, Instant};
use wattio_governor::{LatencySample, LatencySource};
use wattio_host::Root;
use wattio_host::sources::LatencyConfig;
use wattio_units::Seconds;

const PATIENCE: Duration = Duration::from_secs(60);
const WRITES: u64 = 30;
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// The whole block device that holds a file.
fn device_of(file: &File) -> Option<String> {
    let number = file.metadata().unwrap().dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let place = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let whole = if place.join("partition").exists() { place.parent()? } else { &place };
    Some(whole.file_name()?.to_str()?.to_owned())
}

fn open(kind: &str, device: &str) -> Box<dyn LatencySource> {
    let config = serde_json::json!({ "kind": kind, "devices": [device] });
    let config: LatencyConfig = serde_json::from_value(config).unwrap();
    config.open(&Root::default(), Seconds(0.5)).unwrap()
}

/// Asks until so many requests were seen; all samples as one.
fn until(source: &mut dyn LatencySource, requests: u64) -> LatencySample {
    let start = Instant::now();
    let mut all: Option<LatencySample> = None;
    while start.elapsed() < PATIENCE {
        if let Ok(Some(sample)) = source.sample(Seconds(start.elapsed().as_secs_f64())) {
            let merged = match all.take() {
                Some(all) => all.merge(sample),
                None => sample,
            };
            if merged.requests >= requests {
                return merged;
            }
            all = Some(merged);
        }
        std::thread::yield_now();
    }
    panic!("waited in vain for {requests} requests; saw {all:?}");
}

#[test]
#[ignore = "needs root and tracefs: make test-system"]
fn writes_to_this_machines_disk_are_seen() {
    // The temporary folder may be in memory; this one is not.
    let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
    let mine = std::process::id();
    let usable = rustix::process::getuid().is_root() && std::path::Path::new(INSTANCES).is_dir();
    let Some(device) = device_of(&file).filter(|_| usable) else {
        eprintln!("skipped: needs root, tracefs at /sys/kernel/tracing and /var/tmp on a disk");
        return;
    };
    let stale = format!("{INSTANCES}/wattio-4194305");
    std::fs::create_dir(&stale).unwrap();

    let mut traced = open("tracepoint", &device);
    let mut counted = open("diskstats", &device);
    assert!(!std::path::Path::new(&stale).exists(), "an instance of no process was left");
    assert!(std::path::Path::new(&format!("{INSTANCES}/wattio-{mine}")).exists());
    // The first sample says that the recording has begun.
    until(traced.as_mut(), 0);
    file.write_all(&[7; 4096]).unwrap();
    for at in 0..WRITES {
        file.write_all_at(&[at as u8; 4096], at * 4096).unwrap();
        file.sync_data().unwrap();
    }

    let sample = until(traced.as_mut(), WRITES);
    let mean_us = sample.latency_us_mean.unwrap();
    assert!((1.0..10e6).contains(&mean_us), "{sample:?}");
    assert!(sample.bytes_mean.unwrap() >= 512.0 && sample.read_share.unwrap() < 1.0);
    assert!(sample.arrived.unwrap() >= WRITES);
    let histogram = sample.histogram.unwrap();
    assert_eq!(histogram.buckets.iter().map(|bucket| bucket.1).sum::<u64>(), sample.requests);
    assert!(histogram.quantile_us(0.99).unwrap() >= histogram.quantile_us(0.5).unwrap());

    // All are answered: the kernel has none of ours any more, and one of somebody else's is young.
    let in_flight = sample.in_flight.unwrap();
    assert!(in_flight.oldest.is_none_or(|age| age.0 < 10.0), "{in_flight:?}");
    assert_eq!(traced.note(), None, "no answer was overlooked");

    let sample = until(counted.as_mut(), WRITES);
    let mean_us = sample.latency_us_mean.unwrap();
    assert!((1.0..10e6).contains(&mean_us), "{sample:?}");

    drop(traced);
    let left = std::path::Path::new(&format!("{INSTANCES}/wattio-{mine}")).exists();
    assert!(!left, "the instance was left behind");
}
