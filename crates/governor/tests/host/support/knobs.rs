//! What turns the places of a world.

use super::world::{DRIVES, Shared, drives, frequency_of, lock, pace};
use wattio_governor::{
    Address, Assignment, Knob, Layer, MachineError, MachineView, Setting, Target,
};
use wattio_law::Budget;

/// A knob that asks for values of places.
struct WorldKnob<Ask> {
    name: &'static str,
    layer: Layer,
    ask: Ask,
}

impl<Ask: Fn(&Setting) -> Vec<(Address, String)> + Send> Knob for WorldKnob<Ask> {
    fn name(&self) -> &str {
        self.name
    }
    fn layer(&self) -> Layer {
        self.layer
    }
    fn looks_again(&self) -> bool {
        self.layer == Layer::Placement
    }
    /// Full speed puts the old value back, as the knobs of a real host do.
    fn assignments(
        &mut self,
        setting: &Setting,
        _: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let assignment = |(address, value)| {
            let target = if setting.full_speed { Target::Original } else { Target::Set(value) };
            Assignment { address, target, endangers: Vec::new() }
        };
        Ok((self.ask)(setting).into_iter().map(assignment).collect())
    }
}

fn knob(
    name: &'static str,
    layer: Layer,
    ask: impl Fn(&Setting) -> Vec<(Address, String)> + Send + 'static,
) -> Box<dyn Knob> {
    Box::new(WorldKnob { name, layer, ask })
}

/// The knobs of a world, in the order of slowing down.
pub fn knobs(world: &Shared) -> Vec<Box<dyn Knob>> {
    let world = world.clone();
    vec![
        knob("drives", Layer::Slow, |setting| {
            let (name, _) = DRIVES.iter().find(|(_, action)| *action == setting.drives).unwrap();
            vec![(drives(), (*name).to_owned())]
        }),
        knob("cores", Layer::Placement, move |setting| {
            let (world, groups) = (lock(&world), setting.groups.iter().enumerate());
            groups.map(|(at, group)| (world.cores_of(at), group.active.len().to_string())).collect()
        }),
        knob("frequency", Layer::Speed, |setting| {
            let groups = setting.groups.iter().enumerate();
            groups.map(|(at, group)| (frequency_of(at), group.frequency.0.to_string())).collect()
        }),
        knob("background", Layer::Speed, |setting| {
            let value = match setting.background.first().map(|class| class.budget) {
                Some(Budget::CoreSecondsPerSecond(rate)) => rate.to_string(),
                _ => "due".to_owned(),
            };
            vec![(pace(), value)]
        }),
    ]
}
