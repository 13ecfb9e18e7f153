//! Sources of power of a fake host, and of pages and commands.

use super::exec::EnergySlot;
use super::*;
use crate::sources::page_fake::serve;
use crate::stopwatch;
use std::fs;
use std::sync::{Arc, Mutex};
use wattio_units::Watts;

struct Host {
    _folder: tempfile::TempDir,
    root: Root,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        Self { _folder: folder, root }
    }

    fn say(&self, path: &str, text: &str) {
        let path = self.root.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Two packages that have counted this far.
    fn joules(&self, joules: [f64; 2]) {
        for (at, joules) in joules.iter().enumerate() {
            let zone = format!("/sys/class/powercap/intel-rapl:{at}");
            self.say(&format!("{zone}/name"), &format!("package-{at}\n"));
            self.say(&format!("{zone}/max_energy_range_uj"), "1000000000\n");
            self.say(&format!("{zone}/energy_uj"), &format!("{:.0}\n", joules * 1e6));
        }
    }

    fn open(&self, toml: &str) -> Box<dyn PowerSource> {
        config(toml).unwrap().open(&self.root, Seconds(0.5), stopwatch()).unwrap()
    }
}

fn config(toml: &str) -> Result<MeterConfig, String> {
    #[derive(Deserialize)]
    struct Table {
        meter: MeterConfig,
    }
    let table: Table = toml::from_str(toml).map_err(|error| error.message().to_owned())?;
    let checked = table.meter.check().map_err(|(key, message)| format!("{key}: {message}"));
    checked.map(|()| table.meter)
}

fn watts(source: &mut dyn PowerSource, at: f64) -> Option<f64> {
    source.sample(Seconds(at)).unwrap().map(|watts| watts.0)
}

#[test]
fn a_name_opens_a_meter_of_the_kernel_and_a_wrap_is_no_loss() {
    let host = Host::new();
    host.joules([999.0, 5.0]);
    let mut meter = host.open("meter = 'rapl:sum'");
    assert_eq!(meter.name(), "rapl:sum");
    assert_eq!(watts(&mut *meter, 0.0), None);
    host.joules([29.0, 25.0]);
    assert_eq!(watts(&mut *meter, 0.5), Some(100.0));
    let missing =
        config("meter = 'rapl:psys'").unwrap().open(&host.root, Seconds(0.5), stopwatch());
    let message = missing.err().unwrap().to_string();
    assert!(message.contains("no such meter; there are rapl:package-0"), "{message}");
}

/// After a reading that failed a counter tells of two windows, which is no window's power.
#[test]
fn a_counter_that_was_missed_is_absent_for_the_next_window_too() {
    let host = Host::new();
    host.joules([10.0, 10.0]);
    let mut meter = host.open("meter = 'rapl:sum'");
    assert_eq!(watts(&mut *meter, 0.0), None);
    host.say("/sys/class/powercap/intel-rapl:1/energy_uj", "nonsense");
    assert!(meter.sample(Seconds(0.5)).unwrap_err().to_string().contains("not a number"));
    host.joules([60.0, 10.0]);
    assert_eq!(watts(&mut *meter, 1.0), None);
    host.joules([80.0, 30.0]);
    assert_eq!(watts(&mut *meter, 1.5), Some(80.0));
}

#[test]
fn a_file_tells_power_or_counts_energy() {
    let host = Host::new();
    let mut meter = host.open("meter = { kind = 'file', path = '/run/power', unit = 'mW' }");
    assert!(meter.sample(Seconds(0.0)).is_err(), "it is not there yet");
    host.say("/run/power", "61500\n");
    assert_eq!(watts(&mut *meter, 0.5), None);
    assert_eq!(watts(&mut *meter, 1.0), Some(61.5));
    host.say("/run/power", "sixty");
    let message = meter.sample(Seconds(1.5)).unwrap_err().to_string();
    assert_eq!(message, "file /run/power: holds \"sixty\", which is not a number");

    // The kernel's amd_energy: a counter of one socket, in microjoules.
    let path = "/sys/class/hwmon/hwmon3/energy9_input";
    host.say(path, "7000000\n");
    let text = format!("meter = {{ kind = 'file', path = '{path}', unit = 'uJ', range = 65e6 }}");
    let mut meter = host.open(&text);
    assert_eq!(watts(&mut *meter, 0.0), None);
    host.say(path, "57000000\n");
    assert_eq!(watts(&mut *meter, 0.5), Some(100.0));
    host.say(path, "2000000\n");
    assert_eq!(watts(&mut *meter, 1.0), Some(20.0));
}

