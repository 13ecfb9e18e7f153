//! Shadow mode from its first sample to its report.

use super::support::{PATIENCE, Place, json_lines, me, output, said, status_with};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

#[test]
fn shadow_mode_says_that_it_has_no_estimate_and_why_and_leaves_a_report() {
    let place = Place::measured();
    let output = place.observe(&["--duration", "1 s"]).end();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("no estimate of the saving, because"), "{text}");
    // What would help behind it: none may have come yet in this second.
    assert!(text.contains("windows with requests so far, 40 are needed; "), "{text}");
    assert!(text.contains("would have changed the setting 0 times"), "{text}");
    let folder = place.result();
    assert!(text.contains(&format!("wattio report {}", folder.display())), "{text}");
    let machine = fs::read_to_string(folder.join("machine.json")).unwrap();
    let machine: Value = serde_json::from_str(&machine).unwrap();
    assert_eq!(machine["mode"], "observe");
    assert!(!json_lines(&folder.join("raw/windows.jsonl")).is_empty());
    assert!(!place.path("state").exists(), "shadow mode saves nothing, as it writes nothing");
}

/// Until there was a model, no request counted: metrics stood at zero, and one sample that was lost had
/// it end with "no request was seen".
#[test]
fn requests_are_counted_before_there_is_a_model() {
    let place = Place::measured();
    let output = place.observe(&["--duration", "2 s", "--no-results", "--json"]).end();
    assert_eq!(output.status.code(), Some(0));
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = &status["counts"];
    assert!(counts["requests"].as_u64().unwrap() > 0, "{status}");
    // Nor is a latency missing, or full speed forced, because the law is not shown it yet.
    assert!(counts["windows_missing"].as_u64().unwrap() <= 1, "{status}");
    assert!(counts["windows_forced"].as_u64().unwrap() <= 1, "{status}");
    assert!(status["power"]["no_estimate"].is_string(), "{status}");
}

#[test]
fn details_are_told_to_who_asks_for_them() {
    let place = Place::measured();
    let told = |more: &[&str]| {
        let output = place.observe(&[&["--duration", "1 s", "--no-results"], more].concat()).end();
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stderr).unwrap();
        // Where the tests run on a host that another daemon governs, that is no detail.
        let lines = text.lines().filter(|line| !line.contains("a daemon acts on this host"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(told(&[]), "");
    let details = told(&["--verbose"]);
    for part in [
        format!("wattiod: reads {}\n", place.text("wattiod.toml")),
        "wattiod: policy pacer; latency by exec /bin/sh; groups all (2 cores); power by no meter"
            .to_owned(),
        "wattiod: window 1: ".to_owned(),
        "no model of this host yet".to_owned(),
    ] {
        assert!(details.contains(&part), "{part}: {details}");
    }
}

/// The exit code was that of a problem of the host.
#[test]
fn a_folder_that_cannot_keep_results_is_bad_input() {
    let place = Place::measured();
    for folder in ["wattiod.toml", "wattiod.toml/results"] {
        let (config, folder) = (place.text("wattiod.toml"), place.text(folder));
        let (code, _, complaint) =
            said(&["observe", &config, "--duration", "1 s", "--out", &folder]);
        assert_eq!(code, 2, "{complaint}");
        let told = format!("{folder}: results cannot be kept there: ");
        assert!(complaint.contains(&told) && complaint.contains("--out"), "{complaint}");
    }
}

/// It said "saved 0.0 W", as if that had been found.
#[test]
fn a_group_of_which_nothing_can_be_set_is_told_of_and_no_saving_is() {
    let place = Place::measured();
    let knob = "[[knob]]\nkind = 'cpu.affinity'\n[power]";
    let good = fs::read_to_string(place.path("wattiod.toml")).unwrap();
    let one =
        good.replace("\"0-1\"", "\"0\"\nprocesses = { comm = 'nobody' }").replace("[power]", knob);
    fs::write(place.path("wattiod.toml"), one).unwrap();
    let says = "group \"all\" has nothing to set: ";
    let output = place.observe(&["--duration", "1 s", "--no-results"]).end();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains(&format!("no estimate of the saving, because {says}1 core of")),
        "{text}"
    );
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told.matches(says).count(), 1, "{told}");
    let path = place.text("wattiod.toml");
    let (code, text, _) = said(&["check", &path]);
    assert_eq!((code, text.contains(&format!("{path}: ok\nbut {says}"))), (0, true), "{text}");
    let (_, text, _) = said(&["doctor", &path]);
    assert!(text.contains(&format!("no  [[group]] nothing to set: {says}")), "{text}");
}

