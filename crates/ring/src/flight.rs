//! An operation from its submission to its end, with the memory that the kernel works on.

use crate::completion::{Back, Part};
use crate::handles::Handle;
use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags, Timespec};
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr;
use wattio_pages::{BLOCK, Pages};

/// How far a write goes before it counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The device has taken it, perhaps into a cache that a power failure empties.
    Device,
    /// It survives a power failure (forced unit access, or what the kernel does instead).
    Medium,
}

/// When a receive is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// With the first bytes that come.
    Some,
    /// When the range is full, or the peer has closed: then fewer bytes are told.
    All,
}

/// What a poll waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read, or the end of it.
    Read,
    /// Room to write.
    Write,
}

/// Pieces of one call, the most that the kernel takes (`UIO_MAXIOV`).
pub(crate) const PIECES_MAX: usize = 1024;
/// Bytes of one call, below what the kernel moves in one (2 GiB).
const BYTES_MAX: usize = 1 << 30;

/// Where a receive puts bytes.
#[derive(Debug)]
pub(crate) enum Target {
    Pages(Pages),
    Bytes(Vec<u8>),
}

impl Target {
    fn as_bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Pages(pages) => pages.as_bytes_mut(),
            Self::Bytes(bytes) => bytes,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Pages(pages) => pages.len_bytes(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

impl From<Target> for Back {
    fn from(target: Target) -> Self {
        match target {
            Target::Pages(pages) => Self::Pages(pages),
            Target::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Operation {
    Read {
        pages: Pages,
        bytes: Range<usize>,
        offset: u64,
    },
    Write {
        parts: Vec<Part>,
        offset: u64,
        reach: Reach,
    },
    Sync {
        data_only: bool,
    },
    Receive {
        target: Target,
        bytes: Range<usize>,
        take: Take,
    },
    Send {
        head: Vec<u8>,
        parts: Vec<Part>,
    },
    Accept {
        multishot: bool,
    },
    Poll {
        interest: Interest,
    },
    /// One element, on the heap since the kernel reads it there.
    Timeout {
        after: Vec<Timespec>,
    },
    Bell,
}

/// Lists that the kernel reads from where they are; used again by later operations.
#[derive(Default)]
pub(crate) struct Lists {
    pieces: Vec<libc::iovec>,
    /// At most one; on the heap like the pieces.
    message: Vec<libc::msghdr>,
}

impl Lists {
    fn fill<'a>(&mut self, bytes: impl Iterator<Item = &'a [u8]>, mut skipped: usize) {
        self.pieces.clear();
        for bytes in bytes {
            let skip = skipped.min(bytes.len());
            skipped -= skip;
            if skip < bytes.len() && self.pieces.len() < PIECES_MAX {
                let iov_base = bytes[skip..].as_ptr().cast_mut().cast();
                self.pieces.push(libc::iovec { iov_base, iov_len: bytes.len() - skip });
            }
        }
    }

    fn message(&mut self) -> *const libc::msghdr {
        // SAFETY: a message header is integers and pointers, for which zero is a value: no name, no
        // pieces, no control data. (It has private padding on musl, so no literal can make one.)
        #[allow(unsafe_code)]
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.pieces.as_mut_ptr();
        message.msg_iovlen = self.pieces.len() as _;
        self.message.clear();
        self.message.push(message);
        self.message.as_ptr()
    }
}

/// What to do after the kernel has told something of a flight.
pub(crate) enum Step {
    /// Submit what remains.
    Again,
    /// One more connection; the kernel goes on with the accept by itself, or must be told to.
    Connection {
        socket: OwnedFd,
        again: bool,
    },
    Done(io::Result<usize>),
}

pub(crate) struct Flight {
    pub token: u64,
    pub generation: u32,
    pub handle: Option<Handle>,
    pub fd: RawFd,
    pub operation: Operation,
    pub lists: Lists,
    /// Bytes moved so far, of `total`.
    pub moved: usize,
    pub total: usize,
    pub cancelled: bool,
    /// Whether the kernel tells only if it could not be done at once: of a send. What it tells ends
    /// this.
    pub quiet: bool,
}

impl Flight {
    /// The submission of what remains. It points into memory that this flight owns, on the heap:
    /// it stays where it is, and unfreed, for as long as the flight is there, wherever that moves.
    pub fn entry(&mut self) -> Entry {
        let (fd, moved) = (Fd(self.fd), self.moved);
        match &mut self.operation {
            Operation::Read { pages, bytes, offset } => {
                let rest = rest(&mut pages.as_bytes_mut()[bytes.clone()], moved);
                let read = opcode::Read::new(fd, rest.as_mut_ptr(), rest.len() as u32);
                read.offset(*offset + moved as u64).build()
            }
            Operation::Write { parts, offset, reach } => {
                let offset = *offset + moved as u64;
                let flags = if *reach == Reach::Medium { libc::RWF_DSYNC } else { 0 };
                self.lists.fill(parts.iter().map(Part::as_bytes), moved);
                match self.lists.pieces[..] {
                    [piece] => {
                        let len = piece.iov_len.min(BYTES_MAX) as u32;
                        let write = opcode::Write::new(fd, piece.iov_base.cast(), len);
                        write.offset(offset).rw_flags(flags).build()
                    }
                    ref pieces => {
                        let write = opcode::Writev::new(fd, pieces.as_ptr(), pieces.len() as u32);
                        write.offset(offset).rw_flags(flags).build()
                    }
                }
            }
            Operation::Sync { data_only } => {
                let flags = if *data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
                opcode::Fsync::new(fd).flags(flags).build()
            }
            Operation::Receive { target, bytes, take } => {
                let rest = rest(&mut target.as_bytes_mut()[bytes.clone()], moved);
                let flags = if *take == Take::All { libc::MSG_WAITALL } else { 0 };
                let receive = opcode::Recv::new(fd, rest.as_mut_ptr(), rest.len() as u32);
                receive.flags(flags).build()
            }
            Operation::Send { head, parts } => {
                let bytes = std::iter::once(&head[..]).chain(parts.iter().map(Part::as_bytes));
                self.lists.fill(bytes, moved);
                // With the second flag, a send that is short has failed.
                let mut flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
                if self.quiet {
                    flags |= libc::MSG_DONTWAIT;
                }
                let entry = if let [piece] = self.lists.pieces[..] {
                    let len = piece.iov_len.min(BYTES_MAX) as u32;
                    opcode::Send::new(fd, piece.iov_base.cast(), len).flags(flags).build()
                } else {
                    opcode::SendMsg::new(fd, self.lists.message()).flags(flags as u32).build()
                };
                if self.quiet { entry.flags(Flags::SKIP_SUCCESS) } else { entry }
            }
            Operation::Accept { multishot: true } => {
                opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build()
            }
            Operation::Accept { multishot: false } => {
                let accept = opcode::Accept::new(fd, ptr::null_mut(), ptr::null_mut());
                accept.flags(libc::SOCK_CLOEXEC).build()
            }
            Operation::Poll { interest } => {
                let events = match interest {
                    Interest::Read => libc::POLLIN,
                    Interest::Write => libc::POLLOUT,
                };
                opcode::PollAdd::new(fd, events as u32).build()
            }
            Operation::Timeout { after } => opcode::Timeout::new(after.as_ptr()).build(),
            Operation::Bell => opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true).build(),
        }
    }

    /// Takes what the kernel told; `socket` makes a descriptor of an accept's result, and `more` says
    /// that the kernel goes on by itself.
    pub fn step(&mut self, result: i32, more: bool, socket: impl Fn(i32) -> OwnedFd) -> Step {
        let error = result.checked_neg().filter(|&number| number > 0);
        let was_quiet = mem::take(&mut self.quiet);
        match (&mut self.operation, error) {
            (Operation::Accept { .. }, None) => {
                Step::Connection { socket: socket(result), again: !more }
            }
            (Operation::Accept { multishot: multishot @ true }, Some(libc::EINVAL)) => {
                // Before Linux 5.19; if the socket is at fault, the next try says so.
                *multishot = false;
                self.again()
            }
            (Operation::Timeout { .. }, Some(libc::ETIME)) => Step::Done(Ok(0)),
            (_, Some(libc::EINTR)) => self.again(),
            // There is no room now: from here on it waits.
            (Operation::Send { .. }, Some(libc::EAGAIN)) if was_quiet => self.again(),
            // What has come is not lost; what is wrong, the next receive will tell.
            (Operation::Receive { .. }, Some(_)) if self.moved > 0 => Step::Done(Ok(self.moved)),
            (_, Some(number)) => Step::Done(Err(io::Error::from_raw_os_error(number))),
            (_, None) => self.advance(result as usize),
        }
    }

    fn advance(&mut self, count: usize) -> Step {
        let (exact, ends_at_zero) = match &self.operation {
            // Past the end of a file that ends within a block, direct reads are refused.
            Operation::Read { .. } => (count.is_multiple_of(BLOCK), true),
            Operation::Receive { take, .. } => (*take == Take::All, true),
            Operation::Write { .. } | Operation::Send { .. } => (true, false),
            _ => return Step::Done(Ok(count)),
        };
        self.moved += count;
        if self.moved < self.total && exact {
            return match (count, ends_at_zero) {
                (0, true) => Step::Done(Ok(self.moved)),
                (0, false) => Step::Done(Err(io::ErrorKind::WriteZero.into())),
                _ => self.again(),
            };
        }
        Step::Done(Ok(self.moved))
    }

    fn again(&self) -> Step {
        match (&self.operation, self.cancelled) {
            (_, false) => Step::Again,
            (Operation::Receive { .. }, true) if self.moved > 0 => Step::Done(Ok(self.moved)),
            (_, true) => Step::Done(Err(io::Error::from_raw_os_error(libc::ECANCELED))),
        }
    }

    pub fn what(&self) -> &'static str {
        match &self.operation {
            Operation::Read { .. } => "read",
            Operation::Write { .. } => "write",
            Operation::Sync { .. } => "sync",
            Operation::Receive { .. } => "receive",
            Operation::Send { .. } => "send",
            Operation::Accept { .. } => "accept",
            Operation::Poll { .. } => "poll",
            Operation::Timeout { .. } => "timeout",
            Operation::Bell => "doorbell",
        }
    }
}

impl From<Operation> for Back {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Read { pages, .. } => Self::Pages(pages),
            Operation::Write { parts, .. } => Self::Gathered { head: Vec::new(), parts },
            Operation::Receive { target, .. } => target.into(),
            Operation::Send { head, parts } => Self::Gathered { head, parts },
            _ => Self::Nothing,
        }
    }
}

fn rest(bytes: &mut [u8], moved: usize) -> &mut [u8] {
    let end = bytes.len().min(moved + BYTES_MAX);
    &mut bytes[moved..end]
}

#[cfg(test)]
mod tests;
