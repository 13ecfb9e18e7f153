//! A load as rates: what comes a second, stretch by stretch.

use crate::demand::{Demand, Mix};
use thiserror::Error;
use wattio_plant::Server;

/// A stretch of constant rate and mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// When it ends, in nanoseconds since the start.
    pub until_ns: u64,
    /// Requests a second.
    pub rate: f64,
    /// Its mix, as an index into [`Load::demands`].
    pub demand: u32,
}

/// A load on a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    stretches: Vec<Stretch>,
    /// What each mix asks for.
    pub demands: Vec<Demand>,
    /// Variance of the requests in a slot over their mean (index of dispersion): 1 is Poisson,
    /// more is bursty.
    pub dispersion: f64,
}

/// A part of a load as given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// How long it lasts, in seconds.
    pub span_s: f64,
    /// Requests a second.
    pub rate: f64,
    /// The mix.
    pub mix: Mix,
}

/// Why a load cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{key}: is {value}; allowed is {allowed}")]
pub struct LoadError {
    key: String,
    value: f64,
    allowed: &'static str,
}

/// Mixes that differ by less than this are one.
const MIX_GRAIN: f64 = 0.02;
/// The longest load: three years, in seconds.
const SPAN_S_MAX: f64 = 1e8;

impl Load {
    /// A load of these parts, one after the other.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn new(server: &Server, parts: &[Part], dispersion: f64) -> Result<Self, LoadError> {
        check("parts", parts.len() as f64, 1.0..=1e9, "1 or more")?;
        check("dispersion", dispersion, 1.0..=1e6, "1 to 1e6")?;
        let mut load = Self { stretches: Vec::new(), demands: Vec::new(), dispersion };
        let mut end_s = 0.0;
        for (at, part) in parts.iter().enumerate() {
            let key = |name: &str| format!("parts[{at}].{name}");
            check(&key("span_s"), part.span_s, 1e-3..=SPAN_S_MAX, "1 ms to 1e8 s")?;
            check(&key("rate"), part.rate, 0.0..=1e9, "0 to 1e9")?;
            check(&key("read_share"), part.mix.read_share, 0.0..=1.0, "0 to 1")?;
            check(&key("random_share"), part.mix.random_share, 0.0..=1.0, "0 to 1")?;
            check(&key("bytes_mean"), part.mix.bytes_mean, 1.0..=1.1e9, "1 B to 1 GiB")?;
            end_s += part.span_s;
            check(&key("span_s"), end_s, 0.0..=SPAN_S_MAX, "at most 1e8 s in all")?;
            load.add((end_s * 1e9).round() as u64, part, server);
        }
        Ok(load)
    }

    fn add(&mut self, until_ns: u64, part: &Part, server: &Server) {
        let mix = part.mix.grained();
        let known = self.demands.iter().position(|demand| demand.mix == mix);
        let demand = known.unwrap_or_else(|| {
            self.demands.push(Demand::of(server, mix));
            self.demands.len() - 1
        });
        let demand = u32::try_from(demand).unwrap_or(u32::MAX);
        match self.stretches.last_mut() {
            Some(last) if last.demand == demand && last.rate == part.rate => {
                last.until_ns = until_ns;
            }
            _ => self.stretches.push(Stretch { until_ns, rate: part.rate, demand }),
        }
    }

    /// How long it lasts, in nanoseconds.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.stretches.last().map_or(0, |last| last.until_ns)
    }

    /// The stretch of an index; the last one goes on for ever.
    pub(crate) fn stretch(&self, at: usize) -> Stretch {
        let last = self.stretches.len() - 1;
        let stretch = self.stretches[at.min(last)];
        if at >= last { Stretch { until_ns: u64::MAX, ..stretch } } else { stretch }
    }
}

impl Mix {
    /// The mix to the grain in which mixes are told apart, so that there are few of them.
    fn grained(self) -> Self {
        let share = |share: f64| (share / MIX_GRAIN).round() * MIX_GRAIN;
        let octave = (self.bytes_mean.log2() / MIX_GRAIN).round() * MIX_GRAIN;
        Self {
            read_share: share(self.read_share).clamp(0.0, 1.0),
            random_share: share(self.random_share).clamp(0.0, 1.0),
            bytes_mean: octave.exp2(),
        }
    }
}

fn check(
    key: &str,
    value: f64,
    within: std::ops::RangeInclusive<f64>,
    allowed: &'static str,
) -> Result<(), LoadError> {
    if within.contains(&value) {
        Ok(())
    } else {
        Err(LoadError { key: key.to_owned(), value, allowed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_plant::SMALL;

    const MIX: Mix = Mix { read_share: 0.7, random_share: 1.0, bytes_mean: 8192.0 };

    fn part(span_s: f64, rate: f64) -> Part {
        Part { span_s, rate, mix: MIX }
    }

    #[test]
    fn like_parts_are_one_stretch_and_the_last_goes_on() {
        let server = Server::from_toml(SMALL).unwrap();
        let parts = [part(1.0, 5.0), part(2.0, 5.0), part(1.0, 7.0)];
        let load = Load::new(&server, &parts, 1.0).unwrap();
        assert_eq!((load.stretch(0).until_ns, load.stretch(0).rate), (3_000_000_000, 5.0));
        assert_eq!((load.stretch(1).until_ns, load.stretch(9).rate), (u64::MAX, 7.0));
        assert_eq!((load.span_ns(), load.demands.len()), (4_000_000_000, 1));
    }

    #[test]
    fn what_cannot_be_says_its_key() {
        let server = Server::from_toml(SMALL).unwrap();
        let told = |parts: &[Part], dispersion: f64| {
            Load::new(&server, parts, dispersion).unwrap_err().to_string()
        };
        assert_eq!(told(&[], 1.0), "parts: is 0; allowed is 1 or more");
        assert_eq!(told(&[part(1.0, f64::NAN)], 1.0), "parts[0].rate: is NaN; allowed is 0 to 1e9");
        assert!(told(&[part(1.0, 1.0)], 0.5).starts_with("dispersion"));
    }
}
