//! Sources against what this machine has: its `/proc/stat`, and fio where it is on the PATH.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its host has failed")]

use std::process::Command;
use std::time::{Duration, Instant};
use wattio_governor::Cpus;
use wattio_host::Root;
use wattio_host::sources::{CpuConfig, LatencyConfig};
use wattio_units::Seconds;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn this_machines_cores_are_used_while_a_test_spins() {
    let mut source = CpuConfig::default().open(&Root::default(), Seconds(0.5)).unwrap();
    let all: Cpus = (0..4096).collect();
    let start = Instant::now();
    // Asking without a pause is work enough.
    loop {
        let uses = source.sample(Seconds(0.0), std::slice::from_ref(&all));
        if let Ok([group]) = uses.as_deref() {
            let used = group.utilisation_clients + group.utilisation_background;
            assert!((0.0..=1.0).contains(&used), "{group:?}");
            if used > 0.0 {
                break;
            }
        }
        assert!(start.elapsed() < PATIENCE, "nothing was used; the last answer was {uses:?}");
    }
}

#[test]
#[ignore = "needs fio: make test-system"]
fn every_request_of_fio_is_in_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = serde_json::json!({ "kind": "fio-log", "path": path("job_lat.1.log") });
    let config: LatencyConfig = serde_json::from_value(config).unwrap();
    let mut source = config.open(&Root::default(), Seconds(0.5)).unwrap();
    let fio = Command::new("fio")
        .args(["--name=job", "--ioengine=psync", "--rw=randrw", "--rwmixread=50", "--bs=4k"])
        .args(["--size=1m", "--number_ios=200", "--randseed=1", "--output=/dev/null"])
        .arg(format!("--filename={}", path("data")))
        .arg(format!("--write_lat_log={}", path("job")))
        .current_dir(folder.path())
        .status();
    let Ok(status) = fio else {
        eprintln!("skipped: no fio on the PATH; apt install fio");
        return;
    };
    assert!(status.success());
    let sample = source.sample(Seconds(1.0)).unwrap().unwrap();
    assert_eq!((sample.requests, sample.bytes_mean), (200, Some(4096.0)));
    assert!((0.2..0.8).contains(&sample.read_share.unwrap()), "{sample:?}");
    assert!((0.5..10e6).contains(&sample.latency_us_mean.unwrap()), "{sample:?}");
}

#[test]
fn configurations_say_what_they_do_not_know() {
    let read = |text: &str| toml::from_str::<LatencyConfig>(text).map_err(|e| e.to_string());
    assert!(read("kind = \"diskstats\"\ndevices = [\"sda\"]").is_ok());
    let unknown = read("kind = \"diskstats\"\ndevice = \"sda\"").unwrap_err();
    assert!(unknown.contains("unknown field `device`") && unknown.contains("devices"), "{unknown}");
    let kind = read("kind = \"diskstat\"").unwrap_err();
    assert!(kind.contains("fio-log"), "{kind}");
    let bare = read("kind = \"prometheus\"\nurl = \"http://a\"\nmetric = \"m\"\ninterval = 1");
    assert!(bare.unwrap_err().contains("unit"));
    assert_eq!(toml::from_str("kind = \"proc-stat\""), Ok(CpuConfig::default()));
}
