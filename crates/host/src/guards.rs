//! Health checks that must pass before power may be saved: complete arrays, processors whose power
//! nobody else limits, and files that report health.

use crate::Root;
use crate::kept_files::KeptFiles;
use crate::knobs::power_cap::{chip_limits, package_limits, watts};
use serde::Deserialize;
use wattio_governor::Guard;
use wattio_units::{Seconds, Watts};

/// A file that says whether the storage is healthy: written by a cluster's own tools or a cron job.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckConfig {
    /// A file that shows whether the storage is healthy. It must not be on a network file system,
    /// because reading it holds up the control loop. Allowed: the absolute path of a plain file.
    pub file: String,
    /// The file's content when all is well. Any other content, or a missing file, means full speed.
    /// Allowed: any text; surrounding blanks and line breaks are ignored.
    pub healthy: String,
}

/// How often new arrays are looked for: a host of a hundred disks has a long list of devices, and
/// whoever assembles an array watches it for longer than that.
const ARRAYS_LOOKED_FOR_EVERY: Seconds = Seconds(5.0);

/// Linux software RAID: full speed while an array lacks a disk.
#[derive(Debug)]
pub struct MdArrays {
    files: KeptFiles,
    /// The arrays there are, with the file of each that tells how many disks it lacks.
    arrays: Vec<(String, String)>,
    /// When they were looked for.
    looked: Option<Seconds>,
}

impl MdArrays {
    /// Looks at all arrays under `root`, new ones too.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        Self { files: KeptFiles::new(root), arrays: Vec::new(), looked: None }
    }

    fn look_for_new(&mut self, now: Seconds) {
        let due = |looked: Seconds| now - looked >= ARRAYS_LOOKED_FOR_EVERY;
        if self.looked.is_some_and(|looked| !due(looked)) {
            return;
        }
        self.looked = Some(now);
        let names = self.files.root().list("/sys/block").into_iter();
        let arrays = names.filter(|name| name.starts_with("md"));
        let place = |name: String| (format!("/sys/block/{name}/md/degraded"), name);
        self.arrays = arrays.map(place).map(|(path, name)| (name, path)).collect();
    }
}

impl Guard for MdArrays {
    fn problem(&mut self, now: Seconds) -> Option<String> {
        self.look_for_new(now);
        let files = &mut self.files;
        self.arrays.iter().find_map(|(name, path)| {
            let text = files.read(path).ok()?;
            // An unreadable number must not count as healthy.
            (text.trim() != "0").then(|| format!("array {name} is degraded"))
        })
    }
}

/// RAPL's limits and the caps of hwmon chips: full speed while somebody else holds a processor
/// package below the limit that was found, as then full speed is not what it was, and a latency says nothing of it.
#[derive(Debug)]
pub struct PowerLimits {
    files: KeptFiles,
    limits: Vec<Limit>,
    /// What the knob `power.cap` sets.
    own: Option<Watts>,
}

/// A limit as it was found.
#[derive(Debug)]
struct Limit {
    name: String,
    path: String,
    found: Watts,
}

/// By which share two limits may differ and be the same: RAPL rounds to its own units.
const LIMIT_TOLERANCE: f64 = 0.01;

impl PowerLimits {
    /// Looks at all packages and chips under `root`, and takes for granted what it finds and what our own knob
    /// sets.
    #[must_use]
    pub fn new(root: &Root, own: Option<Watts>) -> Self {
        let packages = package_limits(root).into_iter();
        let packages = packages.map(|limit| (limit.now(root), limit.name, limit.path));
        let chips = chip_limits(root).into_iter();
        let chips = chips.map(|limit| (limit.now(root), limit.name, limit.path));
        // A limit of 0 is none.
        let stands = |(found, name, path): (Option<Watts>, _, _)| {
            let found = found.filter(|found| *found > Watts(0.0))?;
            Some(Limit { name, path, found })
        };
        let limits = packages.chain(chips).filter_map(stands).collect();
        Self { files: KeptFiles::new(root), limits, own }
    }
}

