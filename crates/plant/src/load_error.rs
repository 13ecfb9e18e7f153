//! Reading a typed TOML file with messages that name the line, the key and what is allowed.

use serde::de::DeserializeOwned;
use std::ops::Range;
use thiserror::Error;
use wattio_units::{STRING_OR_TABLE, in_words, line_and_key};

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
        let (message, span) = match likely_kind(text, &error) {
            Some((key, span)) => (format!("unknown field `{key}`, expected `{KIND}`"), Some(span)),
            None => (one_or_several::<T>(text, &error).unwrap_or(message), span_of(text, &error)),
        };
        let (line, key) = line_and_key(text, span);
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

/// The key by which a table says what other keys it has.
const KIND: &str = "kind";
/// What a reader says of a key that is there already.
const DUPLICATE_KEY: &str = "duplicate key";
/// What a reader says of a table without it.
const NO_KIND: &str = "missing field `kind`";

/// The text of the table that begins at a place: in braces, or below its header.
fn table_at<'a>(text: &'a str, span: &Range<usize>) -> &'a str {
    let whole = text.get(span.start..).unwrap_or_default();
    let end = if whole.starts_with('{') { Some(span.len()) } else { whole.find("\n[") };
    end.and_then(|end| whole.get(..end)).unwrap_or(whole)
}

/// The keys of a table, as [`table_at`] has it.
fn keys_in(table: &str) -> Vec<String> {
    let keys = |table: toml::Table| table.into_iter().map(|(key, _)| key).collect();
    let read = if table.starts_with('{') {
        let read = toml::from_str::<toml::Table>(&format!("table = {table}"));
        read.ok().and_then(|mut read| read.remove("table")?.try_into().ok())
    } else {
        table.split_once('\n').and_then(|(_, body)| toml::from_str(body).ok())
    };
    read.map(keys).unwrap_or_default()
}

/// Where a key of a table stands in the text.
fn key_at(text: &str, table: &Range<usize>, key: &str) -> Option<Range<usize>> {
    let whole = table_at(text, table);
    let is_key = |(at, _): &(usize, &str)| {
        let begins = whole[..*at].ends_with([' ', '\t', '\n', '{', ',']);
        begins && whole[at + key.len()..].trim_start().starts_with('=')
    };
    let (at, _) = whole.match_indices(key).find(is_key)?;
    let start = table.start + at;
    Some(start..start + key.len())
}

/// Of a table without a `kind`, the key that was meant to be it, and where that stands.
fn likely_kind(text: &str, error: &toml::de::Error) -> Option<(String, Range<usize>)> {
    let table = error.span().filter(|_| error.message() == NO_KIND)?;
    let keys = keys_in(table_at(text, &table));
    let key = nearest(KIND, keys.iter().map(String::as_str))?;
    Some((key.to_owned(), key_at(text, &table, key)?))
}

/// What is said of one table in the place of several, of several in the place of one, and of a text in
/// the place of a table with one key; the reader names types of Rust.
fn one_or_several<T: DeserializeOwned>(text: &str, error: &toml::de::Error) -> Option<String> {
    let span = error.span()?;
    let (here, message) = (text.get(span.clone())?, error.message());
    let instead = |other: &str| {
        let text = [text.get(..span.start)?, other, text.get(span.end..)?].concat();
        toml::from_str::<T>(&text).err()
    };
    // What each item of a list is to be, if that is no table.
    let item = |message: &str| {
        let wanted = message.strip_prefix("invalid type: map, expected ")?;
        let is_table = wanted == "a sequence" || wanted == "variant identifier";
        let item = in_words(message).split_once(", expected ").map(|(_, item)| item.to_owned());
        item.filter(|_| !is_table)
    };
    let list =
        |name: &str, item: String| format!("expected a list, each item {item}: {name} = [...]");
    // A list has brackets, too.
    let header = if is_header_at(text, &span) { here } else { "" };
    if let Some(name) = header.strip_prefix("[[").and_then(|here| here.strip_suffix("]]")) {
        if let Some(item) = item(message) {
            return Some(list(name, item));
        }
        let is_one = message.starts_with("invalid type: ") && !message.ends_with("a sequence");
        return is_one.then(|| format!("expected one table: [{name}]"));
    }
    if let Some(name) = header.strip_prefix('[').and_then(|here| here.strip_suffix(']')) {
        let are_several = message == "invalid type: map, expected a sequence";
        let is_here =
            |error: &toml::de::Error| error.span().is_some_and(|other| other.start == span.start);
        let of_items = instead(&format!("[[{name}]]")).filter(is_here);
        let item = of_items.and_then(|error| item(error.message()));
        let told = item.map_or_else(
            || format!("expected a list of tables: [[{name}]]"),
            |item| list(name, item),
        );
        return are_several.then_some(told);
    }
    if message == DUPLICATE_KEY {
        return one_and_several(text, &span);
    }
    let asked = (message == STRING_OR_TABLE).then(|| instead("\"?\"")).flatten();
    let message = asked.as_ref().map_or(message, |asked| asked.message());
    if asked.is_none() && !here.starts_with(['"', '\'']) {
        return None;
    }
    let known = message.strip_prefix("unknown variant ")?.split('`').nth(3)?;
    let said = instead(&format!("\"{known}\""))?;
    let is_table = said.message().ends_with("expected newtype variant");
    is_table.then(|| format!("expected a table with one key: {{ {known} = ... }}"))
}

