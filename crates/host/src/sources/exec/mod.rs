//! Latency, utilisation or power from a command that measures: it prints one JSON object per line,
//! see [`line::Line`], and runs as long as the daemon. A line reports on the time since the
//! previous line, or, if it has totals, since the server started.
//!
//! The command runs without a shell, as the named user, in its own process group, which is killed
//! at the end. If it ends by itself, it is started again, after 1 s at first and 60 s at most. An
//! invalid line is an error until a valid one follows. If the same command is named for latency and
//! for utilisation, it runs twice.

mod child;
pub mod line;

use super::differences::Differences;
use super::polled::Slot;
use crate::Root;
use crate::Stopwatch;
use crate::machine::command::user;
use crate::verdict::counted;
use child::{BackOff, Output, listen};
use line::Problem;
use rustix::process::getuid;
use serde::Deserialize;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use wattio_governor::{CpuSource, Cpus, GroupUse, LatencySample, LatencySource, SourceError};
use wattio_units::Seconds;

pub(super) const BACK_OFF: BackOff =
    BackOff { first: Duration::from_secs(1), most: Duration::from_secs(60) };
/// A line on utilisation holds for two windows, but at least for this long.
const LINE_AGE_MIN: Seconds = Seconds(2.0);

/// The table `kind = "exec"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The program and its arguments. It runs without a shell. Allowed: a list that begins with the
    /// program's absolute path.
    pub command: Vec<String>,
    /// The user that the command runs as. Allowed: a user in `/etc/passwd`.
    pub user: String,
}

impl Config {
    pub(super) fn name(&self) -> String {
        format!("exec {}", self.command.first().map_or("", String::as_str))
    }

    pub(super) fn build(&self, root: &Root) -> Result<Command, SourceError> {
        let refused = |message: String| Err(SourceError::new(self.name(), message));
        let Some((program, arguments)) =
            self.command.split_first().filter(|(program, _)| program.starts_with('/'))
        else {
            return refused(format!(
                "command = {:?} must begin with the program's absolute path",
                self.command
            ));
        };
        let users = root.read("/etc/passwd").unwrap_or_default();
        let Some((user, group)) = user(&users, &self.user) else {
            return refused(format!("user {:?} is not in /etc/passwd", self.user));
        };
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("LC_ALL", "C").current_dir("/").stdin(Stdio::null()).process_group(0);
        if user != getuid().as_raw() {
            command.uid(user).gid(group);
        }
        Ok(command)
    }
}

/// A thread that reads the command, and what it read last.
pub(super) struct Listener<T> {
    heard: Arc<Mutex<T>>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl<T> Listener<T> {
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default + Send + 'static> Listener<T> {
    /// `read` makes something of a line, or of what is wrong with it or the command, which it says
    /// again; `post` puts that into the slot.
    pub(super) fn start<L: 'static>(
        name: &str,
        command: Command,
        back_off: BackOff,
        mut read: impl FnMut(Result<line::Line, String>) -> Result<L, Problem> + Send + 'static,
        mut post: impl FnMut(&mut T, Result<L, SourceError>) + Send + 'static,
    ) -> Result<Self, SourceError> {
        let failed = |error| SourceError::new(name, format!("cannot listen: {error}"));
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let heard = Arc::new(Mutex::new(T::default()));
        let (slot, source_name) = (Arc::clone(&heard), name.to_owned());
        let mut wrong_lines = 0u64;
        let handle = move |heard| {
            let said = match heard {
                Output::Line(text) => read(line::parse(&text)).map_err(|problem| match problem {
                    Problem::Line(why) => {
                        wrong_lines += 1;
                        let text: String = text.chars().take(200).collect();
                        let lines = counted(wrong_lines, "line");
                        format!("{lines} made no sense so far; {text:?}: {why}")
                    }
                    Problem::Server(why) => why,
                }),
                Output::Failure(why) => read(Err(why)).map_err(|problem| match problem {
                    Problem::Line(why) | Problem::Server(why) => why,
                }),
            };
            let makes_sense = said.is_ok();
            let said = said.map_err(|why| SourceError::new(&source_name, why));
            post(&mut slot.lock().unwrap_or_else(PoisonError::into_inner), said);
            makes_sense
        };
        let run = move || listen(command, back_off, &stopped, handle);
        let thread = Builder::new().name("exec".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { heard, stop: Some(stop), thread: Some(thread) })
    }
}

