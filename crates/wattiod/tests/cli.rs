//! The command line as an operator meets it, without root: texts, exit codes, and shadow mode from
//! its first sample to its report.

#![allow(clippy::unwrap_used, reason = "a test may")]

use rustix::process::{Pid, Signal, getuid, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const COMMANDS: [&str; 9] =
    ["check", "doctor", "observe", "run", "status", "set", "pause", "resume", "restore"];
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const GOOD: &str = r#"
name = "nas"

[latency]
kind = "diskstats"
devices = ["sda"]

[[group]]
name = "all"
cores = "0"
"#;

fn wattiod() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wattiod"))
}

fn output(arguments: &[&str]) -> Output {
    wattiod().args(arguments).output().unwrap()
}

/// Runs it, and answers its exit code, what it printed and what it complained of.
fn said(arguments: &[&str]) -> (i32, String, String) {
    let output = output(arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A folder of its own: configuration, socket, state, results.
struct Place(TempDir);

impl Place {
    fn new(config: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("wattiod.toml"), config).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A server that is measured by a command: ten requests of 200 us each tenth of a second.
    fn measured() -> Self {
        let place = Self::new("");
        let line = r#"{"requests": 10, "latency_us_mean": 200}"#;
        let script = format!("while echo '{line}'; do sleep 0.1; done");
        fs::write(place.path("measure.sh"), script).unwrap();
        let config = format!(
            r#"
name = "measured"

[latency]
kind = "exec"
command = ["/bin/sh", "{}"]
user = "{}"

[[group]]
name = "all"
cores = "0"

[power]
model = "assumed"

[service]
listen = "off"
socket = "{}"
state = "{}"
"#,
            place.text("measure.sh"),
            me(),
            place.text("socket"),
            place.text("state")
        );
        fs::write(place.path("wattiod.toml"), config).unwrap();
        place
    }

    /// The only result folder.
    fn result(&self) -> PathBuf {
        let found: Vec<_> = fs::read_dir(self.path("results/measured"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    }

    fn observe(&self, more: &[&str]) -> Command {
        let mut command = wattiod();
        command.arg("observe").arg(self.path("wattiod.toml"));
        command.arg("--out").arg(self.path("results")).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// The name of the user whose tests these are.
fn me() -> String {
    let uid = getuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let mine = users.lines().find(|line| line.split(':').nth(2) == Some(&uid));
    mine.and_then(|line| line.split(':').next()).expect("a user in /etc/passwd").to_owned()
}

/// Ends with the test, also when that fails.
struct Running(Child);

impl Running {
    fn end(mut self) -> Output {
        let mut output =
            Output { status: self.0.wait().unwrap(), stdout: Vec::new(), stderr: Vec::new() };
        let read = |from: Option<&mut dyn std::io::Read>, to: &mut Vec<u8>| {
            from.unwrap().read_to_end(to).unwrap();
        };
        read(self.0.stdout.as_mut().map(|s| s as _), &mut output.stdout);
        read(self.0.stderr.as_mut().map(|s| s as _), &mut output.stderr);
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_help_shows_every_command_with_an_example() {
    let (code, help, _) = said(&["--help"]);
    assert_eq!(code, 0);
    for part in ["Examples:", "Exit codes: 0 done, 1 found a problem, 2 bad input"] {
        assert!(help.contains(part), "{help}");
    }
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
        let (code, help, _) = said(&[command, "--help"]);
        assert_eq!(code, 0, "{command}");
        assert!(help.contains(&format!("Usage: wattiod {command}")), "{help}");
        assert!(help.contains(&format!("\n  wattiod {command}")), "{command}, an example: {help}");
    }
}

#[test]
fn a_right_file_is_right_and_a_wrong_one_is_named_with_the_line_or_the_key() {
    let place = Place::new(GOOD);
    let path = place.text("wattiod.toml");
    let (code, text, _) = said(&["check", &path]);
    assert_eq!((code, text), (0, format!("{path}: right\n")));
    let (code, text, _) = said(&["check", "--json", &path]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, answer["ok"].as_bool(), answer["name"].as_str()),
        (0, Some(true), Some("nas"))
    );

    for (from, to, says) in [
        ("\"diskstats\"", "\"diskstat\"", "line 5: unknown variant `diskstat`"),
        ("devices", "device", "did you mean `devices`?"),
        ("[[group]]", "[policy]\nsettings = { plf = 99 }\n[[group]]", "policy.settings.plf"),
        ("cores = \"0\"", "", "missing field `cores`"),
        ("[latency]", "[latency", "line 4"),
    ] {
        fs::write(&path, GOOD.replace(from, to)).unwrap();
        let (code, _, complaint) = said(&["check", &path]);
        assert_eq!(code, 2, "{complaint}");
        assert!(complaint.starts_with(&format!("wattiod: {path}: ")), "{complaint}");
        assert!(complaint.contains(says), "{complaint}");
    }
}

#[test]
fn a_missing_file_and_an_unknown_command_are_bad_input() {
    let place = Place::new(GOOD);
    let missing = place.text("missing.toml");
    for command in ["check", "observe", "run"] {
        let (code, _, complaint) = said(&[command, &missing]);
        assert_eq!(code, 2, "{command}: {complaint}");
        assert!(complaint.contains(&missing) && complaint.contains("No such file"), "{complaint}");
    }
    let (code, _, complaint) = said(&["obsrve"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("'observe'"), "{complaint}");
    let (code, _, complaint) = said(&[]);
    assert_eq!(code, 2);
    assert!(complaint.contains("Usage: wattiod"), "{complaint}");
}

/// Root took a configuration that everybody may write, with commands in it, and a script likewise.
#[test]
fn root_goes_by_nothing_that_others_may_write() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    if !getuid().is_root() {
        return;
    }
    let place = Place::measured();
    let config = place.text("wattiod.toml");
    let set = |name: &str, mode| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode, back) in [("wattiod.toml", 0o666, 0o644), ("measure.sh", 0o664, 0o644)] {
        set(name, mode);
        for command in ["run", "observe"] {
            let (code, _, complaint) = said(&["--root", &place.text("root"), command, &config]);
            assert_eq!(code, 2, "{command}: {complaint}");
            let told = complaint.contains(&place.text(name)) && complaint.contains("may write");
            assert!(told && complaint.lines().count() == 1, "{complaint}");
        }
        let (code, _, complaint) = said(&["check", &config]);
        assert_eq!(code, 0, "only looks: {complaint}");
        set(name, back);
    }
    fs::create_dir(place.path("real")).unwrap();
    symlink(place.path("real"), place.path("state")).unwrap();
    std::os::unix::fs::lchown(place.path("state"), Some(65534), None).unwrap();
    let (code, _, complaint) = said(&["--root", &place.text("root"), "run", &config]);
    assert!(code == 2 && complaint.contains("is a link of user 65534"), "{complaint}");
    assert_eq!(fs::read_dir(place.path("real")).unwrap().count(), 0, "nothing was made behind it");
}

#[test]
fn nobody_to_ask_is_a_problem_and_says_where_it_was_looked_for() {
    let place = Place::new(GOOD);
    let socket = place.text("socket");
    for command in [&["status"][..], &["set", "plf", "0.1"], &["pause"], &["resume"]] {
        let arguments = [command, &["--socket", &socket]].concat();
        let (code, text, complaint) = said(&arguments);
        assert_eq!((code, text.as_str()), (1, ""), "{command:?}: {complaint}");
        let why = format!("no wattiod answers on {socket}");
        assert!(complaint.contains(&why) && complaint.contains("is it running"), "{complaint}");
    }
}

#[test]
fn what_cannot_be_set_says_what_can() {
    let (code, _, complaint) = said(&["set", "plff", "0.1"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("\"plff\"") && complaint.contains("plf can"), "{complaint}");
    let (code, _, complaint) = said(&["set", "plf", "much"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("'much'"), "{complaint}");
    let (code, _, complaint) = said(&["set", "plf", "nan"]);
    assert!(code == 2 && complaint.contains("such as 0.1"), "{complaint}");
}

#[test]
fn where_nothing_was_changed_nothing_is_restored() {
    let place = Place::new(GOOD);
    let state = place.text("state");
    let config = place.text("wattiod.toml");
    let root = place.text("root");
    let restore = ["--root", &root, "restore", &config, "--state", &state];
    let (code, text, _) = said(&restore);
    assert!(code == 1 && text.contains("no such folder"), "a mistyped folder: {text}");
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
    let (code, text, complaint) = said(&restore);
    assert_eq!(code, 1, "{text}{complaint}");
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

#[test]
fn a_torn_snapshot_is_not_taken_for_nothing() {
    let place = Place::new(GOOD);
    fs::create_dir(place.path("state")).unwrap();
    fs::write(place.path("state/snapshot.json"), "{\"saved\": [").unwrap();
    let config = place.text("wattiod.toml");
    let (code, text, complaint) =
        said(&["--root", &place.text("root"), "restore", &config, "--state", &place.text("state")]);
    assert_eq!((code, text.as_str()), (1, ""), "{complaint}");
    assert!(complaint.contains("snapshot.json"), "{complaint}");
}

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
}

#[test]
fn shadow_mode_says_that_it_has_no_estimate_and_why_and_leaves_a_report() {
    let place = Place::measured();
    let output = place.observe(&["--duration", "1 s"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("no estimate of the saving, because"), "{text}");
    assert!(text.contains("windows with requests so far, 40 are needed"), "{text}");
    assert!(text.contains("would have changed the setting 0 times"), "{text}");
    let folder = place.result();
    assert!(text.contains(&format!("wattio report {}", folder.display())), "{text}");
    let machine = fs::read_to_string(folder.join("machine.json")).unwrap();
    let machine: Value = serde_json::from_str(&machine).unwrap();
    assert_eq!(machine["mode"], "observe");
    assert!(!json_lines(&folder.join("raw/windows.jsonl")).is_empty());
    assert!(!place.path("state").exists(), "shadow mode saves nothing, as it writes nothing");
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
        let output = place.observe(&["--duration", "2 s"]).output().unwrap();
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
    let running = Running(place.observe(&[]).spawn().unwrap());
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
    let pid = Pid::from_raw(i32::try_from(running.0.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
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
    let running = Running(place.observe(&[]).spawn().unwrap());
    let pid = Pid::from_raw(i32::try_from(running.0.id()).unwrap()).unwrap();
    let socket = place.text("socket");
    let status_with = |said: &str| -> Value {
        let began = Instant::now();
        loop {
            let output = output(&["status", "--json", "--socket", &socket]);
            let status = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
            if !status.is_null() && status["events"].to_string().contains(said) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "{said}: {status}");
            std::thread::yield_now();
        }
    };
    status_with("");
    let (code, _, complaint) = said(&["pause", "--socket", &socket]);
    assert_eq!(code, 0, "{complaint}");
    let good = fs::read_to_string(place.path("wattiod.toml")).unwrap();
    let misfit = good.replace("cores = \"0\"", "cores = \"4000\"");
    for (text, says) in [(misfit, "not reloaded"), (good, "configuration reloaded")] {
        fs::write(place.path("wattiod.toml"), text).unwrap();
        kill_process(pid, Signal::HUP).unwrap();
        assert_eq!(status_with(says)["paused"], true, "{says}");
        let events = fs::read_to_string(place.result().join("raw/events.jsonl")).unwrap();
        assert!(events.contains(says), "{events}");
    }
    kill_process(pid, Signal::QUIT).unwrap();
    assert_eq!(running.end().status.code(), Some(0));
}