/// Whether what begins at a place is the first in its line, as a header is, and no value.
fn is_header_at(text: &str, span: &Range<usize>) -> bool {
    let before = text.get(..span.start).unwrap_or_default();
    before.rsplit('\n').next().is_none_or(|line| line.trim().is_empty())
}

/// What is said where a header with one pair of brackets stands beside the same one with two.
fn one_and_several(text: &str, span: &Range<usize>) -> Option<String> {
    let begin = text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let here = text.get(begin..)?.lines().next()?.trim();
    let name = here.strip_prefix('[')?.strip_suffix(']')?;
    let other = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(name) => format!("[{name}]"),
        None => format!("[[{name}]]"),
    };
    let line = text.get(..begin)?.lines().position(|line| line.trim() == other)? + 1;
    Some(format!(
        "{here} stands beside {other} in line {line}: one pair of brackets makes a table, two a list of \
         tables; use the same in both places"
    ))
}

/// Where it is. Of a table whose `kind` says which keys it has, only the table is known, and a key that
/// it does not have, or a value in it that is wrong, is looked for.
fn span_of(text: &str, error: &toml::de::Error) -> Option<Range<usize>> {
    let (span, message) = (error.span()?, error.message());
    let quoted = |what: &str| Some(message.strip_prefix(what)?.split('`').nth(1)?.to_owned());
    if let Some(key) = quoted("unknown field ") {
        let is_there = text.get(span.clone()) == Some(key.as_str());
        return key_at(text, &span, &key).filter(|_| !is_there).or(Some(span));
    }
    let found = message.strip_prefix("invalid type: ").and_then(|m| m.split_once(", expected "));
    let literal = found.and_then(|(found, _)| match found.split_once(' ')? {
        ("string", literal) => Some(literal.to_owned()),
        (_, literal) => literal.rsplit('`').nth(1).map(str::to_owned),
    });
    // What a value's own reader says begins with the value.
    let own = || message.strip_prefix('"')?.split_once('"').map(|(value, _)| format!("{value:?}"));
    let literal = literal.or_else(|| quoted("unknown variant ").map(|one| format!("{one:?}")));
    let Some(literal) = literal.or_else(own) else { return Some(span) };
    let literal = literal.as_str();
    let whole = table_at(text, &span);
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
    let (span, message) = (error.span()?, error.message());
    let wanted = message.split_once(", expected ").map_or("", |(_, wanted)| wanted);
    let lacks_kind = message == NO_KIND || wanted == "variant identifier";
    let one_key = message.starts_with("wanted exactly 1 element") || message == STRING_OR_TABLE;
    let (what, key) = match wanted {
        _ if lacks_kind || wanted.contains("tagged enum ") => ("kinds", "kind = \"?\""),
        _ if one_key || wanted.starts_with("struct ") => ("keys", "\"?\" = 0"),
        _ => return None,
    };
    let here = text.get(span.clone())?;
    let (instead, end) = if here.starts_with('[') && is_header_at(text, &span) {
        // In the place of everything below the header.
        let header = here.replace("[[", "[").replace("]]", "]");
        let header = if lacks_kind && wanted.is_empty() { here } else { header.as_str() };
        (format!("{header}\n{key}\n"), span.start + table_at(text, &span).len())
    } else if wanted == "variant identifier" {
        ("\"?\"".to_owned(), span.end)
    } else {
        (format!("{{ {key} }}"), span.end)
    };
    let instead = [text.get(..span.start)?, &instead, text.get(end..)?].concat();
    let said = toml::from_str::<T>(&instead).err()?;
    let (_, all) = said.message().split_once("`?`, expected ")?;
    Some(format!("; its {what}: {}", all.trim_start_matches("one of ")))
}

/// Adds the nearest known key to serde's message about an unknown one.
fn with_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown ").then(|| quoted.next()).flatten();
    match unknown.and_then(|unknown| nearest(unknown, quoted)) {
        Some(known) => format!("{message} (did you mean `{known}`?)"),
        None => message.to_owned(),
    }
}

