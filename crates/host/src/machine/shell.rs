//! Commands as users would type them.

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-,:@+%=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell_are_quoted_where_they_must_be() {
        assert_eq!(quoted("/sys/a-b/c.d"), "/sys/a-b/c.d");
        assert_eq!(quoted("a b'c"), r"'a b'\''c'");
        assert_eq!(quoted(""), "''");
    }
}
