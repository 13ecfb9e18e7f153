//! A first configuration: what is printed, what is written, and what is refused.

use super::support::{Place, said};
use serde_json::Value;
use std::fs;

/// A host of files: two cores, and a disk where one is asked for.
fn host(place: &Place, disk: Option<&str>) -> String {
    let mut files = vec![("sys/devices/system/cpu/present".to_owned(), "0-1".to_owned())];
    files.push(("sys/devices/system/cpu/online".to_owned(), "0-1".to_owned()));
    if let Some(name) = disk {
        files.push((format!("sys/block/{name}/size"), "2000".to_owned()));
        let line = format!("   8       0 {name} 9 0 72 9 9 0 72 9 0 9 18 0 0 0 0 0 0\n");
        files.push(("proc/diskstats".to_owned(), line));
    }
    for (path, text) in files {
        let path = place.path("host").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    place.text("host")
}

#[test]
fn what_is_printed_is_a_configuration() {
    let place = Place::new("");
    let root = host(&place, Some("sda"));
    let (code, text, found) = said(&["init", "--root", &root]);
    assert_eq!(code, 0, "{found}");
    assert!(found.contains("ok  latency: diskstats of sda"), "{found}");
    fs::write(place.path("proposed.toml"), &text).unwrap();
    let (code, _, complaint) = said(&["check", &place.text("proposed.toml")]);
    assert_eq!(code, 0, "{complaint}{text}");
    let (code, answer, complaint) = said(&["init", "--root", &root, "--json"]);
    assert_eq!((code, complaint.as_str()), (0, ""));
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["config"].as_str().map(str::trim_end), Some(text.trim_end()));
    assert!(answer["written"].is_null() && answer["findings"].is_array(), "{answer}");
}

#[test]
fn a_file_that_is_there_is_kept_unless_it_is_to_be_written_anew() {
    let place = Place::new("mine");
    let (root, file) = (host(&place, Some("sda")), place.text("wattiod.toml"));
    let (code, _, complaint) = said(&["init", "--root", &root, "--out", &file]);
    assert_eq!(code, 2);
    assert!(complaint.contains("already exists; --force overwrites it"), "{complaint}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let (code, next, complaint) = said(&["init", "--root", &root, "--out", &file, "--force"]);
    assert_eq!(code, 0, "{complaint}");
    assert!(next.contains(&format!("wattiod observe {file}")), "{next}");
    assert_eq!(said(&["check", &file]).0, 0);
    let new = place.text("new.toml");
    assert_eq!(said(&["init", "--root", &root, "--out", &new]).0, 0);
    assert_eq!(fs::read(&new).unwrap(), fs::read(&file).unwrap());
    let left = fs::read_dir(place.path("")).unwrap().flatten().count();
    assert_eq!(left, 3, "the host's folder and two files");
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    let place = Place::new("");
    let root = host(&place, Some("sda"));
    for (out, why) in
        [(place.text("no/x.toml"), "there is no folder"), (root.clone(), "is a folder")]
    {
        let (code, text, complaint) = said(&["init", "--root", &root, "--out", &out]);
        assert_eq!((code, text.as_str()), (2, ""), "{complaint}");
        assert!(complaint.contains(why) && complaint.contains(&out), "{complaint}");
    }
}

#[test]
fn a_service_that_does_not_run_is_bad_input() {
    let place = Place::new("");
    let root = host(&place, Some("sda"));
    let (code, _, complaint) = said(&["init", "--root", &root, "--service", "etcd"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("\"etcd\": no process of that name runs"), "{complaint}");
}

#[test]
fn nothing_to_measure_is_a_problem_and_writes_nothing() {
    let place = Place::new("");
    let (root, file) = (host(&place, None), place.text("new.toml"));
    let (code, text, complaint) = said(&["init", "--root", &root, "--out", &file]);
    assert_eq!((code, text.as_str()), (1, ""), "{complaint}");
    assert!(complaint.contains("nothing to measure"), "{complaint}");
    assert!(!place.path("new.toml").exists());
}