impl<T> Drop for Listener<T> {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

/// Latency from a command.
pub struct ExecLatency {
    name: String,
    stopwatch: Stopwatch,
    listener: Listener<Slot>,
}

impl ExecLatency {
    /// Starts the command.
    ///
    /// # Errors
    /// When the configuration makes no sense. A command that ends is started again.
    pub fn open(config: &Config, root: &Root, stopwatch: Stopwatch) -> Result<Self, SourceError> {
        Self::start(config, root, stopwatch, BACK_OFF)
    }

    fn start(
        config: &Config,
        root: &Root,
        stopwatch: Stopwatch,
        back_off: BackOff,
    ) -> Result<Self, SourceError> {
        let (name, clock) = (config.name(), stopwatch.clone());
        let command = config.build(root)?;
        let mut differences = Differences::new(&name);
        let read = move |line: Result<line::Line, String>| match line {
            Ok(line) => line.sample(clock(), &mut differences),
            Err(why) => {
                differences.restart();
                Err(why.into())
            }
        };
        let listener = Listener::start(&name, command, back_off, read, Slot::post)?;
        Ok(Self { name, stopwatch, listener })
    }
}

impl LatencySource for ExecLatency {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        self.listener.lock().fetch(now, (self.stopwatch)())
    }
}

/// The utilisation reported since the governor last asked.
#[derive(Debug, Default)]
struct UseSlot {
    at: Option<Seconds>,
    lines: f64,
    sum: Vec<GroupUse>,
    last: Vec<GroupUse>,
    error: Option<SourceError>,
}

impl UseSlot {
    fn post(&mut self, said: Result<(Seconds, Vec<GroupUse>), SourceError>) {
        let (at, uses) = match said {
            Ok(said) => said,
            Err(error) => return self.error = Some(error),
        };
        if self.sum.len() == uses.len() {
            for (sum, group) in self.sum.iter_mut().zip(&uses) {
                sum.utilisation_clients += group.utilisation_clients;
                sum.utilisation_background += group.utilisation_background;
                // The queue now, not at the first line.
                sum.queued = group.queued;
            }
            self.lines += 1.0;
        } else {
            (self.sum, self.lines) = (uses, 1.0);
        }
        (self.at, self.error) = (Some(at), None);
    }

    /// The mean of the lines since the last call; without any, the previous result.
    fn fetch(&mut self) -> Vec<GroupUse> {
        if !self.sum.is_empty() {
            let lines = self.lines;
            let mean = |group: GroupUse| GroupUse {
                utilisation_clients: group.utilisation_clients / lines,
                utilisation_background: group.utilisation_background / lines,
                ..group
            };
            self.last = std::mem::take(&mut self.sum).into_iter().map(mean).collect();
        }
        self.last.clone()
    }
}

/// Utilisation from a command.
pub struct ExecCpu {
    name: String,
    stopwatch: Stopwatch,
    age_max: Seconds,
    listener: Listener<UseSlot>,
}

impl ExecCpu {
    /// Starts the command.
    ///
    /// # Errors
    /// When the configuration makes no sense. A command that ends is started again.
    pub fn open(
        config: &Config,
        root: &Root,
        period: Seconds,
        stopwatch: Stopwatch,
    ) -> Result<Self, SourceError> {
        let (name, clock) = (config.name(), stopwatch.clone());
        let command = config.build(root)?;
        let read = move |line: Result<line::Line, String>| Ok((clock(), line?.uses()?));
        let listener = Listener::start(&name, command, BACK_OFF, read, UseSlot::post)?;
        let age_max = Seconds((period.0 * 2.0).max(LINE_AGE_MIN.0));
        Ok(Self { name, stopwatch, age_max, listener })
    }
}

impl CpuSource for ExecCpu {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, _: Seconds, active: &[Cpus]) -> Result<Vec<GroupUse>, SourceError> {
        let now = (self.stopwatch)();
        let mut told = self.listener.lock();
        if let Some(error) = &told.error {
            return Err(error.clone());
        }
        let retry = |message| Err(SourceError::new(&self.name, message));
        match told.at {
            None => return retry("has printed no line yet".to_owned()),
            Some(at) if now - at > self.age_max => {
                return retry(format!("has printed no line for {}", now - at));
            }
            Some(_) => {}
        }
        let uses = told.fetch();
        if uses.len() == active.len() {
            return Ok(uses);
        }
        let (told, groups) = (uses.len(), active.len());
        retry(format!("utilisation has {told} entries, and there are {groups} groups of cores"))
    }
}

#[cfg(test)]
mod tests;
