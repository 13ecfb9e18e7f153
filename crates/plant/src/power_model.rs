//! A linear model of a host's power: one format for the daemon, the simulator and the meters that
//! estimate.

use crate::load_error::{DescriptionError, read_toml, require};
use serde::{Deserialize, Serialize};
use wattio_units::{Hertz, Watts};

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Fitted to a meter on this host.
    Measured,
    /// Taken from a document or a data sheet.
    Published,
    /// Nobody measured it.
    Assumed,
}

impl Origin {
    /// The word in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Published => "published",
            Self::Assumed => "assumed",
        }
    }
}

/// One coefficient in watts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coefficient {
    /// Its value in watts.
    pub watts: f64,
    /// Its 95 % interval in watts, where it was fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_w: Option<(f64, f64)>,
    /// Where it comes from.
    pub origin: Origin,
}

/// `P = rest + n (core + core_frequency phi) + b (busy + busy_frequency phi) + io k`, with `n`
/// active cores, `b` busy ones (`n` times their utilisation), `phi = f / f_max` and `k` thousands
/// of I/Os per second. The PACER document's model (section V: linear in active cores and, at
/// constant voltage, in frequency) is the first three terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerModel {
    /// What it is a model of.
    pub name: String,
    /// The meter that it was fitted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<String>,
    /// Coefficient of determination of the fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
    /// The highest frequency, at which `phi` is 1.
    pub frequency_max: Hertz,
    /// Share of a request's time on a core that scales with `1/f`.
    pub frequency_bound_share: f64,
    /// Everything else: memory, fans, drives, power supply.
    pub rest: Coefficient,
    /// An active core.
    pub core: Coefficient,
    /// An active core at the highest frequency, on top.
    pub core_frequency: Coefficient,
    /// A core in a task, on top.
    pub busy: Coefficient,
    /// A core in a task at the highest frequency, on top.
    pub busy_frequency: Coefficient,
    /// A thousand I/Os per second.
    pub io: Coefficient,
}

/// What one group of cores does, for its power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorePoint {
    /// Active cores.
    pub cores: f64,
    /// Share of their time in tasks, 0 to 1.
    pub utilisation: f64,
    /// Their frequency over the highest, 0 to 1.
    pub frequency_share: f64,
}

impl PowerModel {
    /// Reads a model file.
    ///
    /// # Errors
    /// [`DescriptionError`] with line or key.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        let model: Self = read_toml(text)?;
        model.check()?;
        Ok(model)
    }

    /// The power of a host whose groups of cores do this, at `iops` I/Os per second.
    #[must_use]
    pub fn power(&self, groups: &[CorePoint], iops: f64) -> Watts {
        let cores = groups.iter().map(|group| {
            let phi = group.frequency_share;
            let active = self.core.watts + self.core_frequency.watts * phi;
            let busy = self.busy.watts + self.busy_frequency.watts * phi;
            group.cores * (active + group.utilisation * busy)
        });
        Watts(self.rest.watts + cores.sum::<f64>() + self.io.watts * iops / 1e3)
    }

    /// The same cores without the rest of the host.
    #[must_use]
    pub fn without_rest(mut self) -> Self {
        self.rest.watts = 0.0;
        self
    }

    /// What one core draws at a share of the highest frequency: in a task, and on without one.
    #[must_use]
    pub fn core(&self, frequency_share: f64) -> (Watts, Watts) {
        let idle = self.core.watts + self.core_frequency.watts * frequency_share;
        let busy = self.busy.watts + self.busy_frequency.watts * frequency_share;
        (Watts(idle + busy), Watts(idle))
    }

    /// Whether every coefficient was fitted to a meter.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.coefficients().iter().all(|(_, c)| c.origin == Origin::Measured)
    }

    fn coefficients(&self) -> [(&'static str, &Coefficient); 6] {
        [
            ("rest", &self.rest),
            ("core", &self.core),
            ("core_frequency", &self.core_frequency),
            ("busy", &self.busy),
            ("busy_frequency", &self.busy_frequency),
            ("io", &self.io),
        ]
    }

    fn check(&self) -> Result<(), DescriptionError> {
        require(self.frequency_max.0 > 0.0, "frequency_max", "must be above 0 Hz")?;
        let share = self.frequency_bound_share;
        require(
            (0.0..=1.0).contains(&share),
            "frequency_bound_share",
            format!("is {share}; allowed is 0 to 1"),
        )?;
        for (key, coefficient) in self.coefficients() {
            let watts = coefficient.watts;
            require(
                (0.0..=1e5).contains(&watts),
                format!("{key}.watts"),
                format!("is {watts}; allowed is 0 to 100000 W"),
            )?;
            let around =
                coefficient.interval_w.is_none_or(|(low, high)| low <= watts && watts <= high);
            require(around, format!("{key}.interval_w"), "must contain the value")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> PowerModel {
        PowerModel::from_toml(crate::ASSUMED_POWER_MODEL).unwrap()
    }

    #[test]
    fn the_power_is_the_sum_of_its_terms() {
        let group =
            |cores, utilisation, frequency_share| CorePoint { cores, utilisation, frequency_share };
        let m = model();
        let both = m.power(&[group(4.0, 0.5, 1.0), group(2.0, 0.0, 0.5)], 2000.0);
        let by_hand = m.rest.watts
            + 6.0 * m.core.watts
            + (4.0 + 1.0) * m.core_frequency.watts
            + 2.0 * (m.busy.watts + m.busy_frequency.watts)
            + 2.0 * m.io.watts;
        assert!((both.0 - by_hand).abs() < 1e-12);
    }

    #[test]
    fn the_assumed_model_says_that_it_is_assumed() {
        assert!(!model().is_measured());
        assert!(model().meter.is_none() && model().r_squared.is_none());
    }

    #[test]
    fn wrong_models_name_the_key() {
        let text = crate::ASSUMED_POWER_MODEL;
        for (from, to, says) in [
            ("frequency_bound_share = 0.6", "frequency_bound_share = 1.6", "frequency_bound_share"),
            ("watts = 48.0", "watts = -1.0", "rest.watts"),
            ("watts = 48.0", "interval_w = [50.0, 60.0], watts = 48.0", "rest.interval_w"),
            ("name = ", "nome = ", "did you mean `name`"),
        ] {
            assert!(text.contains(from), "{from}");
            let message = PowerModel::from_toml(&text.replace(from, to)).unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        }
    }
}
