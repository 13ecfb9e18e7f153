//! Bounds on latency.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use wattio_units::Seconds;

/// A bound on latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The statistic.
    pub statistic: Statistic,
    /// The limit.
    pub limit: Limit,
    /// The scope.
    pub scope: Scope,
}

/// The statistic of latency that is bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// A quantile, above 0 and below 1: 0.99.
    Quantile(f64),
}

/// The limit of a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// This share above what the same load has at full speed: 0.2 is 1.2 times as much.
    Relative(f64),
    /// This latency.
    Absolute(Seconds),
}

/// Over what time the bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Each of the law's windows.
    Window,
    /// The whole run: a window may exceed it if others stay below.
    Run,
}

/// Why a text is not a valid bound.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{text:?} is not a bound: {wrong}; write a statistic (mean, p50, p99, p99.9), a limit (a share over \
     full speed such as 20% or 0.2, or a time such as \"2 ms\") and, if you like, a scope (run, window): \
     \"mean 20% run\""
)]
pub struct BoundError {
    text: String,
    wrong: String,
}

impl Bound {
    /// The mean over the run, at most this share above full speed: what PACER's `plf` means.
    #[must_use]
    pub const fn mean_relative(share: f64) -> Self {
        Self { statistic: Statistic::Mean, limit: Limit::Relative(share), scope: Scope::Run }
    }

    /// The limit in microseconds of a load that has `full_speed_us` at full speed; `None` if that
    /// has to be known and is not.
    #[must_use]
    pub fn limit_us(&self, full_speed_us: Option<f64>) -> Option<f64> {
        match self.limit {
            Limit::Absolute(limit) => Some(limit.0 * 1e6),
            Limit::Relative(share) => full_speed_us.map(|us| us * (1.0 + share)),
        }
    }

    /// The share over full speed, for bounds that are relative.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        match self.limit {
            Limit::Relative(share) => Some(share),
            Limit::Absolute(_) => None,
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            // Rounded to a millionth, as 0.999 * 100 is not 99.9.
            Self::Quantile(q) => write!(f, "p{}", (q * 1e8).round() / 1e6),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match self.scope {
            Scope::Window => "window",
            Scope::Run => "run",
        };
        match self.limit {
            Limit::Relative(share) => {
                write!(f, "{} {}% {scope}", self.statistic, (share * 1e8).round() / 1e6)
            }
            Limit::Absolute(limit) => write!(f, "{} {limit} {scope}", self.statistic),
        }
    }
}

impl FromStr for Statistic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mean" {
            return Ok(Self::Mean);
        }
        let percent = text.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
        match percent {
            Some(percent) if percent > 0.0 && percent < 100.0 => {
                Ok(Self::Quantile(percent / 100.0))
            }
            _ => Err(format!("{text:?} is not a statistic")),
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').and_then(|digits| digits.trim().parse::<f64>().ok());
        let share = percent.map(|percent| percent / 100.0).or_else(|| text.parse().ok());
        let limit = match share {
            Some(share) => Self::Relative(share),
            None => Self::Absolute(text.parse().map_err(|error| format!("{error}"))?),
        };
        match limit {
            Self::Relative(share) if !(0.001..=10.0).contains(&share) => {
                Err(format!("a share of {share}: allowed is 0.001 to 10 (0.1 % to 1000 %)"))
            }
            Self::Absolute(limit) if !(1e-6..=1e3).contains(&limit.0) => {
                Err(format!("a latency of {limit}: allowed is 1 us to 1000 s"))
            }
            limit => Ok(limit),
        }
    }
}

impl FromStr for Bound {
    type Err = BoundError;

    fn from_str(text: &str) -> Result<Self, BoundError> {
        let wrong = |wrong: String| BoundError { text: text.to_owned(), wrong };
        let words: Vec<_> = text.split_whitespace().collect();
        let (words, scope) = match words.split_last() {
            Some((&"run", rest)) => (rest, Scope::Run),
            Some((&"window", rest)) => (rest, Scope::Window),
            _ => (words.as_slice(), Scope::Run),
        };
        let Some((first, limit)) = words.split_first() else {
            return Err(wrong("it is empty".to_owned()));
        };
        if limit.is_empty() {
            return Err(wrong("the limit is missing".to_owned()));
        }
        let statistic = first.parse().map_err(wrong)?;
        let limit_of = |words: &[&str]| words.join(" ").parse::<Limit>();
        let limit = limit_of(limit).map_err(|error| match limit.split_last() {
            // After a unit stands what the limit is of.
            Some((last, rest))
                if limit_of(rest).is_ok() && !rest.concat().ends_with(char::is_numeric) =>
            {
                wrong(format!("{last:?} is no span; allowed: run, window"))
            }
            _ => wrong(error),
        })?;
        Ok(Self { statistic, limit, scope })
    }
}

impl Serialize for Bound {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<Bound>().unwrap();
        assert_eq!(read("mean 20%"), Bound::mean_relative(0.2));
        assert_eq!(read("mean 0.2 run"), Bound::mean_relative(0.2));
        let tail = read("p99 2 ms window");
        assert_eq!(tail.statistic, Statistic::Quantile(0.99));
        assert_eq!(tail.limit, Limit::Absolute(Seconds(0.002)));
        assert_eq!(tail.scope, Scope::Window);
        assert_eq!(read("p99.9 50 %").to_string(), "p99.9 50% run");
    }

    #[test]
    fn what_is_no_bound_says_what_would_be() {
        let message = |text: &str| text.parse::<Bound>().unwrap_err().to_string();
        assert!(message("").contains("it is empty"));
        assert!(message("mean").contains("the limit is missing"));
        assert!(message("median 20%").contains("\"median\" is not a statistic"));
        assert!(message("p100 20%").contains("not a statistic"));
        assert!(message("mean -20%").contains("allowed is 0.001 to 10"));
        assert!(message("mean nan").contains("allowed is 0.001 to 10"));
        assert!(message("p99 2 hours run").contains("write a statistic"));
        // "20% rund" was no time.
        for text in ["p99 20% rund", "mean 2 ms Window", "mean 20 % windows"] {
            assert!(
                message(text).contains("is no span; allowed: run, window"),
                "{}",
                message(text)
            );
        }
        assert!(!message("p99 2 mss").contains("span"));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(
            percent in 1u32..9999, share in 0.001f64..10.0, us in 1.0f64..1e9,
            relative: bool, window: bool,
        ) {
            let share = (share * 1e4).round() / 1e4;
            let bound = Bound {
                statistic: Statistic::Quantile(f64::from(percent) / 1e4),
                limit: if relative {
                    Limit::Relative(share.max(0.001))
                } else {
                    Limit::Absolute(Seconds(us.round() * 1e-6))
                },
                scope: if window { Scope::Window } else { Scope::Run },
            };
            let again: Bound = bound.to_string().parse().unwrap();
            let (Statistic::Quantile(p), Statistic::Quantile(q)) = (bound.statistic, again.statistic)
                else { panic!("{again:?}") };
            prop_assert!((p - q).abs() < 1e-9);
            let (l, m) = (bound.limit_us(Some(100.0)).unwrap(), again.limit_us(Some(100.0)).unwrap());
            prop_assert!((l / m - 1.0).abs() < 1e-3, "{bound} {again}");
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Bound>();
        }
    }
}
