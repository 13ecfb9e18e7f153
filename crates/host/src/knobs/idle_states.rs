//! `cpu.idle`, `cpu.latency`: how deeply idle cores sleep.
//!
//! Deeper states draw less and take longer to leave. The kernel's default, and so a host that
//! nobody tuned, allows all of them: there "full performance" includes the exit latency of the
//! deepest state (some 100 us), and these knobs save nothing. They are for hosts whose idle cores
//! are kept in shallow states, but whose operator wants that only at full speed.
//!
//! `cpu.idle` switches states (`cpuidle/stateN/disable`) of the groups' cores only. `cpu.latency`
//! holds `/dev/cpu_dma_latency` open, for all processors of the host. When the process ends, for
//! whatever reason, the kernel drops the request: the fallback is the kernel's default, with deep
//! states.

use super::Opened;
use super::saving_knob::{Place, SavingKnob, cores_of, read};
use super::table::files_of;
use crate::Root;
use crate::groups::Group;
use crate::machine::dma_latency;
use crate::topology::{CPU_FOLDER, Topology};
use serde::Deserialize;
use wattio_governor::{Address, Target};
use wattio_units::Seconds;

pub(super) const STATES: &str = "cpu.idle";
pub(super) const LATENCY: &str = "cpu.latency";

/// Switches idle states of the groups' cores on and off. At least one of the two keys is required.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleStatesConfig {
    /// While saving, states that take at most this long to leave are allowed, even if they were
    /// switched off before. Default: the states found on at the start. Allowed: a time, not less
    /// than `at_full_speed`.
    #[serde(default)]
    pub saving: Option<Seconds>,
    /// At full speed, states that take longer than this to leave are switched off. Default: the
    /// states found on at the start. Allowed: a time.
    #[serde(default)]
    pub at_full_speed: Option<Seconds>,
}

/// Keeps idle states shallow at full speed, on all processors, as long as `wattiod` runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyConfig {
    /// The longest that a processor may take to wake at full speed; `"0 s"` keeps processors from
    /// sleeping at all. While saving, there is no limit. Allowed: 0 s to 1 s, in whole
    /// microseconds.
    pub at_full_speed: Seconds,
}

/// The longest that the kernel is asked for.
const LATENCY_MAX: Seconds = Seconds(1.0);

impl IdleStatesConfig {
    /// See [`super::KnobConfig::check`].
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.saving, self.at_full_speed) {
            (None, None) => Err("has neither saving nor at_full_speed: nothing to turn".to_owned()),
            (Some(saving), Some(full)) if saving < full => Err(format!(
                "saving = {saving} is less than at_full_speed = {full}: cores would sleep less \
                 deeply while saving"
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn open(&self, root: &Root, topology: &Topology, groups: &[Group]) -> Opened {
        self.check()?;
        let (mut places, mut states) = (Vec::new(), 0);
        for cpu in cores_of(groups).iter() {
            for (path, latency) in states_of(root, cpu)? {
                states += 1;
                let set = |is: bool, value: &str| {
                    if is { Target::Set(value.to_owned()) } else { Target::Original }
                };
                let saving = set(self.saving.is_some_and(|longest| latency <= longest), "0");
                let full = set(self.at_full_speed.is_some_and(|longest| latency > longest), "1");
                if saving == Target::Original && full == Target::Original {
                    continue;
                }
                let own = [cpu].into_iter().collect();
                places.push(Place::new(Address::new("file", &path), saving, full).of(own));
            }
        }
        if places.is_empty() {
            return Err(if states == 0 {
                format!(
                    "{CPU_FOLDER}/cpuN/cpuidle has no states to switch: the kernel has no driver of \
                     idle states (a virtual machine's seldom has)"
                )
            } else {
                "no idle state lies between what the two keys ask for: nothing to turn".to_owned()
            });
        }
        Ok(Box::new(SavingKnob::new(STATES, groups, topology, places)))
    }
}

/// What the kernel calls the state in which a processor polls (`drivers/cpuidle/poll_state.c`). It is
/// the first where there is one; on ARM and others the first is a real state.
const POLLS: &str = "POLL";

/// The switches of the idle states of a processor, and how long each takes to leave; not of the one in
/// which it polls.
fn states_of(root: &Root, cpu: u32) -> Result<Vec<(String, Seconds)>, String> {
    let folder = format!("{CPU_FOLDER}/cpu{cpu}/cpuidle");
    let mut found = Vec::new();
    let sleeps = |state: &&String| {
        root.read(&format!("{folder}/{state}/name")).map_or(true, |name| name != POLLS)
    };
    for state in root.list(&folder).iter().filter(sleeps) {
        for file in files_of(STATES) {
            let path = file.file.replacen("{device}", &format!("cpu{cpu}"), 1);
            let path = path.replace("/*/", &format!("/{state}/"));
            if root.exists(&path) {
                let latency = read(root, &format!("{folder}/{state}/latency"))?;
                let microseconds: u32 = latency
                    .parse()
                    .map_err(|_| format!("{folder}/{state}/latency says {latency:?}"))?;
                found.push((path, Seconds(f64::from(microseconds) * 1e-6)));
            }
        }
    }
    Ok(found)
}

impl LatencyConfig {
    /// See [`super::KnobConfig::check`].
    pub(super) fn check(&self) -> Result<(), String> {
        let asked = self.at_full_speed;
        if (Seconds(0.0)..=LATENCY_MAX).contains(&asked) {
            return Ok(());
        }
        Err(format!("at_full_speed = {asked} is not between 0 s and {LATENCY_MAX}"))
    }

    pub(super) fn open(&self, root: &Root, topology: &Topology, groups: &[Group]) -> Opened {
        self.check()?;
        if !root.exists(dma_latency::DEVICE) {
            return Err(format!(
                "{} is not there; under systemd, DeviceAllow= must name it (deep.conf)",
                dma_latency::DEVICE
            ));
        }
        let value = format!("{:.0}", (self.at_full_speed.0 * 1e6).floor());
        let place = Place::new(dma_latency::address(), Target::Original, Target::Set(value));
        Ok(Box::new(SavingKnob::new(LATENCY, groups, topology, vec![place])))
    }
}
