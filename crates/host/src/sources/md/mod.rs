//! The progress of arrays' resync and check, from `/sys/block/mdN/md/`.
//!
//! `sync_completed` moves in steps of up to a sixteenth of the array; between them `sync_speed`,
//! which is the kernel's mean of the last half minute, carries the position on.
//!
//! A whole pass is due at the speed that it has while nothing slows it; that speed is learned while
//! `sync_speed_max` is as it was found. A rebuild onto a new disk (`recover`) is never postponed:
//! while one runs, nothing is reported, and the law leaves all background work alone.
//!
//! Nothing reports how many core-seconds a pass takes. The law compares work only with work, so the
//! unit cancels: here 1 GiB of a member disk counts as a core-second.

#[cfg(test)]
mod tests;
mod text;

pub use text::{Action, action, completed, speed};

use crate::Root;
use serde::Deserialize;
use std::io::ErrorKind;
use wattio_governor::{BackgroundSource, SourceError};
use wattio_law::BackgroundObservation;
use wattio_units::Seconds;

/// The name of the work.
const CLASS: &str = "md";
/// Sectors of 512 bytes that stand for a core-second: 1 GiB.
const SECTORS_PER_CORE_S: f64 = 2_097_152.0;
/// The kernel's speeds are in KiB/s.
const SECTORS_PER_KIB: f64 = 2.0;
/// The kernel's mean speed covers this long.
const SPEED_SPAN: Seconds = Seconds(30.0);
/// The table `kind = "md"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The RAID arrays. Allowed: a list of names as in `/proc/mdstat`, such as `["md0"]`; the same
    /// ones as in the knob `background`.
    pub devices: Vec<String>,
}

/// The source.
#[derive(Debug)]
pub struct Md {
    name: String,
    root: Root,
    arrays: Vec<Array>,
}

#[derive(Debug)]
struct Array {
    device: String,
    /// `sync_speed_max` as it was found, in KiB/s.
    limit_full: f64,
    pass: Option<Pass>,
}

/// What is known of a running pass.
#[derive(Clone, Copy, Debug)]
struct Pass {
    at: Seconds,
    /// As the kernel told last, in sectors.
    completed: u64,
    all: u64,
    /// Where it is likely to be, in sectors.
    position: f64,
    /// When the limit was last seen lowered.
    slowed_at: Option<Seconds>,
    /// KiB/s while nothing slowed it.
    speed_full: Option<f64>,
}

/// The state of an array.
enum ArrayState {
    Idle,
    Recovering,
    Pass(Reading),
}

#[derive(Clone, Copy)]
struct Reading {
    completed: u64,
    all: u64,
    speed: f64,
    limit: f64,
}

impl Md {
    /// Reads the limits before any of our knobs lowers them.
    ///
    /// # Errors
    /// When an array does not exist or never resyncs.
    pub fn open(config: &Config, root: &Root) -> Result<Self, SourceError> {
        let name = format!("md {}", config.devices.join(" "));
        let refused = |message: String| SourceError::new(&name, message);
        let there = || {
            let all = root.list("/sys/block").into_iter();
            let arrays: Vec<_> =
                all.filter(|device| root.exists(&file(device, "sync_action"))).collect();
            if arrays.is_empty() { "none".to_owned() } else { arrays.join(", ") }
        };
        if config.devices.is_empty() {
            return Err(refused(format!("devices is empty; arrays that resync: {}", there())));
        }
        let mut arrays = Vec::new();
        for (at, device) in config.devices.iter().enumerate() {
            let plain = !device.is_empty() && !device.contains('/') && !device.starts_with('.');
            if !plain || !root.exists(&file(device, "sync_action")) {
                let there = there();
                return Err(refused(format!(
                    "{device:?} is not an array that resyncs; there are: {there}"
                )));
            }
            if config.devices.iter().take(at).any(|other| other == device) {
                return Err(refused(format!("{device} is named twice; name it once")));
            }
            let limit_full = match read(root, device, "sync_speed_max", speed) {
                Ok(Some(Some(limit))) => limit,
                Ok(_) => return Err(refused(format!("{device} has no sync_speed_max"))),
                Err(message) => return Err(refused(message)),
            };
            arrays.push(Array { device: device.clone(), limit_full, pass: None });
        }
        Ok(Self { name, root: root.clone(), arrays })
    }
}

