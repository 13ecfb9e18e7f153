//! Laws by name.

use crate::foresight::{Foresight, ForesightSettings};
use crate::native::Native;
use crate::ondemand::{Ondemand, OndemandSettings, OndemandVariant};
use crate::pacer::{Pacer, PacerSettings};
use crate::parameters::{ParameterTable, SettingError, Settings, Value, nearest, number};
use crate::peers::{Pegasus, PegasusSettings, Rubik, RubikSettings};
use crate::schedutil::{Schedutil, SchedutilSettings};
use wattio_law::{Fixed, Law, Limits};
use wattio_units::Seconds;

/// A law that can be named.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name.
    pub name: &'static str,
    /// Its hyperparameters.
    pub table: ParameterTable,
}

impl Policy {
    /// Every parameter's value: as set, or its default.
    ///
    /// # Errors
    /// For an unknown name, a value out of range, or two values that contradict each other.
    pub fn resolve(&self, settings: &Settings) -> Result<Settings, SettingError> {
        let resolved = self.table.resolve(self.name, settings)?;
        if self.name == "pacer" {
            let (stable, unstable) =
                (number(&resolved, "stable_threshold"), number(&resolved, "unstable_threshold"));
            // The PACER document, section IV-B: enforced to achieve hysteresis.
            if unstable <= stable {
                return Err(SettingError::Value {
                    policy: self.name.to_owned(),
                    name: "unstable_threshold".to_owned(),
                    value: unstable.to_string(),
                    allowed: format!("above stable_threshold, which is {stable}"),
                });
            }
        }
        Ok(resolved)
    }
}

/// What makes a law of all its settings.
type Make = fn(&Settings, Limits) -> Box<dyn Law>;

/// Every law: its name, its hyperparameters, and what makes it.
const LAWS: [(&str, &str, Make); 9] = [
    ("native", include_str!("../parameters/native.toml"), |_, limits| {
        Box::new(Native::new(limits))
    }),
    ("ondemand", include_str!("../parameters/ondemand.toml"), |settings, limits| {
        let settings = OndemandSettings::from_resolved(settings, OndemandVariant::Linux);
        Box::new(Ondemand::new(settings, limits))
    }),
    (
        "ondemand-document",
        include_str!("../parameters/ondemand-document.toml"),
        |settings, limits| {
            let settings = OndemandSettings::from_resolved(settings, OndemandVariant::Document);
            Box::new(Ondemand::new(settings, limits))
        },
    ),
    ("schedutil", include_str!("../parameters/schedutil.toml"), |settings, limits| {
        Box::new(Schedutil::new(SchedutilSettings::from_resolved(settings), limits))
    }),
    ("fixed", include_str!("../parameters/fixed.toml"), |settings, limits| {
        Box::new(fixed(settings, &limits))
    }),
    ("pacer", include_str!("../parameters/pacer.toml"), |settings, limits| {
        Box::new(Pacer::new(PacerSettings::from_resolved(settings), limits))
    }),
    ("pegasus", include_str!("../parameters/pegasus.toml"), |settings, limits| {
        Box::new(Pegasus::new(PegasusSettings::from_resolved(settings), limits))
    }),
    ("rubik", include_str!("../parameters/rubik.toml"), |settings, limits| {
        Box::new(Rubik::new(RubikSettings::from_resolved(settings), limits))
    }),
    ("foresight", include_str!("../parameters/foresight.toml"), |settings, limits| {
        Box::new(Foresight::new(ForesightSettings::from_resolved(settings), limits))
    }),
];

/// All policies.
#[must_use]
pub fn policies() -> Vec<Policy> {
    LAWS.iter().map(|&(name, text, _)| read(name, text)).collect()
}

/// The policy of that name.
///
/// # Errors
/// [`SettingError::Policy`] with the names that exist.
pub fn policy(name: &str) -> Result<Policy, SettingError> {
    listed(name).map(|(policy, _)| policy)
}

fn listed(name: &str) -> Result<(Policy, Make), SettingError> {
    let found = LAWS.iter().find(|&&(known, ..)| known == name);
    let &(name, text, make) = found.ok_or_else(|| {
        let known: Vec<_> = LAWS.iter().map(|&(known, ..)| known).collect();
        SettingError::Policy {
            name: name.to_owned(),
            nearest: nearest(name, &known),
            known: known.join(", "),
        }
    })?;
    Ok((read(name, text), make))
}

