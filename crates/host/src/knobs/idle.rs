//! `nvme.power`, `disk.runtime`, `sata.alpm`: drives that may sleep while nothing is asked for.
//!
//! All three act in the law's state Idle only; in every other the old value stands.

use super::table::{KnobFile, files_of};
use super::{Opened, devices};
use crate::Root;
use serde::Deserialize;
use wattio_governor::{Address, Assignment, Knob, Layer, Machine, MachineError, Setting};
use wattio_law::OperatingState;
use wattio_units::Seconds;

pub(super) const NVME: &str = "nvme.power";
pub(super) const DISK: &str = "disk.runtime";
pub(super) const SATA: &str = "sata.alpm";

/// Lets NVMe drives use deeper power states of their own (APST). Which ones is up to the drive's
/// table and the latency that it may take to come back. The power state itself is left alone: that
/// needs an admin command (`nvme set-feature`), which only the ioctl takes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvmeConfig {
    /// Controllers by name, `*` for any text: `["nvme*"]`.
    pub devices: Vec<String>,
    /// How long the drive may take to come back, by default 100 ms.
    #[serde(default = "latency_default")]
    pub latency: Seconds,
}

fn latency_default() -> Seconds {
    Seconds(0.1)
}

/// Stops SCSI and ATA disks. The request that ends the idle time waits until the disk turns again,
/// and so does the write that puts the old value back: up to some ten seconds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskConfig {
    /// Disks by name, `*` for any text: `["sdb", "sdc"]`. Never one with the system on it: its
    /// log would start it again every few seconds.
    pub devices: Vec<String>,
    /// After how much time without a request a disk stops, by default 60 s.
    #[serde(default = "after_default")]
    pub after: Seconds,
}

fn after_default() -> Seconds {
    Seconds(60.0)
}

/// Lets SATA links sleep.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SataConfig {
    /// Hosts by name, `*` for any text: `["host*"]`.
    pub devices: Vec<String>,
    /// The policy, by default `med_power_with_dipm`.
    #[serde(default = "policy_default")]
    pub policy: String,
    /// Must be set for the policies `min_power` and `min_power_with_partial`: with some drives they
    /// have lost data.
    #[serde(default)]
    pub accept_data_loss: bool,
}

fn policy_default() -> String {
    "med_power_with_dipm".to_owned()
}

/// Files that hold one value in Idle and their old value otherwise.
struct IdleKnob {
    name: &'static str,
    /// In the order of writing.
    files: Vec<(Address, String)>,
}

impl NvmeConfig {
    pub(super) fn open(&self, root: &Root) -> Opened {
        let mut files = Vec::new();
        for device in devices(root, "/sys/class/nvme", &self.devices)? {
            for file in files_of(NVME) {
                let address = file.of_device(root, &device).ok_or_else(|| {
                    format!("{device} has no {}: it has no power states of its own", file.name())
                })?;
                files.push((address, seconds(file, "latency", self.latency)?));
            }
        }
        Ok(Box::new(IdleKnob { name: NVME, files }))
    }
}

impl DiskConfig {
    pub(super) fn open(&self, root: &Root) -> Opened {
        let mut files = Vec::new();
        for device in devices(root, "/sys/block", &self.devices)? {
            // The older file is read only where the newer one is there.
            let newer = files_of(DISK).any(|file| {
                file.name() == "manage_runtime_start_stop"
                    && file.of_device(root, &device).is_some()
            });
            let needed = files_of(DISK).filter(|file| match file.name() {
                "manage_runtime_start_stop" => newer,
                "manage_start_stop" => !newer,
                _ => true,
            });
            for file in needed {
                let address = file.of_device(root, &device).ok_or_else(|| {
                    format!("{device} has no {}: it is no SCSI or ATA disk", file.name())
                })?;
                // The kernel answers EIO where the driver does not suspend by itself.
                root.read(address.rest()).map_err(|error| {
                    format!("{}: {error}: {device} cannot stop", address.rest())
                })?;
                let value = match &file.act {
                    Some(act) => act.clone(),
                    None => seconds(file, "after", self.after)?,
                };
                files.push((address, value));
            }
        }
        Ok(Box::new(IdleKnob { name: DISK, files }))
    }
}

impl SataConfig {
    pub(super) fn open(&self, root: &Root) -> Opened {
        let known: Vec<_> =
            files_of(SATA).flat_map(|file| &file.values).map(String::as_str).collect();
        if !known.contains(&self.policy.as_str()) {
            return Err(format!("policy {:?} is none of {}", self.policy, known.join(", ")));
        }
        if self.policy.starts_with("min_power") && !self.accept_data_loss {
            return Err(format!(
                "policy {:?} has lost data on some drives; use \"med_power_with_dipm\", or set \
                 accept_data_loss = true",
                self.policy
            ));
        }
        let mut files = Vec::new();
        for device in devices(root, "/sys/class/scsi_host", &self.devices)? {
            for file in files_of(SATA) {
                // Of the hosts that fit, only SATA has such links.
                let Some(address) = file.of_device(root, &device) else { continue };
                let now = root.read(address.rest()).unwrap_or_default();
                if !file.values.contains(&now) {
                    return Err(format!(
                        "{} holds {now:?}, which the kernel does not take back; set it to one of \
                         {} first",
                        address.rest(),
                        file.values.join(", ")
                    ));
                }
                files.push((address, self.policy.clone()));
            }
        }
        if files.is_empty() {
            return Err(format!("none of {:?} is a SATA host", self.devices));
        }
        Ok(Box::new(IdleKnob { name: SATA, files }))
    }
}

/// What to write for a time, if the file takes it.
fn seconds(file: &KnobFile, key: &str, value: Seconds) -> Result<String, String> {
    if value.0 >= file.min && value.0 <= file.max {
        return Ok(file.text(value.0));
    }
    let (least, most) = (Seconds(file.min), Seconds(file.max));
    Err(format!("{key} = {value} is not between {least} and {most}"))
}

impl Knob for IdleKnob {
    fn name(&self) -> &str {
        self.name
    }

    fn layer(&self) -> Layer {
        Layer::Speed
    }

    fn assignments(
        &mut self,
        setting: &Setting,
        _machine: &mut dyn Machine,
    ) -> Result<Vec<Assignment>, MachineError> {
        if setting.state == Some(OperatingState::Idle) && !setting.full_speed {
            let set = |(address, value): &(Address, String)| {
                Assignment::new(address.clone(), value.clone())
            };
            return Ok(self.files.iter().map(set).collect());
        }
        // Undone from the end: a disk that is told to stay on needs its delay no more.
        let back = self.files.iter().rev();
        Ok(back.map(|(address, _)| Assignment::original(address.clone())).collect())
    }
}
