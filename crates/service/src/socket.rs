//! The control socket: mode 0660, one JSON object per line, several requests per connection.

use crate::app_state::AppState;
use crate::protocol::{LINE_BYTES_MAX, line_of, read_request, refused, too_long};
use crate::socket_file::SocketFile;
use crate::{Program, ServiceError, socket_error};
use rustix::fs::fchmod;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How many may be connected.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection may be idle, or take to send a line or to read an answer.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How long a daemon may take to accept a connection before it counts as alive but hanging.
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted (no descriptors left).
pub(super) const ACCEPT_REST: Duration = Duration::from_secs(1);
const MODE: u32 = 0o660;
const BACKLOG: u32 = 32;

/// The socket, open.
pub(super) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Creates the socket, replacing one that a dead daemon left behind.
    pub async fn open(
        path: &Path,
        group: Option<u32>,
        program: &'static str,
    ) -> Result<Self, ServiceError> {
        make_room(path, program).await?;
        let socket = UnixSocket::new_stream().map_err(socket_error("make", path))?;
        // The file gets the mode of the socket that is bound: nobody whom it excludes can connect before
        // the group is right.
        fchmod(&socket, MODE.into())
            .map_err(|error| socket_error("restrict", path)(error.into()))?;
        socket.bind(path).map_err(socket_error("make", path))?;
        // At once: who comes in between finds that nobody answers.
        let listener = socket.listen(BACKLOG).map_err(socket_error("listen on", path));
        match listener.and_then(|listener| restrict(path, group).map(|()| listener)) {
            Ok(listener) => Ok(Self { listener, path: path.to_owned() }),
            Err(error) => {
                let _ = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// The file, to be removed at the end.
    pub fn file(&self) -> SocketFile {
        SocketFile::new(&self.path)
    }

    /// Accepts connections for ever.
    pub async fn serve<P: Program>(self, state: AppState<P>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(ACCEPT_REST).await;
                continue;
            };
            let (state, place) = (state.clone(), places.clone().try_acquire_owned());
            match place {
                Ok(place) => drop(tokio::spawn(async move {
                    // A client that leaves in the middle of an answer is not worth a message.
                    let _ = converse(stream, &state).await;
                    drop(place);
                })),
                Err(_) => turn_away(&stream),
            }
        }
    }
}

/// Removes the socket of a dead daemon, never that of a live one.
async fn make_room(path: &Path, program: &'static str) -> Result<(), ServiceError> {
    loop {
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(socket_error("look at", path)(error)),
            Ok(file) if !file.file_type().is_socket() => {
                return Err(ServiceError::NoSocket(path.to_owned()));
            }
            Ok(_) => {}
        }
        let lives = match timeout(PROBE_WAIT, UnixStream::connect(path)).await {
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return std::fs::remove_file(path)
                    .map_err(socket_error("remove the rest of", path));
            }
            // A full backlog: somebody has it open and is slow.
            Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => true,
            Ok(Err(error)) => return Err(socket_error("try", path)(error)),
            // One that was killed takes connections until the kernel has closed its socket.
            Ok(Ok(stream)) => !is_closed_soon(stream).await,
            Err(_) => true,
        };
        if lives {
            return Err(ServiceError::Answered { program, path: path.to_owned() });
        }
    }
}

/// Whether the other side ends a connection on which nothing was asked, which none does that lives.
async fn is_closed_soon(mut stream: UnixStream) -> bool {
    let read = timeout(PROBE_WAIT, stream.read(&mut [0])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

fn restrict(path: &Path, group: Option<u32>) -> Result<(), ServiceError> {
    chown(path, None, group).map_err(socket_error("give its group to", path))?;
    let mode = std::fs::Permissions::from_mode(MODE);
    std::fs::set_permissions(path, mode).map_err(socket_error("restrict", path))
}

/// Tells a client beyond the limit so, without waiting, as it gets no task.
fn turn_away(stream: &UnixStream) {
    let message = format!("{CONNECTIONS_MAX} are connected already; try again later");
    let _ = stream.try_write(refusal(&message).as_bytes());
}

/// Answers line by line until the other side leaves, is silent, or sends a line without end.
async fn converse<P: Program>(mut stream: UnixStream, state: &AppState<P>) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::with_capacity(512, read);
    let mut line = Vec::new();
    while timeout(IDLE_MAX, read_line(&mut lines, &mut line)).await?? {
        if line.len() > LINE_BYTES_MAX {
            return send(&mut write, &refusal(&too_long::<P>())).await;
        }
        let answer = match read_request::<P>(&line) {
            Ok(request) => state.answer(request).await,
            Err(message) => refusal(&message),
        };
        send(&mut write, &answer).await?;
    }
    Ok(())
}

/// Reads one line without its end, or one byte more than a line may have. False: no more lines.
async fn read_line(lines: &mut BufReader<ReadHalf<'_>>, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    // The extra byte is the line end, or makes the line too long.
    let bytes_max = LINE_BYTES_MAX as u64 + 1;
    let read = lines.take(bytes_max).read_until(b'\n', line).await?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(read > 0)
}

async fn send(write: &mut WriteHalf<'_>, line: &str) -> io::Result<()> {
    timeout(IDLE_MAX, write.write_all(line.as_bytes())).await?
}

/// The line of a refusal.
fn refusal(message: &str) -> String {
    line_of(&refused::<()>(message))
}
