//! The client of a running daemon, for `wattiod status`, `set`, `pause` and `resume`.

use crate::control::{Answer, Request};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// How long the daemon may be silent: longer than its loop may take for an answer.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// The most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no wattiod answers on {} ({error}); is it running, and with this socket in its configuration?",
        path.display()
    )]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// Not allowed.
    #[error(
        "not allowed to use {}; be root, or a member of the group that the socket belongs to",
        .0.display()
    )]
    Permission(PathBuf),
    /// The connection broke or stayed silent.
    #[error("wattiod on {} {what}: {error}", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What happened.
        what: &'static str,
        /// The operating system's error.
        error: io::Error,
    },
    /// An answer that makes no sense.
    #[error(
        "what answers on {} is not this version of wattiod: {error}",
        path.display()
    )]
    Answer {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        error: serde_json::Error,
    },
}

/// Asks once.
///
/// # Errors
/// When no daemon answers, or something else does.
pub fn ask(socket: &Path, request: &Request) -> Result<Answer, ClientError> {
    let stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => ClientError::Permission(socket.to_owned()),
        _ => ClientError::Nobody { path: socket.to_owned(), error },
    })?;
    let broken = |what| move |error| ClientError::Broken { path: socket.to_owned(), what, error };
    let wrong = |error| ClientError::Answer { path: socket.to_owned(), error };
    let line = exchange(&stream, request).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => broken("does not answer")(error),
        _ => broken("broke off")(error),
    })?;
    serde_json::from_slice(&line).map_err(wrong)
}

/// Sends one line and reads one back.
fn exchange(mut stream: &UnixStream, request: &Request) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    line.clear();
    BufReader::new(stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line)?;
    match line.last() {
        Some(b'\n') => Ok(line),
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer has no line end")),
    }
}
