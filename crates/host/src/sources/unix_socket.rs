//! Queries over UNIX sockets.

use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{Error, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use wattio_units::Seconds;

/// The most that is read of one answer.
pub(super) const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// Connects, with a timeout for that and for each read and write. While a server hangs, its queue of
/// connections fills up, and the next one waits for room in it.
pub(super) fn connect(path: &Path, timeout: Seconds) -> Result<UnixStream, Error> {
    let timeout = Duration::try_from_secs_f64(timeout.0.min(60.0)).unwrap_or(Duration::MAX);
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    for kind in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, kind, Some(timeout))?;
    }
    retry_on_intr(|| net::connect(&socket, &address))?;
    Ok(UnixStream::from(socket))
}

/// Explains an error to the user.
pub(super) fn explain(error: &Error, timeout: Seconds) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("no complete answer within {timeout}")
        }
        ErrorKind::UnexpectedEof => "the answer ends early".to_owned(),
        ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
        ErrorKind::PermissionDenied => "may not be opened: run as root or as its user".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// An OSD that hung held up the daemon's end, and what was to be restored, until it was killed.
    #[test]
    fn a_server_whose_queue_is_full_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        net::listen(&listener, 0).unwrap();
        let first = connect(&path, Seconds(0.1)).unwrap();
        let (read, write) = (first.read_timeout().unwrap(), first.write_timeout().unwrap());
        assert!(read.is_some() && read == write);
        let error = connect(&path, Seconds(0.1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(explain(&error, Seconds(0.1)).contains("within 100 ms"));
    }
}
