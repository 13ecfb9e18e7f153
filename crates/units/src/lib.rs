//! Physical quantities with their units: `"45 W"`, `"10 ms"`, `"8 KiB"`.
//!
//! Each quantity is a newtype over `f64` in its SI base unit. Text needs an explicit unit, so
//! that `10` can never be read as microseconds by one program and as seconds by another.

mod draw;
mod parse;
mod place;

pub use draw::{splitmix64, splitmix64_share};
pub use parse::{QuantityError, Unit, parse_in};
pub use place::{STRING_OR_TABLE, in_words, line_and_key};

use parse::format_quantity;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Div, Mul, Sub};
use std::str::FromStr;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $word:literal, [$(($symbol:literal, $factor:expr)),+ $(,)?]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub struct $name(pub f64);

        impl $name {
            /// The units that text may carry, smallest first, with their factor to the base unit.
            pub const UNITS: &'static [Unit] =
                &[$(Unit { symbol: $symbol, factor: $factor }),+];
            /// What this quantity measures, for messages.
            pub const KIND: &'static str = $word;

            /// The value in the SI base unit.
            #[must_use]
            pub const fn value(self) -> f64 {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                parse_in(text, Self::KIND, Self::UNITS).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                format_quantity(self.0, Self::UNITS, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                parse::deserialize(deserializer, Self::KIND, Self::UNITS).map(Self)
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        impl Div for $name {
            type Output = f64;
            fn div(self, divisor: Self) -> f64 {
                self.0 / divisor.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                Self(values.map(|value| value.0).sum())
            }
        }
    };
}

quantity!(
    /// Power in watts.
    Watts, "power", [("mW", 1e-3), ("W", 1.0), ("kW", 1e3), ("MW", 1e6)]
);
quantity!(
    /// Energy in joules.
    Joules, "energy", [("mJ", 1e-3), ("J", 1.0), ("kJ", 1e3), ("Wh", 3.6e3), ("MJ", 1e6), ("kWh", 3.6e6)]
);
quantity!(
    /// Frequency in hertz.
    Hertz, "frequency", [("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)]
);
quantity!(
    /// A span of time in seconds.
    Seconds, "time", [
        ("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0),
        ("min", 60.0), ("h", 3600.0), ("d", 86400.0),
    ]
);
quantity!(
    /// An amount of data in bytes.
    Bytes, "data size", [
        ("B", 1.0), ("kB", 1e3), ("KiB", 1024.0), ("MB", 1e6), ("MiB", 1_048_576.0),
        ("GB", 1e9), ("GiB", 1_073_741_824.0), ("TB", 1e12), ("TiB", 1_099_511_627_776.0),
    ]
);

impl Mul<Seconds> for Watts {
    type Output = Joules;
    fn mul(self, span: Seconds) -> Joules {
        Joules(self.0 * span.0)
    }
}

impl Div<Seconds> for Joules {
    type Output = Watts;
    fn div(self, span: Seconds) -> Watts {
        Watts(self.0 / span.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_each_unit_in_si() {
        assert_eq!("45 W".parse(), Ok(Watts(45.0)));
        assert_eq!("1.5kW".parse(), Ok(Watts(1500.0)));
        assert_eq!("10 ms".parse(), Ok(Seconds(0.01)));
        assert_eq!("8 KiB".parse(), Ok(Bytes(8192.0)));
        assert_eq!("2.6 GHz".parse(), Ok(Hertz(2.6e9)));
        assert_eq!("2 Wh".parse(), Ok(Joules(7200.0)));
    }

    /// A bound of 0.25 ms was shown as one of 250000 ns.
    #[test]
    fn what_was_read_is_printed_in_a_unit_that_fits() {
        for (text, printed) in [
            ("0.25 ms", "250 us"),
            ("250 us", "250 us"),
            ("0.3 ms", "300 us"),
            ("2.5 ms", "2.5 ms"),
            ("1.234 ms", "1.234 ms"),
            ("1.2345 ms", "1234.5 us"),
            ("1 us", "1 us"),
            ("7 µs", "7 us"),
            ("0.5 s", "500 ms"),
            ("90 s", "1.5 min"),
            ("100 s", "100 s"),
            ("36 h", "1.5 d"),
            ("0 s", "0 s"),
        ] {
            assert_eq!(text.parse::<Seconds>().unwrap().to_string(), printed, "{text}");
        }
        for thousandths in 1..10_000 {
            let text = format!("{} ms", f64::from(thousandths) / 1e3);
            let printed = text.parse::<Seconds>().unwrap().to_string();
            assert!(!printed.ends_with("ns") && printed.len() <= "1000.001 us".len(), "{printed}");
        }
        assert_eq!("1.1 GHz".parse::<Hertz>().unwrap().to_string(), "1.1 GHz");
    }

    #[test]
    fn a_missing_or_foreign_unit_is_named() {
        let bare = "45".parse::<Watts>().unwrap_err().to_string();
        assert!(bare.contains("no unit") && bare.contains("mW, W, kW, MW"), "{bare}");
        let none = "x".parse::<Seconds>().unwrap_err().to_string();
        assert!(none.ends_with("write for example \"10 s\""), "not in nanoseconds: {none}");
        let foreign = "45 ms".parse::<Watts>().unwrap_err().to_string();
        assert!(foreign.contains("\"ms\""), "{foreign}");
        for nonsense in ["", " W", "NaN W", "inf s", "1e999 W", "-", "4 5 W"] {
            assert!(nonsense.parse::<Watts>().is_err(), "{nonsense:?} was accepted");
        }
    }

    #[test]
    fn energy_is_power_times_time() {
        assert_eq!(Watts(2.0) * Seconds(3.0), Joules(6.0));
        assert_eq!(Joules(6.0) / Seconds(3.0), Watts(2.0));
    }

    #[test]
    fn a_bare_number_is_refused_in_files() {
        let message = serde_json::from_str::<Seconds>("3").unwrap_err().to_string();
        assert!(message.contains("a time with a unit, such as \"10 s\""), "{message}");
    }

    proptest! {
        #[test]
        fn printing_and_reading_agree(value in -1e12f64..1e12) {
            let again: Seconds = Seconds(value).to_string().parse().unwrap();
            prop_assert!((again.0 - value).abs() <= value.abs() * 1e-12);
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = text.parse::<Bytes>();
        }
    }
}
