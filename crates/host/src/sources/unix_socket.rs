//! Queries over UNIX sockets.

use std::io::{Error, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use wattio_units::Seconds;

/// The most that is read of one answer.
pub(super) const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// Connects with a timeout for each read and write.
pub(super) fn connect(path: &Path, timeout: Seconds) -> Result<UnixStream, Error> {
    let timeout = Duration::try_from_secs_f64(timeout.0.min(60.0)).unwrap_or(Duration::MAX);
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

/// Explains an error to the user.
pub(super) fn explain(error: &Error, timeout: Seconds) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("no complete answer within {timeout}")
        }
        ErrorKind::UnexpectedEof => "the answer ends early".to_owned(),
        ErrorKind::ConnectionRefused => "nobody listens there any more".to_owned(),
        ErrorKind::PermissionDenied => "may not be opened: run as root or as its user".to_owned(),
        _ => error.to_string(),
    }
}
