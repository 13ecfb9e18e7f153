//! The knobs.
//!
//! A knob has two parts: a `Config` (its table in the daemon's file), which looks at the host once
//! when it is opened and says what is missing, and a struct that implements the governor's trait
//! [`Knob`], which turns a setting into values and writes nothing. Files, units and ranges are in
//! `files.toml`. To add a knob that acts while there are no requests, add its files there and a few
//! lines to `idle.rs`; for one with two values, while saving and at full speed, copy `turbo.rs`;
//! for any other, copy `frequency.rs`. Then list it here and in the table of `docs/wattiod.md`,
//! which a test compares.
//!
//! Open knobs only while the machine is as its operator wants it: after what a crash left behind is
//! restored, and after other knobs have let go.

mod affinity;
mod background;
mod cpuset;
mod endangered;
mod frequency;
mod idle;
mod idle_states;
mod online;
pub mod power_cap;
mod preference;
mod saving_knob;
mod table;
pub mod turbo;
mod uncore;

pub use affinity::AffinityConfig;
pub use background::BackgroundConfig;
pub use cpuset::CpusetConfig;
pub use frequency::FrequencyConfig;
pub use idle::{DiskConfig, NvmeConfig, SataConfig};
pub use idle_states::{IdleStatesConfig, LatencyConfig};
pub use online::OnlineConfig;
pub use power_cap::PowerCapConfig;
pub use preference::{EpbConfig, EppConfig};
pub use table::{Hierarchy, KnobFile, files, files_of};
pub use turbo::TurboConfig;
pub use uncore::UncoreConfig;

use crate::Root;
use crate::groups::Group;
use crate::machine::{CommandConfig, NvmeTool};
use crate::topology::Topology;
use serde::Deserialize;
use thiserror::Error;
use wattio_governor::{Follower, Knob};
use wattio_law::DriveSleep;
use wattio_units::Seconds;

/// One knob of the configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind")]
pub enum KnobConfig {
    /// Keeps each group's `cgroup` on the group's active cores.
    #[serde(rename = "cpu.cpuset")]
    Cpuset(CpusetConfig),
    /// Keeps each group's `processes` on the group's active cores.
    #[serde(rename = "cpu.affinity")]
    Affinity(AffinityConfig),
    /// Which cores are on.
    #[serde(rename = "cpu.online")]
    Online(OnlineConfig),
    /// How fast cores are.
    #[serde(rename = "cpu.frequency")]
    Frequency(FrequencyConfig),
    /// Whether cores may be faster than their nominal frequency.
    #[serde(rename = "cpu.turbo")]
    Turbo(TurboConfig),
    /// What processors that choose their own frequency prefer.
    #[serde(rename = "cpu.epp")]
    Epp(EppConfig),
    /// The same, by the bias of older ones.
    #[serde(rename = "cpu.epb")]
    Epb(EpbConfig),
    /// Which states idle cores of the groups may sleep in.
    #[serde(rename = "cpu.idle")]
    IdleStates(IdleStatesConfig),
    /// How long a processor may take to wake.
    #[serde(rename = "cpu.latency")]
    Latency(LatencyConfig),
    /// How fast what the cores of a socket share is.
    #[serde(rename = "uncore.frequency")]
    Uncore(UncoreConfig),
    /// What a socket may draw.
    #[serde(rename = "power.cap")]
    PowerCap(PowerCapConfig),
    /// How fast background work runs, and whether it runs at all.
    #[serde(rename = "background")]
    Background(BackgroundConfig),
    /// How deeply NVMe drives may sleep while there are no requests.
    #[serde(rename = "nvme.power")]
    Nvme(NvmeConfig),
    /// Whether SCSI and ATA disks stop while there are no requests.
    #[serde(rename = "disk.runtime")]
    Disk(DiskConfig),
    /// Whether SATA links sleep while there are no requests.
    #[serde(rename = "sata.alpm")]
    Sata(SataConfig),
}

/// Why a knob cannot be used on this host.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{knob}: {message}")]
pub struct KnobOpenError {
    knob: &'static str,
    message: String,
}

