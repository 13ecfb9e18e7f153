//! Facts about the machine and a run, for results.

use crate::Root;
use serde_json::{Value, json};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use wattio_governor::Clock;

/// What a program knows of its run.
#[derive(Clone, Debug)]
pub struct RunFacts<'a> {
    /// The program, and its version.
    pub program: (&'a str, &'a str),
    /// `observe` (acts on nothing) or `run`.
    pub mode: &'a str,
    /// Name of the configuration.
    pub name: &'a str,
    /// The law.
    pub policy: &'a str,
    /// Name, cores (as the kernel writes lists: `0-7,16`) and fewest cores of each group.
    pub groups: Vec<(&'a str, String, u32)>,
    /// The configuration's file.
    pub config_file: &'a Path,
    /// What else the command line said of how it governs.
    pub options: Vec<String>,
}

impl RunFacts<'_> {
    /// What a result says of where and how it was made.
    #[must_use]
    pub fn describe(&self, root: &Root, clock: &dyn Clock) -> Value {
        let file = |path: &str| root.read(path).ok().map(|text| text.trim().to_owned());
        let processor = file("/proc/cpuinfo").and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?.to_owned();
            line.split_once(':').map(|(_, name)| name.trim().to_owned())
        });
        let groups = self.groups.iter().map(|(name, cores, cores_min)| {
            json!({"name": name, "cores": cores, "cores_min": cores_min})
        });
        json!({
            "kind": "governor",
            "mode": self.mode,
            "program": self.program.0,
            "version": self.program.1,
            "name": self.name,
            "policy": self.policy,
            "groups": groups.collect::<Vec<_>>(),
            "kernel": file("/proc/sys/kernel/osrelease"),
            "processor": processor,
            "hostname": file("/proc/sys/kernel/hostname"),
            "boot_id": file("/proc/sys/kernel/random/boot_id"),
            "config_file": self.config_file,
            "options": self.options,
            "started_utc": utc(clock.utc_ns()),
            "started_utc_ns": clock.utc_ns(),
            "started_monotonic_ns": clock.now().as_nanos() as u64,
        })
    }
}

/// The name of a result folder: UTC time and a short hash of the configuration.
#[must_use]
pub fn stamp(utc_ns: u64, config: &str) -> String {
    let mut hasher = DefaultHasher::new();
    config.hash(&mut hasher);
    let time: String = utc(utc_ns).chars().filter(|c| !"-:".contains(*c)).collect();
    format!("{time}-{:07x}", hasher.finish() & 0x0fff_ffff)
}

/// The number of a group of `/etc/group`, given by name or number.
///
/// # Errors
/// What is wrong, where there is no such group.
pub fn group_id(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = fs::read_to_string("/etc/group").map_err(|error| format!("/etc/group: {error}"))?;
    let mut fields = text.lines().map(|line| line.split(':'));
    let found = fields.find_map(|mut fields| {
        (fields.next() == Some(name))
            .then(|| fields.nth(1).and_then(|id| id.parse().ok()))
            .flatten()
    });
    found.ok_or_else(|| {
        format!("there is no group {name:?}; make it with: groupadd --system {name}")
    })
}

/// `2026-01-02T03:04:05Z`.
#[must_use]
pub fn utc(utc_ns: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_nanos(utc_ns);
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_time_and_hash() {
        let stamp = stamp(951_782_400_000_000_000, "x");
        assert!(stamp.starts_with("20000229T000000Z-"), "{stamp}");
        assert_eq!(stamp.len(), 24);
    }

    #[test]
    fn groups_are_found_by_name_or_number() {
        assert_eq!(group_id("root"), Ok(0));
        assert_eq!(group_id("17"), Ok(17));
        assert!(group_id("no-such-group").unwrap_err().contains("groupadd"));
    }
}
