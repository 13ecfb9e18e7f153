//! A reload of a daemon that governs a tree, which no configuration fits just then.

use super::support::{PATIENCE, Place, status_with};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::time::Instant;

const CPU: &str = "root/sys/devices/system/cpu";
const CONFIG: &str = r#"
name = "nas"
[policy]
name = "fixed"
settings = { frequency_share = 0.5 }
[latency]
kind = "diskstats"
devices = ["sda"]
[[group]]
name = "all"
cores = "0"
[[knob]]
kind = "cpu.frequency"
[safety]
dwell = "0 s"
[service]
listen = "off"
keeper = false
"#;

fn wait_for(file: &Path, value: &str) {
    let began = Instant::now();
    while fs::read_to_string(file).unwrap_or_default().trim() != value {
        assert!(began.elapsed() < PATIENCE, "{}: {value}", file.display());
        std::thread::yield_now();
    }
}

/// It ended for good: everything was restored and let go before it was known that the host had
/// changed, and the old configuration did not start either.
#[test]
fn a_daemon_outlives_a_reload_that_the_host_does_not_allow() {
    let place = Place::new("");
    let (socket, state) = (place.text("socket"), place.text("state"));
    let text = format!("{CONFIG}socket = \"{socket}\"\nstate = \"{state}\"\n");
    fs::write(place.path("wattiod.toml"), text).unwrap();
    let policy = format!("{CPU}/cpufreq/policy0");
    for (file, text) in [
        (format!("{CPU}/present"), "0-1"),
        (format!("{CPU}/online"), "0-1"),
        (format!("{policy}/related_cpus"), "0"),
        (format!("{policy}/cpuinfo_min_freq"), "800000"),
        (format!("{policy}/cpuinfo_max_freq"), "3000000"),
        (format!("{policy}/scaling_min_freq"), "800000"),
        (format!("{policy}/scaling_max_freq"), "3000000"),
        (format!("{policy}/scaling_governor"), "powersave"),
        (
            "root/proc/diskstats".to_owned(),
            "   8       0 sda 9 0 72 9 9 0 72 9 0 9 18 0 0 0 0 0 0\n",
        ),
    ] {
        fs::create_dir_all(place.path(&file).parent().unwrap()).unwrap();
        fs::write(place.path(&file), text).unwrap();
    }
    // Where time passes.
    std::os::unix::fs::symlink("/proc/stat", place.path("root/proc/stat")).unwrap();
    let limit = place.path(&format!("{policy}/scaling_max_freq"));
    let online = place.path(&format!("{CPU}/online"));

    let daemon = place.run();
    wait_for(&limit, "1500000");
    // Somebody takes a core of the group off.
    fs::write(&online, "1").unwrap();
    daemon.signal(Signal::HUP);
    let told = status_with(&socket, "0 are off")["events"].to_string();
    assert!(told.contains("not reloaded, the old configuration stays in force"), "{told}");
    fs::write(&online, "0-1").unwrap();
    wait_for(&limit, "1500000");
    // A value that cannot be put back just then. It is never missing: nothing is put back then, for
    // its processor is gone.
    let (kept, unreadable) = (place.path("kept"), place.path("unreadable"));
    fs::hard_link(&limit, &kept).unwrap();
    std::os::unix::fs::symlink("/", &unreadable).unwrap();
    fs::rename(&unreadable, &limit).unwrap();
    daemon.signal(Signal::HUP);
    status_with(&socket, "1 value cannot be restored now");
    fs::rename(&kept, &limit).unwrap();
    daemon.signal(Signal::HUP);
    status_with(&socket, "configuration reloaded");
    wait_for(&limit, "1500000");
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(
        (ended.status.code(), fs::read_to_string(&limit).unwrap().trim()),
        (Some(0), "3000000"),
        "{told}"
    );
}
