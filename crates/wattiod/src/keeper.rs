//! The keeper: a process beside a daemon that acts. It restores everything if the daemon no longer
//! can, because something killed it, or stopped it by a signal while it held the host back.
//!
//! It is this program itself, run as `wattiod restore --after PID`: it waits for the daemon to end,
//! and then restores as an operator would. The daemon ends its keeper once everything is restored,
//! and starts another if somebody killed it.

use crate::log::log;
use crate::pulse::{MISSED_AFTER, Pulse};
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
use wattio_host::{Root, processes, takeover};

/// What `ps` and `/proc/PID/comm` call it.
const NAME: &CStr = c"wattiod-keeper";
/// How often it looks whether a daemon is stopped that does not tell otherwise by its pulse. Its end it is
/// told of at once.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
/// How many looks in a row have to find the daemon stopped. What stops it for a moment, or stops the
/// keeper too (a virtual machine that is paused), gives no two of them.
const LOOKS_STOPPED: u32 = 2;

/// How soon a daemon that is stopped while it holds the host back is ended.
const ENDED_WITHIN_NS: i64 = 2_000_000_000;
const _: () = {
    let looks_ns = LOOKS_STOPPED as i64 * nanoseconds(LOOK_EVERY);
    assert!(nanoseconds(MISSED_AFTER) + looks_ns < ENDED_WITHIN_NS);
};

const fn nanoseconds(span: Timespec) -> i64 {
    span.tv_sec * 1_000_000_000 + span.tv_nsec
}

/// The keeper of this process. It ends when this is dropped.
#[derive(Debug)]
pub struct Keeper {
    command: Command,
    /// `None` if it ended and could not be started again.
    child: Option<Child>,
    pulse: Pulse,
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
        let pulse = Pulse::start()?;
        command.stdin(pulse.to_give()?).stdout(Stdio::null());
        let child = command.spawn()?;
        Ok(Self { command, child: Some(child), pulse })
    }

    /// Lets it know that this process is at work.
    pub fn beat(&self) {
        self.pulse.beat();
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
    let pulse = Pulse::given();
    let mut looks = Looks::default();
    let mut wait = Some(LOOK_EVERY);
    loop {
        let mut events: Vec<_> = vec![PollFd::new(&process, PollFlags::IN)];
        if wait.is_none() {
            events.extend(pulse.as_ref().map(|pulse| PollFd::new(pulse, PollFlags::IN)));
        }
        match poll(&mut events, wait.as_ref()) {
            Ok(_) if events.first().is_some_and(|end| !end.revents().is_empty()) => return Ok(()),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let is_stopped =
            processes::process_stat(&Root::default(), daemon).is_some_and(|stat| stat.stopped);
        let is_stopped = is_stopped && takeover::is_held(state);
        if looks.too_many(is_stopped) {
            let message = format!(
                "process {daemon} is stopped by a signal while it holds this host back: it is \
                 ended, and everything is put back"
            );
            log(Severity::Warning, &message);
            pidfd_send_signal(&process, Signal::KILL)?;
        }
        wait = looks.next(pulse.as_ref().is_some_and(Pulse::beats));
    }
}

/// The looks in a row that found the daemon stopped.
#[derive(Debug, Default)]
struct Looks(u32);

impl Looks {
    /// Takes in a look; whether these are too many now.
    fn too_many(&mut self, is_stopped: bool) -> bool {
        self.0 = if is_stopped { self.0 + 1 } else { 0 };
        self.0 == LOOKS_STOPPED
    }

    /// How long to wait for the next look; `None`: until a beat is missed.
    fn next(&self, has_pulse: bool) -> Option<Timespec> {
        (self.0 > 0 || !has_pulse).then_some(LOOK_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keeper looked at its daemon twice a second, which took a quarter of what the daemon did.
    #[test]
    fn a_daemon_with_a_pulse_is_not_looked_at() {
        let mut looks = Looks::default();
        assert!(!looks.too_many(false));
        assert_eq!(looks.next(true), None);
        assert_eq!(looks.next(false), Some(LOOK_EVERY), "it is at work for longer, or stopped");
    }

    #[test]
    fn a_stop_is_told_from_a_moment_by_a_second_look() {
        let mut looks = Looks::default();
        assert!(!looks.too_many(true));
        assert_eq!(looks.next(true), Some(LOOK_EVERY), "whatever the pulse says");
        assert!(!looks.too_many(false), "it goes on");
        assert!(!looks.too_many(true), "and stops again: the first look of two");
        assert!(looks.too_many(true));
        assert_eq!(looks.next(false), Some(LOOK_EVERY), "for its end");
    }
}
