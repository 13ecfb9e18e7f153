//! Hyperparameters as data: name, unit, range, default, source.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;
use wattio_units::Seconds;

/// A setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// On or off.
    Flag(bool),
    /// A number in the parameter's unit.
    Number(f64),
    /// A quantity with a unit, such as `"500 ms"`.
    Text(String),
}

/// Settings by name.
pub type Settings = BTreeMap<String, Value>;

/// One hyperparameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Unit of its value; `1` for ratios and counts, `bool` for switches.
    pub unit: String,
    /// Value when nothing is said.
    pub default: Value,
    /// Least value allowed.
    #[serde(default)]
    pub minimum: Option<f64>,
    /// Greatest value allowed.
    #[serde(default)]
    pub maximum: Option<f64>,
    /// Whether a document publishes the default.
    pub published: bool,
    /// Where the default comes from.
    pub source: String,
    /// What it does.
    pub doc: String,
}

/// All hyperparameters of a law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterTable {
    /// What the law is.
    pub doc: String,
    /// Its hyperparameters.
    #[serde(rename(deserialize = "parameter"), default)]
    pub parameters: Vec<Parameter>,
}

/// Why settings cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SettingError {
    /// There is no such policy.
    #[error("unknown policy {name:?}{nearest}; there are {known}")]
    Policy {
        /// As given.
        name: String,
        /// The nearest name, as a phrase.
        nearest: String,
        /// All names.
        known: String,
    },
    /// The policy has no such parameter.
    #[error("unknown parameter {name:?} of {policy}{nearest}; there are {known}")]
    Name {
        /// The policy.
        policy: String,
        /// As given.
        name: String,
        /// The nearest name, as a phrase.
        nearest: String,
        /// All names.
        known: String,
    },
    /// The value is of the wrong kind or out of range.
    #[error("{policy}: {name} = {value}: allowed is {allowed}")]
    Value {
        /// The policy.
        policy: String,
        /// The parameter.
        name: String,
        /// As given.
        value: String,
        /// What would do.
        allowed: String,
    },
}

impl Parameter {
    /// The value in the parameter's unit, checked.
    fn accept(&self, policy: &str, value: &Value) -> Result<Value, SettingError> {
        let refused = || SettingError::Value {
            policy: policy.to_owned(),
            name: self.name.clone(),
            value: match value {
                Value::Flag(flag) => flag.to_string(),
                Value::Number(number) => number.to_string(),
                Value::Text(text) => format!("{text:?}"),
            },
            allowed: self.allowed(),
        };
        let number = match (value, &self.default) {
            (Value::Flag(flag), Value::Flag(_)) => return Ok(Value::Flag(*flag)),
            (Value::Number(number), Value::Number(_)) => *number,
            (Value::Text(text), Value::Number(_)) if self.unit == "s" => {
                text.parse::<Seconds>().map_err(|_| refused())?.0
            }
            _ => return Err(refused()),
        };
        let above = self.minimum.is_none_or(|minimum| number >= minimum);
        let below = self.maximum.is_none_or(|maximum| number <= maximum);
        let whole = self.unit != "count" || number.fract() == 0.0;
        if number.is_finite() && above && below && whole {
            Ok(Value::Number(number))
        } else {
            Err(refused())
        }
    }

    fn allowed(&self) -> String {
        if matches!(self.default, Value::Flag(_)) {
            return "true or false".to_owned();
        }
        let unit = match self.unit.as_str() {
            "1" => String::new(),
            "count" => " (a whole number)".to_owned(),
            unit => format!(" {unit}"),
        };
        match (self.minimum, self.maximum) {
            (Some(minimum), Some(maximum)) => format!("{minimum} to {maximum}{unit}"),
            (Some(minimum), None) => format!("at least {minimum}{unit}"),
            (None, Some(maximum)) => format!("at most {maximum}{unit}"),
            (None, None) => format!("a number{unit}"),
        }
    }
}

impl ParameterTable {
    /// Every parameter's value: as set, or its default.
    ///
    /// # Errors
    /// For an unknown name or a value out of range.
    pub fn resolve(&self, policy: &str, settings: &Settings) -> Result<Settings, SettingError> {
        for name in settings.keys() {
            if !self.parameters.iter().any(|parameter| &parameter.name == name) {
                let known: Vec<_> = self.parameters.iter().map(|p| p.name.as_str()).collect();
                return Err(SettingError::Name {
                    policy: policy.to_owned(),
                    name: name.clone(),
                    nearest: nearest(name, &known),
                    known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
                });
            }
        }
        let value = |parameter: &Parameter| {
            let given = settings.get(&parameter.name).unwrap_or(&parameter.default);
            Ok((parameter.name.clone(), parameter.accept(policy, given)?))
        };
        self.parameters.iter().map(value).collect()
    }
}

/// `" (did you mean "x"?)"` where a known name is near.
pub(crate) fn nearest(name: &str, known: &[&str]) -> String {
    known
        .iter()
        .map(|candidate| (candidate, strsim::jaro_winkler(name, candidate)))
        .filter(|&(_, likeness)| likeness > 0.7)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map_or_else(String::new, |(candidate, _)| format!(" (did you mean {candidate:?}?)"))
}

/// A number out of resolved settings.
pub(crate) fn number(settings: &Settings, name: &str) -> f64 {
    match settings.get(name) {
        Some(Value::Number(number)) => *number,
        _ => unreachable!("{name} is in the parameter table, which was resolved"),
    }
}

/// A switch out of resolved settings.
pub(crate) fn flag(settings: &Settings, name: &str) -> bool {
    match settings.get(name) {
        Some(Value::Flag(flag)) => *flag,
        _ => unreachable!("{name} is in the parameter table, which was resolved"),
    }
}
