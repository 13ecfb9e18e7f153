//! `nvme:nvme0`: the power state of an NVMe drive (feature 2), a number as `nvme` takes it.
//!
//! The kernel has no file for it, only the ioctl for admin commands, which `nvme` (nvme-cli) calls.
//! It runs only for the configured drives, as the daemon's own user.
//!
//! An admin command may wake a sleeping drive, so the drive is queried after each write and
//! otherwise once a minute: a change by somebody else may be noticed that much later.

use super::error::AccessError;
use super::program::{Budget, Program};
use super::shell::quoted;
use crate::Root;
use crate::processes;
use crate::{Stopwatch, stopwatch};
use rustix::process::{getgid, getuid};
use std::collections::BTreeMap;
use wattio_units::Seconds;

/// How long `nvme` may take: the loop waits for it.
const TIMEOUT: Seconds = Seconds(5.0);
/// How long an answer is valid.
const ASKED_AGAIN_AFTER: Seconds = Seconds(60.0);
/// The bits of feature 2 that have a meaning: power state and workload hint.
const VALUE_MASK: u32 = 0xff;
/// The power state among them.
const STATE_MASK: u32 = 0x1f;

/// The program that talks to drives, and those that it may talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeTool {
    /// Its absolute path.
    pub program: String,
    /// Controllers by name, `*` for any text.
    pub devices: Vec<String>,
}

/// The drives that may be talked to.
pub(super) struct Drives {
    tools: Vec<NvmeTool>,
    /// Each drive's last answer, and when it came.
    known: BTreeMap<String, (Seconds, String)>,
    clock: Stopwatch,
}

