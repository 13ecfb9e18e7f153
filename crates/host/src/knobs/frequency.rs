//! `cpu.frequency`: the frequency of the active cores.
//!
//! Cores that change frequency together run at the highest frequency that any active one of them
//! needs, or, if none is active, at the lowest. The operator's own limits hold: nothing goes below
//! `scaling_min_freq` or above `scaling_max_freq` as they were found. Under the governor
//! `userspace` the knob sets the frequency itself (`scaling_setspeed`); under any other governor it
//! sets a cap (`scaling_max_freq`), below which the governor goes on choosing. This includes the
//! active mode of intel_pstate and amd-pstate, whose governors `performance` and `powersave` both
//! keep within the limits.
//!
//! If somebody raises `scaling_min_freq` meanwhile, that is taken as intended: nothing goes below
//! it from then on. In the kernel a cap wins over a minimum, and the cap is shown in place of the
//! minimum (`cpufreq_verify_within_limits`). So a minimum that has risen to the cap is read again
//! without the cap. A minimum that is raised while the cap is at the old minimum does not show
//! before the cap rises again.

use super::Opened;
use super::table::{KnobFile, files_of};
use crate::Root;
use crate::groups::Group;
use crate::topology::{CPU_FOLDER, FrequencyPolicy, Topology, from_khz, khz};
use serde::Deserialize;
use wattio_governor::{Address, Assignment, Cpus, Knob, Layer, MachineError, MachineView, Setting};
use wattio_units::Hertz;

pub(super) const NAME: &str = "cpu.frequency";
/// Of how many policies the minimum is looked at when the setting stays.
const LOOKED_AT_AGAIN: usize = 16;

/// Sets the frequency of the groups' cores.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrequencyConfig {
    /// Lowers `scaling_min_freq` to this frequency while power is saved, if it is higher, and
    /// restores it at full speed. Needed if that minimum leaves nothing to save: tuned's
    /// `throughput-performance` sets it to the highest frequency. Default: none: the minimum stays
    /// as it is. Allowed: a frequency such as `"1.2 GHz"`; a value below the hardware's lowest
    /// means the hardware's lowest.
    #[serde(default)]
    pub minimum: Option<Hertz>,
}

struct FrequencyKnob {
    domains: Vec<Domain>,
    /// Where to look next when the setting stays.
    next: usize,
}

/// Cores that change frequency together.
struct Domain {
    policy: FrequencyPolicy,
    file: &'static KnobFile,
    address: Address,
    /// Whether the file is a cap, and not the frequency itself.
    caps: bool,
    /// Where the lowest frequency stands, if the host tells.
    minimum: Option<(&'static KnobFile, Address)>,
    /// Whether the knob lowers it.
    lowers: bool,
    /// Whether the knob asked for that the last time.
    lowered: bool,
    floor: Floor,
}

/// What is known of the lowest frequency that the operator wants now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Floor {
    /// It is this.
    Known(Hertz),
    /// It rose as far as our own cap, which hides how far.
    Hidden,
}

impl FrequencyConfig {
    /// A policy as it is while the knob acts: with the minimum that it sets.
    fn lowered(&self, policy: &FrequencyPolicy) -> FrequencyPolicy {
        let mut policy = policy.clone();
        if let Some(minimum) = self.minimum {
            let lowest = if minimum < policy.hardware_min { policy.hardware_min } else { minimum };
            if lowest < policy.lowest() {
                policy.scaling_min = Some(lowest);
            }
        }
        policy
    }

    /// The host's frequencies as they are while the knob acts.
    pub(super) fn limits(&self, topology: &mut Topology) {
        for policy in &mut topology.policies {
            *policy = FrequencyPolicy { is_turned: true, ..self.lowered(policy) };
        }
    }

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
            domains.push(Domain::open(root, self.lowered(policy), self.minimum.is_some())?);
        }
        if domains.is_empty() {
            return Err(format!(
                "{CPU_FOLDER}/cpufreq has no policy of cores {cores}: the kernel has no driver for \
                 their frequency (a virtual machine's has none; on hardware see the firmware's \
                 power profile, which must leave it to the operating system)"
            ));
        }
        if domains.iter().all(|domain| domain.policy.lowest() >= domain.policy.highest()) {
            return Err(
                "scaling_min_freq is not below scaling_max_freq; lower it, or let the knob do \
                 so: minimum = \"1.2 GHz\""
                    .to_owned(),
            );
        }
        Ok(Box::new(FrequencyKnob { domains, next: 0 }))
    }
}

