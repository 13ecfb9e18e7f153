//! What turns the places of a world.

use super::world::{DRIVES, Shared, drives, frequency_of, lock, pace};
use wattio_governor::{
    Address, Assignment, GroupSetting, Knob, Layer, MachineError, MachineView, Setting, Target,
};
use wattio_law::Budget;

struct CoresKnob(Shared);
struct FrequencyKnob;
struct PaceKnob;
struct DrivesKnob;

/// Full speed puts the old value back, as the knobs of a real host do.
fn assignment(setting: &Setting, address: Address, value: String) -> Assignment {
    let target = if setting.full_speed { Target::Original } else { Target::Set(value) };
    Assignment { address, target, endangers: Vec::new() }
}

impl Knob for CoresKnob {
    fn name(&self) -> &str {
        "cores"
    }
    fn layer(&self) -> Layer {
        Layer::Placement
    }
    fn follows_processes(&self) -> bool {
        true
    }
    fn assignments(
        &mut self,
        setting: &Setting,
        _: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let groups = setting.groups.iter().enumerate();
        let world = lock(&self.0);
        let count = |(at, group): (usize, &GroupSetting)| {
            assignment(setting, world.cores_of(at), group.active.len().to_string())
        };
        Ok(groups.map(count).collect())
    }
}

impl Knob for FrequencyKnob {
    fn name(&self) -> &str {
        "frequency"
    }
    fn layer(&self) -> Layer {
        Layer::Speed
    }
    fn assignments(
        &mut self,
        setting: &Setting,
        _: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let groups = setting.groups.iter().enumerate();
        let hertz = |(at, group): (usize, &GroupSetting)| {
            assignment(setting, frequency_of(at), group.frequency.0.to_string())
        };
        Ok(groups.map(hertz).collect())
    }
}

impl Knob for PaceKnob {
    fn name(&self) -> &str {
        "background"
    }
    fn layer(&self) -> Layer {
        Layer::Speed
    }
    fn assignments(
        &mut self,
        setting: &Setting,
        _: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let value = match setting.background.first().map(|class| class.budget) {
            Some(Budget::CoreSecondsPerSecond(rate)) => rate.to_string(),
            _ => "due".to_owned(),
        };
        Ok(vec![assignment(setting, pace(), value)])
    }
}

impl Knob for DrivesKnob {
    fn name(&self) -> &str {
        "drives"
    }
    fn layer(&self) -> Layer {
        Layer::Speed
    }
    fn assignments(
        &mut self,
        setting: &Setting,
        _: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let (name, _) = DRIVES.iter().find(|(_, action)| *action == setting.drives).unwrap();
        Ok(vec![assignment(setting, drives(), (*name).to_owned())])
    }
}

/// The knobs of a world, in the order of slowing down.
pub fn knobs(world: &Shared) -> Vec<Box<dyn Knob>> {
    vec![
        Box::new(CoresKnob(world.clone())),
        Box::new(FrequencyKnob),
        Box::new(PaceKnob),
        Box::new(DrivesKnob),
    ]
}
