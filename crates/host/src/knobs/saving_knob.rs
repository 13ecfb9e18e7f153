//! Common to knobs that hold one value while power is saved and another, or the one that was found,
//! at full speed.
//!
//! Their values do not depend on how far the law slows things down: it counts as saving if any
//! group has fewer cores or a lower frequency than it could have, or drives may sleep. If an
//! application is at full speed, whatever its cores share stays as at full speed; so does a knob
//! that a setting holds back.

use crate::Root;
use crate::groups::Group;
use crate::topology::{CPU_FOLDER, Topology};
use std::collections::{BTreeMap, BTreeSet};
use wattio_governor::{
    Address, Assignment, Cpus, GroupSetting, Knob, Layer, MachineError, MachineView, Setting,
    Target,
};
use wattio_law::DriveAction;
use wattio_units::Hertz;

/// How far below the highest a frequency counts as lower: rounding.
const LOWER: f64 = 1.0 - 1e-9;

/// Places that hold one value while saving and another at full speed.
pub(super) struct SavingKnob {
    name: &'static str,
    layer: Layer,
    /// Of each group: how many cores it has, and their highest frequency where the host tells.
    full: Vec<(usize, Option<Hertz>)>,
    /// In the order of writing while slowing down; back it goes from the end.
    places: Vec<Place>,
}

/// One place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    address: Address,
    saving: Target,
    full: Target,
    /// What the kernel changes with it.
    endangers: Vec<Address>,
    /// The processors that it is about; if all of them are off, its file answers no one.
    cpus: Option<Cpus>,
}

impl Place {
    /// A file that holds `value` while saving, and what was found otherwise.
    pub fn file(path: &str, value: impl Into<String>) -> Self {
        Self::new(Address::new("file", path), Target::Set(value.into()), Target::Original)
    }

    /// Any place.
    pub fn new(address: Address, saving: Target, full: Target) -> Self {
        Self { address, saving, full, endangers: Vec::new(), cpus: None }
    }

    /// With the value that it holds at full speed, in place of the one that was found.
    pub fn at_full_speed(mut self, value: Option<String>) -> Self {
        self.full = value.map_or(Target::Original, Target::Set);
        self
    }

    /// It is about these processors.
    pub fn of(mut self, cpus: Cpus) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// The kernel changes these with it.
    pub fn endangering(mut self, addresses: Vec<Address>) -> Self {
        self.endangers = addresses;
        self
    }

    fn assignment(&self, saves: bool) -> Assignment {
        let target = if saves { &self.saving } else { &self.full };
        let (address, target) = (self.address.clone(), target.clone());
        Assignment { address, target, endangers: self.endangers.clone() }
    }
}

impl SavingKnob {
    /// A knob of these places.
    pub fn new(
        name: &'static str,
        groups: &[Group],
        topology: &Topology,
        places: Vec<Place>,
    ) -> Self {
        let highest = |group: &Group| group.speeds(topology).map(|speeds| speeds.highest);
        let full = groups.iter().map(|group| (group.order.len(), highest(group))).collect();
        Self { name, layer: Layer::Speed, full, places }
    }

    /// Applied in another order.
    pub fn on(mut self, layer: Layer) -> Self {
        self.layer = layer;
        self
    }

    fn saves(&self, setting: &Setting) -> bool {
        let slower = |(group, (cores, highest)): (&GroupSetting, &(usize, Option<Hertz>))| {
            // No number is no lower: it fails towards full speed.
            let lower = highest.is_some_and(|highest| group.frequency.0 < highest.0 * LOWER);
            lower || group.active.len() < *cores
        };
        let slow = || setting.groups.iter().zip(&self.full).any(slower);
        let may = !setting.full_speed && !setting.held_back.contains(&self.name);
        may && (setting.drives == DriveAction::Asleep || slow())
    }
}

impl Knob for SavingKnob {
    fn name(&self) -> &str {
        self.name
    }

    fn layer(&self) -> Layer {
        self.layer
    }

    fn assignments(
        &mut self,
        setting: &Setting,
        machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let saves = self.saves(setting);
        let free = |place: &Place| match &place.cpus {
            Some(cpus) => !cpus.meets(&setting.at_full),
            None => setting.at_full.is_empty(),
        };
        let online = if self.places.iter().any(|place| place.cpus.is_some()) {
            let list = machine.read(&Address::new("file", &format!("{CPU_FOLDER}/online")));
            list.ok().and_then(|text| text.parse::<Cpus>().ok())
        } else {
            None
        };
        let is_on = |place: &&Place| match (&place.cpus, &online) {
            (Some(cpus), Some(online)) => cpus.meets(online),
            _ => true,
        };
        let places = self.places.iter().filter(is_on);
        let mut assignments: Vec<_> =
            places.map(|place| place.assignment(saves && free(place))).collect();
        if !saves {
            assignments.reverse();
        }
        Ok(assignments)
    }
}

/// Refuses a switch that is one for the whole host, or for a socket, where it would also slow
/// processors that are in no group.
pub(super) fn check_others(
    what: &str,
    all: &Cpus,
    groups: &[Group],
    accept_others: bool,
) -> Result<(), String> {
    let others = all.without(&cores_of(groups));
    if others.is_empty() || accept_others {
        return Ok(());
    }
    Err(format!(
        "{what} is shared with processors {others}, which are in no group; put them into one, or set \
         accept_others = true"
    ))
}

/// The cores of all groups.
pub(super) fn cores_of(groups: &[Group]) -> Cpus {
    groups.iter().fold(Cpus::default(), |all, group| all.or(&group.cores()))
}

/// What a file holds, or why it does not say.
pub(super) fn read(root: &Root, path: &str) -> Result<String, String> {
    root.read(path).map_err(|error| format!("{path}: {error}"))
}

/// The processors of each socket that are online; all in socket 0 where the host does not tell.
pub(super) fn packages(root: &Root, topology: &Topology) -> BTreeMap<u32, Cpus> {
    let mut packages: BTreeMap<u32, Cpus> = BTreeMap::new();
    for cpu in topology.online.iter() {
        let path = format!("{CPU_FOLDER}/cpu{cpu}/topology/physical_package_id");
        let package = root.read(&path).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
        packages.entry(package).or_default().insert(cpu);
    }
    packages
}

/// The sockets that hold cores of groups.
pub(super) fn packages_of(packages: &BTreeMap<u32, Cpus>, groups: &[Group]) -> BTreeSet<u32> {
    let cores = cores_of(groups);
    packages.iter().filter(|(_, cpus)| cpus.meets(&cores)).map(|(&package, _)| package).collect()
}
