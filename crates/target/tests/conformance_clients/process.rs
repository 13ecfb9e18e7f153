//! The target as a process.

use crate::client::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A target that serves one volume.
pub struct Target {
    pub folder: TempDir,
    process: Option<Child>,
    reactors: usize,
    device_depth: usize,
    /// Further arguments of `serve`.
    arguments: Vec<String>,
}

impl Target {
    /// Makes a volume and serves it.
    pub fn start(size: &str, reactors: usize) -> Self {
        Self::start_with(size, reactors, &[])
    }

    /// The same, with further arguments of `serve`.
    pub fn start_with(size: &str, reactors: usize, arguments: &[&str]) -> Self {
        Self::made(size, reactors, &[], arguments)
    }

    /// The same, with further arguments of `create`, too.
    pub fn made(size: &str, reactors: usize, create: &[&str], arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let mut target = Self { folder, process: None, reactors, device_depth: 64, arguments };
        let volume = target.path("volume");
        let made = program()
            .arg("create")
            .arg(&volume)
            .args(["--size", size, "--segment-size", "1MiB"])
            .args(create)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        target.serve();
        target
    }

    /// Serves the volume that is in a folder; its device is given so many operations at once.
    pub fn on(folder: TempDir, device_depth: usize) -> Self {
        let mut target =
            Self { folder, process: None, reactors: 1, device_depth, arguments: Vec::new() };
        target.serve();
        target
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket().display())
    }

    /// Begins to serve, and waits until clients can connect.
    pub fn serve(&mut self) {
        let child = program()
            .arg("serve")
            .arg("--export")
            .arg(self.path("volume"))
            .arg("--unix")
            .arg(self.socket())
            .args(["--reactors", &self.reactors.to_string()])
            .args(["--device-depth", &self.device_depth.to_string()])
            .args(&self.arguments)
            .arg("--control")
            .arg(self.path("control"))
            .spawn();
        let mut child = child.unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while Client::greet(&self.socket()).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "the target has ended");
            assert!(Instant::now() < until, "the target does not listen");
            std::thread::yield_now();
        }
        self.process = Some(child);
    }

    /// What it shows of itself.
    pub fn status(&self) -> serde_json::Value {
        let mut status = program();
        let output = status.args(["status", "--json"]).arg(self.path("control")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// As `kill -9`.
    pub fn kill(&mut self) {
        let mut child = self.process.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// As SIGTERM; the target has to end well.
    pub fn stop(&mut self) {
        self.stop_by(Duration::ZERO);
    }

    /// As SIGTERM, again and again for so long.
    pub fn stop_by(&mut self, span: Duration) {
        let mut child = self.process.take().unwrap();
        let begun = Instant::now();
        terminate(&child);
        while begun.elapsed() < span {
            terminate(&child);
        }
        assert!(child.wait().unwrap().success());
    }

    /// Reads all of the volume, which nobody serves; it has to be whole.
    pub fn check(&self) {
        let output = program().arg("check").arg(self.path("volume")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(child) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The target itself.
pub fn program() -> Command {
    Command::new(Path::new(env!("CARGO_BIN_EXE_wattio-target")))
}

fn terminate(child: &Child) {
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
}