#[test]
fn what_makes_no_sense_is_refused_by_its_key() {
    for (toml, says) in [
        ("meter = 5", "a meter's name such as \"rapl:sum\", or a table"),
        ("meter = { kind = 'ipmi' }", "unknown variant `ipmi`, expected one of `file`"),
        (
            "meter = { kind = 'file', path = 'power', unit = 'W' }",
            "path: is \"power\"; it must be abs",
        ),
        (
            "meter = { kind = 'file', path = '/p', unit = 'kW' }",
            "unknown variant `kW`, expected one",
        ),
        ("meter = { kind = 'file', path = '/p', unit = 'W', range = 5 }", "range: is for counters"),
        (
            "meter = { kind = 'file', path = '/p', unit = 'J', range = 0 }",
            "range: is 0; allowed is",
        ),
        ("meter = { kind = 'file', path = '/p' }", "missing field `unit`"),
        ("meter = { kind = 'exec', command = ['ipmi'], user = 'x' }", "command: is [\"ipmi\"]; it"),
        ("meter = { kind = 'prometheus', url = 'host', metric = 'm', unit = 'W' }", "url: "),
        (
            "meter = { kind = 'prometheus', url = 'http://h/', metric = '', unit = 'W' }",
            "metric: is \"\", not a metric name",
        ),
        (
            "meter = { kind = 'prometheus', url = 'http://h/', metric = 'm', unit = 'W', \
             timeout = '2 min' }",
            "timeout: is 2 min; allowed is 1 ms to 1 min",
        ),
        (
            "meter = { kind = 'prometheus', url = 'http://h/', metric = 'm', unit = 'W', \
             interval = '1 us' }",
            "interval: is too short",
        ),
    ] {
        let message = config(toml).unwrap_err();
        assert!(message.contains(says), "{toml}: {message}");
    }
}

/// Asks until the source says something that fits, in windows that are longer than what its own
/// thread reads in takes.
fn wait<T>(
    source: &mut dyn PowerSource,
    fits: impl Fn(Result<Option<Watts>, SourceError>) -> Option<T>,
) -> T {
    let began = std::time::Instant::now();
    loop {
        let seen = source.sample(Seconds(0.0));
        let words = format!("{seen:?}");
        if let Some(said) = fits(seen) {
            return said;
        }
        assert!(began.elapsed().as_secs() < 30, "it never came: {words}");
        let asked = std::time::Instant::now();
        while asked.elapsed().as_millis() < 50 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn series_of_a_page_are_summed() {
    let page = Arc::new(Mutex::new(
        "# TYPE node_hwmon_power_average_watt gauge\n\
         node_hwmon_power_average_watt{chip=\"a\",sensor=\"power1\"} 40.5\n\
         node_hwmon_power_average_watt{chip=\"b\",sensor=\"power1\"} 20\n\
         node_hwmon_power_average_watts_other 7\n"
            .to_owned(),
    ));
    let url = serve(&page);
    let host = Host::new();
    let open = |more: &str| {
        host.open(&format!(
            "meter = {{ kind = 'prometheus', url = '{url}', interval = '1 ms', unit = 'W', {more} }}"
        ))
    };
    let mut all = open("metric = 'node_hwmon_power_average_watt'");
    assert_eq!(wait(&mut *all, |said| said.unwrap()), Watts(60.5));
    let mut one = open("metric = 'node_hwmon_power_average_watt', labels = { chip = 'b' }");
    assert_eq!(wait(&mut *one, |said| said.unwrap()), Watts(20.0));
    let mut none = open("metric = 'node_hwmon_power'");
    let message = wait(&mut *none, |said| said.err()).to_string();
    assert!(
        message.contains("no metric node_hwmon_power (yet); there are node_hwmon"),
        "{message}"
    );
    *page.lock().unwrap() = "node_hwmon_power_average_watt NaN\n".to_owned();
    let message = wait(&mut *all, |said| said.err()).to_string();
    assert!(message.contains("says NaN, which is neither power nor energy"), "{message}");
}

#[test]
fn lines_of_a_command_tell_the_mean_of_a_window() {
    let mut told = EnergySlot::default();
    let line = |at: f64, power_w: f64| Ok((Seconds(at), power_w));
    assert_eq!(told.fetch("exec", Seconds(0.0)), Ok(None), "it has said nothing yet");
    told.post(line(0.1, 99.0));
    assert_eq!(told.fetch("exec", Seconds(0.2)), Ok(None));
    told.post(line(0.3, 50.0));
    told.post(line(0.5, 70.0));
    let said = told.fetch("exec", Seconds(0.7)).unwrap().unwrap();
    assert!((said.0 - 60.0).abs() < 1e-9);
    told.post(Err(SourceError::new("exec", "ended")));
    assert!(told.fetch("exec", Seconds(1.2)).is_err());
    told.post(line(1.5, 80.0));
    assert_eq!(told.fetch("exec", Seconds(1.7)), Ok(None), "since when is not known");
    told.post(line(2.0, 80.0));
    assert_eq!(told.fetch("exec", Seconds(2.2)), Ok(Some(Watts(80.0))));
    // A management controller that is asked every five seconds.
    for window in 0..10 {
        assert_eq!(told.fetch("exec", Seconds(2.7 + 0.5 * f64::from(window))), Ok(None));
    }
    told.post(line(7.0, 80.0));
    let message = told.fetch("exec", Seconds(7.7)).unwrap_err().to_string();
    assert!(message.contains("exec: covers 5 s at once"), "{message}");
}

#[test]
fn a_command_is_listened_to() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let host = Host::new();
    host.say("/etc/passwd", "root:x:0:0::/:/bin/sh\n");
    let script = "while echo '{\"power_w\": 42.5}'; do sleep 0.01; done";
    let text = format!(
        "meter = {{ kind = 'exec', command = ['/bin/sh', '-c', \"\"\"{script}\"\"\"], user = 'root' }}"
    );
    let mut meter = host.open(&text);
    let said = wait(&mut *meter, |said| said.ok().flatten());
    assert!((said.0 - 42.5).abs() < 1e-6, "{said:?}");
}
