//! The keeper: a process beside a daemon that acts. It puts everything back where the daemon cannot
//! any more, because something killed it, or stopped it by a signal while it held the host back.
//!
//! It is this program itself, as `wattiod restore --after PID`: it waits for the daemon's end, and
//! then restores as an operator would. Each of the two starts nothing without the other knowing: the
//! daemon ends its keeper once everything is back, and starts another where somebody killed it.

use crate::log::log;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal, setsid};
use rustix::thread::set_name;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use wattio_governor::Severity;
use wattio_host::{Root, hold, processes};

/// What `ps` and `/proc/PID/comm` call it.
const NAME: &CStr = c"wattiod-keeper";
/// How often it looks whether the daemon is stopped. Its end it is told of at once.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
/// How many looks in a row have to find the daemon stopped. What stops it for a moment, or stops the
/// keeper too (a virtual machine that is paused), gives no two of them.
const LOOKS_STOPPED: u32 = 2;

/// The keeper of this process. It ends when this is dropped.
#[derive(Debug)]
pub struct Keeper {
    command: Command,
    /// `None` if it ended and could not be started again.
    child: Option<Child>,
}

impl Keeper {
    /// Starts the keeper of a daemon with this configuration and this folder of old values.
    ///
    /// # Errors
    /// When the system starts no process.
    pub fn start(config: &Path, state: &Path, root: &Root) -> io::Result<Self> {
        // This very program, even after a package replaced its file.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("wattiod");
        command.arg("--root").arg(root.path("/")).arg("restore").arg(config);
        command.arg("--state").arg(state);
        command.arg("--after").arg(std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn()?;
        Ok(Self { command, child: Some(child) })
    }

    /// Starts it again where it ended. What is to be told, if so.
    pub fn look(&mut self) -> Option<String> {
        let ended = self.child.as_mut()?.try_wait().transpose()?;
        let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        match self.command.spawn() {
            Ok(child) => {
                self.child = Some(child);
                Some(format!("the keeper ended ({how}) and was started again"))
            }
            Err(error) => {
                self.child = None;
                Some(format!(
                    "the keeper ended ({how}) and cannot be started again: {error}; after a kill, \
                     run wattiod restore"
                ))
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // If it has ended by itself, there is nothing to do.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Whether a process is a keeper.
#[must_use]
pub fn is_one(pid: u32) -> bool {
    let name = processes::name(&Root::default(), pid);
    name.is_some_and(|name| name.as_bytes() == NAME.to_bytes())
}

/// What a keeper does first: waits until its daemon has ended. One that is stopped while it holds
/// something is ended.
///
/// # Errors
/// When the system does not tell of the process.
pub fn wait_for_end(daemon: u32, state: &Path) -> io::Result<()> {
    // A session of its own: what ends the daemon's terminal, or all of its group, does not end it.
    let _ = setsid();
    let _ = set_name(NAME);
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let Some(pid) = i32::try_from(daemon).ok().and_then(Pid::from_raw) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // Orphaned already: the number may be another process's by now.
    if getppid() != Some(pid) {
        return Ok(());
    }
    let mut stopped = 0;
    loop {
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&LOOK_EVERY)) {
            Ok(0) => {}
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let is_stopped =
            processes::process_stat(&Root::default(), daemon).is_some_and(|stat| stat.stopped);
        stopped = if is_stopped && hold::is_held(state) { stopped + 1 } else { 0 };
        if stopped == LOOKS_STOPPED {
            let message = format!(
                "process {daemon} is stopped by a signal while it holds this host back: it is \
                 ended, and everything is put back"
            );
            log(Severity::Warning, &message);
            pidfd_send_signal(&process, Signal::KILL)?;
        }
    }
}
