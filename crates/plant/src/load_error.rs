//! Reading a typed TOML file with messages that name the line, the key and what is allowed.

use serde::de::DeserializeOwned;
use std::ops::Range;
use thiserror::Error;
use wattio_units::{in_words, line_and_key};

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
/// [`DescriptionError::Text`] with line and key, and the nearest known key for an unknown one.
pub fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, DescriptionError> {
    toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', " ");
        let (line, key) = line_and_key(text, span_of(text, &error));
        // What names the key itself is told where it stands.
        let own = |key: String| match message.starts_with("unknown field ") {
            true => key.rsplit_once('.').map(|(table, _)| table.to_owned()),
            false => Some(key),
        };
        let key = key.and_then(own).map(|key| format!("{key}: ")).unwrap_or_default();
        let keys = keys_of::<T>(text, &error).unwrap_or_default();
        let message = with_suggestion(&in_words(&message));
        DescriptionError::Text { line, message: format!("{key}{message}{keys}") }
    })
}

/// Where it is. Of a table whose `kind` says which keys it has, only the table is known, and a value in
/// it of a wrong type is looked for.
fn span_of(text: &str, error: &toml::de::Error) -> Option<Range<usize>> {
    let span = error.span()?;
    let found =
        error.message().strip_prefix("invalid type: ").and_then(|m| m.split_once(", expected "));
    let literal = found.and_then(|(found, _)| match found.split_once(' ')? {
        ("string", literal) => Some(literal),
        (_, literal) => literal.rsplit('`').nth(1),
    });
    let Some(literal) = literal else { return Some(span) };
    let whole = text.get(span.start..).unwrap_or_default();
    let whole = whole.find("\n[").and_then(|end| whole.get(..end)).unwrap_or(whole);
    let is_there = |(at, _): &(usize, &str)| whole[at + 1..].trim_start().starts_with(literal);
    let mut places = whole.match_indices('=').filter(is_there);
    let place = places.next().map(|(at, _)| {
        let rest = &whole[at + 1..];
        span.start + at + 1 + (rest.len() - rest.trim_start().len())
    });
    let is_one = places.next().is_none()
        && !text.get(span.clone()).is_some_and(|here| here.starts_with(literal));
    Some(place.filter(|_| is_one).map_or(span, |start| start..start + literal.len()))
}

/// The keys that a table has where something else stands, or its kinds, by what its reader says of
/// one that it does not have.
fn keys_of<T: DeserializeOwned>(text: &str, error: &toml::de::Error) -> Option<String> {
    let (_, wanted) = error.message().split_once(", expected ")?;
    let (what, instead) = if wanted.starts_with("struct ") {
        ("keys", "{ \"?\" = 0 }")
    } else {
        wanted.contains("tagged enum ").then_some(("kinds", "{ kind = \"?\" }"))?
    };
    let span = error.span()?;
    let instead = [text.get(..span.start)?, instead, text.get(span.end..)?].concat();
    let said = toml::from_str::<T>(&instead).err()?;
    let (_, all) = said.message().split_once("`?`, expected ")?;
    Some(format!("; its {what}: {}", all.trim_start_matches("one of ")))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read")]
    struct Whole {
        name: String,
        #[serde(default)]
        price: Option<Price>,
        #[serde(default)]
        source: Option<Source>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read")]
    struct Price {
        euro: f64,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
    #[allow(dead_code, reason = "only read")]
    enum Source {
        Disks { devices: Vec<String> },
        Mounts { mounts: Vec<String>, every: Option<f64> },
    }

    fn said(text: &str) -> String {
        read_toml::<Whole>(text).unwrap_err().to_string()
    }

    /// It named the line, and Rust's words for what it wanted.
    #[test]
    fn a_wrong_type_is_told_with_its_key_and_what_is_allowed() {
        let price = "line 2: price: invalid type: floating point `0.2`, expected a table: { key = ... }; its \
                     keys: `euro`";
        assert_eq!(said("name = 'a'\nprice = 0.2\n"), price);
        let euro = "line 3: price.euro: invalid type: string \"x\", expected a number";
        assert_eq!(said("name = 'a'\n[price]\neuro = 'x'\n"), euro);
        let twice = "line 2: name: duplicate key";
        assert_eq!(said("name = 'a'\nname = 'b'\n"), twice);
        let kinds = said("name = 'a'\nsource = 5\n");
        assert!(kinds.ends_with("its kinds: `disks` or `mounts`"), "{kinds}");
        let unknown = said("name = 'a'\n[price]\neuros = 1\n");
        let expected =
            "line 3: price: unknown field `euros`, expected `euro` (did you mean `euro`?)";
        assert_eq!(unknown, expected);
        assert_eq!(said("[price]\neuro = 1\n"), "line 1: missing field `name`");
    }

    /// The table was named, and not the key in it: its reader goes by the kind first.
    #[test]
    fn a_key_of_a_table_with_a_kind_is_found() {
        for text in [
            "name = 'a'\nsource = { kind = 'mounts', mounts = \"/srv\" }\n",
            "name = 'a'\n[source]\nkind = 'mounts'\nmounts = \"/srv\"\n",
        ] {
            let told = said(text);
            let wants = "source.mounts: invalid type: string \"/srv\", expected a list: [\"/srv\"]";
            assert!(told.ends_with(wants), "{told}");
        }
        // Where two have that value the table is all that is known.
        let two = "name = 'a'\n[source]\nkind = 'mounts'\nmounts = 5\nevery = 5\n";
        assert!(
            said(two).contains("source: invalid type: integer `5`, expected a list"),
            "{}",
            said(two)
        );
    }
}
