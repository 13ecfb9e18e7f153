//! The ring itself: submitting, waiting, taking completions, ending.

use crate::completion::{Back, Completion};
use crate::doorbell::Doorbell;
use crate::flight::{Flight, Lists, Operation, Step};
use crate::handles::{Handle, Handles};
use crate::setup::{self, Setup};
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue::Entry};
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// How long [`Ring::enter`] waits for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Poll,
    /// Until there is one.
    Block,
    /// Until there is one, at most so long.
    Until(Duration),
}

/// Names the kernel's answer to a cancel, which nobody waits for.
pub(crate) const CANCEL: u64 = u64::MAX;
/// Lists that are kept for later operations.
const SPARE_LISTS_MAX: usize = 256;

/// A flight that is over, unless the kernel tells something else, once it has taken so many
/// submissions and this one.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    index: usize,
    generation: u32,
    number: u64,
}

/// A ring for one thread: the one that made it.
///
/// Dropping it cancels what is under way and waits until the kernel has let go of all memory. What a
/// device holds for long (a disk that does not answer) holds the drop as long.
pub struct Ring {
    uring: IoUring,
    pub(crate) setup: Setup,
    pub(crate) flights: Slab<Flight>,
    pub(crate) handles: Handles,
    doorbell: Doorbell,
    generation: u32,
    /// Submissions that do not fit into the kernel's queue, in order.
    backlog: VecDeque<Entry>,
    /// Submissions so far, those in the kernel's queue and in the backlog too.
    queued: u64,
    /// Sends that the kernel tells nothing of if all goes well, in the order of their submission.
    quiet: VecDeque<Quiet>,
    enters: u64,
    /// What ended without the kernel.
    ended: VecDeque<Completion>,
    spare: Vec<Lists>,
    closing: bool,
    /// The kernel refuses calls from other threads.
    of_one_thread: PhantomData<*const ()>,
}

impl Ring {
    /// A ring whose kernel queue takes `entries` submissions (rounded up to a power of two; 1 to
    /// 16384). More may be queued and under way.
    ///
    /// # Errors
    ///
    /// One sentence on why the kernel gives none; of kind `Unsupported` if it never will.
    pub fn new(entries: u32) -> io::Result<Self> {
        let (uring, setup) = setup::open(entries)?;
        let mut ring = Self {
            uring,
            setup,
            flights: Slab::new(),
            handles: Handles::default(),
            doorbell: Doorbell::new()?,
            generation: 0,
            backlog: VecDeque::new(),
            queued: 0,
            quiet: VecDeque::new(),
            enters: 0,
            ended: VecDeque::new(),
            spare: Vec::new(),
            closing: false,
            of_one_thread: PhantomData,
        };
        ring.begin(0, None, Operation::Bell, 0);
        Ok(ring)
    }

