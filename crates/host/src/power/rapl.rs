//! Energy counters of the processor: `/sys/class/powercap/intel-rapl:*` (Intel and AMD).
//!
//! A package holds its cores and uncore, so those are never added to it. The memory (`dram`) is
//! listed under its package and is not part of it. `psys` is the whole platform and holds
//! everything. `rapl:sum` is all packages and their memory. The same zones accessed through
//! memory-mapped I/O (`intel-rapl-mmio`) are left out. Source: kernel
//! `Documentation/power/powercap/powercap.rst`.

use super::MeterInfo;
use super::attribute::{Attribute, number};
use super::counter::Counter;
use crate::Root;
use wattio_units::Seconds;

const FOLDER: &str = "/sys/class/powercap";
/// The name of all packages and their memory together.
const SUM: &str = "rapl:sum";
/// By how much the parts of a package may exceed it: they are read one after the other.
const PARTS_EXCESS_MAX: f64 = 0.1;
/// The least energy at which parts and package are compared; the counters advance in steps.
const COMPARED_J_MIN: f64 = 5.0;

/// One zone of the kernel.
#[derive(Clone, Debug)]
struct Zone {
    folder: String,
    /// `package-0`, `package-0/core`, `psys`.
    name: String,
}

impl Zone {
    fn is_package(&self) -> bool {
        self.name.starts_with("package-") && !self.name.contains('/')
    }

    fn is_memory(&self) -> bool {
        self.name.ends_with("/dram")
    }

    fn what(&self) -> &'static str {
        match self.name.rsplit('/').next().unwrap_or_default() {
            "core" => "cores of the package",
            "uncore" => "graphics or uncore of the package",
            "dram" => "memory at the package, not part of it",
            "psys" => "the whole platform",
            _ => "processor package",
        }
    }
}

fn zones(root: &Root) -> Vec<Zone> {
    let own_name = |entry: &str| root.read(&format!("{FOLDER}/{entry}/name")).ok();
    let zone = |entry: String| {
        let place = entry.strip_prefix("intel-rapl:")?;
        let own = own_name(&entry)?;
        let name = match place.split_once(':') {
            None => own,
            Some((package, _)) => {
                format!("{}/{own}", own_name(&format!("intel-rapl:{package}"))?)
            }
        };
        Some(Zone { folder: format!("{FOLDER}/{entry}"), name })
    };
    let mut zones: Vec<_> = root.list(FOLDER).into_iter().filter_map(zone).collect();
    // Two dies of a socket may share a name; the kernel's number tells them apart.
    for at in 0..zones.len() {
        let same = |other: &Zone| other.name == zones[at].name;
        if zones[..at].iter().any(same) {
            let number = zones[at].folder.rsplit("intel-rapl:").next().unwrap_or_default();
            zones[at].name = format!("{}@{number}", zones[at].name);
        }
    }
    zones
}

pub(super) fn find(root: &Root) -> Vec<MeterInfo> {
    let zones = zones(root);
    let problem = |zone: &Zone| number(root, &format!("{}/energy_uj", zone.folder)).err();
    let info = |zone: &Zone| MeterInfo {
        name: format!("rapl:{}", zone.name),
        what: zone.what().to_owned(),
        problem: problem(zone),
    };
    let mut meters: Vec<_> = zones.iter().map(info).collect();
    let counted: Vec<_> = counted(&zones).collect();
    if !counted.is_empty() {
        meters.push(MeterInfo {
            name: SUM.to_owned(),
            what: "all packages and their memory".to_owned(),
            problem: counted.iter().find_map(|zone| problem(zone)),
        });
    }
    meters
}

/// The zones that do not hold each other.
fn counted(zones: &[Zone]) -> impl Iterator<Item = &Zone> {
    zones.iter().filter(|zone| zone.is_package() || zone.is_memory())
}

/// Zones that are added up, each with the parts that it must not be less than.
#[derive(Debug)]
pub(super) struct Zones(Vec<Checked>);

#[derive(Debug)]
struct Checked {
    whole: Counted,
    parts: Vec<Counted>,
    last_uj: u64,
}

#[derive(Debug)]
struct Counted {
    folder: String,
    energy: Attribute,
    counter: Counter,
}

pub(super) fn open(root: &Root, name: &str) -> Option<Zones> {
    let zones = zones(root);
    let wanted = |zone: &&Zone| format!("rapl:{}", zone.name) == name;
    let chosen: Vec<_> =
        if name == SUM { counted(&zones).collect() } else { zones.iter().filter(wanted).collect() };
    let part_of = |zone: &Zone, whole: &Zone| {
        whole.is_package()
            && zone.folder.starts_with(&format!("{}:", whole.folder))
            && !zone.is_memory()
    };
    let checked = |whole: &Zone| Checked {
        whole: Counted::new(root, whole),
        parts: zones
            .iter()
            .filter(|zone| part_of(zone, whole))
            .map(|zone| Counted::new(root, zone))
            .collect(),
        last_uj: 0,
    };
    (!chosen.is_empty()).then(|| Zones(chosen.into_iter().map(checked).collect()))
}

impl Counted {
    fn new(root: &Root, zone: &Zone) -> Self {
        let range = number(root, &format!("{}/max_energy_range_uj", zone.folder)).unwrap_or(0);
        let energy = Attribute::new(format!("{}/energy_uj", zone.folder));
        Self { folder: zone.folder.clone(), energy, counter: Counter::new(range) }
    }

    fn take(&mut self, root: &Root) -> Result<u64, String> {
        let value = self.energy.number(root)?;
        let path = self.energy.path();
        self.counter.take(value).map_err(|message| format!("{path} {message}"))
    }
}

impl Checked {
    fn take(&mut self, root: &Root) -> Result<u64, String> {
        let whole_uj = self.whole.take(root)?;
        // A part that does not count (uncore without graphics) says nothing about the whole.
        let parts = self.parts.iter_mut().filter_map(|part| part.take(root).ok());
        let parts_j = parts.fold(0u64, u64::saturating_add) as f64 / 1e6;
        let whole_j = whole_uj as f64 / 1e6;
        if parts_j > COMPARED_J_MIN && parts_j > whole_j * (1.0 + PARTS_EXCESS_MAX) {
            return Err(format!(
                "{} counted {whole_j:.1} J and its parts {parts_j:.1} J: one of them is wrong",
                self.whole.folder
            ));
        }
        Ok(whole_uj)
    }
}

impl Zones {
    /// Mean power over the span, and energy since the first reading.
    pub fn read(
        &mut self,
        root: &Root,
        span: Option<Seconds>,
    ) -> Result<Option<(f64, f64)>, String> {
        let (mut energy_uj, mut grown_uj) = (0u64, 0u64);
        for zone in &mut self.0 {
            let uj = zone.take(root)?;
            energy_uj = energy_uj.saturating_add(uj);
            grown_uj = grown_uj.saturating_add(uj.saturating_sub(zone.last_uj));
            zone.last_uj = uj;
        }
        Ok(span.map(|span| (grown_uj as f64 / 1e6 / span.0, energy_uj as f64 / 1e6)))
    }
}
