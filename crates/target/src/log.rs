//! Log lines of the target.

use crate::shown::WattioTarget;
use wattio_service::Program;
pub use wattio_service::log::{Priority, counted, printable, printable_line, tell_details};

/// A line for the log.
pub fn log(priority: Priority, message: &str) {
    wattio_service::log::log(WattioTarget::NAME, priority, message);
}

/// A line of what is read and opened: with `--verbose` only.
pub fn detail(message: impl FnOnce() -> String) {
    wattio_service::log::detail(WattioTarget::NAME, message);
}

/// What messages call an export. That without a name is the protocol's default one.
pub fn of_export(name: &str) -> String {
    match name {
        "" => "the default export".to_owned(),
        _ => format!("export `{name}`"),
    }
}

/// Why a command failed.
pub fn complain(message: &str) {
    wattio_service::log::complain(WattioTarget::NAME, message);
}
