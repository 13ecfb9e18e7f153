//! What can be asked of a ring. Nothing here enters the kernel: [`Ring::enter`] does.
//!
//! Every operation ends in one [`Completion`](crate::Completion) with its token and its memory,
//! also if it could not begin.

use crate::completion::Part;
use crate::flight::{Flight, Interest, Operation, PIECES_MAX, Reach, Take, Target};
use crate::handles::Handle;
use crate::ring::{CANCEL, Ring, user_data};
use io_uring::opcode;
use io_uring::types::Timespec;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;
use wattio_pages::{BLOCK, Pages};

/// What may be sent quietly: less than a socket has room for by default.
const QUIET_BYTES_MAX: usize = 64 << 10;

impl Ring {
    /// Takes a descriptor. It is made blocking, also for others who share it: of one that is not,
    /// the kernel would tell `EAGAIN` instead of waiting.
    ///
    /// # Errors
    ///
    /// If the descriptor's flags cannot be changed.
    pub fn add(&mut self, descriptor: impl Into<OwnedFd>) -> io::Result<Handle> {
        let descriptor = descriptor.into();
        let flags = fcntl_getfl(&descriptor)?;
        if flags.contains(OFlags::NONBLOCK) {
            fcntl_setfl(&descriptor, flags - OFlags::NONBLOCK)?;
        }
        Ok(self.handles.add(descriptor))
    }

    /// Gives a descriptor back that nothing is under way on, as for another ring; else `None`.
    pub fn remove(&mut self, handle: Handle) -> Option<OwnedFd> {
        self.handles.remove(handle)
    }

    /// Closes a descriptor: at once, or after what is under way on it, which is cancelled.
    pub fn close(&mut self, handle: Handle) {
        self.cancel_where(|flight| flight.handle == Some(handle));
        self.handles.close(handle);
    }

    /// Cancels all operations with a token; each still completes, with `ECANCELED`, or with its
    /// result if it was sooner, or with as much of a receive as had come. Looks through all that is
    /// under way.
    pub fn cancel(&mut self, token: u64) {
        self.cancel_where(|flight| {
            flight.token == token && !matches!(flight.operation, Operation::Bell)
        });
    }

    pub(crate) fn cancel_where(&mut self, chosen: impl Fn(&Flight) -> bool) {
        let chosen = self.flights.iter_mut().filter(|(_, flight)| chosen(flight));
        let cancelled: Vec<u64> = chosen
            .map(|(index, flight)| {
                flight.cancelled = true;
                user_data(index, flight.generation)
            })
            .collect();
        for user_data in cancelled {
            self.push(opcode::AsyncCancel::new(user_data).build().user_data(CANCEL));
        }
    }

    /// Reads from byte `offset` on into the blocks `blocks` of `pages`. Fewer bytes than that are
    /// told only at the end of the file.
    ///
    /// # Panics
    ///
    /// If there are no such blocks.
    pub fn read(
        &mut self,
        token: u64,
        file: Handle,
        offset: u64,
        pages: Pages,
        blocks: Range<usize>,
    ) {
        assert!(
            blocks.start <= blocks.end && blocks.end <= pages.len_blocks(),
            "blocks {blocks:?} of {pages:?}"
        );
        let bytes = blocks.start * BLOCK..blocks.end * BLOCK;
        let total = bytes.len();
        self.begin(token, Some(file), Operation::Read { pages, bytes, offset }, total);
    }

    /// Writes `parts` one after the other from byte `offset` on, all of them or with an error. Direct
    /// I/O needs parts of whole blocks ([`Part::blocks`]).
    pub fn write(&mut self, token: u64, file: Handle, offset: u64, parts: Vec<Part>, reach: Reach) {
        let total = length(&parts);
        self.begin(token, Some(file), Operation::Write { parts, offset, reach }, total);
    }

    /// Brings data and metadata of a file to the medium. What completed before this was submitted
    /// is covered, what is under way is not.
    pub fn fsync(&mut self, token: u64, file: Handle) {
        self.begin(token, Some(file), Operation::Sync { data_only: false }, 0);
    }

    /// Brings the data of a file, and of its metadata what reading them needs, to the medium.
    pub fn fdatasync(&mut self, token: u64, file: Handle) {
        self.begin(token, Some(file), Operation::Sync { data_only: true }, 0);
    }

    /// Receives into `bytes[range]`.
    ///
    /// # Panics
    ///
    /// If there is no such range.
    pub fn receive(
        &mut self,
        token: u64,
        socket: Handle,
        bytes: Vec<u8>,
        range: Range<usize>,
        take: Take,
    ) {
        self.receive_into(token, socket, Target::Bytes(bytes), range, take);
    }

    /// Receives into the bytes `range` of `pages`.
    ///
    /// # Panics
    ///
    /// If there is no such range.
    pub fn receive_pages(
        &mut self,
        token: u64,
        socket: Handle,
        pages: Pages,
        range: Range<usize>,
        take: Take,
    ) {
        self.receive_into(token, socket, Target::Pages(pages), range, take);
    }

    fn receive_into(
        &mut self,
        token: u64,
        socket: Handle,
        target: Target,
        bytes: Range<usize>,
        take: Take,
    ) {
        let len = target.len();
        assert!(bytes.start <= bytes.end && bytes.end <= len, "bytes {bytes:?} of {len}");
        let total = bytes.len();
        self.begin(token, Some(socket), Operation::Receive { target, bytes, take }, total);
    }

    /// Sends `head` and then `parts`, all of it or with an error. One send at a time for each
    /// socket, or they mingle.
    pub fn send(&mut self, token: u64, socket: Handle, head: Vec<u8>, parts: Vec<Part>) {
        let total = head.len() + length(&parts);
        self.begin(token, Some(socket), Operation::Send { head, parts }, total);
    }

    /// Like [`Ring::send`], for who does not wait for the end of it: if all of it can be sent at once,
    /// that alone does not end [`Ring::enter`], and is told with what does. A send that fails, or has
    /// to wait for room, is told as any other, and so is a long one. A server that sends an answer and
    /// then waits for the next request enters the kernel once by this, and not twice.
    pub fn send_quietly(&mut self, token: u64, socket: Handle, head: Vec<u8>, parts: Vec<Part>) {
        let total = head.len() + length(&parts);
        // In one call: of what is left for another one, the kernel would say nothing.
        let fits = total <= QUIET_BYTES_MAX && parts.len() < PIECES_MAX;
        let quiet = fits && self.setup.has_quiet_sends;
        self.begin_as(token, Some(socket), Operation::Send { head, parts }, total, quiet);
    }

    /// Accepts connections until it is cancelled or fails: one completion for each, with the socket
    /// (blocking, close-on-exec) and `more` set; the last one has an error.
    pub fn accept(&mut self, token: u64, listener: Handle) {
        self.begin(token, Some(listener), Operation::Accept { multishot: true }, 0);
    }

    /// Waits until a descriptor is ready; the result has the events (`POLLIN`, `POLLHUP`, ...).
    pub fn poll(&mut self, token: u64, descriptor: Handle, interest: Interest) {
        self.begin(token, Some(descriptor), Operation::Poll { interest }, 0);
    }

    /// Completes after a while, with `Ok(0)`.
    pub fn timeout(&mut self, token: u64, after: Duration) {
        let after = vec![Timespec::from(after)];
        self.begin(token, None, Operation::Timeout { after }, 0);
    }
}

fn length(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.as_bytes().len()).sum()
}
