//! `command:NAME`: background work that pauses and resumes by a pair of commands, such as a ZFS
//! scrub or Ceph's `noscrub`. The value is `running` or `paused`.
//!
//! Only commands of the configuration run: by absolute path, without a shell, as the user named
//! there, with an empty environment, and no longer than their timeout. What they print to stderr
//! goes to the daemon's. Both must do no harm when run twice: a restore after a crash, which does
//! not know how far the daemon came, runs `resume` once more.

use super::{Trouble, quoted};
use crate::Root;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getuid, kill_process_group, pidfd_open};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use thiserror::Error;
use wattio_units::Seconds;

/// The work goes on.
pub const RUNNING: &str = "running";
/// The work stands still.
pub const PAUSED: &str = "paused";
/// The longest that a command may take: the loop waits for it.
const TIMEOUT_S_MAX: f64 = 60.0;

/// Two commands that pause and resume a piece of background work.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// What it is called in messages and snapshots: `scrub`.
    pub name: String,
    /// Program with absolute path, and its arguments.
    pub pause: Vec<String>,
    /// The same for going on.
    pub resume: Vec<String>,
    /// Tells by its exit code whether the work is paused (0) or running (1). Without it the work
    /// counts as running when the daemon starts, and a pause by others goes unseen.
    #[serde(default)]
    pub is_paused: Option<Vec<String>>,
    /// The user in `/etc/passwd` as whom they run.
    pub user: String,
    /// How long each may take, by default 5 s, at most 60 s.
    #[serde(default = "timeout_default")]
    pub timeout: Seconds,
}

fn timeout_default() -> Seconds {
    Seconds(5.0)
}

/// Why a command is not allowed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("command {name:?}: {message}")]
pub struct CommandError {
    name: String,
    message: String,
}

/// The commands that may run.
#[derive(Debug, Default)]
pub(super) struct Commands(BTreeMap<String, Pair>);

/// One pair with what is known of it.
#[derive(Debug)]
struct Pair {
    config: CommandConfig,
    user: (u32, u32),
    /// What was last brought about by this process.
    state: Option<&'static str>,
}

impl Commands {
    pub(super) fn new(root: &Root, configs: &[CommandConfig]) -> Result<Self, CommandError> {
        let mut pairs = BTreeMap::new();
        for config in configs {
            let error = |message| CommandError { name: config.name.clone(), message };
            let user = check(root, config).map_err(error)?;
            let pair = Pair { config: config.clone(), user, state: None };
            if pairs.insert(config.name.clone(), pair).is_some() {
                return Err(error("the name is used twice".to_owned()));
            }
        }
        Ok(Self(pairs))
    }

    fn pair(&mut self, name: &str) -> Result<&mut Pair, Trouble> {
        self.0.get_mut(name).ok_or_else(|| {
            Trouble::refused(format!(
                "the configuration has no command {name:?} any more: add it, or resume by hand"
            ))
        })
    }

    pub(super) fn read(&mut self, name: &str) -> Result<String, Trouble> {
        let pair = self.pair(name)?;
        let Some(argv) = &pair.config.is_paused else {
            return Ok(pair.state.unwrap_or(RUNNING).to_owned());
        };
        match pair.run(argv)?.code() {
            Some(0) => Ok(PAUSED.to_owned()),
            Some(1) => Ok(RUNNING.to_owned()),
            code => Err(Trouble::refused(format!(
                "is_paused ended with {code:?} instead of 0 (paused) or 1 (running)"
            ))),
        }
    }

    pub(super) fn write(&mut self, name: &str, value: &str) -> Result<(), Trouble> {
        let pair = self.pair(name)?;
        let (argv, state) = match value {
            PAUSED => (&pair.config.pause, PAUSED),
            RUNNING => (&pair.config.resume, RUNNING),
            _ => {
                return Err(Trouble::refused(format!(
                    "{value:?} is neither {RUNNING} nor {PAUSED}"
                )));
            }
        };
        let status = pair.run(argv)?;
        if !status.success() {
            return Err(Trouble::refused(format!("{} failed: {status}", argv.join(" "))));
        }
        pair.state = Some(state);
        Ok(())
    }

    /// Nothing is the same as a state that nobody knows: a restore after a crash must write.
    pub(super) fn same(&self, name: &str, one: &str, other: &str) -> bool {
        let unknown = |pair: &Pair| pair.config.is_paused.is_none() && pair.state.is_none();
        one == other && !self.0.get(name).is_some_and(unknown)
    }

    pub(super) fn mend(&self, name: &str, value: &str) -> String {
        let Some(Pair { config, .. }) = self.0.get(name) else {
            return format!("# bring {} back to {value}", quoted(name));
        };
        let argv = if value == PAUSED { &config.pause } else { &config.resume };
        argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

impl Pair {
    fn run(&self, argv: &[String]) -> Result<ExitStatus, Trouble> {
        let Some((program, arguments)) = argv.split_first() else {
            return Err(Trouble::refused("has no program"));
        };
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("LC_ALL", "C").current_dir("/").process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let (user, group) = self.user;
        if user != getuid().as_raw() {
            command.uid(user).gid(group);
        }
        let failed = |error: &std::io::Error| {
            // A program that is not there is no place that is gone.
            Trouble::refused(format!("{program}: {error}"))
        };
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        if ended(&child, self.config.timeout).map_err(|error| failed(&error.into()))? {
            return child.wait().map_err(|error| failed(&error));
        }
        stop(&mut child);
        let timeout = self.config.timeout;
        Err(Trouble::refused(format!("{program} was ended after {timeout}")))
    }
}

/// Waits until a child has ended; `false` when it did not within the time.
pub(crate) fn ended(child: &Child, timeout: Seconds) -> Result<bool, Errno> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let fd = pidfd_open(pid, PidfdFlags::empty())?;
    let timeout = Timespec { tv_sec: timeout.0 as i64, tv_nsec: (timeout.0.fract() * 1e9) as _ };
    loop {
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Ends a child and what it started.
fn stop(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        // Fails only when all of them ended by themselves.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// Whether a command may be allowed; its user's numbers if so.
fn check(root: &Root, config: &CommandConfig) -> Result<(u32, u32), String> {
    if config.name.is_empty() || config.name.contains(|c: char| c.is_control()) {
        return Err("needs a name".to_owned());
    }
    let named = [("pause", Some(&config.pause)), ("resume", Some(&config.resume))];
    for (key, argv) in named.into_iter().chain([("is_paused", config.is_paused.as_ref())]) {
        let Some(argv) = argv else { continue };
        if !argv.first().is_some_and(|program| program.starts_with('/')) {
            return Err(format!(
                "{key} = {argv:?} must begin with the program's absolute path, such as \
                 [\"/usr/sbin/zpool\", \"scrub\", \"-p\", \"tank\"]"
            ));
        }
    }
    if !(config.timeout.0 > 0.0 && config.timeout.0 <= TIMEOUT_S_MAX) {
        return Err(format!("timeout {} is not between 0 s and {TIMEOUT_S_MAX} s", config.timeout));
    }
    let users = root.read("/etc/passwd").unwrap_or_default();
    user(&users, &config.user)
        .ok_or_else(|| format!("user {:?} is not in /etc/passwd", config.user))
}

/// The numbers of a user and of his group in the text of `/etc/passwd`.
pub(crate) fn user(users: &str, name: &str) -> Option<(u32, u32)> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
