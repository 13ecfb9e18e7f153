//! Socket activation: sockets that systemd opens and passes to the service (`sd_listen_fds(3)`).

use crate::reactor::Listener;
use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::sockopt::{socket_acceptconn, socket_type};
use rustix::net::{AddressFamily, SocketType, getsockname};
use std::os::fd::OwnedFd;
use thiserror::Error;

/// Why what was passed cannot be listened on.
#[derive(Debug, Error)]
pub enum PassedError {
    /// The variables say nothing.
    #[error("LISTEN_PID and LISTEN_FDS, by which systemd passes sockets, are not numbers")]
    Variables,
    /// It is something else.
    #[error("socket {number} of those that systemd passed {why}")]
    Socket {
        /// Which one, from 1 on.
        number: usize,
        /// What is wrong, and what is allowed.
        why: &'static str,
    },
    /// The operating system refuses.
    #[error("socket {number} of those that systemd passed: {error}")]
    System {
        /// Which one, from 1 on.
        number: usize,
        /// Why.
        error: Errno,
    },
}

/// Takes the sockets that were passed to this process; none, if it was not started by one. To be
/// called once: a second call would own them too.
///
/// # Errors
/// Something else was passed than sockets that accept connections of UNIX or TCP.
pub fn passed() -> Result<Vec<Listener>, PassedError> {
    let sockets = sd_listen_fds::get().map_err(|_| PassedError::Variables)?;
    let sockets = sockets.into_iter().map(|(_, socket)| socket.into_std());
    (1..).zip(sockets).map(|(number, socket)| listener(number, socket)).collect()
}

fn listener(number: usize, socket: OwnedFd) -> Result<Listener, PassedError> {
    let system = |error| PassedError::System { number, error };
    let wrong = |why| Err(PassedError::Socket { number, why });
    let is_tcp = match getsockname(&socket).map_err(system)?.address_family() {
        AddressFamily::UNIX => false,
        AddressFamily::INET | AddressFamily::INET6 => true,
        _ => return wrong("is neither of UNIX nor of TCP; allowed is a path or a port"),
    };
    if socket_type(&socket).map_err(system)? != SocketType::STREAM {
        return wrong("is not a stream socket; allowed: ListenStream=");
    }
    if !socket_acceptconn(&socket).map_err(system)? {
        return wrong("is a connection; allowed is Accept=no");
    }
    fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(system)?;
    // The ring waits for connections; on a socket that must not block it would not.
    ioctl_fionbio(&socket, false).map_err(system)?;
    Ok(Listener { socket, is_tcp })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn sockets_that_accept_connections_are_taken_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let unix = UnixListener::bind(folder.path().join("socket")).unwrap();
        assert!(!listener(1, unix.into()).unwrap().is_tcp);
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A host may be without IPv6.
            let Ok(tcp) = TcpListener::bind(address) else { continue };
            tcp.set_nonblocking(true).unwrap();
            let listener = listener(1, tcp.into()).unwrap();
            let flags = rustix::fs::fcntl_getfl(&listener.socket).unwrap();
            assert!(listener.is_tcp && !flags.contains(rustix::fs::OFlags::NONBLOCK));
        }
        let (connection, _other) = UnixStream::pair().unwrap();
        for (wrong, says) in [
            (OwnedFd::from(connection), "is a connection; allowed is Accept=no"),
            (UdpSocket::bind("127.0.0.1:0").unwrap().into(), "is not a stream socket"),
            (tempfile::tempfile().unwrap().into(), "socket 2 of those that systemd passed: "),
        ] {
            let message = listener(2, wrong).unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        }
    }
}
