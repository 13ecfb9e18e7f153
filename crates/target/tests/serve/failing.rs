//! A device that cannot be written any more, or has lost what it held, under the target as a process:
//! a file in memory, which is sealed.

use crate::client::Client;
use crate::{FLUSH, MIB, PATIENCE, SIZE, TRIM, has_ring, number, pattern};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;
use tempfile::TempDir;
use wattio_nbd::Errno;
use wattio_target::create::{Plan, make};
use wattio_target::resize::grow;
use wattio_volume::{Compression, OpenOptions};

/// The target on a file in memory.
struct Serving {
    folder: TempDir,
    device: OwnedFd,
    process: Child,
    log: Receiver<String>,
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wattio-target"))
}

impl Serving {
    fn start() -> Option<Self> {
        Self::of_size(SIZE)
    }

    /// With a volume that is larger than its device, if that is more than it was made with.
    fn of_size(bytes: u64) -> Option<Self> {
        if !has_ring() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let device = memfd_create("disk", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        // This process has it open, by whose number the target finds it.
        let path = format!("/proc/{}/fd/{}", std::process::id(), device.as_raw_fd());
        let devices = vec![PathBuf::from(path)];
        make(&Plan {
            devices: devices.clone(),
            size_bytes: Some(SIZE),
            segment_bytes: 256 << 10,
            spare_share: None,
            compression: Compression::None,
            is_forced: false,
        })
        .unwrap();
        let options = OpenOptions { map_bytes_max: MIB, accept_missing: false, accept_loss: false };
        if bytes > SIZE {
            grow(&devices, bytes, true, &options).unwrap();
        }
        let mut process = program()
            .arg("serve")
            .arg("--export")
            .arg(&devices[0])
            .arg("--unix")
            .arg(folder.path().join("socket"))
            .arg("--control")
            .arg(folder.path().join("control"))
            .args(["--write-buffer", "0B", "--cache", "0B"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap());
        let (line, log) = channel();
        // Until it ends, or nobody listens any more.
        std::thread::spawn(move || {
            said.lines().map_while(Result::ok).try_for_each(|one| line.send(one))
        });
        let mut serving = Self { folder, device, process, log };
        serving.tells("serving");
        Some(serving)
    }

    fn client(&self) -> Client {
        Client::connect(&self.folder.path().join("socket"), "").unwrap()
    }

    /// Waits for a line of the log.
    fn tells(&mut self, what: &str) {
        let mut before = Vec::new();
        let until = Instant::now() + PATIENCE;
        loop {
            match self.log.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(what) => return,
                Ok(line) => before.push(line),
                Err(error) => panic!("without {what:?}: {error}: {before:#?}"),
            }
        }
    }

    /// Ends it in order: its exit code.
    fn stop(&mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Only who asked for the status was told, and at the end it said "closed".
#[test]
fn a_volume_that_cannot_be_written_is_told_of_at_once_and_at_the_end() {
    let Some(mut serving) = Serving::start() else { return };
    let mut client = serving.client();
    let bytes = pattern(1, MIB as usize);
    assert_eq!(client.write_at(0, &bytes, 0).unwrap(), 0);
    client.flush();
    fcntl_add_seals(&serving.device, SealFlags::WRITE).unwrap();
    assert_eq!(client.write_at(MIB, &[1; 4096], 0).unwrap(), number(Errno::Io));
    assert_eq!(client.simple(FLUSH, 0, 0, 0).unwrap(), number(Errno::Io));
    assert!(client.read_at(0, MIB as u32) == bytes, "it is read as before");
    serving.tells(
        "error: the default export: nothing can be written any more: a record could not be written",
    );
    assert_eq!(serving.stop(), Some(1));
    serving.tells("not closed: the default export (a record could not be written");
}

/// It was a number in the status, if somebody asked for that before the next tour.
#[test]
fn damage_that_the_scrub_cannot_repair_is_logged() {
    let Some(mut serving) = Serving::start() else { return };
    let mut client = serving.client();
    let block = pattern(2, 4096);
    assert_eq!(client.write_at(0, &block, 0).unwrap(), 0);
    client.flush();
    let device = std::fs::File::from(serving.device.try_clone().unwrap());
    let mut all = vec![0; device.metadata().unwrap().len() as usize];
    device.read_exact_at(&mut all, 0).unwrap();
    let at = all.chunks(4096).position(|one| one == block).unwrap();
    device.write_all_at(&[0xa5], at as u64 * 4096).unwrap();
    let asked = program().arg("scrub").arg(serving.folder.path().join("control")).output().unwrap();
    assert!(asked.status.success(), "{asked:?}");
    assert_eq!(asked.stdout, b"reads everything of the default export\n");
    serving.tells(
        "warning: the default export: the scrub has found 1 damaged block that no device has",
    );
    assert_eq!(serving.stop(), Some(0));
}

/// Clients got ENOSPC, and whoever looked after the target was told by nothing that it was full.
#[test]
fn a_full_volume_is_told_of_and_takes_more_after_a_trim() {
    let Some(mut serving) = Serving::of_size(2 * SIZE) else { return };
    let mut client = serving.client();
    let bytes = pattern(3, MIB as usize);
    let written = (0..2 * SIZE / MIB).map(|at| client.write_at(at * MIB, &bytes, 0).unwrap());
    let answers: Vec<u32> = written.collect();
    let full = number(Errno::NoSpace);
    let held = answers.iter().position(|&answer| answer == full).unwrap() as u64;
    assert!(held * MIB >= SIZE && answers[..held as usize].iter().all(|&answer| answer == 0));
    serving.tells("warning: the default export: its devices are full, and a write was refused");
    let status = program().arg("status").arg(serving.folder.path().join("control")).output();
    let status = String::from_utf8(status.unwrap().stdout).unwrap();
    let refused = answers.iter().filter(|&&answer| answer == full).count();
    for told in ["(its devices hold ", &format!("    {refused} write")] {
        assert!(status.contains(told), "{told}: {status}");
    }
    assert_eq!(client.write_at(0, &bytes, 0).unwrap(), 0, "what is there may be overwritten");
    assert_eq!(client.simple(TRIM, 0, 0, MIB as u32).unwrap(), 0);
    assert_eq!(client.write_at(held * MIB, &bytes, 0).unwrap(), 0);
    for at in 0..=held {
        let expected = if at == 0 { vec![0; MIB as usize] } else { bytes.clone() };
        assert!(client.read_at(at * MIB, MIB as u32) == expected, "{at}");
    }
    assert_eq!(serving.stop(), Some(0));
}
