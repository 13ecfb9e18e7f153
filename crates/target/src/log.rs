//! Log lines for people, on stderr: with the priority of `sd-daemon(3)` where it goes to the journal.

use std::fmt::Write;
use std::sync::LazyLock;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Info,
    /// Somebody should look at it.
    Warning,
    /// Something does not work.
    Error,
}

/// A line for the log.
pub fn log(severity: Severity, message: &str) {
    let word = match severity {
        Severity::Info => "",
        Severity::Warning => "warning: ",
        Severity::Error => "error: ",
    };
    eprint!("{}", line(word, severity, message, *JOURNAL));
}

/// Why a command failed: an error, printed without a severity.
pub fn complain(message: &str) {
    eprint!("{}", line("", Severity::Error, message, *JOURNAL));
}

/// The text on one line, with control characters as JSON writes them: names chosen by others steer
/// no terminal and pass for no other line.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            // Writing to a String cannot fail.
            let _ = write!(plain, "\\u{:04x}", u32::from(c));
        } else {
            plain.push(c);
        }
    }
    plain
}

static JOURNAL: LazyLock<bool> = LazyLock::new(is_journal);

fn line(word: &str, severity: Severity, message: &str, journal: bool) -> String {
    let priority = match severity {
        _ if !journal => "",
        Severity::Info => "<6>",
        Severity::Warning => "<4>",
        Severity::Error => "<3>",
    };
    format!("{priority}wattio-target: {word}{}\n", printable(message))
}

/// Whether stderr goes to the journal: `$JOURNAL_STREAM` names it, see `systemd.exec(5)`.
fn is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").ok();
    let stderr = rustix::fs::fstat(std::io::stderr()).ok();
    named.zip(stderr).is_some_and(|(named, is)| named == format!("{}:{}", is.st_dev, is.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_and_the_journal_learns_how_grave_it_is() {
        assert_eq!(line("", Severity::Info, "a", false), "wattio-target: a\n");
        let told = line("warning: ", Severity::Warning, "a\nb\u{1b}[2J", true);
        assert_eq!(told, "<4>wattio-target: warning: a\\u000ab\\u001b[2J\n");
    }
}
