//! The load: the requests that clients send.

use serde::Deserialize;
use thiserror::Error;
use wattio_trace::{Excerpt, Reader, Record, Scaled, TraceError};

/// The mix of requests of a phase (PACER document, table II).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Share of reads.
    pub read_fraction: f64,
    /// Share of requests at random addresses; the others are sequential.
    pub random_fraction: f64,
    /// Size of each request in bytes.
    pub io_bytes: u32,
}

/// A stretch of time with one pattern and one rate.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How long, in seconds.
    pub span_s: f64,
    /// Requests per second; `None`: as fast as the clients go.
    pub iops: Option<f64>,
    /// The mix.
    pub pattern: Pattern,
}

/// Who sends the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Senders {
    /// So many client threads, each with one request at a time: rates are limited by them, and
    /// what they could not send in time they send as soon as they can (as vdbench does).
    Clients(u32),
    /// Poisson arrivals whatever the server does.
    Open,
}

/// Records of a trace, in order of time; a run begins at their time 0.
pub trait TraceSource: Iterator<Item = Result<Record, TraceError>> + Send {
    /// The share of the trace that was read.
    fn share_read(&self) -> f64;
}

impl TraceSource for Scaled<Excerpt<Reader>> {
    fn share_read(&self) -> f64 {
        self.get_ref().get_ref().share_read()
    }
}

/// The longest span that is simulated: three years, in seconds.
pub(crate) const SPAN_S_MAX: f64 = 1e8;

/// A load.
pub enum Load {
    /// One phase after the other; the last one goes on for as long as the run does.
    Phases {
        /// Who sends.
        senders: Senders,
        /// The phases.
        phases: Vec<Phase>,
    },
    /// Requests at the times that a trace says.
    Trace(Box<dyn TraceSource>),
}

/// Why a load cannot be simulated.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A value out of its range.
    #[error("{key}: {message}")]
    Value {
        /// Which one.
        key: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// The trace is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl Load {
    /// Checks every value.
    ///
    /// # Errors
    /// [`LoadError::Value`] with the key and what is allowed.
    pub fn check(&self) -> Result<(), LoadError> {
        let Self::Phases { senders, phases } = self else { return Ok(()) };
        let require = |holds: bool, key: String, message: &str| {
            if holds { Ok(()) } else { Err(LoadError::Value { key, message: message.to_owned() }) }
        };
        require(!phases.is_empty(), "phases".into(), "needs at least one")?;
        require(*senders != Senders::Clients(0), "clients".into(), "must be at least 1")?;
        for (at, phase) in phases.iter().enumerate() {
            let key = |name: &str| format!("phases[{at}].{name}");
            let share = |value: f64| (0.0..=1.0).contains(&value);
            let span = phase.span_s > 0.0 && phase.span_s <= SPAN_S_MAX;
            require(span, key("span_s"), "allowed is above 0 s to 1e8 s")?;
            let rate = phase.iops.is_none_or(|rate| (0.0..=1e9).contains(&rate));
            require(rate, key("iops"), "allowed is 0 to 1e9")?;
            let limited = phase.iops.is_some() || *senders != Senders::Open;
            require(limited, key("iops"), "an open load needs a rate")?;
            require(share(phase.pattern.read_fraction), key("read_fraction"), "allowed is 0 to 1")?;
            require(
                share(phase.pattern.random_fraction),
                key("random_fraction"),
                "allowed is 0 to 1",
            )?;
            let size = (1..=1 << 30).contains(&phase.pattern.io_bytes);
            require(size, key("io_bytes"), "allowed is 1 B to 1 GiB")?;
        }
        Ok(())
    }
}
