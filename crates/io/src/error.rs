//! What can go wrong, as calls of the library tell it.

use std::io;
use std::path::Path;

use wattio_files::{plain, printable_line};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Steps did not reach their files; the program may go on.
    #[error("{0}")]
    StepFailed(String),
    /// An argument, the order of calls or the configuration cannot be used.
    #[error("{0}")]
    Input(String),
    /// The machine lacks something, or a process that is needed has died.
    #[error("{0}")]
    Host(String),
    /// A wait has ended before what was waited for came.
    #[error("{0}")]
    TimedOut(String),
}

/// What a call gives, or why it failed.
pub type Result<T> = std::result::Result<T, Error>;

/// The text of a file that a user wrote.
///
/// # Errors
///
/// `Input`: the file, and why it cannot be read.
pub fn read_text(path: &Path) -> Result<String> {
    wattio_files::read_text(path).map_err(|error| {
        Error::Input(format!("{}: cannot be read: {}", path.display(), plain(error)))
    })
}

/// An error of the machine, with what was done.
pub fn host(what: &str) -> impl FnOnce(io::Error) -> Error + '_ {
    move |error| Error::Host(format!("{what}: {}", plain(error)))
}

/// As `host`, for calls of the kernel.
pub fn kernel(what: &str) -> impl FnOnce(rustix::io::Errno) -> Error + '_ {
    move |error| Error::Host(format!("{what}: {}", plain(error)))
}

/// Print a line to standard error: at once, so that lines of several processes do not mix, and of no
/// consequence where nobody reads them any more.
pub fn tell(who: &str, text: &str) {
    let line = format!("{who}: {}\n", printable_line(text));
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}