impl KnobConfig {
    /// Its name: the value of `kind`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cpuset(_) => cpuset::NAME,
            Self::Affinity(_) => affinity::NAME,
            Self::Online(_) => online::NAME,
            Self::Frequency(_) => frequency::NAME,
            Self::Turbo(_) => turbo::NAME,
            Self::Epp(_) => preference::EPP,
            Self::Epb(_) => preference::EPB,
            Self::IdleStates(_) => idle_states::STATES,
            Self::Latency(_) => idle_states::LATENCY,
            Self::Uncore(_) => uncore::NAME,
            Self::PowerCap(_) => power_cap::NAME,
            Self::Background(_) => background::NAME,
            Self::Nvme(_) => idle::NVME,
            Self::Disk(_) => idle::DISK,
            Self::Sata(_) => idle::SATA,
        }
    }

    /// Checks what does not depend on the host.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn check(&self) -> Result<(), KnobOpenError> {
        let checked = match self {
            Self::Online(config) => config.check(),
            Self::IdleStates(config) => config.check(),
            Self::Latency(config) => config.check(),
            Self::Background(config) => config.check(),
            Self::Nvme(config) => config.check(),
            Self::Disk(config) => config.check(),
            Self::Sata(config) => config.check(),
            Self::Cpuset(_)
            | Self::Affinity(_)
            | Self::Frequency(_)
            | Self::Turbo(_)
            | Self::Epp(_)
            | Self::Epb(_)
            | Self::Uncore(_)
            | Self::PowerCap(_) => Ok(()),
        };
        checked.map_err(|message| KnobOpenError { knob: self.name(), message })
    }

    /// Checks that the host has what the knob turns.
    ///
    /// # Errors
    /// [`KnobOpenError`] says what is missing and how to get it.
    pub fn open(
        &self,
        root: &Root,
        topology: &Topology,
        groups: &[Group],
    ) -> Result<Box<dyn Knob>, KnobOpenError> {
        let opened = match self {
            Self::Cpuset(config) => config.open(root, groups),
            Self::Affinity(config) => config.open(root, groups),
            Self::Online(config) => config.open(root, topology, groups),
            Self::Frequency(config) => config.open(root, topology, groups),
            Self::Turbo(config) => config.open(root, topology, groups),
            Self::Epp(config) => config.open(root, topology, groups),
            Self::Epb(config) => config.open(root, topology, groups),
            Self::IdleStates(config) => config.open(root, topology, groups),
            Self::Latency(config) => config.open(root, topology, groups),
            Self::Uncore(config) => config.open(root, topology, groups),
            Self::PowerCap(config) => config.open(root, topology, groups),
            Self::Background(config) => config.open(root),
            Self::Nvme(config) => config.open(root),
            Self::Disk(config) => config.open(root),
            Self::Sata(config) => config.open(root),
        };
        opened.map_err(|message| KnobOpenError { knob: self.name(), message })
    }

    /// As [`Self::open`], for a daemon that starts: what only comes with a service that is down now
    /// is told of in `absent` and found later, so that a daemon may start before what it governs.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_at_start(
        &self,
        root: &Root,
        topology: &Topology,
        groups: &[Group],
        absent: &mut Vec<String>,
    ) -> Result<Box<dyn Knob>, KnobOpenError> {
        let opened = match self {
            Self::Cpuset(config) => config.open_at_start(root, groups, absent),
            Self::Affinity(config) => config.open_at_start(root, groups, absent),
            Self::Background(config) => config.open_at_start(root, absent),
            _ => return self.open(root, topology, groups),
        };
        opened.map_err(|message| KnobOpenError { knob: self.name(), message })
    }

    /// Whether one of it serves all groups, so that two would be at odds.
    #[must_use]
    pub fn serves_all_groups(&self) -> bool {
        match self {
            Self::Cpuset(_)
            | Self::Affinity(_)
            | Self::Online(_)
            | Self::Frequency(_)
            | Self::Turbo(_)
            | Self::Epp(_)
            | Self::Epb(_)
            | Self::IdleStates(_)
            | Self::Latency(_)
            | Self::Uncore(_)
            | Self::PowerCap(_) => true,
            Self::Background(_) | Self::Nvme(_) | Self::Disk(_) | Self::Sata(_) => false,
        }
    }

    /// Whether it only follows the others: the law does not turn it, it acts while they save.
    #[must_use]
    pub fn follows(&self) -> bool {
        match self {
            Self::Turbo(_)
            | Self::Epp(_)
            | Self::Epb(_)
            | Self::IdleStates(_)
            | Self::Latency(_)
            | Self::Uncore(_)
            | Self::PowerCap(_) => true,
            Self::Cpuset(_)
            | Self::Affinity(_)
            | Self::Online(_)
            | Self::Frequency(_)
            | Self::Background(_)
            | Self::Nvme(_)
            | Self::Disk(_)
            | Self::Sata(_) => false,
        }
    }

    /// As the governor ranks it, if it follows.
    #[must_use]
    pub fn follower(&self) -> Option<Follower> {
        let lowers_frequency = matches!(self, Self::Turbo(_));
        self.follows().then(|| Follower { name: self.name(), lowers_frequency })
    }

    /// The commands that the knob may run, for [`crate::LinuxMachine::new`].
    #[must_use]
    pub fn commands(&self) -> &[CommandConfig] {
        match self {
            Self::Background(config) => &config.commands,
            _ => &[],
        }
    }

    /// The drives whose power state the knob may set, for [`crate::LinuxMachine::with_drives`].
    #[must_use]
    pub fn drives(&self) -> Option<NvmeTool> {
        match self {
            Self::Nvme(config) => config.tool(),
            _ => None,
        }
    }
}

