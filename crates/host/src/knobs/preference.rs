//! `cpu.epp`, `cpu.epb`: whether a processor that chooses its own frequency favours energy or
//! performance.
//!
//! `energy_performance_preference` belongs to a frequency policy (HWP of Intel, CPPC of AMD, in the
//! active mode of intel_pstate and amd-pstate), `energy_perf_bias` to a processor (older Intel, and
//! beside HWP). Both are hints: they change how fast a core speeds up under load, but not its
//! limits, so no model here predicts what they save. A value that favours energy more than the
//! configuration asks for is left alone.

use super::Opened;
use super::saving_knob::{Place, SavingKnob, check_others, cores_of, read};
use super::table::{KnobFile, files_of};
use crate::Root;
use crate::groups::Group;
use crate::topology::{FrequencyPolicy, Topology};
use serde::Deserialize;

pub(super) const EPP: &str = "cpu.epp";
pub(super) const EPB: &str = "cpu.epb";

/// The words of a preference as the numbers that they stand for on Intel
/// (`drivers/cpufreq/intel_pstate.c`); only their order is used.
const WORDS: [(&str, u32); 4] =
    [("performance", 0), ("balance_performance", 128), ("balance_power", 192), ("power", 255)];

/// Makes processors favour saving energy over performance while power is saved.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EppConfig {
    /// The preference while saving. Default: `"balance_power"`. Allowed: `"performance"`,
    /// `"balance_performance"`, `"balance_power"` or `"power"`, if the host lists it in
    /// `energy_performance_available_preferences`.
    #[serde(default = "saving_default")]
    pub saving: String,
    /// The preference at full speed. Default: the value found at the start. Allowed: as for
    /// `saving`.
    #[serde(default)]
    pub at_full_speed: Option<String>,
}

impl Default for EppConfig {
    fn default() -> Self {
        Self { saving: saving_default(), at_full_speed: None }
    }
}

impl Default for EpbConfig {
    fn default() -> Self {
        Self { saving: bias_default(), at_full_speed: None }
    }
}

fn saving_default() -> String {
    "balance_power".to_owned()
}

/// Makes processors favour saving energy over performance while power is saved, by the energy bias
/// of older Intel processors.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpbConfig {
    /// The bias while saving. Default: `8` (balance towards saving energy). Allowed: 0
    /// (performance) to 15 (energy).
    #[serde(default = "bias_default")]
    pub saving: u32,
    /// The bias at full speed. Default: the value found at the start. Allowed: as for `saving`.
    #[serde(default)]
    pub at_full_speed: Option<u32>,
}

fn bias_default() -> u32 {
    8
}

/// How much a preference is for energy.
fn weight(preference: &str) -> Option<u32> {
    let word = WORDS.iter().find(|(word, _)| *word == preference).map(|(_, weight)| *weight);
    // A number is what some preference without a word reads as.
    word.or_else(|| preference.parse().ok().filter(|weight| *weight <= 255))
}

impl EppConfig {
    pub(super) fn open(&self, root: &Root, topology: &Topology, groups: &[Group]) -> Opened {
        let mut places = Vec::new();
        for policy in topology.policies_of(&cores_of(groups)) {
            places.extend(self.place(root, policy, groups)?);
        }
        if places.is_empty() {
            return Err(if topology.driver_mode.as_deref() == Some("active") {
                format!(
                    "all cores prefer energy as much as {:?} does: nothing to turn",
                    self.saving
                )
            } else {
                "no energy_performance_preference: it is there in the active mode of intel_pstate \
                 (with HWP) and of amd-pstate only"
                    .to_owned()
            });
        }
        Ok(Box::new(SavingKnob::new(EPP, groups, topology, places)))
    }

    fn place(
        &self,
        root: &Root,
        policy: &FrequencyPolicy,
        groups: &[Group],
    ) -> Result<Option<Place>, String> {
        let device = policy.folder.rsplit('/').next().unwrap_or_default();
        let address = files_of(EPP).find_map(|file| file.of_device(root, device));
        let Some(address) = address else { return Ok(None) };
        let path = address.rest();
        check_others(path, &policy.cpus, groups, false)?;
        if policy.governor.as_deref() == Some("performance") {
            return Err(format!(
                "{}/scaling_governor is performance, under which the kernel takes no preference \
                 but that; set it to powersave (in the active mode that one is not slow)",
                policy.folder
            ));
        }
        let offered =
            read(root, &format!("{}/energy_performance_available_preferences", policy.folder))?;
        for wanted in [Some(&self.saving), self.at_full_speed.as_ref()].into_iter().flatten() {
            // "default" is taken, and reads back as another word.
            let is_offered = offered.split_whitespace().any(|word| word == wanted);
            if weight(wanted).is_none() || !is_offered {
                let words = offered.split_whitespace().filter(|word| weight(word).is_some());
                let words = words.collect::<Vec<_>>().join(", ");
                return Err(format!("preference {wanted:?} is not one of {words}"));
            }
        }
        let found = read(root, path)?;
        let saves = weight(&found) < weight(&self.saving);
        let place = Place::file(path, &*self.saving).of(policy.cpus.clone());
        Ok((saves || self.at_full_speed.is_some())
            .then(|| place.at_full_speed(self.at_full_speed.clone())))
    }
}

impl EpbConfig {
    pub(super) fn open(&self, root: &Root, topology: &Topology, groups: &[Group]) -> Opened {
        let file = files_of(EPB).next().ok_or("not in the table of files")?;
        for bias in [Some(self.saving), self.at_full_speed].into_iter().flatten() {
            check_bias(file, bias)?;
        }
        let (mut places, mut found_any) = (Vec::new(), false);
        for cpu in cores_of(groups).iter() {
            let Some(address) = file.of_device(root, &format!("cpu{cpu}")) else { continue };
            found_any = true;
            let found = read(root, address.rest())?.parse::<u32>().unwrap_or_default();
            if found < self.saving || self.at_full_speed.is_some() {
                let full = self.at_full_speed.map(|bias| bias.to_string());
                let place = Place::file(address.rest(), self.saving.to_string());
                places.push(place.at_full_speed(full).of([cpu].into_iter().collect()));
            }
        }
        if places.is_empty() {
            return Err(if found_any {
                format!("all cores have a bias of {} or more: nothing to turn", self.saving)
            } else {
                "no cpuN/power/energy_perf_bias: these processors have none".to_owned()
            });
        }
        Ok(Box::new(SavingKnob::new(EPB, groups, topology, places)))
    }
}

fn check_bias(file: &KnobFile, bias: u32) -> Result<(), String> {
    let within = (file.min..=file.max).contains(&f64::from(bias));
    let message = || format!("a bias of {bias} is not between {} and {}", file.min, file.max);
    within.then_some(()).ok_or_else(message)
}