    /// Which way of completing the kernel took, for a log.
    #[must_use]
    pub const fn setup(&self) -> &'static str {
        self.setup.name
    }

    /// System calls that entered the ring, since the start.
    #[must_use]
    pub const fn enters(&self) -> u64 {
        self.enters
    }

    /// Rings wake this ring's thread in [`Ring::enter_unless`].
    #[must_use]
    pub fn doorbell(&self) -> Doorbell {
        self.doorbell.clone()
    }

    /// Whether quiet sends are under way. The next [`Ring::enter`], even one that does not wait,
    /// brings their end, or else they are quiet no more.
    #[must_use]
    pub fn has_quiet(&self) -> bool {
        !self.quiet.is_empty()
    }

    /// Operations that have not ended, the ring's own not counted.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len() - 1
    }

    /// Keeps an operation with its memory and queues its submission.
    pub(crate) fn begin(
        &mut self,
        token: u64,
        handle: Option<Handle>,
        operation: Operation,
        total: usize,
    ) {
        self.begin_as(token, handle, operation, total, false);
    }

    /// Like [`Ring::begin`]; of a quiet one, success is not told by the kernel.
    pub(crate) fn begin_as(
        &mut self,
        token: u64,
        handle: Option<Handle>,
        operation: Operation,
        total: usize,
        quiet: bool,
    ) {
        let moves = matches!(
            operation,
            Operation::Read { .. }
                | Operation::Write { .. }
                | Operation::Receive { .. }
                | Operation::Send { .. }
        );
        let fd = match (&operation, handle) {
            (Operation::Bell, _) => Some(self.doorbell.descriptor().as_raw_fd()),
            (_, Some(handle)) => self.handles.begin(handle),
            (_, None) => Some(-1),
        };
        self.generation = self.generation.wrapping_add(1);
        let flight = Flight {
            token,
            generation: self.generation,
            handle: handle.filter(|_| fd.is_some()),
            fd: fd.unwrap_or(-1),
            operation,
            lists: self.spare.pop().unwrap_or_default(),
            moved: 0,
            total,
            cancelled: false,
            quiet,
        };
        if fd.is_none() {
            self.end(flight, Err(io::Error::from_raw_os_error(libc::EBADF)));
        } else if moves && total == 0 {
            self.end(flight, Ok(0));
        } else {
            let index = self.flights.insert(flight);
            self.submit_flight(index);
        }
    }

    fn submit_flight(&mut self, index: usize) {
        let flight = &mut self.flights[index];
        let entry = flight.entry().user_data(user_data(index, flight.generation));
        if flight.quiet {
            let generation = flight.generation;
            self.quiet.push_back(Quiet { index, generation, number: self.queued });
        }
        self.push(entry);
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.queued += 1;
        if !self.backlog.is_empty() || !self.try_push(&entry) {
            self.backlog.push_back(entry);
        }
    }

    fn try_push(&mut self, entry: &Entry) -> bool {
        // SAFETY: what the entry points to is owned by a flight in `flights` (`Flight::entry`) which
        // is removed only after the kernel's last completion of it; if the ring is dropped, `drop`
        // waits for these, or else leaks the flights. A cancel points to nothing. Memory that is
        // written is in the flight alone; what is only read may be shared, by `Arc`, and is not
        // changed while it is.
        #[allow(unsafe_code)]
        let pushed = unsafe { self.uring.submission().push(entry) };
        pushed.is_ok()
    }

    /// Submits what is queued and waits for a completion, in one system call; in none if there is
    /// nothing to do. It may return without a completion. Then [`Ring::next_completion`] is to be
    /// called until there is none.
    ///
    /// # Errors
    ///
    /// The kernel's; a signal is none.
    pub fn enter(&mut self, wait: Wait) -> io::Result<()> {
        self.enter_unless(wait, || false)
    }

    /// Like [`Ring::enter`], for a thread that others bring work to: it does not wait if `has_work`,
    /// which is asked after those others know that they must ring the [`Doorbell`].
    ///
    /// # Errors
    ///
    /// The kernel's; a signal is none.
    pub fn enter_unless(&mut self, wait: Wait, has_work: impl FnOnce() -> bool) -> io::Result<()> {
        while self.refill() {
            if !self.call(Wait::Poll)? {
                // The kernel takes no more until completions are taken.
                return Ok(());
            }
        }
        let idle = self.ended.is_empty() && self.uring.completion().is_empty();
        if wait == Wait::Poll || !idle {
            return self.flush();
        }
        self.doorbell.announce_sleep();
        let entered = if has_work() { self.flush() } else { self.call(wait).map(drop) };
        self.doorbell.awake();
        entered
    }

    /// Moves the backlog into the kernel's queue; whether some is left.
    fn refill(&mut self) -> bool {
        while let Some(entry) = self.backlog.pop_front() {
            if !self.try_push(&entry) {
                self.backlog.push_front(entry);
                return true;
            }
        }
        false
    }

    /// Submits without waiting, and lets the kernel finish what it has for this thread.
    fn flush(&mut self) -> io::Result<()> {
        let queue = self.uring.submission();
        let needed = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if needed {
            self.call(Wait::Poll)?;
        }
        Ok(())
    }

    /// One system call; `false` if the kernel has no room for more before completions are taken.
    fn call(&mut self, wait: Wait) -> io::Result<bool> {
        self.enters += 1;
        let submitter = self.uring.submitter();
        let called = match wait {
            Wait::Poll => submitter.submit(),
            Wait::Block => submitter.submit_and_wait(1),
            Wait::Until(span) => {
                let span = Timespec::from(span);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&span))
            }
        };
        match called {
            Ok(_) => Ok(true),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR) => Ok(true),
                Some(libc::EBUSY | libc::EAGAIN) => Ok(false),
                _ => Err(io::Error::new(error.kind(), format!("io_uring_enter: {error}"))),
            },
        }
    }

    /// Whether something was completed since the kernel was last entered: it waits already.
    pub fn has_come(&mut self) -> bool {
        !self.ended.is_empty()
            || !self.uring.completion().is_empty()
            || self.uring.submission().taskrun()
    }

    /// The next completion that is there, without a system call.
    pub fn next_completion(&mut self) -> Option<Completion> {
        loop {
            if let Some(completion) = self.ended.pop_front() {
                return Some(completion);
            }
            let Some(told) = self.uring.completion().next() else { return self.quiet_end() };
            if told.user_data() != CANCEL
                && let Some(completion) = self.take(&told)
            {
                return Some(completion);
            }
        }
    }

    /// The next send of which the kernel has nothing to tell. It handles each within the call that
    /// submits it, so one that was submitted, and failed or was short, has been told by now.
    fn quiet_end(&mut self) -> Option<Completion> {
        while let Some(&Quiet { index, generation, number }) = self.quiet.front() {
            let queue = self.uring.submission();
            let submitted = self.queued - (self.backlog.len() + queue.len()) as u64;
            // What had no room among completions comes later.
            if number >= submitted || queue.cq_overflow() {
                return None;
            }
            drop(queue);
            self.quiet.pop_front();
            let flight = self.flights.get(index);
            if flight.is_some_and(|flight| flight.quiet && flight.generation == generation) {
                let flight = self.flights.remove(index);
                let total = flight.total;
                return Some(self.completion(flight, Ok(total)));
            }
        }
        None
    }

    /// Takes what the kernel told of a flight; `None` if it goes on and nobody needs to know.
    fn take(&mut self, told: &cqueue::Entry) -> Option<Completion> {
        let index = (told.user_data() & u64::from(u32::MAX)) as usize;
        let generation = (told.user_data() >> 32) as u32;
        let more = cqueue::more(told.flags());
        let flight =
            self.flights.get_mut(index).filter(|flight| flight.generation == generation)?;
        if matches!(flight.operation, Operation::Bell) {
            self.rung(index, more);
            return None;
        }
        match flight.step(told.result(), more, new_socket) {
            Step::Again => {
                self.submit_flight(index);
                None
            }
            Step::Connection { socket, again } => {
                let (token, what) = (flight.token, flight.what());
                let ended = again && flight.cancelled;
                let completion = Completion {
                    token,
                    what,
                    result: Ok(0),
                    back: Back::Socket(socket),
                    more: true,
                };
                if ended {
                    let flight = self.flights.remove(index);
                    self.end(flight, Err(io::Error::from_raw_os_error(libc::ECANCELED)));
                } else if again {
                    self.submit_flight(index);
                }
                Some(completion)
            }
            Step::Done(result) => {
                let flight = self.flights.remove(index);
                Some(self.completion(flight, result))
            }
        }
    }

    /// The bell has served by waking the thread; it is armed again if the kernel has let it go.
    fn rung(&mut self, index: usize, more: bool) {
        if more {
            return;
        }
        if self.closing {
            self.flights.remove(index);
        } else {
            self.doorbell.silence();
            self.submit_flight(index);
        }
    }

    fn end(&mut self, flight: Flight, result: io::Result<usize>) {
        let completion = self.completion(flight, result);
        self.ended.push_back(completion);
    }

    fn completion(&mut self, flight: Flight, result: io::Result<usize>) -> Completion {
        if let Some(handle) = flight.handle {
            self.handles.end(handle);
        }
        let what = flight.what();
        let Flight { token, operation, lists, .. } = flight;
        if self.spare.len() < SPARE_LISTS_MAX {
            self.spare.push(lists);
        }
        Completion { token, what, result, back: operation.into(), more: false }
    }

    /// Cancels all that is under way and waits for it.
    fn wind_up(&mut self) -> io::Result<()> {
        self.closing = true;
        self.cancel_where(|_| true);
        while !self.flights.is_empty() {
            while self.refill() && self.call(Wait::Poll)? {
                self.discard();
            }
            if !self.flights.is_empty() {
                self.call(Wait::Block)?;
            }
            self.discard();
        }
        Ok(())
    }

    fn discard(&mut self) {
        while self.next_completion().is_some() {}
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.wind_up().is_err() {
            // The kernel may still use their memory.
            mem::forget(mem::take(&mut self.flights));
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Ring({} in flight, {})", self.flights.len(), self.setup.name)
    }
}

/// What names a flight to the kernel: an answer to an earlier one in the same place is not taken for
/// it, and a late cancel does not meet it.
pub(crate) fn user_data(index: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | index as u64
}

fn new_socket(descriptor: i32) -> OwnedFd {
    // SAFETY: the kernel gave this descriptor to an accept of this ring just now, and tells each
    // once: nobody else owns it.
    #[allow(unsafe_code)]
    unsafe {
        OwnedFd::from_raw_fd(descriptor)
    }
}