/// The word that is most like another one, if any is.
fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likenesses = words.map(|other| (other, strsim::jaro_winkler(word, other)));
    let likely = likenesses.filter(|&(_, likeness)| likeness > 0.7);
    likely.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(other, _)| other)
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
        #[serde(default)]
        list: Vec<Source>,
        #[serde(default)]
        by: Option<By>,
        #[serde(default)]
        ports: Vec<u16>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code, reason = "only read")]
    enum By {
        Name(String),
        Group(String),
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

    /// It named the table alone: a typo in `kind` was "missing field `kind`".
    #[test]
    fn a_kind_that_is_misspelt_is_told_with_the_kinds_that_there_are() {
        let unknown = "unknown field `kid`, expected `kind` (did you mean `kind`?); its kinds: `disks` or \
                       `mounts`";
        for (text, place) in [
            (
                "name = 'a'\n[source]\nmounts = []\nkid = 'mounts'\n[price]\neuro = 1\n",
                "line 4: source",
            ),
            ("name = 'a'\nsource = { kid = 'mounts' }\n", "line 2: source"),
            (
                "name = 'a'\n[[list]]\nkind = 'disks'\ndevices = []\n[[list]]\nkid = 1\n",
                "line 6: list",
            ),
        ] {
            assert_eq!(said(text), format!("{place}: {unknown}"));
        }
        let missing = "source: missing field `kind`; its kinds: `disks` or `mounts`";
        for text in ["[source]\n", "[source]\ntype = 'disks'\n", "source = {}\n"] {
            assert_eq!(said(&format!("name = 'a'\n{text}")), format!("line 2: {missing}"));
        }
        let number = "line 3: source.kind: invalid type: integer `5`, expected a string; its kinds: \
                      `disks` or `mounts`";
        assert_eq!(said("name = 'a'\n[source]\nkind = 5\n"), number);
    }

    #[test]
    fn one_table_and_a_list_of_tables_are_told_apart() {
        let one = said("name = 'a'\n[[source]]\nkind = 'mounts'\n");
        assert_eq!(
            one,
            "line 2: source: expected one table: [source]; its kinds: `disks` or `mounts`"
        );
        let several = said("name = 'a'\n[list]\nkind = 'mounts'\n");
        assert_eq!(several, "line 2: list: expected a list of tables: [[list]]");
        let text = said("name = 'a'\nby = 'etcd'\n");
        assert_eq!(text, "line 2: by: expected a table with one key: { name = ... }");
        let keys = "its keys: `name` or `group`";
        for value in ["5", "['etcd']", "[]", "[[1]]"] {
            let told = said(&format!("name = 'a'\nby = {value}\n"));
            let wants = "line 2: by: expected a table with one key: { name = ... }";
            assert_eq!(told, format!("{wants}; {keys}"), "{value}");
        }
        for table in ["by = {}", "by = { name = 'a', group = 'b' }", "[by]\n"] {
            let said = said(&format!("name = 'a'\n{table}"));
            assert_eq!(said, format!("line 2: by: expected exactly one key; {keys}"));
        }
    }

    /// It was a duplicate key.
    #[test]
    fn one_table_beside_several_of_its_name_is_told() {
        let why =
            "one pair of brackets makes a table, two a list of tables; use the same in both places";
        for (first, second) in [("[list]", "[[list]]"), ("[[list]]", "[list]")] {
            let told =
                said(&format!("name = 'a'\n{first}\nkind = 'disks'\n\n{second}\nkind = 'disks'\n"));
            assert_eq!(told, format!("line 5: {second} stands beside {first} in line 2: {why}"));
        }
        assert_eq!(said("[price]\neuro = 1\n[price]\neuro = 2\n"), "line 3: duplicate key");
    }

    /// With one pair of brackets two were asked for, and with two one.
    #[test]
    fn a_table_in_the_place_of_a_list_of_values_is_told_what_the_list_holds() {
        for header in ["[ports]", "[[ports]]"] {
            let told = said(&format!("name = 'a'\n{header}\ntcp = 80\n"));
            assert_eq!(
                told,
                "line 2: ports: expected a list, each item a whole number: ports = [...]"
            );
        }
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
        let key = said("name = 'a'\n[source]\nkind = 'mounts'\n\nmount = ['/']\n");
        let unknown = "line 5: source: unknown field `mount`, expected `mounts` or `every` (did you mean `mounts`?)";
        assert_eq!(key, unknown);
        // Where two have that value the table is all that is known.
        let two = "name = 'a'\n[source]\nkind = 'mounts'\nmounts = 5\nevery = 5\n";
        assert!(
            said(two).contains("source: invalid type: integer `5`, expected a list"),
            "{}",
            said(two)
        );
    }
}
