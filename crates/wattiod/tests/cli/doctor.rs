//! What the doctor finds.

use super::support::{GOOD, Place, said};
use serde_json::{Value, json};
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
    let group = "[service]\nsocket_group = \"no-such-group\"\n";
    let place = Place::new(&(GOOD.replace("sda", "no-such-device") + group));
    let (code, text, _) = said(&["doctor", &place.text("wattiod.toml")]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no  [service] socket_group: "), "{text}");
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
    // Only what the daemon has set may be its doing.
    let _daemon = Lock::take_host(&host).unwrap().unwrap();
    let state = format!("\n[service]\nstate = \"{}\"\n", place.text("state"));
    fs::write(&file, GOOD.to_owned() + knob + &state).unwrap();
    fs::create_dir(place.path("state")).unwrap();
    let hold = |knob: &str| {
        let saved = json!({"address": "file:/sys/a", "value": "1", "knob": knob});
        let held = json!({"version": 2, "boot_id": "", "saved": [saved]});
        fs::write(place.path("state/snapshot.json"), held.to_string()).unwrap();
    };
    hold("cpu.cpuset");
    let (code, text, complaint) = doctor();
    assert!(code == 1 && text.contains("no  [[knob]] cpu.frequency: "), "{text}{complaint}");
    hold("cpu.frequency");
    let (code, text, complaint) = doctor();
    assert_eq!(code, 0, "{text}{complaint}");
    // Where the kernel says so it is this process: on some file systems it does not.
    let holder = Lock::host_holder(&host).unwrap().to_string();
    assert!(text.contains(&format!("ok  daemon: {holder} acts on this host")), "{text}");
    let in_use = format!("ok  [[knob]] cpu.frequency: in use by the daemon that acts ({holder})");
    assert!(text.contains(&in_use), "{text}");
    fs::write(&file, GOOD.replace("\"0\"", "\"0-1\"") + &state).unwrap();
    let (code, text, _) = doctor();
    assert!(code == 1 && text.contains("no  [[group]]: "), "{text}");
    hold("cpu.online");
    let (code, text, _) = doctor();
    assert!(code == 0 && text.contains("ok  [[group]]: in use by"), "{text}");

    fs::write(&file, GOOD.replace("sda", "sdb")).unwrap();
    let (code, text, _) = doctor();
    assert!(code == 1 && text.contains("no  [latency]"), "{text}");
    let (code, _, complaint) = said(&["init", "--root", &root]);
    assert!(code == 1 && complaint.contains(&holder), "{complaint}");
}

/// A control group that is misspelt was taken for one that the daemon has in use.
#[test]
fn a_control_group_that_is_not_there_is_not_the_daemons_doing() {
    let config = GOOD.to_owned() + "cgroup = \"/system.slice/typo.service\"\n";
    let place = Place::new("");
    let state = format!("\n[service]\nstate = \"{}\"\n", place.text("state"));
    fs::write(place.path("wattiod.toml"), config + "[[knob]]\nkind = \"cpu.cpuset\"\n" + &state)
        .unwrap();
    for (file, text) in [
        ("sys/devices/system/cpu/present", "0"),
        ("sys/devices/system/cpu/online", "0"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu"),
    ] {
        let path = place.path(&format!("host/{file}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let root = place.text("host");
    let _daemon = Lock::take_host(&Root::new(&root)).unwrap().unwrap();
    let (code, text, _) = said(&["doctor", "--root", &root, &place.text("wattiod.toml")]);
    assert!(code == 1 && text.contains("no  [[knob]] cpu.cpuset: "), "{text}");
    assert!(text.contains("typo.service is not there"), "{text}");
}

#[test]
fn physical_cores_that_two_applications_share_are_named() {
    let application = |name: &str, cores: &str| {
        format!(
            "[[application]]\nname = \"{name}\"\n\
             latency = {{ kind = \"diskstats\", devices = [\"sda\"] }}\n\
             [[application.group]]\nname = \"{name}\"\ncores = \"{cores}\"\n"
        )
    };
    let place = Place::new("");
    let config = |cores: [&str; 2]| {
        let both = application("web", cores[0]) + &application("db", cores[1]);
        fs::write(place.path("wattiod.toml"), format!("name = \"two\"\n{both}")).unwrap();
    };
    let mut files = vec![("present".to_owned(), "0-3"), ("online".to_owned(), "0-3")];
    for cpu in 0..4 {
        let siblings = if cpu % 2 == 0 { "0,2" } else { "1,3" };
        files.push((format!("cpu{cpu}/topology/thread_siblings_list"), siblings));
    }
    for (file, text) in files {
        let path = place.path(&format!("host/sys/devices/system/cpu/{file}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let doctor = || said(&["doctor", "--root", &place.text("host"), &place.text("wattiod.toml")]).1;
    config(["0-1", "2-3"]);
    let told = "no  physical cores: applications web and db share physical cores (processors 0-3)";
    let text = doctor();
    assert!(text.contains(told), "{text}");
    config(["0,2", "1,3"]);
    let text = doctor();
    assert!(!text.contains("physical cores"), "{text}");
}
