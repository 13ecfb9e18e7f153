//! The sockets that clients connect to.

use crate::device::{PATIENCE, RETRY};
use crate::reactor::Listener;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Instant;
use thiserror::Error;
use wattio_service::SocketFile;
use wattio_service::arguments::is_bad_path;
use wattio_target_config::Address;

/// Why nobody can connect.
#[derive(Debug, Error)]
pub enum ListenError {
    /// A TCP socket cannot be opened.
    #[error("cannot listen on {address}: {error}")]
    Tcp {
        /// Its address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// A UNIX socket cannot be opened.
    #[error("cannot listen on {}: {error}", path.display())]
    Unix {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no socket of systemd's.
    #[error(
        "listen: \"systemd\" has no socket: the target was not started by a socket unit; start \
         that too, as with `systemctl start wattio-target.socket`, or name an address"
    )]
    NotPassed,
    /// Nobody would accept what comes by sockets of systemd's.
    #[error(
        "listen: systemd passed {0} sockets and \"systemd\" is not in the list: add it, or disable \
         the socket unit"
    )]
    Unasked(usize),
    /// Another process listens there.
    #[error("cannot listen on {}: another process does", .0.display())]
    Answered(PathBuf),
    /// Something that is not a socket is in its place.
    #[error("cannot listen on {}: it is there and is not a socket", .0.display())]
    NoSocket(PathBuf),
}

impl ListenError {
    /// Whether what was asked for cannot be had, however often it is tried.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::NotPassed | Self::Unasked(_) | Self::NoSocket(_) => true,
            Self::Unix { error, .. } => is_bad_path(error),
            Self::Tcp { .. } | Self::Answered(_) => false,
        }
    }
}

/// Sockets that are open.
#[derive(Debug)]
pub struct Listening {
    pub(crate) sockets: Vec<Listener>,
    pub(crate) files: Vec<SocketFile>,
}

impl Listening {
    /// Opens them, beside those that [`crate::activation`] found.
    ///
    /// # Errors
    /// What cannot be opened, or what was passed and is not in the list, or the reverse.
    pub fn open(addresses: &[Address], passed: Vec<Listener>) -> Result<Self, ListenError> {
        match (passed.len(), addresses.contains(&Address::Systemd)) {
            (0, true) => return Err(ListenError::NotPassed),
            (count @ 1.., false) => return Err(ListenError::Unasked(count)),
            _ => {}
        }
        let mut listening = Self { sockets: passed, files: Vec::new() };
        for address in addresses {
            listening.sockets.extend(listen(address, &mut listening.files)?);
        }
        Ok(listening)
    }
}

/// The socket of an address; none for those that were passed.
fn listen(address: &Address, files: &mut Vec<SocketFile>) -> Result<Option<Listener>, ListenError> {
    match address {
        Address::Systemd => Ok(None),
        Address::Tcp(tcp) => {
            let failed = |error| ListenError::Tcp { address: *tcp, error };
            let socket = TcpListener::bind(tcp).map_err(failed)?;
            Ok(Some(Listener { socket: socket.into(), is_tcp: true }))
        }
        Address::Unix(path) => {
            let (socket, file) = listen_unix(path)?;
            files.push(file);
            Ok(Some(Listener { socket: socket.into(), is_tcp: false }))
        }
    }
}

/// Listens on a UNIX socket, in the place of one that nobody listens on any more.
///
/// # Errors
/// When somebody does, or something else is there.
pub fn listen_unix(path: &Path) -> Result<(UnixListener, SocketFile), ListenError> {
    let failed = |error| ListenError::Unix { path: path.to_owned(), error };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(ListenError::NoSocket(path.to_owned()));
        }
        Ok(_) => {
            let until = Instant::now() + PATIENCE;
            loop {
                match probe(path) {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => break,
                    // Its queue is full: somebody has it open and is slow.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Err(ListenError::Answered(path.to_owned()));
                    }
                    Err(error) => return Err(failed(error)),
                    // Perhaps the kernel still closes the socket of a process that was killed.
                    Ok(_) if Instant::now() < until => std::thread::sleep(RETRY),
                    Ok(_) => return Err(ListenError::Answered(path.to_owned())),
                }
            }
            std::fs::remove_file(path).map_err(failed)?;
        }
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    Ok((listener, SocketFile::new(path)))
}

/// Connects and leaves. It waits for nobody: a queue that is full is an error.
fn probe(path: &Path) -> io::Result<()> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(net::connect(&socket, &address)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// The target waited for ever where the socket's owner did not accept, as it does itself where
    /// it has just opened that socket for another purpose; and no signal ended it.
    #[test]
    fn a_socket_whose_queue_is_full_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n.sock");
        let busy = UnixListener::bind(&path).unwrap();
        net::listen(&busy, 0).unwrap();
        let _first = UnixStream::connect(&path).unwrap();
        assert!(matches!(listen_unix(&path), Err(ListenError::Answered(_))));
    }

    #[test]
    fn one_that_ends_leaves_the_socket_of_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n.sock");
        let (listener, file) = listen_unix(&path).unwrap();
        // It takes nobody any more, but still writes its map.
        drop(listener);
        let (_next, of_next) = listen_unix(&path).unwrap();
        drop(file);
        assert!(UnixStream::connect(&path).is_ok());
        drop(of_next);
        assert!(!path.exists());
    }
}
