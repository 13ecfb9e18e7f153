//! What reactors without work do.

use crate::written::{duration, text};
use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// What a reactor does when nothing is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// It sleeps.
    #[default]
    Block,
    /// It looks for work for so long, and then sleeps.
    Spin(Duration),
    /// It looks for work for ever.
    Poll,
}

/// Spinning for longer is polling.
const SPIN_MAX: Duration = Duration::from_secs(1);

impl<'de> Deserialize<'de> for Idle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, Self::read)
    }
}

impl Idle {
    /// As it is written: `block`, `spin 20 us` or `poll`.
    ///
    /// # Errors
    /// What is allowed.
    pub fn read(text: &str) -> Result<Self, String> {
        let span = text.strip_prefix("spin ").and_then(|span| duration(span).ok());
        match (text, span.filter(|&span| span <= SPIN_MAX)) {
            ("block", _) => Ok(Self::Block),
            ("poll", _) => Ok(Self::Poll),
            (_, Some(span)) => Ok(Self::Spin(span)),
            _ => Err(format!(
                "{text:?} is not one of \"block\", \"spin 20 us\" (up to 1 s) and \"poll\""
            )),
        }
    }
}
