//! Reading a typed TOML file with messages that name the line, the key and what is allowed.

use serde::de::DeserializeOwned;
use thiserror::Error;

/// Why a description cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DescriptionError {
    /// The text is not what the schema asks for.
    #[error("line {line}: {message}")]
    Text {
        /// Line number from 1.
        line: usize,
        /// What was wrong and what is allowed.
        message: String,
    },
    /// A value is out of its range or contradicts another.
    #[error("{key}: {message}")]
    Value {
        /// Which key, with its place, for example `group[2].cores`.
        key: String,
        /// What was wrong and what is allowed.
        message: String,
    },
}

/// Reads `text` into a typed value.
///
/// # Errors
/// [`DescriptionError::Text`] with the line, and the nearest known key for an unknown one.
pub fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, DescriptionError> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let message = error.message().replace('\n', " ");
        DescriptionError::Text { line, message: with_suggestion(&message) }
    })
}

/// Adds the nearest known key to serde's message about an unknown one.
fn with_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown ").then(|| quoted.next()).flatten();
    let nearest = unknown.and_then(|unknown| {
        quoted
            .map(|known| (known, strsim::jaro_winkler(unknown, known)))
            .filter(|&(_, likeness)| likeness > 0.7)
            .max_by(|a, b| a.1.total_cmp(&b.1))
    });
    match nearest {
        Some((known, _)) => format!("{message} (did you mean `{known}`?)"),
        None => message.to_owned(),
    }
}

/// One check of a value: the message says what is allowed.
///
/// # Errors
/// [`DescriptionError::Value`] with the key, where it does not hold.
pub fn require(
    holds: bool,
    key: impl Into<String>,
    message: impl Into<String>,
) -> Result<(), DescriptionError> {
    if holds {
        Ok(())
    } else {
        Err(DescriptionError::Value { key: key.into(), message: message.into() })
    }
}
