//! How a client and its writer meet and wake each other: a socket, over which open files go, and
//! counters of the kernel.
//!
//! A counter wakes a sleeper at half of what a socket costs. The socket's end tells that the peer is
//! gone. Sockets have names of Linux's abstract kind, which leave no file, or paths; peers of the same
//! user are let in only.

use crate::error::{Error, Result, host, kernel};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long processes that start together may wait for each other.
pub const START: Duration = Duration::from_secs(60);
/// What a client says when it hands nothing over any more.
pub const CLOSE: u8 = b'c';
/// What a writer says when all is written.
pub const ENDED: u8 = b'e';
/// What a client says first.
const HELLO: [u8; 4] = *b"wio1";
const HELLO_BYTES: usize = 12;
const FILES: usize = 4;

/// A counter of the kernel that one process rings and another one sleeps at.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// A new one.
    ///
    /// # Errors
    ///
    /// `Host` where the kernel has none.
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        rustix::event::eventfd(0, flags).map(Self).map_err(kernel("a counter cannot be created"))
    }

    /// Wake whoever sleeps at it, or keep it from falling asleep. Never waits.
    pub fn ring(&self) {
        // A counter that is full rings already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Take back what has been rung.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Say all of something. A program that dies of writing to whoever has gone does not here.
///
/// # Errors
///
/// Those of the kernel.
pub fn say(peer: &UnixStream, text: &[u8]) -> std::io::Result<()> {
    let mut left = text;
    while !left.is_empty() {
        match rustix::net::send(peer, left, SendFlags::NOSIGNAL) {
            Ok(sent) => left = &left[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Where a writer's clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A name of Linux's abstract kind, which is known within a network namespace.
    Abstract(String),
    /// A path.
    Path(std::path::PathBuf),
}

impl Address {
    /// A listener at this address.
    ///
    /// # Errors
    ///
    /// `Host` where there is one already, or none can be.
    pub fn listen(&self) -> Result<UnixListener> {
        let shown = self.to_string();
        let what = format!("{shown}: no socket can be created there");
        match self {
            Self::Abstract(name) => SocketAddr::from_abstract_name(name)
                .and_then(|address| UnixListener::bind_addr(&address))
                .map_err(host(&what)),
            Self::Path(path) => listen_at(path).map_err(host(&what)),
        }
    }

    /// Connect to whoever listens here.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    pub fn connect(&self) -> std::io::Result<UnixStream> {
        match self {
            Self::Abstract(name) => {
                UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
            }
            Self::Path(path) => UnixStream::connect(path),
        }
    }
}

/// A listener at a path, which is there only when it listens: who came between would find nobody, and
/// take the socket for one that a killed writer has left.
fn listen_at(path: &Path) -> std::io::Result<UnixListener> {
    let mut own = path.as_os_str().to_owned();
    own.push(format!(".{}", std::process::id()));
    let listener = UnixListener::bind(&own)?;
    // Fails where something is there, as a rename would not.
    let linked = std::fs::hard_link(&own, path);
    let _ = std::fs::remove_file(&own);
    linked.map(|()| listener)
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Abstract(name) => write!(f, "@{name}"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        match text.strip_prefix('@') {
            Some(name) => Self::Abstract(name.to_owned()),
            None => Self::Path(Path::new(text).to_owned()),
        }
    }
}

/// What a writer gives a client.
#[derive(Debug)]
pub struct Welcome<Slot, Board, Files> {
    /// The client's slot.
    pub slot: Slot,
    /// The writer's board.
    pub board: Board,
    /// Wakes the writer.
    pub writer: Files,
    /// Wakes the client.
    pub client: Files,
}

/// A client's side: say who it is, and take what the writer gives.
///
/// # Errors
///
/// `Host` where the writer cannot be reached, refuses or is of another version.
pub fn greet(
    peer: &UnixStream,
    rank: u32,
    token: u32,
) -> Result<Welcome<(OwnedFd, u64), OwnedFd, Doorbell>> {
    let what = format!("rank {rank} cannot reach its writer");
    peer.set_read_timeout(Some(START)).map_err(host(&what))?;
    let mut hello = [0; HELLO_BYTES];
    hello[..4].copy_from_slice(&HELLO);
    hello[4..8].copy_from_slice(&rank.to_le_bytes());
    hello[8..].copy_from_slice(&token.to_le_bytes());
    say(peer, &hello).map_err(host(&what))?;
    let mut size = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    // The kernel does not go on by itself after a signal where there is a limit of time.
    let got = rustix::io::retry_on_intr(|| {
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
        rustix::net::recvmsg(peer, &mut [IoSliceMut::new(&mut size)], &mut control, flags)
    })
    .map_err(kernel(&what))?;
    let mut files = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect::<Vec<OwnedFd>>(),
        _ => Vec::new(),
    });
    let mut next = || {
        files.next().filter(|_| got.bytes == size.len()).ok_or_else(|| {
            Error::Host(format!("{what}: it has refused, or has died (see what it printed)"))
        })
    };
    let welcome = Welcome {
        slot: (next()?, u64::from_le_bytes(size)),
        board: next()?,
        writer: Doorbell(next()?),
        client: Doorbell(next()?),
    };
    peer.set_read_timeout(None).map_err(host(&what))?;
    Ok(welcome)
}

/// A writer's side: who has connected; `None` for one who is not let in.
#[must_use]
pub fn who(mut peer: &UnixStream, token: u32) -> Option<u32> {
    let user = rustix::net::sockopt::socket_peercred(peer).ok()?.uid;
    if user != rustix::process::geteuid() {
        return None;
    }
    peer.set_read_timeout(Some(START)).ok()?;
    let mut hello = [0; HELLO_BYTES];
    peer.read_exact(&mut hello).ok()?;
    let number = |at: usize| Some(u32::from_le_bytes(hello.get(at..at + 4)?.try_into().ok()?));
    (hello[..4] == HELLO && number(8)? == token).then(|| number(4)).flatten()
}

/// A writer's side: give a client what is for it.
///
/// # Errors
///
/// `Host` where the client has gone.
pub fn welcome(
    peer: &UnixStream,
    given: &Welcome<(&OwnedFd, u64), &OwnedFd, &Doorbell>,
) -> Result<()> {
    let files =
        [given.slot.0.as_fd(), given.board.as_fd(), given.writer.as_fd(), given.client.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    let size = given.slot.1.to_le_bytes();
    rustix::net::sendmsg(peer, &[IoSlice::new(&size)], &mut control, SendFlags::NOSIGNAL)
        .map(|_| ())
        .map_err(kernel("a client cannot be welcomed"))
}

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The doorbell has rung.
    Rung,
    /// The peer has said something, or is gone.
    Spoken,
    /// The time is over.
    TimedOut,
}

/// Sleep at a doorbell and a socket, until a moment at most.
///
/// # Errors
///
/// `Host` where the kernel does not let it.
pub fn wait(doorbell: &Doorbell, peer: &UnixStream, until: Option<Instant>) -> Result<Woken> {
    loop {
        let mut polled = [
            PollFd::new(doorbell, PollFlags::IN),
            PollFd::new(peer, PollFlags::IN | PollFlags::RDHUP),
        ];
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(0) => return Ok(Woken::TimedOut),
            Ok(_) if !polled[0].revents().is_empty() => {
                doorbell.clear();
                return Ok(Woken::Rung);
            }
            Ok(_) => return Ok(Woken::Spoken),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(kernel("waiting for the writer")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn ignore(_: libc::c_int) {}

    #[test]
    #[allow(unsafe_code)]
    fn a_signal_does_not_end_the_wait_for_a_welcome() {
        use std::os::unix::thread::JoinHandleExt;
        // SAFETY: what is called does nothing.
        unsafe { libc::signal(libc::SIGUSR2, ignore as *const () as libc::sighandler_t) };
        let (own, its) = UnixStream::pair().unwrap();
        let client = std::thread::spawn(move || greet(&own, 3, 7).map(|_| ()));
        assert_eq!(who(&its, 7), Some(3));
        for _ in 0..20 {
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(client.as_pthread_t(), libc::SIGUSR2) };
            std::thread::sleep(Duration::from_millis(1));
        }
        let (doorbell, file) =
            (Doorbell::new().unwrap(), std::fs::File::open("/dev/null").unwrap());
        let file = OwnedFd::from(file);
        let given =
            Welcome { slot: (&file, 1), board: &file, writer: &doorbell, client: &doorbell };
        welcome(&its, &given).unwrap();
        assert_eq!(client.join().unwrap(), Ok(()));
    }

    #[test]
    fn a_path_is_taken_once_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::from(folder.path().join("socket").to_str().unwrap());
        let listener = address.listen().unwrap();
        let told = address.listen().unwrap_err().to_string();
        assert!(told.contains("socket: no socket can be created there"), "{told}");
        assert!(address.connect().is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(listener);
        assert!(address.connect().is_err());
    }
}
