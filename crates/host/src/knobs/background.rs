//! `background`: how fast background work runs, and whether it runs at all.
//!
//! The law budgets work whose progress is reported (`[background] kind = "md"`). Other work is not
//! reported, so `pace_while_saving` says how much it is slowed while the law saves.
//!
//! A knob can only slow down what runs by itself: it takes the budget as a share of the rate at
//! which work becomes due, its pace. At 1 everything stays as it was found. Below 1 arrays' resync
//! limits and control groups' weights are that part of what was found; limits, so the work is no
//! faster than that. At 0 they are at the least that the kernel takes, control groups are frozen
//! and commands pause.

use super::Opened;
use super::table::{KnobFile, files_of};
use crate::Root;
use crate::groups::check_cgroup;
use crate::machine::command::PAUSED;
use crate::machine::{Cgroups, CommandConfig, is_slow};
use crate::processes;
use serde::Deserialize;
use wattio_governor::{Address, Assignment, Knob, Layer, MachineError, MachineView, Setting};
use wattio_law::DriveAction;

pub(super) const NAME: &str = "background";

/// What background work there is. At least one entry must be there.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundConfig {
    /// Arrays whose resync and check are slowed: `["md0"]`.
    #[serde(default)]
    pub md: Vec<String>,
    /// Control groups whose share of the processors shrinks: `["/system.slice/backup.service"]`.
    #[serde(default)]
    pub weight: Vec<String>,
    /// Control groups that are frozen at pace 0. Never freeze one that clients wait for.
    #[serde(default)]
    pub freeze: Vec<String>,
    /// Work that is paused and resumed by commands.
    #[serde(default)]
    pub commands: Vec<CommandConfig>,
    /// The pace of work without a progress source (which the law leaves alone) while the law saves
    /// and clients are served: 1 changes nothing, 0 stops the work until the load changes or ends.
    #[serde(default = "pace_default")]
    pub pace_while_saving: f64,
}

fn pace_default() -> f64 {
    1.0
}

struct BackgroundKnob {
    /// Files that get a share of their old value.
    scaled: Vec<Scaled>,
    /// Places that get a fixed word at pace 0.
    paused: Vec<(Address, String)>,
    /// The pace while the law saves and leaves the work alone.
    pace_while_saving: f64,
}

struct Scaled {
    address: Address,
    file: &'static KnobFile,
    /// The original number.
    full: f64,
}

impl BackgroundConfig {
    pub(super) fn open(&self, root: &Root) -> Opened {
        let cgroups = Cgroups::find(root);
        let pace_while_saving = self.pace_while_saving;
        if !(0.0..=1.0).contains(&pace_while_saving) {
            return Err(format!("pace_while_saving = {pace_while_saving}: allowed is 0 to 1"));
        }
        let mut knob = BackgroundKnob { scaled: Vec::new(), paused: Vec::new(), pace_while_saving };
        for device in &self.md {
            for file in files_of("background.md") {
                let plain = !device.is_empty() && !device.contains('/') && device != "..";
                let address = file.of_device(root, device).filter(|_| plain);
                let missing = || format!("md {device:?}: no array of this name: see /proc/mdstat");
                knob.scaled.push(Scaled::open(root, file, address.ok_or_else(missing)?)?);
            }
        }
        for cgroup in &self.weight {
            let (file, address) = controlled(root, &cgroups, "background.weight", cgroup)?;
            knob.scaled.push(Scaled::open(root, file, address)?);
        }
        for cgroup in &self.freeze {
            check_not_ours(root, cgroup)?;
            let (file, address) = controlled(root, &cgroups, "background.freeze", cgroup)?;
            knob.paused.push((address, file.act.clone().unwrap_or_default()));
        }
        for command in &self.commands {
            knob.paused.push((Address::new("command", &command.name), PAUSED.to_owned()));
        }
        if knob.scaled.is_empty() && knob.paused.is_empty() {
            return Err("names no work; set md, weight, freeze or commands".to_owned());
        }
        Ok(Box::new(knob))
    }
}

/// The file of a control group that slows or freezes it.
fn controlled(
    root: &Root,
    cgroups: &Cgroups,
    knob: &str,
    cgroup: &str,
) -> Result<(&'static KnobFile, Address), String> {
    check_cgroup(cgroup)?;
    let found =
        files_of(knob).find_map(|file| Some((file, file.of_cgroup(root, cgroups, cgroup)?)));
    found.ok_or_else(|| {
        let names: Vec<_> = files_of(knob).map(KnobFile::name).collect();
        format!(
            "{cgroup}: no {}; does the service run, with its controller on?",
            names.join(" or ")
        )
    })
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

impl Scaled {
    fn open(root: &Root, file: &'static KnobFile, address: Address) -> Result<Self, String> {
        let path = address.rest();
        let text = root.read(path).map_err(|error| format!("{path}: {error}"))?;
        // md writes "200000 (system)".
        let number = text.split_whitespace().next().and_then(|word| word.parse::<u32>().ok());
        let full = number.ok_or_else(|| format!("{path} holds {text:?}, not a number"))?;
        Ok(Self { address, file, full: f64::from(full) * file.scale })
    }
}

impl Knob for BackgroundKnob {
    fn name(&self) -> &str {
        NAME
    }

    fn layer(&self) -> Layer {
        let has_commands = self.paused.iter().any(|(address, _)| is_slow(address));
        if has_commands { Layer::Slow } else { Layer::Speed }
    }

    fn assignments(
        &mut self,
        setting: &Setting,
        _machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        // Drives are put to sleep when there are no requests.
        let serves = !setting.full_speed && setting.drives != DriveAction::Asleep;
        let pace = match setting.background_share {
            1.0 if serves => self.pace_while_saving,
            share => share,
        };
        // Anything that is not a pace below 1 restores the original.
        let slower = (0.0..1.0).contains(&pace);
        let scaled = self.scaled.iter().map(|scaled| {
            let address = scaled.address.clone();
            if !slower {
                return Assignment::original(address);
            }
            Assignment::new(address, scaled.file.text(scaled.full * pace))
        });
        let paused = self.paused.iter().map(|(address, word)| {
            if slower && pace == 0.0 {
                return Assignment::new(address.clone(), word.clone());
            }
            Assignment::original(address.clone())
        });
        Ok(scaled.chain(paused).collect())
    }
}
