//! What every law keeps to.

use proptest::prelude::*;
use wattio_control::{Settings, Value, build};
use wattio_law::{Action, Budget, Law, Limits};

/// A law by its name, with settings by theirs.
pub fn law(name: &str, settings: &[(&str, Value)], limits: &Limits) -> Box<dyn Law> {
    let named = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    build(name, &Settings::from_iter(named), limits).unwrap()
}

/// Whether an action lies within the limits.
pub fn within(action: &Action, limits: &Limits) -> Result<(), TestCaseError> {
    prop_assert_eq!(action.groups.len(), limits.groups.len());
    for (group, limits) in action.groups.iter().zip(&limits.groups) {
        let (least, most) = (limits.frequency_min.0, limits.frequency_max.0);
        prop_assert!((limits.cores_min..=limits.cores_max).contains(&group.cores), "{group:?}");
        prop_assert!((least..=most).contains(&group.frequency.0), "{group:?}");
        let steps = &limits.frequency_steps;
        prop_assert!(steps.is_empty() || steps.contains(&group.frequency), "{group:?}");
    }
    for class in &action.background {
        let Budget::CoreSecondsPerSecond(rate) = class.budget else { continue };
        prop_assert!(rate.is_finite() && rate >= 0.0, "budget {rate}");
    }
    Ok(())
}
