//! `nvme.power`, `disk.runtime`, `sata.alpm`: drives that may sleep while there are no requests.
//!
//! All three act only in the law's state Idle; otherwise the old value stays.

use super::table::{KnobFile, files_of};
use super::{Opened, devices};
use crate::Root;
use crate::machine::NvmeTool;
use serde::Deserialize;
use wattio_governor::{Address, Assignment, Knob, Layer, MachineError, MachineView, Setting};
use wattio_law::{DriveAction, DriveSleep};
use wattio_units::Seconds;

pub(super) const NVME: &str = "nvme.power";
pub(super) const DISK: &str = "disk.runtime";
pub(super) const SATA: &str = "sata.alpm";

/// Lets NVMe drives sleep. With `latency`, a drive chooses deeper power states itself (APST),
/// according to its own table and the time it may take to wake. With `power_state`, `wattiod` sends
/// the drive to that state by means of `nvme` (nvme-cli); use this for drives without APST, or with
/// APST off.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvmeConfig {
    /// The NVMe controllers. Allowed: a list of names, such as `["nvme*"]`; `*` matches any text.
    pub devices: Vec<String>,
    /// How long the drive may take to wake. Default: `"100 ms"`. Allowed: 0 s to 2147 s; not
    /// together with `power_state`.
    #[serde(default)]
    pub latency: Option<Seconds>,
    /// The power state in Idle. 0 is the fastest; `nvme id-ctrl` lists the drive's states. Allowed:
    /// a state of the drive; a non-operational one only with `accept_non_operational`.
    #[serde(default)]
    pub power_state: Option<u8>,
    /// Must be `true` for a state in which the drive accepts no requests (non-operational). The
    /// drive has to wake for the first request, and with some firmware drives have been lost in
    /// such a state until the next boot. Default: `false`.
    #[serde(default)]
    pub accept_non_operational: bool,
    /// The path of nvme-cli, for `power_state`. Default: `"/usr/sbin/nvme"`. Allowed: an absolute
    /// path.
    #[serde(default = "program_default")]
    pub program: String,
    /// The longest wait of the request that wakes a drive; the law checks it against the bounds.
    /// Default: the value of `latency`; with `power_state` `"100 ms"` (assumed). Allowed: 0 s to 2
    /// min.
    #[serde(default)]
    pub wake: Option<Seconds>,
}

const NVME_FOLDER: &str = "/sys/class/nvme";
const DISK_FOLDER: &str = "/sys/block";
const SATA_FOLDER: &str = "/sys/class/scsi_host";
const LATENCY_DEFAULT: Seconds = Seconds(0.1);

fn program_default() -> String {
    "/usr/sbin/nvme".to_owned()
}

/// Stops SCSI and ATA disks. The request that ends the idle time waits for the disk to spin up, and
/// so does the write that restores the old value: up to about ten seconds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskConfig {
    /// The disks. Never name the system disk: its log would spin it up every few seconds. Allowed:
    /// a list of names, such as `["sdb", "sdc"]`; `*` matches any text.
    pub devices: Vec<String>,
    /// A disk stops after this long without a request. Default: `"1 min"`. Allowed: 0 s to 2147483
    /// s.
    #[serde(default = "after_default")]
    pub after: Seconds,
    /// The longest wait of the request that wakes a disk; the law checks it against the bounds.
    /// Default: `"10 s"` (assumed: a large disk that has to spin up). Allowed: 0 s to 2 min.
    #[serde(default)]
    pub wake: Option<Seconds>,
}

fn after_default() -> Seconds {
    Seconds(60.0)
}

/// Lets SATA links sleep.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SataConfig {
    /// The SATA hosts (ports). Allowed: a list of names, such as `["host*"]`; `*` matches any text.
    pub devices: Vec<String>,
    /// The link's power management policy in Idle. Default: `"med_power_with_dipm"`. Allowed:
    /// `"max_performance"`, `"medium_power"`, `"med_power_with_dipm"`, `"min_power_with_partial"`,
    /// `"min_power"`.
    #[serde(default = "policy_default")]
    pub policy: String,
    /// Must be `true` for the policies `min_power` and `min_power_with_partial`, which have lost
    /// data on some drives. Default: `false`.
    #[serde(default)]
    pub accept_data_loss: bool,
    /// The longest wait of the request that wakes a link; the law checks it against the bounds.
    /// Default: `"20 ms"` (assumed: the nominal exit latency of DevSleep). Allowed: 0 s to 2 min.
    #[serde(default)]
    pub wake: Option<Seconds>,
}

/// The default wait of the request that ends the sleep.
const NVME_STATE_WAKE: Seconds = Seconds(0.1);
const DISK_WAKE: Seconds = Seconds(10.0);
const SATA_WAKE: Seconds = Seconds(0.02);
const WAKE_MAX: Seconds = Seconds(120.0);

