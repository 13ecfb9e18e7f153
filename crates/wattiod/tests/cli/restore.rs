//! Old values put back from a snapshot.

use super::support::{GOOD, Place, Running, said};
use serde_json::Value;
use std::fs;
use std::os::unix::net::UnixDatagram;

#[test]
fn where_nothing_was_changed_nothing_is_restored() {
    let place = Place::new(GOOD);
    let state = place.text("state");
    let config = place.text("wattiod.toml");
    let root = place.text("root");
    fs::create_dir(&root).unwrap();
    let restore = ["--root", &root, "restore", &config, "--state", &state];
    for (folder, what) in [(&state, "there is no such folder"), (&config, "is not a folder")] {
        let (code, text, complaint) = said(&["--root", &root, "restore", "--state", folder]);
        assert_eq!((code, text.as_str()), (2, ""), "a mistyped folder: {complaint}");
        assert_eq!(complaint, format!("wattiod: {folder}: {what}; nothing was restored\n"));
    }
    fs::create_dir(&state).unwrap();
    let (code, text, _) = said(&restore);
    assert_eq!((code, text), (0, format!("nothing to restore in {state}\n")));
    let (code, text, _) = said(&[&restore[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 0);
    for list in ["restored", "foreign", "left"] {
        assert_eq!(answer[list].as_array().map(Vec::len), Some(0), "{answer}");
    }
    // A wrong file keeps nothing from being restored.
    let wrong = format!("name = 1\n[service]\nstate = \"{state}\" # here\n");
    fs::write(&config, wrong).unwrap();
    let (code, text, complaint) = said(&restore[..4]);
    assert_eq!((code, text), (0, format!("nothing to restore in {state}\n")));
    assert!(complaint.contains("going on with"), "{complaint}");
    fs::write(&config, "name = 1").unwrap();
    let (code, _, complaint) = said(&restore[..4]);
    assert!(code == 2 && complaint.contains("--state"), "{complaint}");
}

/// Somebody took a processor off while its frequency was limited. Its limit could not be put back,
/// came back with the processor, and nobody had said why.
#[test]
fn a_processor_that_is_off_is_told_and_its_limit_is_put_back_later() {
    let place = Place::new(GOOD);
    let root = place.text("root");
    let cpu = place.path("root/sys/devices/system/cpu");
    let limit = |policy: u32| cpu.join(format!("cpufreq/policy{policy}/scaling_max_freq"));
    for policy in [1, 2] {
        fs::create_dir_all(limit(policy).parent().unwrap()).unwrap();
        fs::create_dir_all(cpu.join(format!("cpu{policy}"))).unwrap();
        fs::write(cpu.join(format!("cpu{policy}/online")), "1\n").unwrap();
    }
    fs::write(limit(1), "800000").unwrap();
    // The kernel answers no question about a policy whose processors are off; nor does a folder.
    fs::write(cpu.join("cpu2/online"), "0\n").unwrap();
    fs::create_dir(limit(2)).unwrap();
    let held = |policy: u32| {
        serde_json::json!({
            "address": format!("file:/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_max_freq"),
            "value": "2600000",
            "knob": "cpu.frequency",
        })
    };
    let snapshot = serde_json::json!({"version": 2, "boot_id": "", "saved": [held(1), held(2)]});
    fs::create_dir(place.path("state")).unwrap();
    fs::write(place.path("state/snapshot.json"), snapshot.to_string()).unwrap();
    let (config, state) = (place.text("wattiod.toml"), place.text("state"));
    let restore = ["--root", &root, "restore", &config, "--state", &state];
    let (code, text, complaint) = said(&[&restore[..], &["--verbose"]].concat());
    assert_eq!(code, 1, "{text}{complaint}");
    let write = "wattiod: writes \"2600000\" to file:/sys/devices/system/cpu/cpufreq/policy1/";
    assert!(complaint.contains(write), "{complaint}");
    for part in [
        "restored file:/sys/devices/system/cpu/cpufreq/policy1/scaling_max_freq to \"2600000\"",
        "processor 2 is off, and keeps this limit when it comes back",
        "by hand: echo 1 > /sys/devices/system/cpu/cpu2/online && echo 2600000 > /sys/devices",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let kept = fs::read_to_string(place.path("state/snapshot.json")).unwrap();
    assert!(kept.contains("policy2") && !kept.contains("policy1"), "{kept}");

    fs::remove_dir(limit(2)).unwrap();
    fs::write(limit(2), "800000").unwrap();
    fs::write(cpu.join("cpu2/online"), "1\n").unwrap();
    let (code, text, _) = said(&restore);
    assert!(code == 0 && text.contains("policy2/scaling_max_freq to \"2600000\""), "{text}");
    assert_eq!(fs::read_to_string(limit(2)).unwrap(), "2600000");
    assert!(!place.path("state/snapshot.json").exists());
}

/// Disks that spin up one after another took longer than the watchdog waits, and what else there was to
/// put back waited for them.
#[test]
fn drives_come_last_and_each_is_given_its_time() {
    let place = Place::new(GOOD);
    let file = |path: &str| place.path("root").join(path.trim_start_matches('/'));
    let disk = |name: &str| format!("/sys/block/{name}/device/power/control");
    let places = [
        ("/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "800000", "2600000"),
        (&disk("sda"), "auto", "on"),
        (&disk("sdb"), "auto", "on"),
    ];
    let mut saved = Vec::new();
    for (path, now, value) in places {
        fs::create_dir_all(file(path).parent().unwrap()).unwrap();
        fs::write(file(path), now).unwrap();
        let address = format!("file:{path}");
        saved.push(serde_json::json!({"address": address, "value": value, "knob": "any"}));
    }
    let snapshot = serde_json::json!({"version": 2, "boot_id": "", "saved": saved});
    fs::create_dir(place.path("state")).unwrap();
    fs::write(place.path("state/snapshot.json"), snapshot.to_string()).unwrap();
    let manager = UnixDatagram::bind(place.path("notify")).unwrap();
    manager.set_nonblocking(true).unwrap();
    let restore = format!(
        "NOTIFY_SOCKET={} exec {} --root {} restore {} --state {} --verbose",
        place.text("notify"),
        env!("CARGO_BIN_EXE_wattiod"),
        place.text("root"),
        place.text("wattiod.toml"),
        place.text("state")
    );
    let ended = Running::shell(&restore).end();
    let told = String::from_utf8(ended.stderr).unwrap();
    let writes: Vec<_> = told.lines().filter_map(|line| line.split_once("writes ")).collect();
    let order = ["scaling_max_freq", "sdb/device/power/control", "sda/device/power/control"];
    assert_eq!(writes.len(), order.len(), "{told}");
    assert!(writes.iter().zip(order).all(|((_, what), place)| what.ends_with(place)), "{told}");
    let (mut fed, mut bytes) = (0, [0; 64]);
    while let Ok(count) = manager.recv(&mut bytes) {
        fed += u32::from(bytes[..count].starts_with(b"WATCHDOG=1"));
    }
    assert_eq!(fed, 2, "once for each drive");
}

#[test]
fn a_torn_snapshot_is_not_taken_for_nothing() {
    let place = Place::new(GOOD);
    fs::create_dir_all(place.path("root")).unwrap();
    fs::create_dir(place.path("state")).unwrap();
    fs::write(place.path("state/snapshot.json"), "{\"saved\": [").unwrap();
    let config = place.text("wattiod.toml");
    let (code, text, complaint) =
        said(&["--root", &place.text("root"), "restore", &config, "--state", &place.text("state")]);
    assert_eq!((code, text.as_str()), (1, ""), "{complaint}");
    assert!(complaint.contains("snapshot.json"), "{complaint}");
}
