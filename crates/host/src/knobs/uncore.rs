//! `uncore.frequency`: a cap on the frequency of the parts that the cores of a socket share: mesh,
//! last level cache, memory controller.
//!
//! `intel_uncore_frequency` has a folder for each die (`package_00_die_00`), or for each cluster of
//! newer processors (`uncore00`, with a `package_id`). It does not show how requests depend on it,
//! so no model here predicts the cost. The effect of a cap below the current minimum differs
//! between kernels, so the minimum is lowered before the cap and raised after it.

use super::Opened;
use super::saving_knob::{Place, SavingKnob, check_others, packages, packages_of, read};
use super::table::files_of;
use crate::Root;
use crate::groups::Group;
use crate::topology::{CPU_FOLDER, Topology, from_khz};
use serde::Deserialize;
use std::collections::BTreeSet;
use wattio_units::Hertz;

pub(super) const NAME: &str = "uncore.frequency";

/// The driver takes whole multiples of this.
const STEP: Hertz = Hertz(100e6);

/// Caps the uncore of the groups' sockets while power is saved.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UncoreConfig {
    /// The highest uncore frequency while saving. Allowed: a frequency such as `"1.6 GHz"`, rounded
    /// down to 100 MHz; not below the host's initial minimum.
    pub maximum: Hertz,
    /// Must be `true` if some processors of these sockets are in no group: those get slower too.
    /// Default: `false`.
    #[serde(default)]
    pub accept_others: bool,
}

impl UncoreConfig {
    /// As low as the host lets it be.
    pub(super) fn lowest(root: &Root) -> Self {
        let all = format!("{CPU_FOLDER}/intel_uncore_frequency");
        let initial = |die| root.read(&format!("{all}/{die}/initial_min_freq_khz")).ok();
        let initial = root.list(&all).into_iter().filter_map(initial);
        let lowest = initial.filter_map(|text| from_khz(&text)).map(|f| f.0).fold(STEP.0, f64::max);
        Self { maximum: Hertz(lowest), accept_others: false }
    }

    pub(super) fn open(&self, root: &Root, topology: &Topology, groups: &[Group]) -> Opened {
        let all = format!("{CPU_FOLDER}/intel_uncore_frequency");
        let packages = packages(root, topology);
        let own = packages_of(&packages, groups);
        let (mut places, mut found_any) = (Vec::new(), false);
        for die in root.list(&all) {
            let folder = format!("{all}/{die}");
            let Some(package) = package_of(root, &folder, &die).filter(|p| own.contains(p)) else {
                continue;
            };
            found_any = true;
            let cpus = packages.get(&package).cloned().unwrap_or_default();
            check_others(&folder, &cpus, groups, self.accept_others)?;
            places.extend(self.places(root, &folder, &die)?);
        }
        if places.is_empty() {
            return Err(if found_any {
                format!("the uncore runs at {} or less already: nothing to turn", self.maximum)
            } else {
                format!(
                    "{all} is not there: these processors have no uncore to set, or the module \
                     intel_uncore_frequency is not loaded"
                )
            });
        }
        Ok(Box::new(SavingKnob::new(NAME, groups, topology, places)))
    }

    fn places(&self, root: &Root, folder: &str, die: &str) -> Result<Vec<Place>, String> {
        let frequency = |name: &str| {
            let text = read(root, &format!("{folder}/{name}"))?;
            from_khz(&text).ok_or_else(|| format!("{folder}/{name} says {text:?}"))
        };
        let wanted = Hertz((self.maximum.0 / STEP.0 + 1e-6).floor() * STEP.0);
        if let Ok(lowest) = frequency("initial_min_freq_khz")
            && wanted < lowest
        {
            return Err(format!(
                "maximum = {} is below the {lowest} that {folder} began with",
                self.maximum
            ));
        }
        if frequency("max_freq_khz")? <= wanted {
            return Ok(Vec::new());
        }
        let lowers_minimum = frequency("min_freq_khz")? > wanted;
        let mut places = Vec::new();
        for file in files_of(NAME) {
            if file.name() == "min_freq_khz" && !lowers_minimum {
                continue;
            }
            let place = file
                .of_device(root, die)
                .ok_or(format!("{folder}/{} is not there", file.name()))?;
            places.push(Place::file(place.rest(), file.text(wanted.0)));
        }
        Ok(places)
    }
}

/// Which socket a folder is about. A folder of a die that is the sum of clusters is left out where
/// the clusters are there.
fn package_of(root: &Root, folder: &str, die: &str) -> Option<u32> {
    if die.starts_with("uncore") {
        return root.read(&format!("{folder}/package_id")).ok()?.parse().ok();
    }
    let clusters = root.list(folder.rsplit_once('/')?.0);
    let clusters: BTreeSet<_> = clusters.iter().filter(|n| n.starts_with("uncore")).collect();
    let number = die.strip_prefix("package_")?.split('_').next()?;
    clusters.is_empty().then(|| number.parse().ok()).flatten()
}
