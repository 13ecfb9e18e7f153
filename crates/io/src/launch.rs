//! Starting writers: a child process of a rank, which is told what to do over its standard input.

use crate::client::thread;
use crate::config::Config;
use crate::connection::START;
use crate::error::{Error, Result, host};
use crate::job::{Account, Answer, Job, Lines};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wattio_files::plain;

/// The program that writes.
pub const PROGRAM: &str = "wattio-io-writer";
/// Where tests say that it lies.
const VARIABLE: &str = "WATTIO_IO_WRITER";

impl Drop for Writer {
    fn drop(&mut self) {
        // One that was never told what to do, or does not answer, has nothing to write.
        if let (false, Some(child)) = (self.told, &mut self.child) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A writer that this rank has started.
#[derive(Debug)]
pub struct Writer {
    child: Option<Child>,
    lines: Lines,
    told: bool,
}

impl Writer {
    /// Start one. It is in a process group of its own: a launcher that kills its ranks lets it write
    /// what they handed over.
    ///
    /// # Errors
    ///
    /// `Host`: what was tried.
    pub fn start(config: &Config, beside: Option<&Path>) -> Result<Self> {
        let (own, its) = UnixStream::pair().map_err(host("a writer cannot be started"))?;
        let mut command = command(config, beside);
        let child = command
            .stdin(Stdio::from(OwnedFd::from(its)))
            .spawn()
            .map_err(|error| not_started(&command, &error))?;
        Ok(Self { child: Some(child), lines: Lines::new(own), told: false })
    }

    /// Tell it what to do; where its clients connect, and where other writers do if it publishes.
    ///
    /// # Errors
    ///
    /// `Input` or `Host`: what the writer says.
    pub fn instruct(&mut self, job: &Job) -> Result<(String, Option<String>)> {
        let died = |error: Error| {
            Error::Host(format!(
                "the writer has died, or does not answer ({error}; see what it printed)"
            ))
        };
        let what = "a writer cannot be waited for";
        self.lines.socket().set_read_timeout(Some(START)).map_err(host(what))?;
        self.lines.say(job).map_err(died)?;
        let answer = self.lines.hear();
        self.lines.socket().set_read_timeout(None).map_err(host(what))?;
        match answer.map_err(died)? {
            Answer::Ready { address, publisher } => {
                self.told = true;
                Ok((address, publisher))
            }
            Answer::Refused { input, text } => Err(refused(input, text)),
        }
    }

    /// Wait until it has written everything, asleep. It lets go of its memory afterwards, and ends, for
    /// which nobody waits.
    ///
    /// # Errors
    ///
    /// `Host` where it has died.
    pub fn wait(mut self) -> Result<Account> {
        let account = self.lines.hear();
        // Once it is told what to do, nothing is left for `drop`.
        self.told = true;
        if let Some(child) = self.child.take() {
            reap(child);
        }
        account.map_err(|_| Error::Host("the writer has died (see what it printed)".to_owned()))
    }
}

/// A writer at a path, which goes on by itself.
#[derive(Debug)]
pub struct PathWriter {
    child: Option<Child>,
    lines: Lines,
    program: String,
}

impl Drop for PathWriter {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            reap(child);
        }
    }
}

/// Let nothing of a process stay in the kernel's table when it has ended. Where there can be no thread, it
/// does until this one ends.
fn reap(mut child: Child) {
    let _ = thread("wattio-io-reap").spawn(move || child.wait());
}

impl PathWriter {
    /// Start one for ranks that meet it there.
    ///
    /// # Errors
    ///
    /// `Host`: what was tried.
    pub fn start(
        path: &Path,
        file: &Path,
        config: &Config,
        ranks: usize,
        beside: Option<&Path>,
    ) -> Result<Self> {
        let (own, its) = UnixStream::pair().map_err(host("a writer cannot be started"))?;
        let mut command = command(config, beside);
        // Whatever the names begin with.
        let mut config = OsString::from("--config=");
        config.push(file);
        command
            .args(["serve", "--started-by-rank", "--ranks", &ranks.to_string()])
            .arg(config)
            .arg("--")
            .arg(path)
            .stdin(Stdio::from(OwnedFd::from(its)));
        let child = command.spawn().map_err(|error| not_started(&command, &error))?;
        let program = command.get_program().to_string_lossy().into_owned();
        // The command holds the writer's end, which would keep this one from seeing its end.
        drop(command);
        Ok(Self { child: Some(child), lines: Lines::new(own), program })
    }

    /// The program that was started.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// End it, with what it has started itself: it serves nobody.
    pub fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Why it has ended, if it says so, or does so, within a time.
    pub fn refusal(&mut self, within: Duration) -> Option<Error> {
        let limit = Timespec::try_from(within).ok();
        let mut polled = [PollFd::new(self.lines.socket(), PollFlags::IN)];
        if matches!(rustix::event::poll(&mut polled, limit.as_ref()), Ok(1..)) {
            match self.lines.hear() {
                Ok(Answer::Refused { input, text }) => {
                    // Gone before anybody is told, who may try again.
                    let _ = self.child.take().map(|mut child| child.wait());
                    return Some(refused(input, text));
                }
                // A program between, as a launcher, may have let go of the line.
                _ => std::thread::sleep(within),
            }
        }
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        Some(Error::Host(format!(
            "the writer has ended with {status} (see what {} printed)",
            self.program
        )))
    }
}

fn refused(input: bool, text: String) -> Error {
    if input { Error::Input(text) } else { Error::Host(text) }
}

fn command(config: &Config, beside: Option<&Path>) -> Command {
    let mut command = Command::new(program(config, beside));
    // Nobody else has a part file open, and some parallel file systems have no locks.
    command.process_group(0).env("HDF5_USE_FILE_LOCKING", "FALSE");
    command
}

fn not_started(command: &Command, error: &std::io::Error) -> Error {
    Error::Host(format!(
        "the writer {} cannot be started: {}; it comes with the library; name it by program = \
         \"/path/to/{PROGRAM}\"",
        command.get_program().to_string_lossy(),
        plain(error)
    ))
}

/// The program: where the configuration says, beside the library, or in `PATH`.
fn program(config: &Config, beside: Option<&Path>) -> PathBuf {
    if let Some(path) = &config.program {
        return path.clone();
    }
    if let Some(path) = std::env::var_os(VARIABLE) {
        return PathBuf::from(path);
    }
    let folders = [".", "../bin", "../../bin"];
    let near = folders.iter().filter_map(|folder| Some(beside?.join(folder).join(PROGRAM)));
    near.into_iter().find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_named_or_found_beside_the_library() {
        let folder = tempfile::tempdir().unwrap();
        let (lib, bin) = (folder.path().join("lib"), folder.path().join("bin"));
        for path in [&lib, &bin] {
            std::fs::create_dir(path).unwrap();
        }
        std::fs::write(bin.join(PROGRAM), "").unwrap();
        let config = Config::default();
        assert_eq!(program(&config, Some(&lib)), lib.join("../bin").join(PROGRAM));
        let named = Config { program: Some(PathBuf::from("/x/writer")), ..config };
        assert_eq!(program(&named, Some(&lib)), Path::new("/x/writer"));
        let told = Writer::start(&named, None).unwrap_err().to_string();
        assert!(told.contains("/x/writer") && told.contains("program ="), "{told}");
    }
}
