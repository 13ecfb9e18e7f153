//! The value of saved energy, computed with stated factors.

use serde::{Deserialize, Serialize};
use wattio_plant::{DescriptionError, require};
use wattio_units::Watts;

/// Hours of a mean year: 365.25 days. Reports of `wattio` take it from here, too.
pub const YEAR_H: f64 = 8_766.0;

/// The factors. Those that nobody names are round assumptions of the order of European industry
/// (price) and grids (CO2); the same as in reports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Price {
    /// Euro per kilowatt-hour. Default: `0.25` (assumed). Allowed: a number, at least 0.
    pub eur_per_kwh: f64,
    /// Grams of CO2 per kilowatt-hour. Default: `350.0` (assumed). Allowed: a number, at least 0.
    pub co2_g_per_kwh: f64,
}

/// What a year would save in which all is as it was since the start: an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedYear {
    /// Kilowatt-hours.
    pub energy_kwh: f64,
    /// Their price in euro.
    pub cost_eur: f64,
    /// Kilograms of CO2.
    pub co2_kg: f64,
    /// By these factors.
    #[serde(flatten)]
    pub price: Price,
}

impl Default for Price {
    fn default() -> Self {
        Self { eur_per_kwh: 0.25, co2_g_per_kwh: 350.0 }
    }
}

impl Price {
    /// Checks the factors.
    ///
    /// # Errors
    /// [`DescriptionError`] with the key and what is allowed.
    pub fn check(&self) -> Result<(), DescriptionError> {
        for (key, value) in
            [("eur_per_kwh", self.eur_per_kwh), ("co2_g_per_kwh", self.co2_g_per_kwh)]
        {
            let right = value.is_finite() && value >= 0.0;
            require(right, format!("power.price.{key}"), "must be a number that is not negative")?;
        }
        Ok(())
    }

    /// A year of so many watts less.
    #[must_use]
    pub fn year(self, saved: Watts) -> SavedYear {
        let energy_kwh = saved.0 * YEAR_H / 1e3;
        SavedYear {
            energy_kwh,
            cost_eur: energy_kwh * self.eur_per_kwh,
            co2_kg: energy_kwh * self.co2_g_per_kwh / 1e3,
            price: self,
        }
    }
}

/// "78.9 kWh, 19.72 EUR and 27.6 kg of CO2 in a year like this, at 0.25 EUR and 350 g for a kWh".
impl std::fmt::Display for SavedYear {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { energy_kwh, cost_eur, co2_kg, price } = self;
        let Price { eur_per_kwh, co2_g_per_kwh } = price;
        write!(
            out,
            "{} kWh, {cost_eur:.2} EUR and {} kg of CO2 in a year like this, at {eur_per_kwh} EUR and \
             {co2_g_per_kwh} g for a kWh",
            few_digits(*energy_kwh),
            few_digits(*co2_kg),
        )
    }
}

/// A number with one decimal, and with two where that would leave one digit only.
fn few_digits(number: f64) -> String {
    if number.abs() < 0.95 { format!("{number:.2}") } else { format!("{number:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenth of a kilowatt-hour was told as "0.0 kg of CO2".
    #[test]
    fn little_is_not_nothing() {
        let text = Price::default().year(Watts(0.0117)).to_string();
        assert!(text.starts_with("0.10 kWh, 0.03 EUR and 0.04 kg of CO2"), "{text}");
    }

    #[test]
    fn a_year_is_the_mean_power_times_its_hours() {
        let year = Price { eur_per_kwh: 0.5, co2_g_per_kwh: 100.0 }.year(Watts(1_000.0));
        assert_eq!((year.energy_kwh, year.cost_eur, year.co2_kg), (8_766.0, 4_383.0, 876.6));
        assert!(Price::default().year(Watts(-1.0)).cost_eur < 0.0, "more was drawn");
        let text = Price::default().year(Watts(9.0)).to_string();
        assert!(text.starts_with("78.9 kWh, 19.72 EUR and 27.6 kg of CO2"), "{text}");
        assert!(text.ends_with("at 0.25 EUR and 350 g for a kWh"), "{text}");
    }

    #[test]
    fn factors_that_make_no_sense_are_refused() {
        for wrong in [f64::NAN, f64::INFINITY, -0.1] {
            let price = Price { eur_per_kwh: wrong, ..Price::default() };
            let message = price.check().unwrap_err().to_string();
            assert!(message.starts_with("power.price.eur_per_kwh: must be"), "{message}");
        }
        assert!(Price { eur_per_kwh: 0.0, co2_g_per_kwh: 0.0 }.check().is_ok());
    }
}
