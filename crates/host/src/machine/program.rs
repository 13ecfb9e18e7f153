//! Running a program: by absolute path, without a shell, with an empty environment, and no longer
//! than its timeout. What it prints to stderr goes to the daemon's.
//!
//! The control loop waits for programs. The programs of one tick share a [`Budget`], so that a
//! hanging program holds up the loop for no longer than one timeout, however often it is called.

use super::error::AccessError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getuid, kill_process_group, pidfd_open, waitpid,
};
use std::cell::Cell;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::Builder;
use std::time::Instant;
use wattio_units::Seconds;

/// The most that is read of what a program prints; a pipe holds no more.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// A program and how it may run.
pub(super) struct Program<'a> {
    /// Absolute path, and arguments.
    pub argv: &'a [String],
    /// The numbers of the user as whom it runs, and of his group.
    pub user: (u32, u32),
    /// Ended when it takes longer, with what it started.
    pub timeout: Seconds,
    /// The time it shares with others.
    pub budget: &'a Budget,
}

/// The time that programs, or settling frequencies, may take together; unlimited at first.
#[derive(Debug, Default)]
pub(super) struct Budget(Cell<Option<Seconds>>);

impl Budget {
    /// From now on they may take this long in total; `None`: each may take its own timeout.
    pub fn set(&self, span: Option<Seconds>) {
        self.0.set(span);
    }

    /// How long a program with this `timeout` may take; `None` if nothing is left.
    pub(super) fn allows(&self, timeout: Seconds) -> Option<Seconds> {
        let left = self.0.get().unwrap_or(timeout);
        (left.0 > 0.0).then_some(if left < timeout { left } else { timeout })
    }

    pub(super) fn spend(&self, span: Seconds) {
        self.0.set(self.0.get().map(|left| left - span));
    }
}

impl Program<'_> {
    /// Runs it to its end; its stdout is discarded.
    pub fn status(&self) -> Result<ExitStatus, AccessError> {
        self.run(Stdio::null()).map(|(status, _)| status)
    }

    /// Its output, if it succeeded. A program that prints more than a pipe holds blocks until its
    /// timeout.
    pub fn output(&self) -> Result<Vec<u8>, AccessError> {
        let (status, stdout) = self.run(Stdio::piped())?;
        if !status.success() {
            return Err(AccessError::refused(format!("{} failed: {status}", self.argv.join(" "))));
        }
        let mut bytes = Vec::new();
        if let Some(stdout) = stdout {
            // It has ended, but a process that it left running may hold the pipe open.
            rustix::io::ioctl_fionbio(&stdout, true).map_err(|error| self.failed(error))?;
            match stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes) {
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => {
                    return Err(self.failed(error));
                }
                _ => {}
            }
        }
        Ok(bytes)
    }

    fn run(&self, stdout: Stdio) -> Result<(ExitStatus, Option<ChildStdout>), AccessError> {
        let Some((program, arguments)) = self.argv.split_first() else {
            return Err(AccessError::refused("has no program"));
        };
        let Some(timeout) = self.budget.allows(self.timeout) else {
            return Err(AccessError::refused(format!(
                "{program} was not started: other programs used up the time of this tick"
            )));
        };
        let began = Instant::now();
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("LC_ALL", "C").current_dir("/").process_group(0);
        command.stdin(Stdio::null()).stdout(stdout);
        let (user, group) = self.user;
        if user != getuid().as_raw() {
            command.uid(user).gid(group);
        }
        let mut child = command.spawn().map_err(|error| self.failed(error))?;
        let ended = ended(&child, timeout);
        self.budget.spend(Seconds(began.elapsed().as_secs_f64()));
        if ended.map_err(|error| self.failed(error))? {
            let status = child.wait().map_err(|error| self.failed(error))?;
            return Ok((status, child.stdout.take()));
        }
        stop(&mut child);
        Err(AccessError::refused(format!("{program} was killed after {timeout}")))
    }

    /// A missing program does not mean that the place is gone.
    fn failed(&self, error: impl std::fmt::Display) -> AccessError {
        let program = self.argv.first().map_or("", String::as_str);
        AccessError::refused(format!("{program}: {error}"))
    }
}

/// Waits until a child has ended; `false` when it did not within the time.
pub(crate) fn ended(child: &Child, timeout: Seconds) -> Result<bool, Errno> {
    let fd = pidfd_open(pid(child).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    let timeout = Timespec { tv_sec: timeout.0 as i64, tv_nsec: (timeout.0.fract() * 1e9) as _ };
    loop {
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// How long a child that was killed is waited for. Within a call to the kernel that no signal
/// interrupts (a command that a drive does not answer) it goes on until that returns, for a minute or
/// more.
const ENDING_MAX: Seconds = Seconds(0.1);

/// Ends a child and what it started.
pub(crate) fn stop(child: &mut Child) {
    if let Some(group) = pid(child) {
        // Fails only when all of them ended by themselves.
        let _ = kill_process_group(group, Signal::KILL);
    }
    // It may have left its group.
    let _ = child.kill();
    leave(child);
}

/// Waits for a child that is to end, but not for long: a thread waits for one that ends later.
fn leave(child: &mut Child) {
    // Where it was waited for before, its number may be another's by now.
    if matches!(child.try_wait(), Ok(Some(_))) {
        return;
    }
    if ended(child, ENDING_MAX).unwrap_or(false) {
        let _ = child.wait();
        return;
    }
    if let Some(pid) = pid(child) {
        let wait = move || {
            let _ = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
        };
        // Without a thread it stays in the kernel's table until this process ends.
        let _ = Builder::new().name("reaper".to_owned()).stack_size(64 << 10).spawn(wait);
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process;

    fn output(script: &str, timeout: f64) -> Result<Vec<u8>, AccessError> {
        let argv = ["/bin/sh", "-c", script].map(str::to_owned);
        let user = (getuid().as_raw(), rustix::process::getgid().as_raw());
        Program { argv: &argv, user, timeout: Seconds(timeout), budget: &Budget::default() }
            .output()
    }

    #[test]
    fn what_a_program_prints_is_read_to_its_end() {
        assert_eq!(output("printf 'a\\0b'", 30.0), Ok(b"a\0b".to_vec()));
        assert_eq!(output(":", 30.0), Ok(Vec::new()));
        assert!(matches!(output("echo a; exit 3", 30.0), Err(AccessError::Refused(_))));
    }

    #[test]
    fn nobody_waits_for_what_a_program_leaves_running() {
        assert_eq!(output("/bin/sleep 5 & echo a", 30.0), Ok(b"a\n".to_vec()));
    }

    /// Where a drive did not answer, the loop waited for the kernel's own timeout: a minute.
    #[test]
    fn nobody_waits_for_a_child_that_does_not_end() {
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        leave(&mut child);
        assert!(matches!(child.try_wait(), Ok(None)), "it runs");
        child.kill().unwrap();
        // Once it has ended, it is gone: somebody waits for it.
        while test_kill_process(pid(&child).unwrap()).is_ok() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_prints_without_end_is_ended() {
        let Err(AccessError::Refused(message)) = output("while :; do echo aaaaaaaa; done", 0.2)
        else {
            panic!()
        };
        assert!(message.contains("killed after"), "{message}");
    }
}
