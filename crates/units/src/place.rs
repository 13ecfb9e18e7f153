//! Where in a TOML text something is, and what its reader wants, in an operator's words.

use std::ops::Range;

/// The line, from 1, and the key with its tables (`power.price`), of a place in a TOML text; no key
/// where it belongs to none.
#[must_use]
pub fn line_and_key(text: &str, span: Option<Range<usize>>) -> (usize, Option<String>) {
    let (start, end) = span.map_or((0, 0), |span| (span.start, span.end));
    let before = text.get(..start).unwrap_or(text);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let mut scan = Scan::default();
    before.chars().for_each(|c| scan.take(c));
    let (here, rest) = (text.get(start..end), text.get(end..).unwrap_or_default());
    if let Some(name) = here.filter(|_| rest.trim_start().starts_with('=')) {
        scan.key = name.trim_matches(['"', '\'']).to_owned();
    } else if let Some(header) = here.filter(|here| is_header(before, here)) {
        // What a table as a whole lacks is told of where it begins.
        scan = Scan::default();
        header.chars().for_each(|c| scan.take(c));
    }
    (line, scan.path())
}

fn is_header(before: &str, here: &str) -> bool {
    let begins = before.is_empty() || before.ends_with('\n');
    begins && here.starts_with('[') && !here.contains('\n')
}

/// What a reader of TOML says of a number or a list where one of some names stands, alone or as the key of
/// a table.
pub const STRING_OR_TABLE: &str = "wanted string or table";

/// What a reader of numbers, lists and tables says in Rust's words, as a file's author says it.
#[must_use]
pub fn in_words(message: &str) -> String {
    if message.starts_with("wanted exactly 1 element") {
        return "expected exactly one key".to_owned();
    }
    if message == STRING_OR_TABLE {
        return "expected a string, or a table with one key".to_owned();
    }
    let Some((found, wanted)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    if wanted == "a sequence" {
        let one = found.split_once("string ").map_or("...", |(_, one)| one);
        return format!("{found}, expected a list: [{one}]");
    }
    let wanted = match wanted {
        "f64" => "a number",
        "i64" | "i32" | "u64" | "u32" | "u16" | "u8" | "usize" => "a whole number",
        "a boolean" => "true or false",
        "variant identifier" => "a string",
        other if other.starts_with("struct ") || other.contains("tagged enum ") => {
            "a table: { key = ... }"
        }
        other => other,
    };
    format!("{found}, expected {wanted}")
}

/// Goes through a text and knows in which tables, and at which key, it is.
#[derive(Debug, Default)]
struct Scan {
    /// Of the last header.
    header: String,
    /// Keys of the inline tables that are open.
    tables: Vec<String>,
    key: String,
    token: String,
    lists: u32,
    /// In a string or a header it ends with this; a comment ends with the line.
    until: Option<char>,
    is_escaped: bool,
    is_within: bool,
}

impl Scan {
    fn take(&mut self, c: char) {
        if let Some(end) = self.until {
            self.within(c, end);
            return;
        }
        let is_at_line = !self.is_within && self.token.trim().is_empty();
        match c {
            '[' if is_at_line && self.lists == 0 && self.tables.is_empty() => {
                self.header.clear();
                self.key.clear();
                self.until = Some(']');
            }
            '"' | '\'' => self.until = Some(c),
            '#' => self.until = Some('\n'),
            '[' => self.lists += 1,
            ']' => self.lists = self.lists.saturating_sub(1),
            '{' => self.tables.push(std::mem::take(&mut self.key)),
            '}' => self.key = self.tables.pop().unwrap_or_default(),
            '=' => {
                self.key = std::mem::take(&mut self.token).trim().to_owned();
                self.is_within = true;
            }
            ',' => self.token.clear(),
            '\n' => self.line(),
            _ => self.token.push(c),
        }
    }

    /// In a string, a header or a comment.
    fn within(&mut self, c: char, end: char) {
        if self.is_escaped {
            self.is_escaped = false;
        } else if c == end || c == '\n' {
            self.until = None;
            if c == '\n' {
                self.line();
            } else if end == ']' {
                self.is_within = true;
            }
        } else if end == ']' {
            self.header.extend(Some(c).filter(|c| *c != '[' && !c.is_whitespace()));
        } else if end != '\n' {
            self.is_escaped = c == '\\' && end == '"';
            self.token.push(c);
        }
    }

    fn line(&mut self) {
        if self.lists == 0 && self.tables.is_empty() {
            self.token.clear();
            self.key.clear();
            self.is_within = false;
        }
    }

    fn path(self) -> Option<String> {
        let header = Some(self.header);
        let parts = header.into_iter().chain(self.tables).chain(Some(self.key));
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = r#"name = "a = [b"  # x = 1
[power]
price = { eur_per_kwh = "much" }
[latency]
mounts = [
  "/srv=1",
  5,
]
[[group]]
"co res" = 7
twice = 1
twice = 2
"#;

    fn at(what: &str) -> (usize, Option<String>) {
        let start = TEXT.rfind(what).unwrap();
        line_and_key(TEXT, Some(start..start + what.len()))
    }

    #[test]
    fn a_place_has_a_line_and_a_key() {
        let told = |line, key: &str| (line, Some(key.to_owned()));
        assert_eq!(at("\"a = [b\""), told(1, "name"));
        assert_eq!(at("{ eur_per_kwh = \"much\" }"), told(3, "power.price"));
        assert_eq!(at("\"much\""), told(3, "power.price.eur_per_kwh"));
        assert_eq!(at("5"), told(7, "latency.mounts"));
        assert_eq!(at("7"), told(10, "group.co res"));
        assert_eq!(at("twice"), told(12, "group.twice"));
        assert_eq!(at("[[group]]"), told(9, "group"));
        assert_eq!(line_and_key(TEXT, None), (1, None));
        assert_eq!(line_and_key("[a]\nx = 1\n", Some(0..3)), told(1, "a"));
        // It named the key of the line before.
        assert_eq!(line_and_key("[a]\nx = 1\ny\n", Some(11..11)), told(3, "a"));
    }

    #[test]
    fn what_is_wanted_is_told_in_words() {
        let wanted =
            |wanted: &str| in_words(&format!("invalid type: integer `5`, expected {wanted}"));
        assert!(wanted("a sequence").ends_with("expected a list: [...]"));
        assert!(wanted("struct Price").ends_with("expected a table: { key = ... }"));
        assert!(wanted("internally tagged enum LatencyConfig").ends_with("{ key = ... }"));
        assert!(wanted("f64").ends_with("expected a number"));
        assert!(wanted("a time with a unit").ends_with("expected a time with a unit"));
        assert_eq!(in_words("duplicate key"), "duplicate key");
        assert!(wanted("variant identifier").ends_with("expected a string"));
        let one = "wanted exactly 1 element, found 0 elements";
        assert_eq!(in_words(one), "expected exactly one key");
        let either = "expected a string, or a table with one key";
        assert_eq!(in_words("wanted string or table"), either);
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String, more in "[a=\\[\\]{}'\"#\n, \\\\é]{0,40}", start in 0usize..60, length in 0usize..60) {
            for text in [text, more] {
                let _ = line_and_key(&text, Some(start..start + length));
            }
        }
    }
}
