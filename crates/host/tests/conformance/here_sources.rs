//! The sources on the machine that the test runs on: what they say cannot be known before, but what
//! cannot be is known.

use super::sources::{diskstats, proc_stat};
use super::{CpuBody, LatencyBody};
use std::time::{Duration, Instant};
use wattio_governor::Cpus;
use wattio_host::Root;
use wattio_units::Seconds;

const PATIENCE: Duration = Duration::from_secs(60);
const WINDOWS: u32 = 10;

/// Whole devices that the kernel counts for.
fn devices(root: &Root) -> Vec<String> {
    let counted = root.read("/proc/diskstats").unwrap();
    let devices = counted.lines().filter_map(|line| line.split_ascii_whitespace().nth(2));
    let switch = |device: &&str| root.read(&format!("/sys/block/{device}/queue/iostats"));
    devices.filter(|device| switch(device).is_ok_and(|on| on == "1")).map(str::to_owned).collect()
}

#[test]
#[ignore = "watches this machine: make test-system"]
fn sources_of_this_machine() {
    let root = Root::default();
    let (mut cores, mut told) = (proc_stat(&root), CpuBody::default());
    let open = |device: &String| (diskstats(&root, device), LatencyBody::default());
    let mut disks: Vec<_> = devices(&root).iter().map(open).collect();
    let all = [Cpus::from_iter(0..4096)];
    let start = Instant::now();
    // Asking without a pause is work enough for a tick to pass.
    while told.windows < WINDOWS {
        assert!(start.elapsed() < PATIENCE, "/proc/stat stands still");
        let now = Seconds(start.elapsed().as_secs_f64());
        told.window(&mut *cores, now, &all, None);
        for (source, body) in &mut disks {
            body.window(&mut **source, now, None);
        }
    }
}