fn policy_default() -> String {
    "med_power_with_dipm".to_owned()
}

/// The drives that a knob lets sleep.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resting {
    /// How many drives or links.
    count: usize,
    /// How long the request that ends it waits.
    wake: Seconds,
    /// The time without a request after which it begins.
    after: Seconds,
}

/// The sleep of all drives, from the knobs of NVMe drives, disks and links. A disk and its link
/// count as one drive; the slowest to wake counts for all.
pub(super) fn sleep_of(
    nvme: &[Resting],
    disks: &[Resting],
    links: &[Resting],
) -> Option<DriveSleep> {
    let count = |resting: &[Resting]| resting.iter().map(|resting| resting.count).sum::<usize>();
    let all = || nvme.iter().chain(disks).chain(links);
    let drives = count(nvme) + count(disks).max(count(links));
    (drives > 0).then(|| DriveSleep {
        count: u32::try_from(drives).unwrap_or(u32::MAX),
        // It has not been measured.
        saves: None,
        wake: all()
            .map(|resting| resting.wake)
            .fold(Seconds(0.0), |a, b| if b > a { b } else { a }),
        after: all()
            .map(|resting| resting.after)
            .fold(Seconds(0.0), |a, b| if b > a { b } else { a }),
    })
}

fn resting(
    there: Vec<String>,
    wake: Option<Seconds>,
    usual: Seconds,
    after: Seconds,
) -> Result<Resting, String> {
    let wake = wake.unwrap_or(usual);
    check_wake(wake)?;
    Ok(Resting { count: there.len(), wake, after })
}

fn check_wake(wake: Seconds) -> Result<(), String> {
    if (Seconds(0.0)..=WAKE_MAX).contains(&wake) {
        return Ok(());
    }
    Err(format!("wake = {wake} is not between 0 s and {WAKE_MAX}"))
}

/// What all three knobs have.
fn check_named(devices: &[String], such_as: &str, wake: Option<Seconds>) -> Result<(), String> {
    if devices.is_empty() {
        return Err(format!("devices names none; allowed: such as {such_as}"));
    }
    wake.map_or(Ok(()), check_wake)
}

/// Whether every file that `knob` writes a time to takes `value`.
fn check_seconds(knob: &str, key: &str, value: Seconds) -> Result<(), String> {
    let timed = |file: &&KnobFile| file.act.is_none();
    files_of(knob).filter(timed).try_for_each(|file| seconds(file, key, value).map(|_| ()))
}

/// Files that hold one value in Idle and their old value otherwise.
struct IdleKnob {
    name: &'static str,
    /// In the order of writing.
    files: Vec<(Address, String)>,
}

impl NvmeConfig {
    /// See [`super::KnobConfig::check`].
    pub(super) fn check(&self) -> Result<(), String> {
        check_named(&self.devices, "[\"nvme*\"]", self.wake)?;
        match (self.latency, self.power_state) {
            (Some(_), Some(_)) => {
                Err("has both latency and power_state: give one of them".to_owned())
            }
            (None, Some(_)) if !self.program.starts_with('/') => Err(format!(
                "program = {:?} must be an absolute path, such as /usr/sbin/nvme",
                self.program
            )),
            (None, Some(_)) => Ok(()),
            (latency, None) => check_seconds(NVME, "latency", latency.unwrap_or(LATENCY_DEFAULT)),
        }
    }

    pub(super) fn resting(&self, root: &Root) -> Result<Resting, String> {
        let there = devices(root, NVME_FOLDER, &self.devices)?;
        let usual = match self.power_state {
            Some(_) => NVME_STATE_WAKE,
            None => self.latency.unwrap_or(LATENCY_DEFAULT),
        };
        resting(there, self.wake, usual, Seconds(0.0))
    }

    pub(super) fn open(&self, root: &Root) -> Opened {
        self.check()?;
        let mut files = Vec::new();
        for device in devices(root, NVME_FOLDER, &self.devices)? {
            files.push(match self.power_state {
                Some(state) => self.ordered(root, &device, state)?,
                None => self.autonomous(root, &device)?,
            });
        }
        self.resting(root)?;
        Ok(Box::new(IdleKnob { name: NVME, files }))
    }

    /// The program that sets power states, if one is configured.
    pub(super) fn tool(&self) -> Option<NvmeTool> {
        let (program, devices) = (self.program.clone(), self.devices.clone());
        self.power_state.map(|_| NvmeTool { program, devices })
    }

