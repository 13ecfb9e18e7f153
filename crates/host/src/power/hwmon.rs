//! Power sensors: `/sys/class/hwmon/hwmon*/power*_average` and `power*_input`, in microwatts.
//!
//! Source: kernel `Documentation/hwmon/sysfs-interface.rst`. If a sensor has both, its average is
//! read, which misses nothing between two readings.

use super::MeterInfo;
use super::attribute::Attribute;
use crate::Root;
use wattio_units::Seconds;

const FOLDER: &str = "/sys/class/hwmon";
/// More than any sensor measures, in microwatts: one without a value sets all bits of a 32-bit
/// number of milliwatts (ACPI power meters, management controllers), which reads as 4.3 MW.
const POWER_UW_MAX: u64 = 1_000_000_000_000;

/// One sensor.
#[derive(Clone, Debug)]
pub(super) struct Sensor {
    name: String,
    what: String,
    input: Attribute,
    last_w: Option<f64>,
    energy_j: f64,
}

fn sensors(root: &Root) -> Vec<Sensor> {
    let mut sensors: Vec<Sensor> = Vec::new();
    for chip in root.list(FOLDER) {
        let folder = format!("{FOLDER}/{chip}");
        let Ok(chip_name) = root.read(&format!("{folder}/name")) else { continue };
        let files = root.list(&folder);
        for file in &files {
            let Some((channel, kind)) = file.split_once('_') else { continue };
            let average = format!("{channel}_average");
            let best = kind == "average" || (kind == "input" && !files.contains(&average));
            let number = channel.strip_prefix("power").unwrap_or_default();
            if !best || number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            let mut name = format!("hwmon:{chip_name}/{channel}");
            // Two chips of one kind: the kernel's number tells them apart, until the next boot.
            if sensors.iter().any(|other| other.name == name) {
                name = format!("hwmon:{chip_name}@{chip}/{channel}");
            }
            let label = root.read(&format!("{folder}/{channel}_label"));
            let what = label.unwrap_or_else(|_| format!("power sensor of {chip_name}"));
            let input = Attribute::new(format!("{folder}/{file}"));
            sensors.push(Sensor { name, what, input, last_w: None, energy_j: 0.0 });
        }
    }
    sensors
}

pub(super) fn find(root: &Root) -> Vec<MeterInfo> {
    let info = |mut sensor: Sensor| MeterInfo {
        problem: microwatts(root, &mut sensor.input).err(),
        name: sensor.name,
        what: sensor.what,
    };
    sensors(root).into_iter().map(info).collect()
}

pub(super) fn open(root: &Root, name: &str) -> Option<Sensor> {
    sensors(root).into_iter().find(|sensor| sensor.name == name)
}

/// A sensor's value, if it is plausible.
fn microwatts(root: &Root, input: &mut Attribute) -> Result<u64, String> {
    let power_uw = input.number(root)?;
    if power_uw > POWER_UW_MAX {
        let path = input.path();
        return Err(format!(
            "{path} says {power_uw} uW, which is not a power: the sensor has no value"
        ));
    }
    Ok(power_uw)
}

impl Sensor {
    /// The power now, and the energy of what was read before, held until the reading after it.
    pub fn read(
        &mut self,
        root: &Root,
        span: Option<Seconds>,
    ) -> Result<Option<(f64, f64)>, String> {
        let power_w = microwatts(root, &mut self.input)? as f64 / 1e6;
        if let (Some(last_w), Some(span)) = (self.last_w, span) {
            self.energy_j += last_w * span.0;
        }
        self.last_w = Some(power_w);
        Ok(Some((power_w, self.energy_j)))
    }
}
