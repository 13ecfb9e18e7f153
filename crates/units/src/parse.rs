//! Reading and printing of one number with one unit.

use serde::de::{Deserializer, Error, Visitor};
use std::fmt;
use thiserror::Error;

/// One unit of a quantity and its factor to the SI base unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// The symbol as written, for example `kW`.
    pub symbol: &'static str,
    /// How many base units one of these is.
    pub factor: f64,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum QuantityError {
    /// The text does not begin with a finite number.
    #[error(
        "{text:?} is not a {kind}: it does not begin with a finite number; write for example \"10 \
         {example}\""
    )]
    Number {
        /// The text as given.
        text: String,
        /// The quantity that was wanted.
        kind: &'static str,
        /// A unit that would do.
        example: &'static str,
    },
    /// The unit is missing or belongs to another quantity.
    #[error("{text:?} is not a {kind}: {found}; the units are {allowed}")]
    Unit {
        /// The text as given.
        text: String,
        /// The quantity that was wanted.
        kind: &'static str,
        /// What stood in the unit's place.
        found: String,
        /// The symbols that may stand there.
        allowed: String,
    },
}

/// Reads `text` as a number with one of `units`; the result is in base units.
///
/// # Errors
/// When the text has no finite number or none of the units.
pub fn parse_in(text: &str, kind: &'static str, units: &[Unit]) -> Result<f64, QuantityError> {
    let trimmed = text.trim();
    let unit_start = trimmed
        .char_indices()
        .find(|&(at, c)| c.is_alphabetic() && !is_exponent(trimmed, at))
        .map_or(trimmed.len(), |(at, _)| at);
    let (number, symbol) = trimmed.split_at(unit_start);
    let number: f64 = number.trim().parse().map_err(|_| QuantityError::Number {
        text: text.to_owned(),
        kind,
        example: base(units).symbol,
    })?;
    let unit = units.iter().find(|unit| unit.symbol == symbol);
    let Some(unit) = unit else {
        let found = if symbol.is_empty() {
            "it has no unit".to_owned()
        } else {
            format!("unknown unit {symbol:?}")
        };
        let symbols: Vec<_> = units.iter().map(|unit| unit.symbol).collect();
        return Err(QuantityError::Unit {
            text: text.to_owned(),
            kind,
            found,
            allowed: symbols.join(", "),
        });
    };
    let value = number * unit.factor;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(QuantityError::Number { text: text.to_owned(), kind, example: base(units).symbol })
    }
}

/// The unit that the others are multiples of.
fn base(units: &[Unit]) -> &Unit {
    units.iter().find(|unit| unit.factor == 1.0).unwrap_or(&units[0])
}

/// Whether the letter at `at` is the `e` of `1e-3` and not the start of a unit.
fn is_exponent(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes[at], b'e' | b'E')
        && at > 0
        && bytes[at - 1].is_ascii_digit()
        && bytes
            .get(at + 1)
            .is_some_and(|&next| next.is_ascii_digit() || matches!(next, b'-' | b'+'))
}

/// Prints in the largest unit in which the number is one or more and has at most three decimals.
pub fn format_quantity(value: f64, units: &[Unit], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let fits = |unit: &&Unit| value.abs() >= unit.factor && short(value, unit).is_some();
    let base = base(units);
    // Of two symbols for one unit, the first.
    let largest = |one: &&Unit, other: &&Unit| one.factor.total_cmp(&other.factor);
    let fitting = units.iter().rev().filter(fits).max_by(largest).unwrap_or(base);
    let number = short(value, fitting).unwrap_or(value / fitting.factor);
    write!(f, "{number} {}", fitting.symbol)
}

/// The number with three decimals that gives the value again, but for what two roundings do to it:
/// 0.25 ms over a microsecond is 250.00000000000003.
fn short(value: f64, unit: &Unit) -> Option<f64> {
    let number = (value / unit.factor * 1000.0).round() / 1000.0;
    let is_same = (number * unit.factor - value).abs() <= 2.0 * f64::EPSILON * value.abs();
    is_same.then_some(number)
}

pub fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
    kind: &'static str,
    units: &'static [Unit],
) -> Result<f64, D::Error> {
    struct Text {
        kind: &'static str,
        units: &'static [Unit],
    }
    impl Visitor<'_> for Text {
        type Value = f64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a {} with a unit, such as \"10 {}\"", self.kind, base(self.units).symbol)
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
            parse_in(text, self.kind, self.units).map_err(E::custom)
        }
    }
    deserializer.deserialize_str(Text { kind, units })
}
