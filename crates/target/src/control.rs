//! The control socket: one JSON object per line, for `status` and `scrub`.

use crate::server::{Handle, ServerError, SocketFile, listen_unix};
use crate::status::Status;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// How long either side may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The most bytes of a request.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How it stands.
    Status {},
    /// Read everything now.
    Scrub {
        /// Of one export; of all if it is absent.
        export: Option<String>,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To `status`.
    Status {
        /// How it stands.
        status: Status,
    },
    /// To `scrub`.
    Scrub {
        /// Exports whose tour is under way.
        exports: Vec<String>,
    },
    /// It was not done.
    Refused {
        /// Why.
        message: String,
    },
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Nobody listens.
    #[error("no wattio-target answers on {}: {error}", path.display())]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The connection broke or stayed silent.
    #[error("wattio-target on {} is silent: {error}", path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An answer that makes no sense.
    #[error("what answers on {} is not this version of wattio-target: {error}", path.display())]
    Answer {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
    /// It was not done.
    #[error("{0}")]
    Refused(String),
}

/// Answers on a socket for as long as the process lives; the file is removed when what is
/// returned is dropped. Only this user may connect, and root.
///
/// # Errors
/// When the socket cannot be opened.
pub fn serve(path: &Path, handle: Handle) -> Result<SocketFile, ServerError> {
    let (listener, file) = listen_unix(path)?;
    let failed = |error| ServerError::Listen { address: path.display().to_string(), error };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let thread = std::thread::Builder::new().name("control".to_owned());
    thread.spawn(move || answer_all(&listener, &handle)).map_err(failed)?;
    Ok(file)
}

/// One after another: each is over soon.
fn answer_all(listener: &UnixListener, handle: &Handle) {
    loop {
        match listener.accept() {
            // A client that leaves in the middle of an answer is not worth a message.
            Ok((stream, _)) => drop(converse(&stream, handle)),
            Err(_) => std::thread::sleep(Duration::from_secs(1)),
        }
    }
}

fn converse(stream: &UnixStream, handle: &Handle) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    let answer = match serde_json::from_str(&line) {
        Ok(Request::Status {}) => Answer::Status { status: handle.status() },
        Ok(Request::Scrub { export }) => {
            let exports = handle.scrub(export.as_deref());
            match export {
                Some(export) if exports.is_empty() => {
                    Answer::Refused { message: format!("no export is named {export:?}") }
                }
                _ => Answer::Scrub { exports },
            }
        }
        Err(error) => Answer::Refused { message: error.to_string() },
    };
    // Numbers, text and lists: serde_json cannot fail.
    let mut answer = serde_json::to_string(&answer).unwrap_or_default();
    answer.push('\n');
    (&*stream).write_all(answer.as_bytes())
}

/// Asks a running target.
///
/// # Errors
/// When there is none, or it does not do what was asked.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, ControlError> {
    let stream = UnixStream::connect(path)
        .map_err(|error| ControlError::Nobody { path: path.to_owned(), error })?;
    let silent = |error| ControlError::Silent { path: path.to_owned(), error };
    let wrong = |error| ControlError::Answer { path: path.to_owned(), error };
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(silent)?;
    let line = serde_json::to_string(request).map_err(wrong)?;
    writeln!(&stream, "{line}").map_err(silent)?;
    let mut answer = String::new();
    BufReader::new((&stream).take(ANSWER_BYTES_MAX)).read_line(&mut answer).map_err(silent)?;
    match serde_json::from_str(&answer).map_err(wrong)? {
        Answer::Refused { message } => Err(ControlError::Refused(message)),
        answer => Ok(answer),
    }
}
