//! `cpu.frequency`: the frequency of the active cores.
//!
//! Cores that change frequency together run at the highest that any active one of them needs; where
//! none is active, at the lowest there is. The operator's own limits hold: nothing goes below
//! `scaling_min_freq` or above `scaling_max_freq` as they were found. Under the governor
//! `userspace` the frequency itself is set (`scaling_setspeed`), under any other a cap
//! (`scaling_max_freq`), below which the governor goes on choosing.

use super::Opened;
use super::table::{KnobFile, files_of};
use crate::Root;
use crate::groups::Group;
use crate::topology::{CPU_FOLDER, FrequencyPolicy, Topology};
use serde::Deserialize;
use wattio_governor::{Address, Assignment, Cpus, Knob, Layer, MachineError, MachineView, Setting};
use wattio_units::Hertz;

pub(super) const NAME: &str = "cpu.frequency";

/// Sets the frequency of the groups' cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrequencyConfig {}

struct FrequencyKnob {
    domains: Vec<Domain>,
}

/// Cores that change frequency together.
struct Domain {
    policy: FrequencyPolicy,
    file: &'static KnobFile,
    address: Address,
    /// Whether the file is a cap, and not the frequency itself.
    caps: bool,
}

impl FrequencyConfig {
    pub(super) fn open(&self, root: &Root, topology: &Topology, groups: &[Group]) -> Opened {
        let cores = groups.iter().fold(Cpus::default(), |all, group| all.or(&group.cores()));
        let mut domains = Vec::new();
        for policy in topology.policies_of(&cores) {
            let others = policy.cpus.and(&topology.online).without(&cores);
            if !others.is_empty() {
                return Err(format!(
                    "cores {} change frequency together with {others}, which are in no group; put \
                     them into one",
                    policy.cpus.and(&cores)
                ));
            }
            domains.push(Domain::open(root, policy)?);
        }
        if domains.is_empty() {
            return Err(format!(
                "{CPU_FOLDER}/cpufreq has no policy of cores {cores}: the kernel has no driver for \
                 their frequency (a virtual machine's has none; on hardware see the firmware's \
                 power profile, which must leave it to the operating system)"
            ));
        }
        if domains.iter().all(|domain| domain.policy.lowest() >= domain.policy.highest()) {
            return Err("scaling_min_freq is no lower than scaling_max_freq; lower it".to_owned());
        }
        Ok(Box::new(FrequencyKnob { domains }))
    }
}

impl Domain {
    fn open(root: &Root, policy: &FrequencyPolicy) -> Result<Self, String> {
        let caps = policy.governor.as_deref() != Some("userspace");
        let name = if caps { "scaling_max_freq" } else { "scaling_setspeed" };
        let device = policy.folder.rsplit('/').next().unwrap_or_default();
        let file = files_of(NAME).find(|file| file.name() == name);
        let place = file.and_then(|file| Some((file, file.of_device(root, device)?)));
        let (file, address) = place.ok_or(format!("{}/{name} is not there", policy.folder))?;
        Ok(Self { policy: policy.clone(), file, address, caps })
    }

    fn assignment(&self, setting: &Setting) -> Assignment {
        if setting.full_speed && self.caps {
            return Assignment::original(self.address.clone());
        }
        let needs = setting.groups.iter().filter(|g| g.active.meets(&self.policy.cpus));
        let highest = needs.map(|group| group.frequency.0).fold(None, |highest: Option<f64>, f| {
            // A value that is not a number fails towards full speed.
            let f = if f.is_nan() { f64::INFINITY } else { f };
            Some(highest.map_or(f, |highest| highest.max(f)))
        });
        let wanted = if setting.full_speed {
            self.policy.highest()
        } else {
            highest.map_or(self.policy.lowest(), Hertz)
        };
        let value = self.file.text(self.policy.resolve(wanted).0);
        Assignment::new(self.address.clone(), value)
    }
}

impl Knob for FrequencyKnob {
    fn name(&self) -> &str {
        NAME
    }

    fn layer(&self) -> Layer {
        Layer::Speed
    }

    fn assignments(
        &mut self,
        setting: &Setting,
        machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        // The files of cores that are all off answer EBUSY; they keep their value meanwhile.
        let online = Address::new("file", &format!("{CPU_FOLDER}/online"));
        let online = machine.read(&online).ok().and_then(|text| text.parse::<Cpus>().ok());
        let on = |domain: &&Domain| {
            online.as_ref().is_none_or(|online| online.meets(&domain.policy.cpus))
        };
        Ok(self.domains.iter().filter(on).map(|domain| domain.assignment(setting)).collect())
    }
}