/// A meter was for the page only, and what it missed was told nowhere.
#[test]
fn a_source_of_power_is_recorded_and_one_that_fails_is_told() {
    let lines = format!("while echo '{}'; do sleep 0.05; done", r#"{"power_w": 42.5}"#);
    let place = Place::measured();
    fs::write(place.path("power.sh"), lines).unwrap();
    let command = format!("command = ['/bin/sh', '{}'], user = '{}'", place.text("power.sh"), me());
    let missing = place.text("no-such-file");
    let file = format!("path = '{missing}', unit = 'W'");
    let good = fs::read_to_string(place.path("wattiod.toml")).unwrap();
    for (kind, keys, works) in [("exec", &command, true), ("file", &file, false)] {
        let meter = format!("[power]\nmeter = {{ kind = '{kind}', {keys} }}");
        fs::write(place.path("wattiod.toml"), good.replace("[power]", &meter)).unwrap();
        let _ = fs::remove_dir_all(place.path("results"));
        let output = place.observe(&["--duration", "2 s"]).end();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let raw = place.result().join("raw");
        let watts: Vec<_> = json_lines(&raw.join("windows.jsonl"))
            .iter()
            .filter_map(|row| row["power_w_measured"].as_f64())
            .collect();
        let events = fs::read_to_string(raw.join("events.jsonl")).unwrap_or_default();
        let summary = fs::read_to_string(raw.join("summary.json")).unwrap();
        let summary: Value = serde_json::from_str(&summary).unwrap();
        let unmeasured = summary["counts"]["windows_unmeasured"].as_u64().unwrap();
        assert_eq!(!watts.is_empty(), works, "{events}");
        assert!(watts.iter().all(|watts| (watts - 42.5).abs() < 1e-6), "{watts:?}");
        assert_eq!(events.contains("no-such-file: No such file"), !works, "{events}");
        assert_eq!(unmeasured == summary["counts"]["windows"].as_u64().unwrap(), !works);
    }
}

#[test]
fn an_interrupt_ends_shadow_mode_with_its_report() {
    let place = Place::measured();
    let running = place.observe(&[]);
    let socket = place.text("socket");
    let began = Instant::now();
    let windows = || {
        let output = output(&["status", "--json", "--socket", &socket]);
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        status["counts"]["windows"].as_u64()
    };
    while windows().unwrap_or(0) == 0 {
        assert!(began.elapsed() < PATIENCE, "it never saw a window");
        std::thread::yield_now();
    }
    running.signal(Signal::INT);
    let output = running.end();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("no estimate of the saving") && text.contains("results: "), "{text}");
    let summary = fs::read_to_string(place.result().join("raw/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert!(summary["counts"]["windows"].as_u64() >= Some(1), "{summary}");
    assert!(!place.path("socket").exists(), "the socket goes with the daemon");
}

/// A pause was forgotten with the daemon that a reload replaced, and a file that does not fit the
/// host ended the record.
#[test]
fn a_pause_and_the_record_outlive_a_reload() {
    let place = Place::measured();
    let running = place.observe(&[]);
    let socket = place.text("socket");
    let status_with = |said: &str| status_with(&socket, said);
    status_with("");
    let (code, _, complaint) = said(&["pause", "--socket", &socket]);
    assert_eq!(code, 0, "{complaint}");
    let good = fs::read_to_string(place.path("wattiod.toml")).unwrap();
    let misfit = good.replace("\"0-1\"", "\"4000\"");
    for (text, says) in [(misfit, "not reloaded"), (good, "configuration reloaded")] {
        fs::write(place.path("wattiod.toml"), text).unwrap();
        running.signal(Signal::HUP);
        assert_eq!(status_with(says)["paused"], true, "{says}");
        let events = fs::read_to_string(place.result().join("raw/events.jsonl")).unwrap();
        assert!(events.contains(says), "{events}");
    }
    running.signal(Signal::QUIT);
    assert_eq!(running.end().status.code(), Some(0));
}

/// A bound that an operator had tightened was as loose as before after a reload, without a word.
#[test]
fn a_tolerance_that_was_set_outlives_a_reload_but_not_another_of_the_file() {
    let place = Place::measured();
    let running = place.observe(&["--no-results"]);
    let socket = place.text("socket");
    assert_eq!(status_with(&socket, "")["latency"]["tolerance"], 0.2);
    let (code, _, complaint) = said(&["set", "plf", "0.05", "--socket", &socket]);
    assert_eq!(code, 0, "{complaint}");
    let good = fs::read_to_string(place.path("wattiod.toml")).unwrap();
    let misfit = good.replace("\"0-1\"", "\"4000\"");
    let other = format!("{good}[policy]\nsettings = {{ plf = 0.1 }}\n");
    for (text, says, tolerance) in [
        (misfit, "not reloaded", 0.05),
        (good, "configuration reloaded", 0.05),
        (other, "0.05, which was set, does not apply any more", 0.1),
    ] {
        fs::write(place.path("wattiod.toml"), text).unwrap();
        running.signal(Signal::HUP);
        let status = status_with(&socket, says);
        assert_eq!(status["latency"]["tolerance"], tolerance, "{says}");
        let stays = "the latency tolerance stays at 0.05";
        let is_new = says == "configuration reloaded";
        assert_eq!(status["events"].to_string().contains(stays), is_new, "{status}");
    }
    running.signal(Signal::QUIT);
    assert_eq!(running.end().status.code(), Some(0));
}

/// Who only wants to look at a disk had to write a configuration first.
#[test]
fn a_disk_is_watched_without_any_file() {
    let place = Place::measured();
    let sys = "sys/devices/system/cpu";
    fs::create_dir_all(place.path(&format!("root/{sys}/cpu0"))).unwrap();
    fs::create_dir_all(place.path("root/proc")).unwrap();
    let stat = "cpu  1 0 1 10 0 0 0 0 0 0\ncpu0 1 0 1 10 0 0 0 0 0 0\n";
    fs::write(place.path("root/proc/stat"), stat).unwrap();
    let disks = "   8  0 sda 5 0 40 4 5 0 40 4 0 8 8 0 0 0 0 0 0\n";
    fs::write(place.path("root/proc/diskstats"), disks).unwrap();
    let (root, results) = (place.text("root"), place.text("results"));
    let head = ["--root", root.as_str(), "observe", "--out", results.as_str()];
    let watched = [&head[..], &["--disk", "sda", "--duration", "1 s"]].concat();
    let (_, text, complaint) = said(&watched);
    assert!(text.contains("no estimate of the saving"), "{text}{complaint}");
    // The processors of this tree stand still, which is all that is wrong with it.
    assert!(complaint.contains("proc-stat: no tick passed"), "{complaint}");
    let folders = fs::read_dir(place.path("results/disks")).unwrap();
    let folder = folders.last().unwrap().unwrap().path();
    let config = fs::read_to_string(folder.join("study.toml")).unwrap();
    assert!(config.contains("devices = [\"sda\"]"), "{config}");
    let missing = [&head[..], &["--disk", "sd\"x", "--duration", "1 s"]].concat();
    let (code, _, complaint) = said(&missing);
    assert_eq!(code, 2, "{complaint}");
    assert!(complaint.contains("latency: "), "{complaint}");
    let both = [&head[..], &["nas.toml", "--disk", "sda"]].concat();
    let (code, _, complaint) = said(&both);
    assert_eq!(code, 2, "{complaint}");
    assert!(complaint.contains("CONFIG cannot be used together with --disk"), "{complaint}");
}

#[test]
fn the_page_is_for_who_knows_the_token() {
    let place = Place::measured();
    let token = "0123456789abcdef0123456789abcdef";
    fs::write(place.path("token"), format!("{token}\n")).unwrap();
    let config = fs::read_to_string(place.path("wattiod.toml")).unwrap();
    let page = format!("listen = \"127.0.0.1:0\"\ntoken = \"{}\"", place.text("token"));
    fs::write(place.path("wattiod.toml"), config.replace("listen = \"off\"", &page)).unwrap();
    fs::set_permissions(place.path("token"), Permissions::from_mode(0o604)).unwrap();
    let (code, _, complaint) = said(&["observe", &place.text("wattiod.toml"), "--no-results"]);
    assert_eq!(code, 2, "{complaint}");
    assert!(
        complaint.contains("service.token: ") && complaint.contains("chmod o-r"),
        "{complaint}"
    );
    fs::set_permissions(place.path("token"), Permissions::from_mode(0o600)).unwrap();
    let mut running = place.observe(&[]);
    let line = running.complaint_with("wattiod: page and metrics on http://");
    let address = line.trim().rsplit("http://").next().unwrap();
    let ask = |head: &str| {
        let mut stream = TcpStream::connect(address.trim_end_matches('/')).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head =
            format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}");
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("").starts_with("HTTP/1.1 401"));
    let answer = ask(&format!("Authorization: Bearer {token}\r\n"));
    assert!(answer.contains("wattio_info{"), "{answer}");
    running.signal(Signal::TERM);
    assert!(running.end().status.success());
}

/// With a bound that is a time it was said that there is none, and a percentile that nobody tells was
/// waited for in silence.
#[test]
fn a_bound_that_is_a_time_is_one_and_a_percentile_nobody_tells_is_warned_of() {
    let place = Place::measured();
    let config = fs::read_to_string(place.path("wattiod.toml")).unwrap();
    let with = |bounds: &str| format!("{config}[policy]\nbounds = [{bounds}]\n");
    fs::write(place.path("wattiod.toml"), with("\"mean 1 ms run\"")).unwrap();
    let (code, text, _) = observed(&place);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("would have broken the bound in 0 of "), "{text}");
    assert!(!text.contains("no latency bound"), "{text}");
    fs::write(place.path("wattiod.toml"), with("\"p99 1 ms run\"")).unwrap();
    let (_, text, complaint) = observed(&place);
    let warning =
        "the bound \"p99 1 ms run\" cannot be checked: exec /bin/sh reports no percentiles";
    assert_eq!(complaint.matches(warning).count(), 1, "{text}{complaint}");
}