impl std::fmt::Debug for Drives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drives").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl Default for Drives {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Drives {
    pub fn new(tools: Vec<NvmeTool>) -> Self {
        Self { tools, known: BTreeMap::new(), clock: stopwatch() }
    }

    pub fn read(
        &mut self,
        root: &Root,
        device: &str,
        budget: &Budget,
    ) -> Result<String, AccessError> {
        let now = (self.clock)();
        let fresh = |(at, _): &&(Seconds, String)| now - *at < ASKED_AGAIN_AFTER;
        if let Some((_, value)) = self.known.get(device).filter(fresh) {
            return Ok(value.clone());
        }
        let text = self.run(root, device, "get-feature", &["--feature-id=2"], budget)?;
        let value = power_management(&text).map_err(AccessError::refused)?.to_string();
        self.known.insert(device.to_owned(), (now, value.clone()));
        Ok(value)
    }

    pub fn write(
        &mut self,
        root: &Root,
        device: &str,
        value: &str,
        budget: &Budget,
    ) -> Result<(), AccessError> {
        let number = value.parse::<u32>().ok().filter(|number| *number <= VALUE_MASK);
        let Some(number) = number else {
            return Err(AccessError::refused(format!(
                "{value:?} is not a number from 0 to {VALUE_MASK}"
            )));
        };
        self.known.remove(device);
        let value = format!("--value={number}");
        self.run(root, device, "set-feature", &["--feature-id=2", &value], budget).map(|_| ())
    }

    /// The longest that a command may take.
    pub fn timeout(&self) -> Seconds {
        if self.tools.is_empty() { Seconds(0.0) } else { TIMEOUT }
    }

    pub fn restore_command(&self, device: &str, value: &str) -> String {
        let found = self.tools.iter().find(|tool| tool.serves(device));
        let program = found.map_or("nvme", |tool| &tool.program);
        let (device, value) = (format!("/dev/{device}"), format!("--value={value}"));
        let words = [program, "set-feature", &device, "--feature-id=2", &value];
        words.map(quoted).join(" ")
    }

    fn run(
        &self,
        root: &Root,
        device: &str,
        what: &str,
        arguments: &[&str],
        budget: &Budget,
    ) -> Result<String, AccessError> {
        let tool = self.tools.iter().find(|tool| tool.serves(device)).ok_or_else(|| {
            AccessError::refused(format!(
                "the configuration has no nvme.power with a power_state for {device} any more: add \
                 it, or set the state by hand"
            ))
        })?;
        let bytes = tool.run(root, device, what, arguments, budget)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl NvmeTool {
    /// For each power state of a drive, from 0: whether it still takes requests in it.
    ///
    /// # Errors
    /// Says why the drive gives no answer.
    pub(crate) fn operational(&self, root: &Root, device: &str) -> Result<Vec<bool>, String> {
        let told = self.run(root, device, "id-ctrl", &["--raw-binary"], &Budget::default());
        let bytes = told.map_err(|problem| match problem {
            AccessError::Gone => format!("/dev/{device} is not there"),
            AccessError::Busy(message) | AccessError::Refused(message) => message,
        })?;
        operational(&bytes).map_err(|message| format!("{device}: {message}"))
    }

    /// A controller's name only: an edited snapshot must not smuggle in a path.
    fn serves(&self, device: &str) -> bool {
        let digits = device.strip_prefix("nvme").unwrap_or_default();
        !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && self.devices.iter().any(|pattern| processes::matches(pattern, device))
    }

    fn run(
        &self,
        root: &Root,
        device: &str,
        what: &str,
        arguments: &[&str],
        budget: &Budget,
    ) -> Result<Vec<u8>, AccessError> {
        let path = format!("/dev/{device}");
        if !root.exists(&path) {
            return Err(AccessError::Gone);
        }
        let path = root.path(&path).to_string_lossy().into_owned();
        let words = [&*self.program, what, &*path];
        let argv: Vec<_> = words.into_iter().chain(arguments.iter().copied()).collect();
        let argv: Vec<_> = argv.into_iter().map(str::to_owned).collect();
        let user = (getuid().as_raw(), getgid().as_raw());
        Program { argv: &argv, user, timeout: TIMEOUT, budget }.output()
    }
}

/// The value of feature 2 in what `nvme get-feature` prints, such as
/// `get-feature:0x02 (Power Management), Current value:0x00000003`. The number is hexadecimal, with
/// `0x` or without it, as versions differ; lines that explain it may follow.
///
/// # Errors
/// Shows the text that has no such value.
pub fn power_management(text: &str) -> Result<u32, String> {
    let value = text.lines().find_map(|line| {
        let (_, after) = line.split_once("value:").or_else(|| line.split_once("Value:"))?;
        let after = after.trim_start();
        let after = after.strip_prefix("0x").unwrap_or(after);
        let end = after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len());
        u32::from_str_radix(after.get(..end)?, 16).ok()
    });
    let short: String = text.trim().chars().take(120).collect();
    let value = value.ok_or_else(|| format!("nvme get-feature shows no value: {short:?}"))?;
    Ok(value & VALUE_MASK)
}

/// For each power state in what `nvme id-ctrl --raw-binary` prints (the Identify Controller data
/// structure of the NVMe base specification), whether it is an operational one.
///
/// # Errors
/// Says how much of it is missing.
pub fn operational(bytes: &[u8]) -> Result<Vec<bool>, String> {
    /// NPSS: the number of the last power state.
    const LAST_STATE_AT: usize = 263;
    /// Where the descriptors begin; each is of 32 bytes.
    const STATES_AT: usize = 2048;
    const STATE_BYTES: usize = 32;
    /// The byte of a descriptor whose bit 1 says that no request is taken (NOPS).
    const FLAGS_AT: usize = 3;
    let short = || format!("nvme id-ctrl returned {} bytes, 4096 are needed", bytes.len());
    let last = *bytes.get(LAST_STATE_AT).ok_or_else(short)?;
    let states = 0..=usize::from(last).min(STATE_MASK as usize);
    let flags = |state: usize| bytes.get(STATES_AT + state * STATE_BYTES + FLAGS_AT).copied();
    let operational = |state| flags(state).map(|flags| flags & 2 == 0).ok_or_else(short);
    states.map(operational).collect()
}

#[cfg(test)]
mod tests;