impl Guard for PowerLimits {
    fn problem(&mut self, _: Seconds) -> Option<String> {
        let own = self.own;
        self.limits.iter().find_map(|limit| {
            // What cannot be read limits nobody: the module was unloaded.
            let now = watts(&self.files.read(&limit.path).ok()?)?;
            let is = |expected: Watts| (now.0 - expected.0).abs() <= LIMIT_TOLERANCE * expected.0;
            let lowered = now < limit.found && !is(limit.found) && !own.is_some_and(is);
            (lowered && now > Watts(0.0)).then(|| {
                let Limit { name, found, .. } = limit;
                format!("somebody limits {name} to {now}; it was {found}")
            })
        })
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
            assert_eq!(guard.problem(Seconds(5.0)).is_some(), problem, "{text:?}");
        }
    }

    /// The list of a host's devices was read in every window, for arrays that come once in a year.
    #[test]
    fn new_arrays_are_found_within_seconds_and_known_ones_looked_at_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let array = |name: &str, degraded: &str| {
            let place = root.path(&format!("/sys/block/{name}/md"));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("degraded"), degraded).unwrap();
        };
        array("md0", "0");
        let mut guard = MdArrays::new(&root);
        assert_eq!(guard.problem(Seconds(100.0)), None);
        array("md1", "1");
        assert_eq!(guard.problem(Seconds(100.5)), None, "not looked for");
        let md1 = Some("array md1 is degraded".to_owned());
        assert_eq!(guard.problem(Seconds(105.0)), md1);
        array("md0", "1");
        let md0 = Some("array md0 is degraded".to_owned());
        assert_eq!(guard.problem(Seconds(105.5)), md0, "a known one, at once");
        fs::remove_dir_all(root.path("/sys/block/md0")).unwrap();
        assert_eq!(guard.problem(Seconds(106.0)), md1, "one that is gone lacks nothing");
    }

    #[test]
    fn a_limit_of_somebody_else_is_trouble_and_ours_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(
            PowerLimits::new(&root, None).problem(Seconds(0.0)),
            None,
            "a host without RAPL"
        );
        let zone = "/sys/class/powercap/intel-rapl:0";
        fs::create_dir_all(root.path(zone)).unwrap();
        let limit = format!("{zone}/constraint_0_power_limit_uw");
        for (file, text) in [("name", "package-0"), ("constraint_0_name", "long_term")] {
            fs::write(root.path(&format!("{zone}/{file}")), text).unwrap();
        }
        fs::write(root.path(&limit), "150000000").unwrap();
        let mut guard = PowerLimits::new(&root, Some(Watts(90.0)));
        for (text, problem) in [
            ("150000000", false),
            ("89875000", false),
            ("60000000", true),
            ("200000000", false),
            ("0", false),
            ("150000000", false),
        ] {
            fs::write(root.path(&limit), text).unwrap();
            assert_eq!(guard.problem(Seconds(0.0)).is_some(), problem, "{text}");
        }
        fs::write(root.path(&limit), "60000000").unwrap();
        let told = guard.problem(Seconds(0.0)).unwrap();
        assert_eq!(told, "somebody limits package-0 to 60 W; it was 150 W");
        fs::remove_dir_all(root.path(zone)).unwrap();
        assert_eq!(guard.problem(Seconds(0.0)), None);
    }

    #[test]
    fn a_chips_cap_that_somebody_lowers_is_trouble_and_a_graphics_cards_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let cap = |chip: u32| root.path(&format!("/sys/class/hwmon/hwmon{chip}/power1_cap"));
        for (chip, name, class) in
            [(0, "amd_hsmp_hwmon", None), (1, "amdgpu", Some("0x030000")), (2, "power_meter", None)]
        {
            let folder = cap(chip).parent().unwrap().to_owned();
            fs::create_dir_all(folder.join("device")).unwrap();
            fs::write(folder.join("name"), name).unwrap();
            if let Some(class) = class {
                fs::write(folder.join("device/class"), class).unwrap();
            }
            fs::write(cap(chip), "225000000").unwrap();
        }
        let mut guard = PowerLimits::new(&root, Some(Watts(150.0)));
        fs::write(cap(0), "150000000").unwrap();
        fs::write(cap(1), "100000000").unwrap();
        fs::write(cap(2), "100000000").unwrap();
        assert_eq!(guard.problem(Seconds(0.0)), None, "our own, a card's, the host's");
        fs::write(cap(0), "120000000").unwrap();
        let told = guard.problem(Seconds(0.0)).unwrap();
        assert_eq!(told, "somebody limits amd_hsmp_hwmon/power1 to 120 W; it was 225 W");
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
