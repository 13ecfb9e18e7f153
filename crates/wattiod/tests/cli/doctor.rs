//! What the doctor finds.

use super::support::{GOOD, Place, said};
use serde_json::Value;
use std::fs;
use wattio_host::Root;
use wattio_host::lock::Lock;

#[test]
fn the_doctor_says_what_there_is_as_json_too() {
    let place = Place::measured();
    let (code, text, complaint) = said(&["doctor", &place.text("wattiod.toml"), "--json"]);
    assert_eq!(code, 0, "{text}{complaint}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    let has = |what: &str| findings.iter().any(|finding| finding["what"] == what);
    for what in ["processors", "knob cpu.cpuset", "[[group]]", "[latency]", "[cpu]"] {
        assert!(has(what), "{what}: {text}");
    }
    assert!(findings.iter().all(|finding| finding["ok"].is_boolean()));
}

#[test]
fn the_doctor_finds_that_a_configuration_asks_for_too_much() {
    let place = Place::new(&GOOD.replace("sda", "no-such-device"));
    let (code, text, _) = said(&["doctor", &place.text("wattiod.toml")]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no  [latency]") && text.contains("no-such-device"), "{text}");
    let named = format!("ok  configuration: {}", place.text("wattiod.toml"));
    assert!(text.lines().any(|line| line == named), "{text}");
}

/// What a daemon saved by was taken for what the host lacks.
#[test]
fn what_a_daemon_has_set_is_not_held_against_the_configuration() {
    let place = Place::new(&GOOD.replace("\"0\"", "\"0-1\""));
    let cpu = "host/sys/devices/system/cpu";
    for (file, text) in [
        ("host/proc/stat".to_owned(), "cpu0 1 0 1 9 0 0 0 0 0 0\ncpu1 1 0 1 9 0 0 0 0 0 0\n"),
        (
            "host/proc/diskstats".to_owned(),
            "   8       0 sda 9 0 72 9 9 0 72 9 0 9 18 0 0 0 0 0 0\n",
        ),
        ("host/sys/block/sda/size".to_owned(), "2000"),
        (format!("{cpu}/present"), "0-1"),
        (format!("{cpu}/online"), "0"),
    ] {
        fs::create_dir_all(place.path(&file).parent().unwrap()).unwrap();
        fs::write(place.path(&file), text).unwrap();
    }
    let (root, file) = (place.text("host"), place.text("wattiod.toml"));
    let doctor = || said(&["doctor", "--root", &root, &file]);
    let (code, text, complaint) = doctor();
    assert!(code == 1 && text.contains("no  [[group]]: "), "{text}{complaint}");
    assert!(text.contains("1 are off; bring them on"), "{text}");

    let knob = "[[knob]]\nkind = \"cpu.frequency\"\n";
    fs::write(&file, GOOD.to_owned() + knob).unwrap();
    for (name, text) in [
        ("related_cpus", "0"),
        ("cpuinfo_min_freq", "800000"),
        ("cpuinfo_max_freq", "3500000"),
        ("scaling_min_freq", "800000"),
        ("scaling_max_freq", "800000"),
        ("scaling_driver", "intel_pstate"),
        ("scaling_governor", "powersave"),
    ] {
        let path = place.path(&format!("{cpu}/cpufreq/policy0/{name}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let (code, text, complaint) = doctor();
    assert!(code == 1 && text.contains("no  [[knob]] cpu.frequency: "), "{text}{complaint}");

    let host = Root::new(&root);
    let _daemon = Lock::take_host(&host).unwrap().unwrap();
    let (code, text, complaint) = doctor();
    assert_eq!(code, 0, "{text}{complaint}");
    // Where the kernel says so it is this process: on some file systems it does not.
    let holder = Lock::host_holder(&host).unwrap().to_string();
    assert!(text.contains(&format!("ok  daemon: {holder} acts on this host")), "{text}");
    let in_use = format!("ok  [[knob]] cpu.frequency: in use by the daemon that acts ({holder})");
    assert!(text.contains(&in_use), "{text}");
    fs::write(&file, GOOD.replace("\"0\"", "\"0-1\"")).unwrap();
    let (code, text, _) = doctor();
    assert!(code == 0 && text.contains("ok  [[group]]: in use by"), "{text}");

    fs::write(&file, GOOD.replace("sda", "sdb")).unwrap();
    let (code, text, _) = doctor();
    assert!(code == 1 && text.contains("no  [latency]"), "{text}");
    let (code, _, complaint) = said(&["init", "--root", &root]);
    assert!(code == 1 && complaint.contains(&holder), "{complaint}");
}
