//! Meters of a fake host.

use super::*;
use proptest::prelude::*;

struct Host {
    _folder: tempfile::TempDir,
    root: Root,
}

impl Host {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let host = Self { _folder: folder, root };
        for (path, text) in files {
            host.say(path, text);
        }
        host
    }

    /// One socket with cores and memory, and the platform.
    fn rapl() -> Self {
        let host = Self::new(&[]);
        let zones = [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:0:1", "dram"),
            ("intel-rapl:1", "psys"),
            ("intel-rapl-mmio:0", "package-0"),
        ];
        for (zone, name) in zones {
            host.say(&format!("/sys/class/powercap/{zone}/name"), name);
            let range = format!("/sys/class/powercap/{zone}/max_energy_range_uj");
            host.say(&range, "262143328850");
            host.joules(zone, 0.0);
        }
        host
    }

    fn say(&self, path: &str, text: &str) {
        let path = self.root.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }

    fn joules(&self, zone: &str, joules: f64) {
        let uj = (joules * 1e6) as u64;
        self.say(&format!("/sys/class/powercap/{zone}/energy_uj"), &uj.to_string());
    }

    fn names(&self) -> Vec<String> {
        Meters::find(&self.root).into_iter().map(|meter| meter.name).collect()
    }
}

#[test]
fn zones_are_found_and_not_added_twice() {
    let host = Host::rapl();
    let names = ["package-0", "package-0/core", "package-0/dram", "psys", "sum"];
    assert_eq!(host.names(), names.map(|name| format!("rapl:{name}")));
    let mut meter = Meters::open(&host.root, "rapl:sum").unwrap();
    assert_eq!(meter.read(Seconds(10.0)), Ok(None));
    for (zone, joules) in
        [("intel-rapl:0", 80.0), ("intel-rapl:0:0", 60.0), ("intel-rapl:0:1", 20.0)]
    {
        host.joules(zone, joules);
    }
    let reading = meter.read(Seconds(12.0)).unwrap().unwrap();
    let expected = PowerReading { power_w: 50.0, energy_j_since_open: 100.0, at: Seconds(12.0) };
    assert_eq!(reading, expected);
    assert_eq!(meter.read(Seconds(12.0)), Ok(None));
}

#[test]
fn a_wrap_is_no_loss() {
    let host = Host::rapl();
    host.joules("intel-rapl:1", 262_140.0);
    let mut meter = Meters::open(&host.root, "rapl:psys").unwrap();
    meter.read(Seconds(0.0)).unwrap();
    host.joules("intel-rapl:1", 6.671_150);
    let reading = meter.read(Seconds(1.0)).unwrap().unwrap();
    assert!((reading.power_w - 10.0).abs() < 1e-6, "{reading:?}");
}

#[test]
fn parts_that_exceed_their_package_are_not_believed() {
    let host = Host::rapl();
    let mut meter = Meters::open(&host.root, "rapl:package-0").unwrap();
    meter.read(Seconds(0.0)).unwrap();
    host.joules("intel-rapl:0", 10.0);
    host.joules("intel-rapl:0:0", 30.0);
    let error = meter.read(Seconds(1.0)).unwrap_err().to_string();
    assert!(error.contains("counted 10.0 J and its parts 30.0 J"), "{error}");
}

#[test]
fn a_zone_that_never_counts_is_refused() {
    let host = Host::rapl();
    let mut meter = Meters::open(&host.root, "rapl:psys").unwrap();
    let errors = (0..20).filter(|&at| meter.read(Seconds(f64::from(at))).is_err()).count();
    assert_eq!(errors, 10);
    let error = meter.read(Seconds(99.0)).unwrap_err().to_string();
    assert!(error.contains("intel-rapl:1/energy_uj did not advance"), "{error}");
}

#[test]
fn sensors_tell_watts_and_their_average_is_preferred() {
    let host = Host::new(&[
        ("/sys/class/hwmon/hwmon0/name", "coretemp"),
        ("/sys/class/hwmon/hwmon0/temp1_input", "40000"),
        ("/sys/class/hwmon/hwmon1/name", "power_meter"),
        ("/sys/class/hwmon/hwmon1/power1_average", "120000000"),
        ("/sys/class/hwmon/hwmon1/power1_average_interval", "1000"),
        ("/sys/class/hwmon/hwmon1/power1_input", "1"),
        ("/sys/class/hwmon/hwmon1/power1_label", "mainboard"),
        ("/sys/class/hwmon/hwmon2/name", "power_meter"),
        ("/sys/class/hwmon/hwmon2/power1_input", "5000000"),
    ]);
    let names = ["hwmon:power_meter/power1", "hwmon:power_meter@hwmon2/power1"];
    assert_eq!(host.names(), names);
    assert_eq!(Meters::find(&host.root)[0].what, "mainboard");
    let mut meter = Meters::open(&host.root, names[0]).unwrap();
    let reading = meter.read(Seconds(0.0)).unwrap().unwrap();
    assert_eq!((reading.power_w, reading.energy_j_since_open), (120.0, 0.0));
    host.say("/sys/class/hwmon/hwmon1/power1_average", "100000000");
    let reading = meter.read(Seconds(2.0)).unwrap().unwrap();
    assert_eq!((reading.power_w, reading.energy_j_since_open), (100.0, 240.0));
    host.say("/sys/class/hwmon/hwmon1/power1_average", "watt");
    let error = meter.read(Seconds(3.0)).unwrap_err().to_string();
    assert!(error.contains("power1_average says \"watt\", not a number"), "{error}");
}

#[test]
fn what_is_not_there_is_named() {
    let host = Host::rapl();
    let error = Meters::open(&host.root, "rapl:package-1").unwrap_err().to_string();
    assert!(error.contains("there are rapl:package-0, "), "{error}");
    let error = Meters::open(&Host::new(&[]).root, "rapl:sum").unwrap_err().to_string();
    assert!(error.contains("this host has none"), "{error}");
}

#[test]
fn a_sensor_that_does_not_know_tells_no_watts() {
    let host = Host::new(&[
        ("/sys/class/hwmon/hwmon0/name", "power_meter"),
        ("/sys/class/hwmon/hwmon0/power1_average", "120000000"),
    ]);
    let name = "hwmon:power_meter/power1";
    let mut meter = Meters::open(&host.root, name).unwrap();
    host.say("/sys/class/hwmon/hwmon0/power1_average", "4294967295000");
    let error = meter.read(Seconds(1.0)).unwrap_err().to_string();
    assert!(error.contains("says 4294967295000 uW"), "{error}");
    assert!(Meters::find(&host.root)[0].problem.is_some());
    host.say("/sys/class/hwmon/hwmon0/power1_average", "110000000");
    assert_eq!(meter.read(Seconds(2.0)).unwrap().unwrap().power_w, 110.0);
}

proptest! {
    #[test]
    fn no_text_panics(text: String) {
        let _ = parse_number(&text);
    }
}
