//! The daemon as a process, and a folder for what it reads and writes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getuid, kill_process, pidfd_open};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const GOOD: &str = r#"
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

pub fn output(arguments: &[&str]) -> Output {
    let mut command = wattiod();
    command.args(arguments);
    Running::start(command).end()
}

/// Runs it; returns its exit code, stdout and stderr.
pub fn said(arguments: &[&str]) -> (i32, String, String) {
    let output = output(arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A folder of its own: configuration, socket, state, results.
pub struct Place(TempDir);

impl Place {
    pub fn new(config: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("wattiod.toml"), config).unwrap();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A server that is measured by a command: ten requests of 200 us each tenth of a second.
    pub fn measured() -> Self {
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
cores = "0-1"

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
    pub fn result(&self) -> PathBuf {
        let found: Vec<_> = fs::read_dir(self.path("results/measured"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    }

    /// Governs the tree `root`.
    pub fn run(&self) -> Running {
        let mut command = wattiod();
        command.arg("--root").arg(self.path("root"));
        command.arg("run").arg(self.path("wattiod.toml"));
        Running::start(command)
    }

    pub fn observe(&self, more: &[&str]) -> Running {
        let mut command = wattiod();
        command.arg("observe").arg(self.path("wattiod.toml"));
        command.arg("--out").arg(self.path("results")).args(more);
        Running::start(command)
    }
}

/// The daemon's status, once it has this among its events.
pub fn status_with(socket: &str, said: &str) -> Value {
    let began = Instant::now();
    loop {
        let output = output(&["status", "--json", "--socket", socket]);
        let status = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        if !status.is_null() && status["events"].to_string().contains(said) {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "{said}: {status}");
        std::thread::yield_now();
    }
}

/// The name of the user whose tests these are.
pub fn me() -> String {
    let uid = getuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let mine = users.lines().find(|line| line.split(':').nth(2) == Some(&uid));
    mine.and_then(|line| line.split(':').next()).expect("a user in /etc/passwd").to_owned()
}

/// Ends with the test, also when that fails.
pub struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// What a shell runs.
    pub fn shell(script: &str) -> Self {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script);
        Self::start(command)
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.0.stdout.as_mut().unwrap();
        BufReader::with_capacity(1, stdout).read_line(&mut line).unwrap();
        line
    }

    /// The next line with these words that it prints to stderr.
    pub fn complaint_with(&mut self, words: &str) -> String {
        let stderr = BufReader::with_capacity(1, self.0.stderr.as_mut().unwrap());
        let mut lines = stderr.lines().map(Result::unwrap);
        lines.find(|line| line.contains(words)).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// What it printed, once it has ended, which it must do within [`PATIENCE`].
    pub fn end(mut self) -> Output {
        let process = pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty()).unwrap();
        let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)).unwrap();
        assert!(ended > 0, "it does not end");
        let status = self.0.wait().unwrap();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        self.0.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        Output { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
