//! `background`: how fast background work runs, and whether it runs at all.
//!
//! The law budgets work whose progress is reported (`[background] kind = "md"`). Nothing reports
//! the progress of other work, so `pace_while_saving` says how much it is slowed while the law
//! saves.
//!
//! A knob can only slow down work that runs by itself. It expresses the budget as a share of the
//! rate at which work becomes due: the pace. At 1 everything stays as it was found. Below 1, the
//! arrays' resync limits and the control groups' weights are set to that share of their old values;
//! limits, so the work may be slower than that. At 0 they are set to the kernel's minimum, control
//! groups are frozen and commands pause.
//!
//! A service that restarts gets a new control group; the knob looks for it now and then, as for one
//! that is down when the daemon starts.

use super::table::{KnobFile, files_of};
use super::{Absent, Opened};
use crate::Root;
use crate::groups::check_cgroup;
use crate::machine::command::PAUSED;
use crate::machine::{Cgroups, CommandConfig, cgroup_file};
use crate::processes;
use serde::Deserialize;
use wattio_governor::{Address, Assignment, Knob, Layer, MachineError, MachineView, Setting};
use wattio_law::DriveAction;

pub(super) const NAME: &str = "background";

/// Slows or pauses background work. At least one of the lists must have an entry.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundConfig {
    /// RAID arrays whose resync and check are slowed. Default: `[]`. Allowed: a list of names as in
    /// `/proc/mdstat`, such as `["md0"]`.
    #[serde(default)]
    pub md: Vec<String>,
    /// Control groups whose CPU weight is lowered. Default: `[]`. Allowed: a list of paths within
    /// the hierarchy, such as `["/system.slice/backup.service"]`.
    #[serde(default)]
    pub weight: Vec<String>,
    /// Control groups that are frozen at pace 0. Never freeze anything that clients wait for.
    /// Default: `[]`. Allowed: as for `weight`, except groups that `wattiod` itself runs in.
    #[serde(default)]
    pub freeze: Vec<String>,
    /// Work that is paused and resumed by commands.
    #[serde(default)]
    pub commands: Vec<CommandConfig>,
    /// The pace of work whose progress nothing reports (the law leaves such work alone) while the
    /// law saves and clients are served. 1 changes nothing; 0 stops the work until the load changes
    /// or ends. Default: `1.0`. Allowed: 0 to 1.
    #[serde(default = "pace_default")]
    pub pace_while_saving: f64,
}

fn pace_default() -> f64 {
    1.0
}

struct BackgroundKnob {
    root: Root,
    /// Files of arrays that get a share of their old value.
    arrays: Vec<Scaled>,
    /// Control groups that get a share of theirs.
    weights: Vec<Weight>,
    /// Control groups that get a fixed word at pace 0.
    freezers: Vec<Controlled>,
    /// Commands that pause at pace 0.
    commands: Vec<Address>,
    /// The pace while the law saves and leaves the work alone.
    pace_while_saving: f64,
}

struct Scaled {
    address: Address,
    file: &'static KnobFile,
    /// The original number.
    full: f64,
}

/// A file of whichever control group has the name.
struct Controlled {
    file: &'static KnobFile,
    path: String,
}

/// The weight of whichever control group has the name.
struct Weight {
    at: Controlled,
    /// That of the group that was last seen.
    seen: Option<Scaled>,
}

impl BackgroundConfig {
    /// See [`super::KnobConfig::check`].
    pub(super) fn check(&self) -> Result<(), String> {
        let pace = self.pace_while_saving;
        if (0.0..=1.0).contains(&pace) {
            return Ok(());
        }
        Err(format!("pace_while_saving = {pace}: allowed is 0 to 1"))
    }

    pub(super) fn open(&self, root: &Root) -> Opened {
        self.open_with(root, &mut Err)
    }

    /// As `open`, but a control group that is not there is only told of: it is found when its
    /// service starts.
    pub(super) fn open_at_start(&self, root: &Root, absent: &mut Vec<String>) -> Opened {
        self.open_with(root, &mut |message| {
            absent.push(message);
            Ok(())
        })
    }

    fn open_with(&self, root: &Root, absent: &mut Absent<'_>) -> Opened {
        let cgroups = Cgroups::find(root);
        let pace_while_saving = self.pace_while_saving;
        self.check()?;
        let mut knob = BackgroundKnob {
            root: root.clone(),
            arrays: Vec::new(),
            weights: Vec::new(),
            freezers: Vec::new(),
            commands: Vec::new(),
            pace_while_saving,
        };
        for device in &self.md {
            for file in files_of("background.md") {
                let plain = !device.is_empty() && !device.contains('/') && device != "..";
                let address = file.of_device(root, device).filter(|_| plain);
                let missing = || format!("md {device:?}: no array of this name: see /proc/mdstat");
                let address = address.ok_or_else(missing)?;
                let path = address.rest().to_owned();
                knob.arrays.push(Scaled::open(root, file, &path, address)?);
            }
        }
        for cgroup in &self.weight {
            let at = Controlled::open(root, &cgroups, "background.weight", cgroup, absent)?;
            knob.weights.push(Weight::open(root, at)?);
        }
        for cgroup in &self.freeze {
            check_not_ours(root, cgroup)?;
            let at = Controlled::open(root, &cgroups, "background.freeze", cgroup, absent)?;
            knob.freezers.push(at);
        }
        let commands = self.commands.iter().map(|command| Address::new("command", &command.name));
        knob.commands.extend(commands);
        if knob.is_empty() {
            return Err("names no work; set md, weight, freeze or commands".to_owned());
        }
        Ok(Box::new(knob))
    }
}

