//! The keeper on a tree: what it puts back, and after what.

use super::support::{GOOD, Place, Running};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

const LIMIT: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";

/// A process that does nothing, with a keeper, on a host that it left at a lower frequency.
fn kept() -> (Place, PathBuf, Running) {
    let place = Place::new(GOOD);
    let limit = place.path("root").join(LIMIT.trim_start_matches('/'));
    fs::create_dir_all(limit.parent().unwrap()).unwrap();
    fs::write(&limit, "800000").unwrap();
    fs::create_dir(place.path("state")).unwrap();
    let saved = serde_json::json!({
        "address": format!("file:{LIMIT}"), "value": "2600000", "knob": "cpu.frequency",
    });
    let snapshot = serde_json::json!({"version": 2, "boot_id": "", "saved": [saved]});
    fs::write(place.path("state/snapshot.json"), snapshot.to_string()).unwrap();
    // The shell becomes the process that does nothing: its number stays.
    let script = format!(
        "{} --root {} restore {} --state {} --after $$ & echo begun; exec sleep 600",
        env!("CARGO_BIN_EXE_wattiod"),
        place.text("root"),
        place.text("wattiod.toml"),
        place.text("state")
    );
    let mut daemon = Running::shell(&script);
    assert_eq!(daemon.line(), "begun\n");
    (place, limit, daemon)
}

#[test]
fn whatever_ends_a_daemon_its_keeper_puts_everything_back() {
    for signal in [Signal::KILL, Signal::ABORT, Signal::USR1, Signal::STOP] {
        let (place, limit, daemon) = kept();
        daemon.signal(signal);
        let ended = daemon.end();
        let told = String::from_utf8(ended.stderr).unwrap();
        // Stopped, it is ended.
        let by = if signal == Signal::STOP { Signal::KILL } else { signal };
        assert_eq!(ended.status.signal(), Some(by.as_raw()), "{told}");
        assert_eq!(fs::read_to_string(&limit).unwrap().trim(), "2600000", "{signal:?}: {told}");
        assert!(!place.path("state/snapshot.json").exists());
        assert!(told.contains("of a daemon that was killed: restored"), "{told}");
        assert_eq!(told.contains("is stopped by a signal"), signal == Signal::STOP, "{told}");
    }
}

/// A user's process that waited for the daemon's lock had it once the daemon was killed: its keeper took
/// that for the next daemon, and left the host slow.
#[test]
fn a_lock_that_anybody_may_hold_keeps_nothing_from_being_put_back() {
    // Elsewhere the kernel does not say who took a lock and ended (`PROC_PID_INIT_INO`).
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
    if namespace.as_os_str() != "pid:[4026531836]" {
        return;
    }
    let (place, limit, daemon) = kept();
    let processors = File::open(place.path("root/sys/devices/system/cpu")).unwrap();
    let taken = processors.try_clone().unwrap();
    let taken = Command::new("flock").args(["-n", "0"]).stdin(taken).status().unwrap();
    assert!(taken.success());
    daemon.signal(Signal::KILL);
    let told = String::from_utf8(daemon.end().stderr).unwrap();
    assert_eq!(fs::read_to_string(&limit).unwrap().trim(), "2600000", "{told}");
    assert!(told.contains("of a daemon that was killed: restored"), "{told}");
}

#[test]
fn a_keeper_of_nothing_says_nothing() {
    let (place, limit, daemon) = kept();
    fs::remove_file(place.path("state/snapshot.json")).unwrap();
    daemon.signal(Signal::KILL);
    let ended = daemon.end();
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
    assert_eq!(fs::read_to_string(&limit).unwrap(), "800000", "not its own");
}