/// The host's processors as they are while these knobs act: for [`wattio_law::Limits`].
#[must_use]
pub fn limited(mut topology: Topology, knobs: &[KnobConfig]) -> Topology {
    for knob in knobs {
        if let KnobConfig::Frequency(config) = knob {
            config.limits(&mut topology);
        }
    }
    topology
}

/// Which of the knobs with two values a host has, by name: with their defaults and one group of all
/// processors, whether they open, or what is missing.
#[must_use]
pub fn offered(root: &Root, topology: &Topology) -> Vec<(&'static str, Result<(), String>)> {
    let order = topology.online.iter().collect();
    let all = Group { order, cores_min: 1, ..Group::default() };
    let idle = IdleStatesConfig { saving: None, at_full_speed: Some(Seconds(0.0)) };
    let candidates = [
        KnobConfig::Turbo(TurboConfig::default()),
        KnobConfig::Epp(EppConfig::default()),
        KnobConfig::Epb(EpbConfig::default()),
        KnobConfig::IdleStates(idle),
        KnobConfig::Latency(LatencyConfig { at_full_speed: Seconds(0.0) }),
        KnobConfig::Uncore(UncoreConfig::lowest(root)),
        KnobConfig::PowerCap(PowerCapConfig::lowest(root)),
    ];
    let open = |knob: &KnobConfig| {
        let opened = knob.open(root, topology, std::slice::from_ref(&all));
        opened.map(|_| ()).map_err(|error| error.message)
    };
    candidates.iter().map(|knob| (knob.name(), open(knob))).collect()
}

