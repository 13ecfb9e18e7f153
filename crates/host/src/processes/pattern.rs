//! Patterns that select the processes of a group.

use serde::Deserialize;

/// Names processes or threads. `*` stands for any text, also none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessPattern {
    /// Whole processes by their name (`/proc/PID/comm`, at most 15 bytes): `{ comm = "etcd*" }`.
    Comm(String),
    /// Single threads by their name (`/proc/PID/task/TID/comm`): `{ thread = "tp_osd_tp*" }`.
    Thread(String),
    /// Whole processes by their control group, in any hierarchy:
    /// `{ cgroup = "/system.slice/minio*" }`.
    Cgroup(String),
}

/// Whether `text` fits `pattern`, in which `*` stands for any text.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((prefix, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(prefix) else { return false };
    let mut parts: Vec<_> = rest.split('*').collect();
    let suffix = parts.pop().unwrap_or_default();
    // The earliest place of each part leaves the most for those that follow.
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        let Some(after) = text.get(at + part.len()..) else { return false };
        text = after;
    }
    text.ends_with(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in [
            ("etcd", "etcd"),
            ("etcd*", "etcd"),
            ("*", ""),
            ("/system.slice/*.service", "/system.slice/a.service"),
            ("a*b*c", "aXbYbZc"),
            ("*aa", "aaa"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("etcd", "etcd2"), ("a*a", "a"), ("a*b*c", "acb"), ("", "a")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    /// The definition, by trying every split.
    fn slowly(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|at| slowly(rest, &text[at..])),
            [first, rest @ ..] => text.first() == Some(first) && slowly(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn as_the_definition_says(pattern in "[ab*é]{0,7}", text in "[abé]{0,9}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &text), slowly(&chars(&pattern), &chars(&text)));
        }

        #[test]
        fn no_text_panics(pattern: String, text: String) {
            let _ = matches(&pattern, &text);
        }
    }
}
