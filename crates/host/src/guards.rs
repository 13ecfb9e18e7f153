//! Health checks that must pass before power may be saved: complete arrays, and files that report
//! health.

use crate::Root;
use serde::Deserialize;
use wattio_governor::Guard;
use wattio_units::Seconds;

/// A file that says whether the storage is healthy: written by a cluster's own tools or a cron job.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckConfig {
    /// Its path: a plain file on this host. The loop waits for it, so it must not lie on a network.
    pub file: String,
    /// Its content when all is well. Anything else, or a missing file, is a problem.
    pub healthy: String,
}

/// Linux software RAID: full speed while an array lacks a disk.
#[derive(Clone, Debug)]
pub struct MdArrays {
    root: Root,
}

impl MdArrays {
    /// Looks at all arrays under `root`, new ones too.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        Self { root: root.clone() }
    }
}

impl Guard for MdArrays {
    fn problem(&mut self, _: Seconds) -> Option<String> {
        let names = self.root.list("/sys/block");
        let arrays = names.iter().filter(|name| name.starts_with("md"));
        let degraded = |name: &&String| {
            let text = self.root.read(&format!("/sys/block/{name}/md/degraded")).ok()?;
            // An unreadable number must not count as healthy.
            (text.trim() != "0").then(|| format!("array {name} is degraded"))
        };
        arrays.into_iter().find_map(|name| degraded(&name))
    }
}

/// A configured check.
#[derive(Clone, Debug)]
pub struct FileCheck {
    root: Root,
    config: CheckConfig,
}

impl FileCheck {
    /// A check of a file under `root`.
    #[must_use]
    pub fn new(root: &Root, config: &CheckConfig) -> Self {
        Self { root: root.clone(), config: config.clone() }
    }
}

impl Guard for FileCheck {
    fn problem(&mut self, _: Seconds) -> Option<String> {
        let CheckConfig { file, healthy } = &self.config;
        // Opening a pipe would block the loop until somebody writes to it.
        if std::fs::metadata(self.root.path(file)).is_ok_and(|is| !is.is_file()) {
            return Some(format!("{file} is not a plain file"));
        }
        match self.root.read(file) {
            Ok(text) if text.trim() == healthy.trim() => None,
            Ok(text) => {
                let said: String = text.trim().chars().take(80).collect();
                Some(format!("{file} says {said:?}, not {healthy:?}"))
            }
            Err(error) => Some(format!("{file}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_degraded_array_is_trouble_until_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mut guard = MdArrays::new(&root);
        assert_eq!(guard.problem(Seconds(0.0)), None, "a host without arrays");
        fs::create_dir_all(root.path("/sys/block/md0/md")).unwrap();
        for (text, problem) in [("0\n", false), ("1\n", true), ("", true), ("0\n", false)] {
            fs::write(root.path("/sys/block/md0/md/degraded"), text).unwrap();
            assert_eq!(guard.problem(Seconds(0.0)).is_some(), problem, "{text:?}");
        }
    }

    #[test]
    fn a_check_holds_while_its_file_says_the_word() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let config = CheckConfig { file: "/run/health".into(), healthy: "HEALTH_OK".into() };
        let mut guard = FileCheck::new(&root, &config);
        assert!(guard.problem(Seconds(0.0)).unwrap().contains("/run/health"));
        fs::create_dir_all(root.path("/run")).unwrap();
        fs::write(root.path("/run/health"), "HEALTH_OK\n").unwrap();
        assert_eq!(guard.problem(Seconds(0.0)), None);
        fs::write(root.path("/run/health"), "HEALTH_WARN 1 osd down").unwrap();
        assert!(guard.problem(Seconds(0.0)).unwrap().contains("HEALTH_WARN"));
    }

    #[test]
    fn a_pipe_is_trouble_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status();
        assert!(made.unwrap().success());
        let config = CheckConfig { file: "/pipe".into(), healthy: "OK".into() };
        let mut guard = FileCheck::new(&Root::new(folder.path()), &config);
        assert!(guard.problem(Seconds(0.0)).unwrap().contains("not a plain file"));
    }
}
