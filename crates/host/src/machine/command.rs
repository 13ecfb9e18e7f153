//! `command:NAME`: background work that a pair of commands pauses and resumes, such as a ZFS scrub
//! or Ceph's `noscrub`. The value is `running` or `paused`.
//!
//! Only commands of the configuration run: by absolute path, without a shell, as the user named
//! there, with an empty environment, and no longer than their timeout. What they print to stderr
//! goes to the daemon's. Running either command twice must do no harm: a restore after a crash
//! cannot know how far the daemon got, and runs `resume` again.

use super::error::AccessError;
use super::program::{Budget, Program};
use super::shell::quoted;
use crate::Root;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::process::ExitStatus;
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
    /// The name of the work in messages and snapshots, such as `scrub`. Allowed: any text that is
    /// not empty; unique.
    pub name: String,
    /// The program that pauses the work, and its arguments. Allowed: a list that begins with the
    /// program's absolute path.
    pub pause: Vec<String>,
    /// The program that resumes the work, and its arguments. Allowed: as for `pause`.
    pub resume: Vec<String>,
    /// A program whose exit code reports whether the work is paused (0) or running (1). Default:
    /// none: the work counts as running when the daemon starts, and pauses by others go unnoticed.
    /// Allowed: as for `pause`.
    #[serde(default)]
    pub is_paused: Option<Vec<String>>,
    /// The user that these commands run as. Allowed: a user in `/etc/passwd`.
    pub user: String,
    /// How long each command may take. Default: `"5 s"`. Allowed: above 0 s, up to 1 min.
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

/// One pair and its known state.
#[derive(Debug)]
struct Pair {
    config: CommandConfig,
    user: (u32, u32),
    /// The state last set by this process.
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

    /// The longest that one of them may take.
    pub(super) fn timeout(&self) -> Seconds {
        let timeouts = self.0.values().map(|pair| pair.config.timeout.0);
        Seconds(timeouts.fold(0.0, f64::max))
    }

    fn pair(&mut self, name: &str) -> Result<&mut Pair, AccessError> {
        self.0.get_mut(name).ok_or_else(|| {
            AccessError::refused(format!(
                "the configuration has no command {name:?} any more: add it, or resume by hand"
            ))
        })
    }

    pub(super) fn read(&mut self, name: &str, budget: &Budget) -> Result<String, AccessError> {
        let pair = self.pair(name)?;
        let Some(argv) = &pair.config.is_paused else {
            return Ok(pair.state.unwrap_or(RUNNING).to_owned());
        };
        match pair.run(argv, budget)?.code() {
            Some(0) => Ok(PAUSED.to_owned()),
            Some(1) => Ok(RUNNING.to_owned()),
            code => Err(AccessError::refused(format!(
                "is_paused ended with {code:?} instead of 0 (paused) or 1 (running)"
            ))),
        }
    }

    pub(super) fn write(
        &mut self,
        name: &str,
        value: &str,
        budget: &Budget,
    ) -> Result<(), AccessError> {
        let pair = self.pair(name)?;
        let (argv, state) = match value {
            PAUSED => (&pair.config.pause, PAUSED),
            RUNNING => (&pair.config.resume, RUNNING),
            _ => {
                return Err(AccessError::refused(format!(
                    "{value:?} is neither {RUNNING} nor {PAUSED}"
                )));
            }
        };
        let status = pair.run(argv, budget)?;
        if !status.success() {
            return Err(AccessError::refused(format!("{} failed: {status}", argv.join(" "))));
        }
        pair.state = Some(state);
        Ok(())
    }

    /// An unknown state equals nothing: a restore after a crash must write.
    pub(super) fn same(&self, name: &str, one: &str, other: &str) -> bool {
        let unknown = |pair: &Pair| pair.config.is_paused.is_none() && pair.state.is_none();
        one == other && !self.0.get(name).is_some_and(unknown)
    }

    pub(super) fn restore_command(&self, name: &str, value: &str) -> String {
        let Some(Pair { config, .. }) = self.0.get(name) else {
            return format!("# bring {} back to {value}", quoted(name));
        };
        let argv = if value == PAUSED { &config.pause } else { &config.resume };
        argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

impl Pair {
    fn run(&self, argv: &[String], budget: &Budget) -> Result<ExitStatus, AccessError> {
        Program { argv, user: self.user, timeout: self.config.timeout, budget }.status()
    }
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
mod tests;