/// How the drives of these knobs sleep, if there are any: for [`wattio_law::Limits`].
///
/// # Errors
/// [`KnobOpenError`] if a drive does not exist, or a time makes no sense.
pub fn drive_sleep(knobs: &[KnobConfig], root: &Root) -> Result<Option<DriveSleep>, KnobOpenError> {
    let (mut nvme, mut disks, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for knob in knobs {
        let failed = |message| KnobOpenError { knob: knob.name(), message };
        match knob {
            KnobConfig::Nvme(config) => nvme.push(config.resting(root).map_err(failed)?),
            KnobConfig::Disk(config) => disks.push(config.resting(root).map_err(failed)?),
            KnobConfig::Sata(config) => links.push(config.resting(root).map_err(failed)?),
            _ => {}
        }
    }
    Ok(idle::sleep_of(&nvme, &disks, &links))
}

/// A knob that could be opened, or what is missing.
type Opened = Result<Box<dyn Knob>, String>;

/// What becomes of a control group that is not there.
type Absent<'a> = dyn FnMut(String) -> Result<(), String> + 'a;

/// The names in a folder that fit any of the patterns; each fits some.
fn devices(root: &Root, folder: &str, patterns: &[String]) -> Result<Vec<String>, String> {
    let there = root.list(folder);
    let mut found = Vec::new();
    for pattern in patterns {
        let fits = |name: &&String| crate::processes::matches(pattern, name);
        let before = found.len();
        found.extend(there.iter().filter(fits).cloned());
        if found.len() == before {
            let there = if there.is_empty() { "nothing".to_owned() } else { there.join(", ") };
            return Err(format!("no device {pattern:?} in {folder}, which has {there}"));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind with the keys that it needs.
    const KNOBS: &[(&str, &str)] = &[
        ("kind = 'cpu.cpuset'", "cpu.cpuset"),
        ("kind = 'cpu.affinity'", "cpu.affinity"),
        ("kind = 'cpu.online'\naccept_hotplug = true", "cpu.online"),
        ("kind = 'cpu.frequency'", "cpu.frequency"),
        ("kind = 'cpu.frequency'\nminimum = '1.2 GHz'", "cpu.frequency"),
        ("kind = 'cpu.turbo'\naccept_others = true", "cpu.turbo"),
        ("kind = 'cpu.epp'\nsaving = 'power'", "cpu.epp"),
        ("kind = 'cpu.epb'\nat_full_speed = 0", "cpu.epb"),
        ("kind = 'cpu.idle'\nsaving = '1 ms'\nat_full_speed = '10 us'", "cpu.idle"),
        ("kind = 'cpu.latency'\nat_full_speed = '0 s'", "cpu.latency"),
        ("kind = 'uncore.frequency'\nmaximum = '1.6 GHz'", "uncore.frequency"),
        ("kind = 'power.cap'\nlimit = '90 W'\nhwmon = 'amd_hsmp_hwmon'", "power.cap"),
        ("kind = 'background'\nmd = ['md0']", "background"),
        ("kind = 'nvme.power'\ndevices = ['nvme0']\nlatency = '50 ms'", "nvme.power"),
        ("kind = 'nvme.power'\ndevices = ['nvme0']\npower_state = 3", "nvme.power"),
        ("kind = 'disk.runtime'\ndevices = ['sd*']\nafter = '10 min'", "disk.runtime"),
        ("kind = 'sata.alpm'\ndevices = ['host*']\npolicy = 'medium_power'", "sata.alpm"),
    ];

    #[test]
    fn every_kind_has_the_name_it_is_configured_by() {
        for (text, name) in KNOBS {
            let config: KnobConfig = toml::from_str(text).unwrap();
            assert_eq!(config.name(), *name);
            let with_more = format!("{text}\nsurprise = 1");
            assert!(toml::from_str::<KnobConfig>(&with_more).is_err(), "{with_more}");
        }
    }

    /// The doctor says of each whether the host has it; of the others it looks at the host itself.
    #[test]
    fn every_knob_that_follows_the_law_is_offered() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let file = root.path("/sys/devices/system/cpu/present");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "0").unwrap();
        let offered = offered(&root, &Topology::read(&root).unwrap());
        for kind in kinds() {
            let (text, _) = KNOBS.iter().find(|(_, name)| *name == kind).expect(&kind);
            let config: KnobConfig = toml::from_str(text).unwrap();
            let is_offered = offered.iter().any(|(name, _)| *name == kind);
            assert_eq!(is_offered, config.follows(), "{kind}");
        }
    }

    /// The kinds that the configuration takes, by what it says of one that it does not.
    fn kinds() -> Vec<String> {
        let said = toml::from_str::<KnobConfig>("kind = ''").unwrap_err().to_string();
        let (_, listed) = said.split_once("expected one of ").unwrap();
        listed.trim().split(", ").map(|kind| kind.trim_matches('`').to_owned()).collect()
    }

    /// The rows of the guide's table of knobs: kind, and the other cells.
    fn rows() -> Vec<(String, Vec<String>)> {
        let guide = include_str!("../../../../docs/wattiod.md");
        let (_, table) = guide.split_once("| knob | writes | needs | risk | run on |").unwrap();
        let row = |line: &str| {
            let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::to_owned).collect();
            let kind = cells[0].split('`').nth(1).unwrap().to_owned();
            (kind, cells[1..].to_vec())
        };
        table.lines().skip(2).take_while(|line| line.starts_with('|')).map(row).collect()
    }

    #[test]
    fn the_guide_has_every_knob_and_every_file_that_it_writes() {
        let (kinds, rows) = (kinds(), rows());
        let mut told: Vec<_> = rows.iter().map(|(kind, _)| kind.clone()).collect();
        told.dedup();
        let sorted = |mut kinds: Vec<String>| {
            kinds.sort();
            kinds
        };
        assert_eq!(sorted(told), sorted(kinds));
        for file in files() {
            let name = file.name().trim_start_matches('*');
            let of_knob = |(kind, _): &&(String, _)| {
                file.knob.split('.').eq(kind.split('.'))
                    || file.knob.starts_with(&format!("{kind}."))
            };
            let is_told = rows.iter().filter(of_knob).any(|(_, cells)| cells[0].contains(name));
            assert!(is_told, "{} writes {name}", file.knob);
        }
    }

    /// The conformance on the machine that it runs on (`here.rs`) is run in the guest too.
    #[test]
    fn the_guide_says_what_each_knob_was_run_on() {
        let here = include_str!("../../tests/conformance/here.rs");
        for (kind, cells) in rows() {
            let run_on: Vec<_> = cells[3].trim().split(", ").collect();
            assert!(
                run_on.iter().all(|on| ["tree", "guest", "machine"].contains(on)),
                "{run_on:?}"
            );
            assert_eq!(run_on[0], "tree", "{kind}");
            let turned = here.contains(&format!("kind = '{kind}'"));
            assert_eq!(run_on.len() > 1, turned, "{kind}: {run_on:?}");
        }
    }
}