/// A process that freezes itself never wakes again.
fn check_not_ours(root: &Root, cgroup: &str) -> Result<(), String> {
    let text = root.read("/proc/self/cgroup").unwrap_or_default();
    let name = cgroup.trim_end_matches('/');
    let within =
        |path: &str| path.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with('/'));
    if processes::cgroups(&text).any(within) {
        return Err(format!("freeze: this program itself runs in {cgroup}"));
    }
    Ok(())
}

impl Controlled {
    /// The file of a control group that slows or freezes it.
    fn open(
        root: &Root,
        cgroups: &Cgroups,
        knob: &str,
        cgroup: &str,
        absent: &mut Absent<'_>,
    ) -> Result<Self, String> {
        check_cgroup(cgroup)?;
        let of =
            |file: &'static KnobFile| Some(Self { file, path: file.of_cgroup(cgroups, cgroup)? });
        let missing = || {
            let names: Vec<_> = files_of(knob).map(KnobFile::name).collect();
            format!(
                "{cgroup}: no {}; does the service run, with its controller on?",
                names.join(" or ")
            )
        };
        let found = files_of(knob).find_map(of).ok_or_else(missing)?;
        let folder = found.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !root.exists(folder) {
            absent(missing())?;
        } else if !root.exists(&found.path) {
            return Err(missing());
        }
        Ok(found)
    }

    /// Where it is now; `None` while the service restarts.
    fn address(&self, root: &Root) -> Option<Address> {
        cgroup_file::address(root, &self.path).filter(|_| root.exists(&self.path))
    }

    /// What freezes the group, or thaws it.
    fn assignment(&self, root: &Root, freezes: bool) -> Option<Assignment> {
        let word = self.file.act.as_deref().filter(|_| freezes);
        Some(at_pace_0(self.address(root)?, word))
    }
}

impl Weight {
    fn open(root: &Root, at: Controlled) -> Result<Self, String> {
        let scaled = |address| Scaled::open(root, at.file, &at.path, address);
        let seen = at.address(root).map(scaled).transpose()?;
        Ok(Self { at, seen })
    }

    /// What the group that has the name now gets: a share of its own weight.
    fn assignment(&mut self, root: &Root, pace: Option<f64>) -> Option<Assignment> {
        let address = self.at.address(root)?;
        if self.seen.as_ref().is_none_or(|seen| seen.address != address) {
            self.seen = Some(Scaled::open(root, self.at.file, &self.at.path, address).ok()?);
        }
        Some(self.seen.as_ref()?.assignment(pace))
    }
}

impl Scaled {
    fn open(
        root: &Root,
        file: &'static KnobFile,
        path: &str,
        address: Address,
    ) -> Result<Self, String> {
        let text = root.read(path).map_err(|error| format!("{path}: {error}"))?;
        // md writes "200000 (system)".
        let number = text.split_whitespace().next().and_then(|word| word.parse::<u32>().ok());
        let full = number.ok_or_else(|| format!("{path} holds {text:?}, not a number"))?;
        Ok(Self { address, file, full: f64::from(full) * file.scale })
    }

    /// The share of the old value; the old value itself without a pace.
    fn assignment(&self, pace: Option<f64>) -> Assignment {
        match pace {
            Some(pace) => Assignment::new(self.address.clone(), self.file.text(self.full * pace)),
            None => Assignment::original(self.address.clone()),
        }
    }
}

/// The word that stops work, if there is one, or what was there before.
fn at_pace_0(address: Address, word: Option<&str>) -> Assignment {
    match word {
        Some(word) => Assignment::new(address, word),
        None => Assignment::original(address),
    }
}

impl BackgroundKnob {
    fn is_empty(&self) -> bool {
        self.arrays.is_empty()
            && self.weights.is_empty()
            && self.freezers.is_empty()
            && self.commands.is_empty()
    }

    /// The pace if it is below 1: anything that is not restores the original.
    fn pace(&self, setting: &Setting) -> Option<f64> {
        // Drives are put to sleep when there are no requests.
        let serves = !setting.full_speed && setting.drives != DriveAction::Asleep;
        let pace = match setting.background_share {
            1.0 if serves => self.pace_while_saving,
            share => share,
        };
        Some(pace).filter(|pace| (0.0..1.0).contains(pace))
    }

    /// What the control groups get that there are now.
    fn of_groups(&mut self, setting: &Setting) -> Vec<Assignment> {
        let (pace, root) = (self.pace(setting), &self.root);
        let weights = self.weights.iter_mut().filter_map(|weight| weight.assignment(root, pace));
        let freezes = pace == Some(0.0);
        let freezers = self.freezers.iter().filter_map(|at| at.assignment(root, freezes));
        weights.chain(freezers).collect()
    }
}

impl Knob for BackgroundKnob {
    fn name(&self) -> &str {
        NAME
    }

    fn layer(&self) -> Layer {
        if self.commands.is_empty() { Layer::Speed } else { Layer::Slow }
    }

    fn looks_again(&self) -> bool {
        !self.weights.is_empty() || !self.freezers.is_empty()
    }

    fn assignments(
        &mut self,
        setting: &Setting,
        _machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let pace = self.pace(setting);
        let mut assignments: Vec<_> =
            self.arrays.iter().map(|array| array.assignment(pace)).collect();
        assignments.extend(self.of_groups(setting));
        let word = (pace == Some(0.0)).then_some(PAUSED);
        let commands = self.commands.iter().cloned();
        assignments.extend(commands.map(|command| at_pace_0(command, word)));
        Ok(assignments)
    }

    /// Arrays and commands are not made anew by others, and asking a command takes long.
    fn assignments_again(
        &mut self,
        setting: &Setting,
        _machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        Ok(self.of_groups(setting))
    }
}
