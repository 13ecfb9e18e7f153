//! What everything behind the governor's traits must do, whatever machine is there: included by the
//! tests of this crate (the simulator), and by those of `wattio-host` (folders, mounted trees, this
//! machine, a guest).

pub mod knobs;
mod sources;

pub use knobs::Subject;
pub use sources::{CpuBody, LatencyBody, Used};

use wattio_governor::{Cpus, GroupSetting, Setting};
use wattio_law::{BackgroundAction, DriveAction};
use wattio_units::Hertz;

/// All groups at full speed.
pub fn full_speed(groups: &[&str]) -> Setting {
    Setting { full_speed: true, ..setting(groups, 1e12) }
}

/// Groups with these active cores at this frequency.
pub fn setting(groups: &[&str], hertz: f64) -> Setting {
    let group = |active: &&str| GroupSetting { active: cpus(active), frequency: Hertz(hertz) };
    Setting {
        groups: groups.iter().map(group).collect(),
        drives: DriveAction::Own,
        background: Vec::new(),
        background_share: 1.0,
        full_speed: false,
        at_full: Cpus::default(),
        held_back: Vec::new(),
    }
}

/// Nothing to do: drives may sleep, background work stands still.
pub fn idle() -> Setting {
    Setting {
        drives: DriveAction::Asleep,
        background: vec![BackgroundAction::PAUSED],
        background_share: 0.0,
        ..setting(&[], 0.0)
    }
}

pub fn cpus(list: &str) -> Cpus {
    list.parse().unwrap()
}
