//! Sources that read the kernel's counters, on a folder.

use super::tree::Tree;
use super::{CpuBody, LatencyBody, Used, cpus};
use wattio_governor::{CpuSource, LatencySource};
use wattio_host::Root;
use wattio_host::sources::{CpuConfig, LatencyConfig};
use wattio_units::Seconds;

pub fn diskstats(root: &Root, device: &str) -> Box<dyn LatencySource> {
    let config = format!("kind = 'diskstats'\ndevices = ['{device}']");
    let config: LatencyConfig = toml::from_str(&config).unwrap();
    config.open(root, Seconds(0.5)).unwrap()
}

pub fn proc_stat(root: &Root) -> Box<dyn CpuSource> {
    CpuConfig::default().open(root, Seconds(0.5)).unwrap()
}

#[test]
fn diskstats_of_a_folder() {
    let tree = Tree::new();
    let say = |reads: u64, busy_ms: u64| {
        let line = format!("8 0 sda {reads} 0 {} {busy_ms} 0 0 0 0 0 0 0", reads * 8);
        tree.write("/proc/diskstats", &line);
    };
    say(7, 7);
    let mut source = diskstats(&tree.root(), "sda");
    let mut body = LatencyBody::default();
    let windows = [(1000, Some(2000.0)), (0, None), (400, Some(1000.0)), (1000, Some(400.0))];
    let (mut reads, mut busy_ms) = (7, 7);
    for (window, (requests, latency_us_mean)) in windows.into_iter().enumerate() {
        reads += requests;
        busy_ms += (requests as f64 * latency_us_mean.unwrap_or(0.0) / 1e3) as u64;
        say(reads, busy_ms);
        body.window(&mut *source, Seconds(window as f64), Some((requests, latency_us_mean)));
    }
    assert_eq!(body.requests, reads - 7);
}

#[test]
fn proc_stat_of_a_folder() {
    let tree = Tree::new();
    let say = |windows: u64| {
        let ticks = format!("{} {} 0 {} 0 0 0 0 0 0", windows * 20, windows * 5, windows * 25);
        tree.write("/proc/stat", &format!("cpu0 {ticks}\ncpu1 {ticks}\nintr 0"));
    };
    say(0);
    let mut source = proc_stat(&tree.root());
    let mut body = CpuBody::default();
    let truth = [Used { clients: 0.4, background: 0.1, tolerance: 1e-9 }; 2];
    for window in 1..10 {
        say(window);
        let active = [cpus("0"), cpus("0-1")];
        body.window(&mut *source, Seconds(window as f64), &active, Some(&truth));
    }
    assert_eq!(body.windows, 9);
}
