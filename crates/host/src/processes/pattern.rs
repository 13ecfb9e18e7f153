//! Patterns that select the processes of a group.

use serde::Deserialize;
use std::fmt;

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

/// Bytes that the kernel keeps of the name of a process or thread.
const NAME_BYTES_MAX: usize = 15;

impl ProcessPattern {
    /// Checks that something could fit it.
    ///
    /// # Errors
    /// The key, and what is allowed.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let (key, pattern) = match self {
            Self::Comm(name) => ("comm", name),
            Self::Thread(name) => ("thread", name),
            Self::Cgroup(path) => ("cgroup", path),
        };
        let message = match self {
            _ if pattern.is_empty() => "is empty".to_owned(),
            Self::Comm(_) | Self::Thread(_) => {
                let bytes = pattern.len() - pattern.matches('*').count();
                if bytes <= NAME_BYTES_MAX {
                    return Ok(());
                }
                format!(
                    "{pattern:?} fits nothing: of a name the kernel keeps {NAME_BYTES_MAX} bytes, as \
                     `ps -e` shows"
                )
            }
            Self::Cgroup(path) if path.starts_with(['/', '*']) => return Ok(()),
            Self::Cgroup(_) => format!("{pattern:?} fits nothing: it must begin with /"),
        };
        Err((key, message))
    }
}

impl fmt::Display for ProcessPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comm(name) => write!(f, "comm = {name:?}"),
            Self::Thread(name) => write!(f, "thread = {name:?}"),
            Self::Cgroup(path) => write!(f, "cgroup = {path:?}"),
        }
    }
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

    /// A longer name than the kernel keeps was taken, and no process was ever found.
    #[test]
    fn what_fits_nothing_is_refused() {
        use ProcessPattern::{Cgroup, Comm, Thread};
        let long = "systemd-resolved";
        for pattern in
            [Comm("".into()), Comm(long.into()), Thread(long.into()), Cgroup("a.slice".into())]
        {
            assert!(pattern.check().is_err(), "{pattern}");
        }
        for pattern in
            [Comm("systemd-resolve".into()), Thread("*systemd-resolve*".into()), Cgroup("*".into())]
        {
            assert_eq!(pattern.check(), Ok(()), "{pattern}");
        }
    }

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
