//! Log lines of the daemon.

use crate::control::Wattiod;
use wattio_governor::Severity;
use wattio_service::Program;
use wattio_service::log::Priority;
pub use wattio_service::log::{printable_line, tell, tell_details, tells_details};

/// A line for the log.
pub fn log(severity: Severity, message: &str) {
    let priority = match severity {
        Severity::Info => Priority::Info,
        Severity::Warning => Priority::Warning,
        Severity::Error => Priority::Error,
    };
    wattio_service::log::log(Wattiod::NAME, priority, message);
}

/// A line of what is read, opened, seen and written: with `--verbose` only.
pub fn detail(message: impl FnOnce() -> String) {
    wattio_service::log::detail(Wattiod::NAME, message);
}

/// Why a command failed.
pub fn complain(message: &str) {
    wattio_service::log::complain(Wattiod::NAME, message);
}
