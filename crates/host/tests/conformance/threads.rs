//! A process with threads to move about: this binary once more.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

const WORD: &str = "WATTIO_TEST_THREADS";

/// A process whose second thread is pinned to processor 1.
pub struct Threads {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Threads {
    pub fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", "conformance::threads::waits"]);
        let mut child =
            command.env(WORD, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut threads = Self { child, input, output };
        threads.wait_for("ready");
        threads
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it is called, and nothing else is.
    pub fn name(&self) -> String {
        name(self.pid())
    }

    /// What its pinned thread is called.
    pub fn pinned(&self) -> String {
        pinned(self.pid())
    }

    /// Has the main thread start another one, which inherits its mask.
    pub fn bear(&mut self) {
        self.input.write_all(b"bear\n").unwrap();
        self.wait_for("born");
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "ended before it was {word}");
        }
    }
}

fn name(pid: u32) -> String {
    format!("wt-{pid}")
}

fn pinned(pid: u32) -> String {
    format!("pin-{pid}")
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: what [`Threads`] starts.
#[test]
#[ignore = "the process that other tests move about"]
fn waits() {
    if std::env::var_os(WORD).is_none() {
        return;
    }
    std::fs::write("/proc/self/comm", name(std::process::id())).unwrap();
    let start = |pinned_one: bool| {
        let (tell, told) = std::sync::mpsc::channel();
        let name = if pinned_one { pinned(std::process::id()) } else { "free".to_owned() };
        let thread = std::thread::Builder::new().name(name);
        let spawned = thread.spawn(move || {
            if pinned_one {
                let mut one = CpuSet::new();
                one.set(1);
                sched_setaffinity(None, &one).unwrap();
            }
            tell.send(()).unwrap();
            std::thread::park();
        });
        spawned.unwrap();
        told.recv().unwrap();
    };
    start(true);
    start(false);
    println!("ready");
    for _ in std::io::stdin().lines().map_while(Result::ok) {
        start(false);
        println!("born");
    }
}