impl BackgroundSource for Md {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Vec<BackgroundObservation>, SourceError> {
        let mut sum = None::<BackgroundObservation>;
        let mut recovers = false;
        for array in &mut self.arrays {
            let state =
                array.read(&self.root).map_err(|message| SourceError::new(&self.name, message))?;
            let ArrayState::Pass(reading) = state else {
                recovers |= matches!(state, ArrayState::Recovering);
                array.pass = None;
                continue;
            };
            let Some(more) = array.window(now, reading) else { continue };
            let before = sum.get_or_insert(BackgroundObservation {
                class: CLASS.into(),
                done_core_s: 0.0,
                due_core_s: 0.0,
                backlog_core_s: 0.0,
                urgency: None,
            });
            before.done_core_s += more.done_core_s;
            before.due_core_s += more.due_core_s;
            before.backlog_core_s += more.backlog_core_s;
        }
        Ok(sum.filter(|_| !recovers).into_iter().collect())
    }
}

impl Array {
    /// A stopped array has nothing to report.
    fn read(&self, root: &Root) -> Result<ArrayState, String> {
        let device = &self.device;
        match read(root, device, "sync_action", action)? {
            Some(Action::Recovers) => return Ok(ArrayState::Recovering),
            Some(Action::Works) => {}
            None | Some(Action::Rests) => return Ok(ArrayState::Idle),
        }
        let completed = read(root, device, "sync_completed", completed)?.flatten();
        let moves = read(root, device, "sync_speed", speed)?.flatten();
        let limit = read(root, device, "sync_speed_max", speed)?.flatten();
        let Some((((completed, all), speed), limit)) = completed.zip(moves).zip(limit) else {
            return Ok(ArrayState::Idle);
        };
        Ok(ArrayState::Pass(Reading { completed, all, speed, limit }))
    }

    /// What was done since the last reading; `None` for the first of a pass, and where its speed
    /// is not known yet.
    fn window(&mut self, now: Seconds, reading: Reading) -> Option<BackgroundObservation> {
        let Reading { completed, all, speed, limit } = reading;
        let slowed = limit < self.limit_full;
        // If sectors go back, it is another pass.
        let same = |pass: &Pass| pass.all == all && pass.completed <= completed;
        let Some(last) = self.pass.filter(same) else {
            let speed_full = (!slowed && speed > 0.0).then_some(speed);
            self.pass = Some(Pass {
                at: now,
                completed,
                all,
                position: completed as f64,
                slowed_at: slowed.then_some(now),
                speed_full,
            });
            return None;
        };
        let span = (now - last.at).0.max(0.0);
        let moved = last.position + speed * SECTORS_PER_KIB * span;
        let position = moved.clamp(completed as f64, all as f64);
        let slowed_at = if slowed { Some(now) } else { last.slowed_at };
        let free = slowed_at.is_none_or(|at| now - at >= SPEED_SPAN);
        let speed_full = if free && speed > 0.0 { Some(speed) } else { last.speed_full };
        self.pass = Some(Pass { at: now, completed, all, position, slowed_at, speed_full });
        // Not seen at full speed yet: as much faster as the limit was lowered.
        let rate = speed_full.unwrap_or(speed * (self.limit_full / limit.max(1.0)).max(1.0));
        if rate <= 0.0 || span <= 0.0 {
            return None;
        }
        let offered = rate * SECTORS_PER_KIB * span;
        let backlog = (all as f64 - position).max(0.0);
        Some(BackgroundObservation {
            class: CLASS.into(),
            done_core_s: (position - last.position).max(0.0) / SECTORS_PER_CORE_S,
            due_core_s: offered / SECTORS_PER_CORE_S,
            backlog_core_s: backlog / SECTORS_PER_CORE_S,
            urgency: None,
        })
    }
}

fn file(device: &str, name: &str) -> String {
    format!("/sys/block/{device}/md/{name}")
}

/// What a file of an array says; `None` if the array is gone.
fn read<T>(
    root: &Root,
    device: &str,
    name: &str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let path = file(device, name);
    match root.read(&path) {
        Ok(text) => parse(&text).map(Some).map_err(|message| format!("{path}: {message}")),
        // The file of an array that is being stopped answers ENODEV.
        Err(error) if error.kind() == ErrorKind::NotFound || is_no_device(&error) => Ok(None),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

fn is_no_device(error: &std::io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::NODEV)
}