/// With a first bucket of 100 ms its p99 was 99 ms beside a mean of 0.2 ms, and never grew.
#[test]
fn a_percentile_in_a_bucket_without_a_lower_edge_is_not_told_and_its_growth_not_promised() {
    let place = Place::measured();
    let line = r#"{"requests": 10, "latency_us_mean": 200, "buckets": [[100000, 10], [null, 0]]}"#;
    let script = format!("while echo '{line}'; do sleep 0.1; done");
    fs::write(place.path("measure.sh"), script).unwrap();
    let config = fs::read_to_string(place.path("wattiod.toml")).unwrap();
    for (limit, is_coarse) in [("20%", true), ("200 ms", false)] {
        let bound = format!("p99 {limit} run");
        let bounded = format!("{config}[policy]\nbounds = [\"{bound}\"]\n");
        fs::write(place.path("wattiod.toml"), bounded).unwrap();
        let output = place.observe(&["--no-results", "--duration", "2 s", "--json"]).end();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(status["latency"]["latency_us_mean"], 200.0, "{status}");
        assert!(status["latency"]["latency_us_p99"].is_null(), "{status}");
        let warning = format!("the bound \"{bound}\" cannot be checked: ");
        let events = status["events"].to_string().replace("\\\"", "\"");
        assert_eq!(events.matches(&warning).count(), usize::from(is_coarse), "{events}");
    }
}

fn observed(place: &Place) -> (i32, String, String) {
    let config = place.text("wattiod.toml");
    said(&["observe", &config, "--no-results", "--duration", "2 s"])
}

/// A start that failed for a taken port or a missing file left a result without a window.
#[test]
fn a_start_that_fails_leaves_no_result() {
    let place = Place::measured();
    let config = fs::read_to_string(place.path("wattiod.toml")).unwrap();
    let token = format!("token = \"{}\"\n", place.text("no-token"));
    fs::write(place.path("wattiod.toml"), config + &token).unwrap();
    let output = place.observe(&["--duration", "1 s"]).end();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!place.path("results").exists());
}