fn read(name: &'static str, text: &str) -> Policy {
    let table = toml::from_str(text)
        .unwrap_or_else(|error| unreachable!("parameters/{name}.toml is built in: {error}"));
    Policy { name, table }
}

/// Whether a law takes this latency tolerance.
///
/// # Errors
/// What is allowed.
pub fn check_tolerance(name: &str, tolerance: f64) -> Result<(), SettingError> {
    let settings = Settings::from([("plf".to_owned(), Value::Number(tolerance))]);
    policy(name)?.resolve(&settings).map(|_| ())
}

/// Makes a law by its name.
///
/// # Errors
/// For an unknown name, an unknown parameter or a value out of range.
pub fn build(
    name: &str,
    settings: &Settings,
    limits: &Limits,
) -> Result<Box<dyn Law>, SettingError> {
    let (policy, make) = listed(name)?;
    Ok(make(&policy.resolve(settings)?, limits.clone()))
}

fn fixed(resolved: &Settings, limits: &Limits) -> Fixed {
    let mut action = limits.full_speed();
    for group in &mut action.groups {
        let cores = number(resolved, "cores_share") * f64::from(group.cores);
        // A hair less, so that 0.55 of 100 cores is 55 of them.
        group.cores = (cores - 1e-9).ceil() as u32;
        group.frequency = group.frequency * number(resolved, "frequency_share");
    }
    Fixed { action: limits.clamp(&action), period: Seconds(0.5) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_law::GroupLimits;
    use wattio_units::Hertz;

    #[test]
    fn every_default_is_within_its_own_range_and_names_its_source() {
        for policy in policies() {
            policy.resolve(&Settings::new()).unwrap();
            for parameter in &policy.table.parameters {
                assert!(parameter.source.len() > 10, "{}.{}", policy.name, parameter.name);
                assert!(!parameter.doc.is_empty());
                let unpublished = parameter.source.contains("not published");
                assert_ne!(parameter.published, unpublished, "{}", parameter.name);
            }
        }
    }

    #[test]
    fn every_law_with_a_plf_keeps_bounds_and_no_other_does() {
        let limits = Limits::of(vec![GroupLimits {
            cores_min: 1,
            cores_max: 4,
            frequency_min: Hertz(1e9),
            frequency_max: Hertz(2e9),
            frequency_steps: vec![],
            idle_cores_sleep: false,
            power: vec![],
            frequency_bound_share: None,
        }]);
        for policy in policies() {
            let law = build(policy.name, &Settings::new(), &limits).unwrap();
            let has_plf = policy.table.parameters.iter().any(|parameter| parameter.name == "plf");
            assert_eq!(has_plf, !law.bounds().is_empty(), "{} keeps bounds by a plf", policy.name);
        }
    }

    #[test]
    fn wrong_names_and_values_say_what_would_do() {
        let resolve = |name: &str, value: Value| {
            let settings = Settings::from([(name.to_owned(), value)]);
            policy("pacer").unwrap().resolve(&settings)
        };
        let unknown = resolve("betta", Value::Number(1.0)).unwrap_err().to_string();
        assert!(unknown.contains("did you mean \"beta\"?"), "{unknown}");
        let range = resolve("plf", Value::Number(-1.0)).unwrap_err().to_string();
        assert!(range.contains("plf = -1: allowed is 0.001 to 10"), "{range}");
        assert!(resolve("adapt_cores", Value::Number(1.0)).is_err());
        assert!(resolve("plf", Value::Number(f64::NAN)).is_err());
        assert!(resolve("windows", Value::Number(2.5)).is_err());
        let window = resolve("window", Value::Text("250 ms".into())).unwrap();
        assert_eq!(window["window"], Value::Number(0.25));
        let flipped = resolve("stable_threshold", Value::Number(0.5)).unwrap_err().to_string();
        assert!(flipped.contains("above stable_threshold, which is 0.5"), "{flipped}");
        let policy = policy("pacerr").unwrap_err().to_string();
        assert!(policy.contains("did you mean \"pacer\"?"), "{policy}");
    }
}
