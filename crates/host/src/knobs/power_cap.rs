//! `power.cap`: a limit on the power of processor packages, which the processor itself enforces.
//!
//! RAPL's `long_term` limit of each package (`powercap/intel-rapl:N`), or the caps of a hwmon chip
//! (`powerN_cap`). The processor decides how slow it gets under the limit, so no model here
//! predicts the cost. A limit that is lower already is left alone, on or off.

use super::Opened;
use super::saving_knob::{Place, SavingKnob, check_others, packages, packages_of, read};
use super::table::{KnobFile, files_of};
use crate::Root;
use crate::groups::Group;
use crate::topology::Topology;
use serde::Deserialize;
use wattio_units::Watts;

pub(super) const NAME: &str = "power.cap";

const FOLDER: &str = "/sys/class/powercap";
const HWMON: &str = "/sys/class/hwmon";
/// The chip of ACPI's meter, whose cap is the whole host's: each look at it asks the firmware, which
/// may take long.
const ACPI_METER: &str = "power_meter";
/// The units of RAPL's limits are at least this fine (Intel SDM 14.10.1: 1/8 W).
const STEP: Watts = Watts(0.125);

/// Caps the power of the groups' packages while power is saved.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerCapConfig {
    /// The most that each package, or the `hwmon` chip, may draw while saving. Allowed: a power
    /// above 0 W, within the host's limits.
    pub limit: Watts,
    /// A hwmon chip whose caps are set instead of RAPL's. Allowed: the name of a chip, such as
    /// `amd_hsmp_hwmon`, of which `wattiod doctor` lists a power limit.
    #[serde(default)]
    pub hwmon: Option<String>,
    /// Must be `true` if some processors under the cap are in no group: those get slower too.
    /// Default: `false`.
    #[serde(default)]
    pub accept_others: bool,
}

/// A limit of a processor package.
#[derive(Clone, Debug, PartialEq)]
pub struct PackageLimit {
    /// The package's name: `package-0`.
    pub name: String,
    /// The file of its long-term limit.
    pub path: String,
    folder: String,
    constraint: String,
}

/// The long-term limits of all packages.
#[must_use]
pub fn package_limits(root: &Root) -> Vec<PackageLimit> {
    let limit = |zone: String| {
        // Not of parts of a package, and not the same again through memory (intel-rapl-mmio).
        let number = zone.strip_prefix("intel-rapl:").filter(|number| !number.contains(':'))?;
        number.parse::<u32>().ok()?;
        let folder = format!("{FOLDER}/{zone}");
        let name = root.read(&format!("{folder}/name")).ok()?;
        let is_package = name.starts_with("package-");
        let constraint = root.list(&folder).into_iter().find_map(|file| {
            let of = file.strip_suffix("_name").filter(|of| of.starts_with("constraint_"))?;
            let is = root.read(&format!("{folder}/{file}")).is_ok_and(|name| name == "long_term");
            is.then(|| of.to_owned())
        })?;
        let path = format!("{folder}/{constraint}_power_limit_uw");
        is_package.then_some(PackageLimit { name, path, folder, constraint })
    };
    root.list(FOLDER).into_iter().filter_map(limit).collect()
}

/// A cap of a hwmon chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChipLimit {
    /// The chip's name, for the key `hwmon`: `amd_hsmp_hwmon`.
    pub chip: String,
    /// The cap's name: `amd_hsmp_hwmon/power1`.
    pub name: String,
    /// The file of the cap.
    pub path: String,
    /// Whether it is no processor's: a graphics card's, an accelerator's, the whole host's.
    is_others: bool,
}

/// The caps of hwmon chips of processors.
#[must_use]
pub fn chip_limits(root: &Root) -> Vec<ChipLimit> {
    caps(root).into_iter().filter(|cap| !cap.is_others).collect()
}

fn caps(root: &Root) -> Vec<ChipLimit> {
    let mut found = Vec::new();
    for chip in root.list(HWMON) {
        let folder = format!("{HWMON}/{chip}");
        let Ok(chip) = root.read(&format!("{folder}/name")) else { continue };
        // Base classes 03 and 12 of PCI: display controllers, processing accelerators.
        let class = root.read(&format!("{folder}/device/class")).unwrap_or_default();
        let is_card = class.starts_with("0x03") || class.starts_with("0x12");
        let is_others = is_card || chip == ACPI_METER;
        for file in root.list(&folder) {
            let Some(power) = file.strip_suffix("_cap") else { continue };
            let number = power.strip_prefix("power").unwrap_or_default();
            if number.parse::<u32>().is_ok() {
                let (name, path) = (format!("{chip}/{power}"), format!("{folder}/{file}"));
                found.push(ChipLimit { chip: chip.clone(), name, path, is_others });
            }
        }
    }
    found
}

impl ChipLimit {
    /// The limit now.
    #[must_use]
    pub fn now(&self, root: &Root) -> Option<Watts> {
        root.read(&self.path).ok().as_deref().and_then(watts)
    }

    /// The `min` or `max` that it takes, where the host tells.
    fn bound(&self, root: &Root, what: &str) -> Option<Watts> {
        root.read(&format!("{}_{what}", self.path)).ok().as_deref().and_then(watts)
    }
}

impl PackageLimit {
    /// The limit now.
    #[must_use]
    pub fn now(&self, root: &Root) -> Option<Watts> {
        root.read(&self.path).ok().as_deref().and_then(watts)
    }

    /// The `min` or `max` that it takes, where the host tells.
    fn bound(&self, root: &Root, what: &str) -> Option<Watts> {
        let path = format!("{}/{}_{what}_power_uw", self.folder, self.constraint);
        root.read(&path).ok().as_deref().and_then(watts).filter(|bound| *bound > Watts(0.0))
    }

