//! `cpu.turbo`: no frequencies above the nominal one while power is saved.
//!
//! If a driver has turbo frequencies that its cap does not cover (acpi-cpufreq on AMD, which boosts
//! above the highest step), this is the only way to leave them. Elsewhere it keeps the cores that
//! the law leaves at full frequency out of their least efficient range. Turbo also moves the
//! frequency limits that the kernel shows, so those of `cpu.frequency` are saved first. Turbo goes
//! off after they are lowered, and on before they are raised.
//!
//! A policy's own switch (`cpufreq/policyN/boost`) is preferred to the one for all processors.

use super::Opened;
use super::saving_knob::{Place, SavingKnob, check_others, cores_of, read};
use super::table::{KnobFile, files_of};
use crate::Root;
use crate::groups::Group;
use crate::topology::{FrequencyPolicy, Topology};
use serde::Deserialize;
use wattio_governor::{Address, Layer};
use wattio_units::Hertz;

pub(super) const NAME: &str = "cpu.turbo";

/// Turns turbo (boost) off while power is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurboConfig {
    /// Must be `true` if one switch covers all processors and some of them are in no group: those
    /// lose turbo too. Default: `false`.
    #[serde(default)]
    pub accept_others: bool,
}

/// A switch of turbo that a host has.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// Where it is.
    pub path: String,
    /// What it holds while turbo is off.
    pub off: String,
    /// Whether turbo is on now.
    pub is_on: bool,
}

/// The highest frequency without turbo of a group's cores, where the host tells it of all.
#[must_use]
pub fn base(group: &Group, topology: &Topology) -> Option<Hertz> {
    let cores = group.cores();
    let bases: Option<Vec<_>> = topology.policies_of(&cores).map(|policy| policy.base).collect();
    bases?.into_iter().reduce(|a, b| if a > b { a } else { b })
}

/// The host's switch for all processors, if it has one.
#[must_use]
pub fn switch(root: &Root) -> Option<Switch> {
    let common = |file: &&'static KnobFile| !file.file.contains("{device}");
    files_of(NAME).filter(common).find_map(|file| of_file(root, file, ""))
}

fn of_file(root: &Root, file: &KnobFile, device: &str) -> Option<Switch> {
    let path = file.of_device(root, device)?.rest().to_owned();
    let off = file.act.clone()?;
    let found = read(root, &path).ok().filter(|found| file.values.contains(found))?;
    Some(Switch { is_on: found != off, path, off })
}

/// The switches of each policy alone; `None` unless all have one.
fn of_policies(root: &Root, policies: &[&FrequencyPolicy]) -> Option<Vec<Switch>> {
    let own = files_of(NAME).find(|file| file.file.contains("{device}"))?;
    let device = |policy: &FrequencyPolicy| policy.folder.rsplit('/').next().map(str::to_owned);
    policies.iter().map(|policy| of_file(root, own, &device(policy)?)).collect()
}

impl TurboConfig {
    pub(super) fn open(&self, root: &Root, topology: &Topology, groups: &[Group]) -> Opened {
        let cores = cores_of(groups);
        let policies: Vec<_> = topology.policies_of(&cores).collect();
        let places = match of_policies(root, &policies).filter(|own| !own.is_empty()) {
            Some(own) => {
                let place = |(policy, switch): (&&FrequencyPolicy, &Switch)| {
                    check_others(&switch.path, &policy.cpus, groups, self.accept_others)?;
                    let place = Place::file(&switch.path, &*switch.off).of(policy.cpus.clone());
                    Ok(place.endangering(limits(root, &[*policy])))
                };
                on(&own)?;
                policies.iter().zip(&own).map(place).collect::<Result<Vec<_>, String>>()?
            }
            None => {
                let switch = switch(root).ok_or(
                    "no switch of turbo: neither intel_pstate/no_turbo nor cpufreq/boost is there \
                     (a virtual machine has none; else the firmware has it off, or the driver of \
                     the frequency has no turbo)",
                )?;
                check_others(&switch.path, &topology.online, groups, self.accept_others)?;
                on(std::slice::from_ref(&switch))?;
                let all: Vec<_> = topology.policies.iter().collect();
                vec![Place::file(&switch.path, &*switch.off).endangering(limits(root, &all))]
            }
        };
        let knob = SavingKnob::new(NAME, groups, topology, places).on(Layer::Range);
        Ok(Box::new(knob))
    }
}

fn on(switches: &[Switch]) -> Result<(), String> {
    match switches.iter().find(|switch| !switch.is_on) {
        Some(off) => Err(format!("{} says that turbo is off: there is nothing to turn", off.path)),
        None => Ok(()),
    }
}

/// The limits that the kernel moves with turbo, where another knob of ours turns them. Others are not
/// saved: the kernel keeps what was asked for, and an operator may change them meanwhile.
fn limits(root: &Root, policies: &[&FrequencyPolicy]) -> Vec<Address> {
    let names = ["scaling_min_freq", "scaling_max_freq"];
    let turned = policies.iter().filter(|policy| policy.is_turned);
    let paths = turned.flat_map(|policy| names.map(|name| (policy, name)));
    let path = paths.map(|(policy, name)| format!("{}/{name}", policy.folder));
    path.filter(|path| root.exists(path)).map(|path| Address::new("file", &path)).collect()
}