impl Domain {
    /// Whether any of its cores is on. The files of cores that are all off answer EBUSY; they keep
    /// their value meanwhile.
    fn is_on(&self, online: Option<&Cpus>) -> bool {
        online.is_none_or(|online| online.meets(&self.policy.cpus))
    }

    fn open(root: &Root, policy: FrequencyPolicy, lowers: bool) -> Result<Self, String> {
        let caps = policy.governor.as_deref() != Some("userspace");
        let name = if caps { "scaling_max_freq" } else { "scaling_setspeed" };
        let device = policy.folder.rsplit('/').next().unwrap_or_default();
        let place = |name: &str| {
            let file = files_of(NAME).find(|file| file.name() == name)?;
            Some((file, file.of_device(root, device)?))
        };
        let (file, address) =
            place(name).ok_or(format!("{}/{name} is not there", policy.folder))?;
        let minimum = place("scaling_min_freq");
        let floor = Floor::Known(policy.lowest());
        Ok(Self { policy, file, address, caps, minimum, lowers, lowered: false, floor })
    }

    /// Learns whether somebody moved the minimum since.
    fn look(&mut self, machine: &mut dyn MachineView) {
        let Some((_, address)) = &self.minimum else { return };
        if self.lowers && !self.lowered {
            return;
        }
        let Ok(text) = machine.read(address) else { return };
        let Some(found) = from_khz(&text) else { return };
        let lowest = self.policy.lowest();
        let known = match self.floor {
            Floor::Known(known) => known,
            Floor::Hidden => lowest,
        };
        if machine.took(address, &khz(known), &text) {
            self.floor = Floor::Known(known);
            return;
        }
        let cap = machine.read(&self.address).ok().as_deref().and_then(from_khz);
        // A cap that heat or firmware set below the lowest frequency hides no minimum that was raised.
        let is_capped =
            found >= lowest && cap.is_some_and(|cap| found >= cap && cap < self.policy.highest());
        self.floor = if self.caps && is_capped {
            Floor::Hidden
        } else {
            Floor::Known(if found > lowest { found } else { lowest })
        };
    }

    /// The values, in the order of writing: the minimum leaves before the cap does, and returns
    /// after it.
    fn assignments(&mut self, setting: &Setting) -> Vec<Assignment> {
        let mut assignments = vec![self.assignment(setting)];
        self.lowered = !setting.full_speed;
        if let (true, Some((file, address))) = (self.lowers, &self.minimum) {
            if setting.full_speed {
                assignments.push(Assignment::original(address.clone()));
            } else {
                let value = file.text(self.policy.lowest().0);
                assignments.insert(0, Assignment::new(address.clone(), value));
            }
        }
        assignments
    }

    fn assignment(&self, setting: &Setting) -> Assignment {
        let floor = match self.floor {
            Floor::Known(floor) => floor,
            Floor::Hidden => self.policy.highest(),
        };
        if self.caps && (setting.full_speed || self.floor == Floor::Hidden) {
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
            highest.map_or(floor, |highest| Hertz(highest.max(floor.0)))
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

    /// Somebody may raise the minimum while the setting stays.
    fn looks_again(&self) -> bool {
        true
    }

    fn assignments(
        &mut self,
        setting: &Setting,
        machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let online = online(machine);
        let mut assignments = Vec::new();
        for domain in &mut self.domains {
            if domain.is_on(online.as_ref()) {
                domain.look(machine);
                assignments.extend(domain.assignments(setting));
            }
        }
        Ok(assignments)
    }

    /// Whoever raises minima mostly raises all of them: one that is found raised has all looked at.
    fn assignments_again(
        &mut self,
        setting: &Setting,
        machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let online = online(machine);
        let count = self.domains.len();
        let from = std::mem::take(&mut self.next);
        let to = (from + LOOKED_AT_AGAIN).min(count);
        self.next = if to < count { to } else { 0 };
        let mut assignments = Vec::new();
        for domain in &mut self.domains[from..to] {
            if !domain.is_on(online.as_ref()) {
                continue;
            }
            let before = domain.floor;
            domain.look(machine);
            if domain.floor != before {
                // Here first the next time, as one that hides its minimum shows it then.
                self.next = from;
                return self.assignments(setting, machine);
            }
            assignments.extend(domain.assignments(setting));
        }
        Ok(assignments)
    }
}

fn online(machine: &mut dyn MachineView) -> Option<Cpus> {
    let online = Address::new("file", &format!("{CPU_FOLDER}/online"));
    machine.read(&online).ok().and_then(|text| text.parse().ok())
}
