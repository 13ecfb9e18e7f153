//! The client of a running program: asks over its control socket.

use crate::{Answer, Program};
use rustix::process::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long the other side may be silent: longer than its loop may take for an answer.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long a socket on which nobody listens may be one that is just being made, not one that was left.
const STARTING: Duration = Duration::from_millis(250);
/// Pause between two tries.
const RETRY: Duration = Duration::from_millis(5);
/// The most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no {program} answers on {} ({error}); is it running, and with this socket in its configuration?",
        path.display()
    )]
    Nobody {
        /// Who was asked for.
        program: &'static str,
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
    /// Whoever listens could tell anything.
    #[error(
        "user {user} listens on {}, who is neither root nor you: what it says is not asked for",
        path.display()
    )]
    Stranger {
        /// The socket.
        path: PathBuf,
        /// The user of the process that listens.
        user: u32,
    },
    /// The connection broke or stayed silent.
    #[error("{program} on {} {what}: {error}", path.display())]
    Broken {
        /// Who was asked for.
        program: &'static str,
        /// The socket.
        path: PathBuf,
        /// What happened.
        what: &'static str,
        /// The operating system's error.
        error: io::Error,
    },
    /// An answer that makes no sense.
    #[error(
        "what answers on {} is not this version of {program}: {error}",
        path.display()
    )]
    Answer {
        /// Who was asked for.
        program: &'static str,
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        error: serde_json::Error,
    },
}

/// Asks once.
///
/// # Errors
/// When the program does not answer, or something else does.
pub fn ask<P: Program<Request: Serialize, Status: DeserializeOwned>>(
    socket: &Path,
    request: &P::Request,
) -> Result<Answer<P::Status>, ClientError> {
    let program = P::NAME;
    let stream = connect(socket, STARTING).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => ClientError::Permission(socket.to_owned()),
        _ => ClientError::Nobody { program, path: socket.to_owned(), error },
    })?;
    let path = || socket.to_owned();
    let listener = rustix::net::sockopt::socket_peercred(&stream);
    let user = listener.map_err(|error| ClientError::Broken {
        program,
        path: path(),
        what: "does not say whose it is",
        error: error.into(),
    })?;
    let user = user.uid.as_raw();
    let is_known = [0, geteuid().as_raw()].contains(&user);
    let is_its_own = P::HAS_ITS_OWN_USER && owns_folder(user, socket);
    if !(is_known || is_its_own) {
        return Err(ClientError::Stranger { path: path(), user });
    }
    let broken = |what| move |error| ClientError::Broken { program, path: path(), what, error };
    let wrong = |error| ClientError::Answer { program, path: path(), error };
    let line = exchange(&stream, request).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => broken("does not answer")(error),
        _ => broken("broke off")(error),
    })?;
    serde_json::from_slice(&line).map_err(wrong)
}

/// Connects, also where the program has just made its socket and does not listen yet.
fn connect(socket: &Path, starting: Duration) -> io::Result<UnixStream> {
    let until = Instant::now() + starting;
    loop {
        match UnixStream::connect(socket) {
            Err(error)
                if error.kind() == io::ErrorKind::ConnectionRefused && Instant::now() < until =>
            {
                std::thread::sleep(RETRY);
            }
            connected => return connected,
        }
    }
}

/// Whether the folder of a socket is this user's and nobody else's to write to: nobody else can have
/// put the socket there.
fn owns_folder(user: u32, socket: &Path) -> bool {
    let folder = socket.parent().and_then(|folder| std::fs::metadata(folder).ok());
    folder.is_some_and(|folder| folder.uid() == user && folder.mode() & 0o022 == 0)
}

/// Sends one line and reads one back.
fn exchange(mut stream: &UnixStream, request: &impl Serialize) -> io::Result<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

    /// A status that was asked for while the program started was told that nobody answers.
    #[test]
    fn who_comes_before_the_program_listens_is_not_turned_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let made = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&made, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        let refused = UnixStream::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        std::thread::scope(|scope| {
            let client = scope.spawn(|| connect(&path, Duration::from_secs(60)));
            listen(&made, 1).unwrap();
            assert!(client.join().unwrap().is_ok());
        });
        drop(made);
        let left = connect(&path, Duration::ZERO).unwrap_err();
        assert_eq!(left.kind(), io::ErrorKind::ConnectionRefused);
    }
}
