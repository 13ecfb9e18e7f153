//! The files that knobs write, as data: `files.toml`.

use crate::Root;
use crate::machine::Cgroups;
use serde::Deserialize;
use std::sync::LazyLock;
use wattio_governor::Address;

/// One file of the table; its keys are explained there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnobFile {
    /// Which knob writes it.
    pub knob: String,
    /// Its path, with `{device}` or `{cgroup}`, and `*` for any one name.
    pub file: String,
    /// The hierarchy of `{cgroup}`.
    #[serde(default)]
    pub cgroup: Option<Hierarchy>,
    /// The unit of the configuration's value, of `min` and of `max`.
    #[serde(default)]
    pub unit: String,
    /// One step of the file's number, in that unit.
    #[serde(default = "one")]
    pub scale: f64,
    /// The least that the file takes.
    #[serde(default)]
    pub min: f64,
    /// The most that the file takes.
    #[serde(default)]
    pub max: f64,
    /// The words that the file takes, where it takes words.
    #[serde(default)]
    pub values: Vec<String>,
    /// The word that slows or pauses, if there is only one.
    #[serde(default)]
    pub act: Option<String>,
    /// Where the kernel documents it.
    pub source: String,
}

/// Where a control group's file is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hierarchy {
    /// Which controller's.
    pub controller: String,
    /// Which version has this file.
    pub version: u8,
}

fn one() -> f64 {
    1.0
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    file: Vec<KnobFile>,
}

/// Every file that a knob writes by this table.
#[must_use]
pub fn files() -> &'static [KnobFile] {
    static FILES: LazyLock<Vec<KnobFile>> = LazyLock::new(|| {
        // The text is part of the program; a test reads it.
        toml::from_str(include_str!("files.toml")).map_or_else(|_| Vec::new(), |t: Table| t.file)
    });
    &FILES
}

/// The files of one knob, in the order of the table, which is the order of writing.
pub fn files_of(knob: &str) -> impl Iterator<Item = &'static KnobFile> {
    files().iter().filter(move |file| file.knob == knob)
}

impl KnobFile {
    /// The file's own name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }

    /// What to write for a value in the table's unit: in whole steps, within the file's range.
    #[must_use]
    pub fn text(&self, value: f64) -> String {
        // A hundredth of a step is the noise of a conversion such as 0.1 s to 100000 us.
        let steps = (value.clamp(self.min, self.max) / self.scale + 0.01).floor();
        format!("{}", steps.max((self.min / self.scale).ceil()))
    }

    /// Where the file of a device is, if there is one.
    #[must_use]
    pub fn of_device(&self, root: &Root, device: &str) -> Option<Address> {
        let path = found(root, &self.file.replace("{device}", device))?;
        Some(Address::new("file", &path))
    }

    /// Where the file of a control group is, or would be, in a hierarchy of this version.
    #[must_use]
    pub fn of_cgroup(&self, cgroups: &Cgroups, cgroup: &str) -> Option<String> {
        let hierarchy = self.cgroup.as_ref()?;
        let folder = cgroups.folder(&hierarchy.controller, cgroup)?;
        let version = if folder.unified { 2 } else { 1 };
        (version == hierarchy.version).then(|| self.file.replace("{cgroup}", &folder.path))
    }
}

/// The first path there is, with `*` standing for any one name.
fn found(root: &Root, path: &str) -> Option<String> {
    let Some((before, after)) = path.split_once("/*") else {
        return root.exists(path).then(|| path.to_owned());
    };
    root.list(before).iter().find_map(|name| found(root, &format!("{before}/{name}{after}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_is_complete() {
        let table: Table = toml::from_str(include_str!("files.toml")).unwrap();
        assert_eq!(table.file.len(), files().len());
        for file in files() {
            let words = !file.values.is_empty();
            assert!(words || (file.scale > 0.0 && file.min < file.max), "{file:?}");
            assert!(words == file.unit.is_empty(), "{file:?}: a number has a unit");
            assert!(file.act.iter().all(|act| file.values.contains(act)), "{file:?}");
            assert!(!file.source.is_empty(), "{file:?}");
            assert_eq!(file.cgroup.is_some(), file.file.starts_with("{cgroup}"), "{file:?}");
        }
    }

    #[test]
    fn numbers_are_written_in_the_files_own_unit() {
        let file = |knob, name| files_of(knob).find(|file| file.name() == name).unwrap();
        assert_eq!(file("cpu.frequency", "scaling_max_freq").text(2.4e9), "2400000");
        let latency = file("nvme.power", "pm_qos_latency_tolerance_us");
        assert_eq!(latency.text(0.1), "100000");
        assert_eq!(latency.text(-3.0), "0");
        assert_eq!(file("background.weight", "cpu.shares").text(0.3), "2");
    }

    #[test]
    fn a_star_stands_for_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for name in ["a/2:0:0:0", "a/1:0:0:0/x"] {
            std::fs::create_dir_all(root.path(name)).unwrap();
        }
        assert_eq!(found(&root, "/a/*/x").as_deref(), Some("/a/1:0:0:0/x"));
        assert_eq!(found(&root, "/a/*/y"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_within_the_range(value: f64, at in 0usize..99) {
            let numbers: Vec<_> = files().iter().filter(|file| file.values.is_empty()).collect();
            let file = numbers[at % numbers.len()];
            let written: f64 = file.text(value).parse().unwrap();
            if !value.is_nan() {
                let written = written * file.scale;
                prop_assert!((file.min..=file.max * 1.000_001).contains(&written), "{written}");
            }
        }
    }
}
