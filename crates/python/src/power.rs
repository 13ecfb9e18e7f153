//! The power model for Python.

use crate::error::Fault;
use pyo3::prelude::*;
use wattio_plant::{ASSUMED_POWER_MODEL, CorePoint, PowerModel as Model};

/// The model that nobody measured, as TOML text.
#[pyfunction]
pub const fn assumed_power_model() -> &'static str {
    ASSUMED_POWER_MODEL
}

/// What a host draws, as a linear model.
#[pyclass(frozen)]
pub struct PowerModel(Model);

#[pymethods]
impl PowerModel {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        Ok(Self(Model::from_toml(text).map_err(Fault::from)?))
    }

    #[allow(clippy::needless_pass_by_value, reason = "Python hands over a list")]
    fn power_w(&self, groups: Vec<(f64, f64, f64)>, iops: f64) -> f64 {
        let point = |(cores, utilisation, frequency_share)| CorePoint {
            cores,
            utilisation,
            frequency_share,
        };
        let points: Vec<_> = groups.iter().copied().map(point).collect();
        self.0.power(&points, iops).0
    }

    fn facts(&self) -> PyResult<String> {
        let mut facts = serde_json::to_value(&self.0).map_err(Fault::from)?;
        facts["frequency_max_hz"] = self.0.frequency_max.0.into();
        facts["is_measured"] = self.0.is_measured().into();
        Ok(facts.to_string())
    }
}