    /// Which socket it is: two dies of one are `package-0-die-1`.
    fn package(&self) -> Option<u32> {
        self.name.strip_prefix("package-")?.split('-').next()?.parse().ok()
    }
}

/// A power in microwatts, as the kernel writes it.
pub(crate) fn watts(text: &str) -> Option<Watts> {
    let microwatts: u64 = text.trim().parse().ok()?;
    Some(Watts(microwatts as f64 * 1e-6))
}

impl PowerCapConfig {
    /// As low as the host lets it be: by RAPL, or else by the first chip that has caps.
    pub(super) fn lowest(root: &Root) -> Self {
        let (packages, chips) = (package_limits(root), chip_limits(root));
        let first = chips.first().filter(|_| packages.is_empty()).map(|cap| cap.chip.clone());
        let least: Vec<_> = match &first {
            Some(first) => {
                let own = chips.iter().filter(|cap| cap.chip == *first);
                own.filter_map(|cap| cap.bound(root, "min")).collect()
            }
            None => packages.iter().filter_map(|limit| limit.bound(root, "min")).collect(),
        };
        let least = least.into_iter().map(|least| least.0).fold(1.0, f64::max);
        let limit = Watts((least / STEP.0).ceil() * STEP.0);
        Self { limit, hwmon: first, accept_others: false }
    }

    pub(super) fn open(&self, root: &Root, topology: &Topology, groups: &[Group]) -> Opened {
        if self.limit.0.is_nan() || self.limit <= Watts(0.0) {
            return Err(format!("limit = {} is not above 0 W", self.limit));
        }
        let places = match &self.hwmon {
            Some(chip) => self.of_chip(root, chip, topology, groups)?,
            None => self.of_packages(root, topology, groups)?,
        };
        if places.is_empty() {
            return Err(format!("what stands is {} or less: nothing to turn", self.limit));
        }
        Ok(Box::new(SavingKnob::new(NAME, groups, topology, places)))
    }

    fn of_packages(
        &self,
        root: &Root,
        topology: &Topology,
        groups: &[Group],
    ) -> Result<Vec<Place>, String> {
        let packages = packages(root, topology);
        let own = packages_of(&packages, groups);
        let limits = package_limits(root);
        let of_groups = |limit: &&PackageLimit| limit.package().is_some_and(|p| own.contains(&p));
        let mut places = Vec::new();
        let mut found_any = false;
        for limit in limits.iter().filter(of_groups) {
            found_any = true;
            let cpus = limit.package().and_then(|package| packages.get(&package));
            let cpus = cpus.cloned().unwrap_or_default();
            check_others(&limit.path, &cpus, groups, self.accept_others)?;
            let (least, most) = (limit.bound(root, "min"), limit.bound(root, "max"));
            let Some(place) = self.place(root, &limit.path, least, most)? else { continue };
            places.push(place);
            let enabled = format!("{}/enabled", limit.folder);
            if root.read(&enabled).is_ok_and(|text| text == "0") {
                places.push(Place::file(&enabled, "1"));
            }
        }
        if found_any {
            return Ok(places);
        }
        Err(format!(
            "{FOLDER} has no long_term limit of a package: no RAPL (a virtual machine has none; the \
             module is intel_rapl_msr)"
        ))
    }

    fn of_chip(
        &self,
        root: &Root,
        chip: &str,
        topology: &Topology,
        groups: &[Group],
    ) -> Result<Vec<Place>, String> {
        let caps = caps(root);
        let own: Vec<_> = caps.iter().filter(|cap| cap.chip == chip).collect();
        if own.is_empty() {
            let mut there: Vec<_> = caps.into_iter().map(|cap| cap.chip).collect();
            there.dedup();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            return Err(format!(
                "{HWMON} has no chip {chip:?} with a powerN_cap; chips with one: {there}"
            ));
        }
        let mut places = Vec::new();
        for cap in own {
            check_others(&cap.path, &topology.online, groups, self.accept_others)?;
            let (least, most) = (cap.bound(root, "min"), cap.bound(root, "max"));
            places.extend(self.place(root, &cap.path, least, most)?);
        }
        Ok(places)
    }

    /// The limit in one file, unless it is lower already.
    fn place(
        &self,
        root: &Root,
        path: &str,
        least: Option<Watts>,
        most: Option<Watts>,
    ) -> Result<Option<Place>, String> {
        let limit = Watts((self.limit.0 / STEP.0).floor() * STEP.0);
        let below = least.filter(|least| limit < *least);
        if let Some(bound) = below.or(most.filter(|most| limit > *most)) {
            let which = if below.is_some() { "least" } else { "most" };
            return Err(format!(
                "limit = {}: the {which} that {path} takes is {bound}",
                self.limit
            ));
        }
        let text = read(root, path)?;
        let found = watts(&text).ok_or_else(|| format!("{path} says {text:?}"))?;
        // A limit of 0 is none.
        if found <= limit && found > Watts(0.0) {
            return Ok(None);
        }
        let file: &KnobFile = files_of(NAME).next().ok_or("not in the table of files")?;
        Ok(Some(Place::file(path, file.text(limit.0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_a_die_is_its_socket() {
        let limit = |name: &str| PackageLimit {
            name: name.to_owned(),
            path: String::new(),
            folder: String::new(),
            constraint: String::new(),
        };
        for (name, package) in
            [("package-1", Some(1)), ("package-0-die-1", Some(0)), ("package-x", None)]
        {
            assert_eq!(limit(name).package(), package);
        }
    }
}