    /// States of the drive's own choice.
    fn autonomous(&self, root: &Root, device: &str) -> Result<(Address, String), String> {
        let (file, address) = tolerance(root, device).ok_or_else(|| {
            format!(
                "{device} has no pm_qos_latency_tolerance_us: it has no power states of its own"
            )
        })?;
        Ok((address, seconds(file, "latency", self.latency.unwrap_or(LATENCY_DEFAULT))?))
    }

    /// A state that the drive is sent to.
    fn ordered(&self, root: &Root, device: &str, state: u8) -> Result<(Address, String), String> {
        let tool = self.tool().ok_or("has no power_state")?;
        if let Some((_, address)) = tolerance(root, device) {
            let now = root.read(address.rest()).unwrap_or_default();
            if now != "0" {
                return Err(format!(
                    "{device} changes its power state by itself (APST): use latency instead of \
                     power_state, or write 0 to {} first",
                    address.rest()
                ));
            }
        }
        let states = tool.operational(root, device)?;
        let last = states.len().saturating_sub(1);
        match states.get(usize::from(state)) {
            None => Err(format!("power_state = {state}: {device} has 0 to {last}")),
            Some(false) if !self.accept_non_operational => Err(format!(
                "power_state = {state}: {device} takes no requests in this state, and has to wake \
                 for each; choose an operational one, or set accept_non_operational = true"
            )),
            Some(_) => Ok((Address::new("nvme", device), state.to_string())),
        }
    }
}

/// The file that sets how long a drive may take to wake, if it has one.
fn tolerance(root: &Root, device: &str) -> Option<(&'static KnobFile, Address)> {
    files_of(NVME).find_map(|file| Some((file, file.of_device(root, device)?)))
}

impl DiskConfig {
    /// See [`super::KnobConfig::check`].
    pub(super) fn check(&self) -> Result<(), String> {
        check_named(&self.devices, "[\"sdb\"]", self.wake)?;
        check_seconds(DISK, "after", self.after)
    }

    pub(super) fn resting(&self, root: &Root) -> Result<Resting, String> {
        let there = devices(root, DISK_FOLDER, &self.devices)?;
        resting(there, self.wake, DISK_WAKE, self.after)
    }

    pub(super) fn open(&self, root: &Root) -> Opened {
        self.check()?;
        let mut files = Vec::new();
        for device in devices(root, DISK_FOLDER, &self.devices)? {
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
                    format!("{device} has no {}: it is not a SCSI or ATA disk", file.name())
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
        self.resting(root)?;
        Ok(Box::new(IdleKnob { name: DISK, files }))
    }
}

impl SataConfig {
    /// See [`super::KnobConfig::check`].
    pub(super) fn check(&self) -> Result<(), String> {
        check_named(&self.devices, "[\"host*\"]", self.wake)?;
        let known: Vec<_> =
            files_of(SATA).flat_map(|file| &file.values).map(String::as_str).collect();
        if !known.contains(&self.policy.as_str()) {
            return Err(format!("policy {:?} is not one of {}", self.policy, known.join(", ")));
        }
        if self.policy.starts_with("min_power") && !self.accept_data_loss {
            return Err(format!(
                "policy {:?} has lost data on some drives; use \"med_power_with_dipm\", or set \
                 accept_data_loss = true",
                self.policy
            ));
        }
        Ok(())
    }

    pub(super) fn resting(&self, root: &Root) -> Result<Resting, String> {
        let mut there = devices(root, SATA_FOLDER, &self.devices)?;
        let has_link =
            |host: &String| files_of(SATA).any(|file| file.of_device(root, host).is_some());
        there.retain(has_link);
        resting(there, self.wake, SATA_WAKE, Seconds(0.0))
    }

    pub(super) fn open(&self, root: &Root) -> Opened {
        self.check()?;
        let mut files = Vec::new();
        for device in devices(root, SATA_FOLDER, &self.devices)? {
            for file in files_of(SATA) {
                // Of the hosts that fit, only SATA has such links.
                let Some(address) = file.of_device(root, &device) else { continue };
                let now = root.read(address.rest()).unwrap_or_default();
                if !file.values.contains(&now) {
                    return Err(format!(
                        "{} holds {now:?}, which the kernel would not accept again; set it to one \
                         of {} first",
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
        self.resting(root)?;
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
        Layer::Slow
    }

    fn assignments(
        &mut self,
        setting: &Setting,
        _machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        if setting.drives == DriveAction::Asleep && !setting.full_speed {
            let set = |(address, value): &(Address, String)| {
                Assignment::new(address.clone(), value.clone())
            };
            return Ok(self.files.iter().map(set).collect());
        }
        // Undone from the end: a disk that stays on no longer needs its delay.
        let back = self.files.iter().rev();
        Ok(back.map(|(address, _)| Assignment::original(address.clone())).collect())
    }
}
