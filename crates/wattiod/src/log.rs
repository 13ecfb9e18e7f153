//! Log lines for people: names chosen by others cannot send control sequences to a terminal or pass
//! for another line, and a service manager gets each line's priority.

use std::fmt::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use wattio_governor::Severity;

/// A line for the log: on stderr, which a service manager keeps.
pub fn log(severity: Severity, message: &str) {
    let word = match severity {
        Severity::Info => "",
        Severity::Warning => "warning: ",
        Severity::Error => "error: ",
    };
    eprint!("{}", lines(word, severity, message, *JOURNAL));
}

static VERBOSE: AtomicBool = AtomicBool::new(false);

/// From here on, details are logged too (`--verbose`).
pub fn tell_details() {
    VERBOSE.store(true, Ordering::Relaxed);
}

/// Whether they are.
#[must_use]
pub fn tells_details() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// A line of what is read, opened, seen and written: with `--verbose` only.
pub fn detail(message: impl FnOnce() -> String) {
    if tells_details() {
        eprint!("{}", text("", "<7>", &message(), *JOURNAL));
    }
}

/// Why a command failed: an error, printed without a severity.
pub fn complain(message: &str) {
    eprint!("{}", lines("", Severity::Error, message, *JOURNAL));
}

static JOURNAL: LazyLock<bool> = LazyLock::new(is_journal);

/// The message's lines with a prefix; for the journal, with the priority of `sd-daemon(3)` before
/// it (7, debug, for details).
fn lines(word: &str, severity: Severity, message: &str, journal: bool) -> String {
    let priority = match severity {
        Severity::Info => "<6>",
        Severity::Warning => "<4>",
        Severity::Error => "<3>",
    };
    text(word, priority, message, journal)
}

fn text(word: &str, priority: &str, message: &str, journal: bool) -> String {
    let mut text = String::new();
    let mut before = format!("wattiod: {word}");
    for line in printable(message).lines() {
        let priority = if journal { priority } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{priority}{before}{line}");
        "wattiod:   ".clone_into(&mut before);
    }
    text
}

/// The text with control characters as JSON writes them; line ends stay.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            let _ = write!(plain, "\\u{:04x}", u32::from(c));
        } else {
            plain.push(c);
        }
    }
    plain
}

/// The same on one line.
#[must_use]
pub fn printable_line(text: &str) -> String {
    printable(text).replace('\n', "\\u000a")
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
    fn the_journal_learns_how_grave_a_line_is() {
        assert_eq!(lines("", Severity::Info, "a", false), "wattiod: a\n");
        let told = lines("warning: ", Severity::Warning, "a\nb", true);
        assert_eq!(told, "<4>wattiod: warning: a\n<4>wattiod:   b\n");
        assert_eq!(lines("", Severity::Error, "a\n", true), "<3>wattiod: a\n");
        assert_eq!(text("", "<7>", "a", true), "<7>wattiod: a\n");
    }

    /// Any user names his processes: with escape sequences in it a name wrote what it liked to the
    /// terminal of whoever asked the doctor.
    #[test]
    fn names_steer_no_terminal() {
        let name = "\u{1b}]0;x\u{7}\u{9b}2J\r\u{7f}é";
        let plain = printable(name);
        assert_eq!(plain, "\\u001b]0;x\\u0007\\u009b2J\\u000d\\u007fé");
        assert_eq!(printable_line("a\nok  all is well"), "a\\u000aok  all is well");
        let json = serde_json::to_string(name).unwrap();
        assert_eq!(serde_json::from_str::<String>(&printable(&json)).unwrap(), name);
    }
}
