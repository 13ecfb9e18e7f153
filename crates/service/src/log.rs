//! Log lines for people: names chosen by others cannot send control sequences to a terminal or pass
//! for another line, and a service manager gets each line's priority.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
pub use wattio_files::{printable, printable_line};

/// How grave a line is, as `sd-daemon(3)` numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Something failed.
    Error = 3,
    /// Something is not as it should be.
    Warning = 4,
    /// Something happened.
    Info = 6,
    /// What is read, opened, seen and written.
    Detail = 7,
}

/// A line of a program for the log: on stderr, which a service manager keeps.
pub fn log(program: &str, priority: Priority, message: &str) {
    let word = match priority {
        Priority::Info | Priority::Detail => "",
        Priority::Warning => "warning: ",
        Priority::Error => "error: ",
    };
    tell(&lines(program, word, priority, message, *JOURNAL));
}

/// Prints to stderr. Where that cannot be written (a file system that is full, a pipe that nobody
/// reads), the text is lost and the program goes on, for there is nobody to tell.
pub fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
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

/// A detail, where they are logged.
pub fn detail(program: &str, message: impl FnOnce() -> String) {
    if tells_details() {
        log(program, Priority::Detail, &message());
    }
}

/// Why a command failed: an error, printed without saying that it is one.
pub fn complain(program: &str, message: &str) {
    tell(&lines(program, "", Priority::Error, message, *JOURNAL));
}

static JOURNAL: LazyLock<bool> = LazyLock::new(is_journal);

/// The message's lines with a prefix; for the journal, with the priority of `sd-daemon(3)` before
/// it.
fn lines(program: &str, word: &str, priority: Priority, message: &str, journal: bool) -> String {
    let priority = if journal { format!("<{}>", priority as u8) } else { String::new() };
    let mut text = String::new();
    let mut before = word;
    for line in printable(message).lines() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{priority}{program}: {before}{line}");
        before = "  ";
    }
    text
}

/// So many of what is called so: `1 pair`, `2 pairs`.
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
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
    fn one_is_one() {
        assert_eq!(
            [0, 1, 2].map(|count| counted(count, "export")),
            ["0 exports", "1 export", "2 exports"]
        );
    }

    #[test]
    fn the_journal_learns_how_grave_a_line_is() {
        assert_eq!(lines("wattiod", "", Priority::Info, "a", false), "wattiod: a\n");
        let told = lines("wattiod", "warning: ", Priority::Warning, "a\nb", true);
        assert_eq!(told, "<4>wattiod: warning: a\n<4>wattiod:   b\n");
        assert_eq!(lines("wattiod", "", Priority::Error, "a\n", true), "<3>wattiod: a\n");
        assert_eq!(lines("wattiod", "", Priority::Detail, "a", true), "<7>wattiod: a\n");
    }

    #[test]
    fn what_is_made_printable_of_json_says_the_same() {
        let name = "\u{1b}]0;x\u{7}\u{9b}2J\r\u{7f}é";
        let json = serde_json::to_string(name).unwrap();
        assert_eq!(serde_json::from_str::<String>(&printable(&json)).unwrap(), name);
    }
}
