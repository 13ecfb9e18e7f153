//! State that reactors share with the rest of the process.

use super::published::Published;
use super::volumes::MovingVolume;
use crate::normal::{Accepted, ConnectionLoad, Leaver, Moving};
use crate::status::ReactorStatus;
use crate::volume::Rates;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;
use wattio_ring::Doorbell;

/// Something for a reactor that happens rarely.
#[derive(Debug)]
pub enum Order {
    /// Take this connection.
    Connection(Accepted),
    /// Say how you are.
    Status(Sender<ReactorStatus>),
    /// Take this connection of another reactor.
    Arrive(Box<Moving>),
    /// Take this volume of another reactor.
    ArriveVolume(Box<MovingVolume>),
    /// Say what your connections and volumes ask for.
    Loads(Sender<Loads>),
    /// Let these go to other reactors.
    Move(Moves),
    /// Sleep when nothing is to be done, whatever else is configured, or do as configured.
    Park(bool),
    /// Core-seconds in a second that the background work of each of your volumes may take.
    Budgets(Rates),
    /// Scrub a volume, or all; the answer names those whose tour began.
    Scrub {
        /// Which one.
        export: Option<String>,
        /// Where the answer goes.
        answer: Sender<Vec<String>>,
    },
}

/// What the connections and volumes of a reactor ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loads {
    /// Which reactor.
    pub reactor: usize,
    /// Its connections.
    pub connections: Vec<ConnectionLoad>,
    /// The numbers of its volumes' exports, and what they were asked so far.
    pub volumes: Vec<(usize, u64)>,
}

/// What a reactor lets go. Connections that were told to leave before and could not, stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Connections.
    pub connections: Vec<Leaver>,
    /// The numbers of volumes' exports, and where they go.
    pub volumes: Vec<(usize, usize)>,
}

/// Whether the target stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// No.
    No,
    /// It answers what is under way and closes its volumes.
    Orderly,
    /// At once.
    Now,
}

#[derive(Debug)]
struct Inbox {
    has_any: AtomicBool,
    /// `None` once the reactor has ended.
    orders: Mutex<Option<Vec<Order>>>,
}

impl Inbox {
    fn new() -> Self {
        Self { has_any: AtomicBool::new(false), orders: Mutex::new(Some(Vec::new())) }
    }
}

/// What reactors share.
#[derive(Debug)]
pub struct Shared {
    inboxes: Vec<Inbox>,
    doorbells: OnceLock<Vec<Doorbell>>,
    halt: AtomicU8,
    /// Reactors that may still ask volumes for something.
    speaking: AtomicUsize,
    /// Connections and volumes that one reactor let go and another did not take yet.
    moving: AtomicUsize,
    /// Which reactors get new connections.
    accepting: Vec<AtomicBool>,
    published: Vec<Arc<Published>>,
    /// Exports whose volumes could not be closed, and why.
    not_closed: Mutex<Vec<(String, String)>>,
    /// The names of all exports.
    exports: Vec<String>,
}

impl Shared {
    /// For so many reactors, which serve exports of these names.
    #[must_use]
    pub fn new(reactors: usize, exports: Vec<String>) -> Self {
        let epoch = Instant::now();
        Self {
            inboxes: (0..reactors).map(|_| Inbox::new()).collect(),
            doorbells: OnceLock::new(),
            halt: AtomicU8::new(0),
            speaking: AtomicUsize::new(reactors),
            moving: AtomicUsize::new(0),
            accepting: (0..reactors).map(|_| AtomicBool::new(true)).collect(),
            published: (0..reactors).map(|_| Arc::new(Published::new(epoch))).collect(),
            not_closed: Mutex::default(),
            exports,
        }
    }

    /// The names of all exports, wherever their volumes are.
    #[must_use]
    pub fn exports(&self) -> &[String] {
        &self.exports
    }

    /// What a reactor publishes.
    #[must_use]
    pub fn published(&self, reactor: usize) -> &Arc<Published> {
        &self.published[reactor]
    }

    /// Says whether a reactor gets new connections.
    pub fn set_accepting(&self, reactor: usize, accepts: bool) {
        self.accepting[reactor].store(accepts, Ordering::Relaxed);
    }

    /// The first reactor from `from` on that gets new connections; `from` if there is none.
    pub(super) fn next_accepting(&self, from: usize) -> usize {
        let count = self.reactors();
        let mut all = (0..count).map(|step| (from + step) % count);
        all.find(|&one| self.accepting[one].load(Ordering::Relaxed)).unwrap_or(from % count)
    }

    /// Hands a connection or a volume to another reactor.
    pub(super) fn hand_over(&self, reactor: usize, order: Order) {
        self.moving.fetch_add(1, Ordering::AcqRel);
        self.order(reactor, order);
    }

    /// What another reactor handed over was taken.
    pub(super) fn taken(&self) {
        if self.moving.fetch_sub(1, Ordering::AcqRel) == 1 && self.halt() != Halt::No {
            self.wake_all();
        }
    }

    /// How many reactors there are.
    #[must_use]
    pub fn reactors(&self) -> usize {
        self.inboxes.len()
    }

    /// Says how reactors are woken, once.
    pub fn set_doorbells(&self, doorbells: Vec<Doorbell>) {
        let _ = self.doorbells.set(doorbells);
    }

    fn ring(&self, reactor: usize) {
        if let Some(doorbell) = self.doorbells.get().and_then(|all| all.get(reactor)) {
            doorbell.ring();
        }
    }

    fn ring_all(&self) {
        (0..self.reactors()).for_each(|reactor| self.ring(reactor));
    }

    /// Gives a reactor an order; one that has ended gets none, and what comes with it is closed.
    pub fn order(&self, reactor: usize, order: Order) {
        let inbox = &self.inboxes[reactor];
        match inbox.orders.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(orders) => orders.push(order),
            None => return,
        }
        inbox.has_any.store(true, Ordering::Release);
        self.ring(reactor);
    }

    /// Whether a reactor has orders, or should look at [`Self::halt`].
    pub(super) fn has_orders(&self, reactor: usize) -> bool {
        self.inboxes[reactor].has_any.load(Ordering::Acquire)
    }

    pub(crate) fn take_orders(&self, reactor: usize) -> Vec<Order> {
        let inbox = &self.inboxes[reactor];
        if !inbox.has_any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let mut orders = inbox.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A reactor has ended: what it did not take is closed, and who waits for its answer learns that
    /// none comes.
    pub(crate) fn ended(&self, reactor: usize) {
        let orders = &self.inboxes[reactor].orders;
        let left = orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(left);
    }

    /// The volume of an export could not be closed.
    pub(super) fn not_closed(&self, export: &str, why: &str) {
        let mut all = self.not_closed.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((export.to_owned(), why.to_owned()));
    }

    /// The exports whose volumes could not be closed, and why; the next call has no others.
    pub(crate) fn take_not_closed(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.not_closed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops the target.
    pub fn stop(&self, halt: Halt) {
        self.halt.fetch_max(halt as u8, Ordering::AcqRel);
        self.wake_all();
    }

    /// A reactor that is about to sleep does not, nor one that sleeps.
    fn wake_all(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.has_any.store(true, Ordering::Release));
        self.ring_all();
    }

    pub(super) fn halt(&self) -> Halt {
        match self.halt.load(Ordering::Acquire) {
            0 => Halt::No,
            1 => Halt::Orderly,
            _ => Halt::Now,
        }
    }

    /// A reactor has no connections left.
    pub(super) fn silent(&self) {
        if self.speaking.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wake_all();
        }
    }

    /// Whether no reactor has connections, and nothing is on its way to one.
    pub(super) fn all_silent(&self) -> bool {
        self.speaking.load(Ordering::Acquire) == 0 && self.moving.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{TryRecvError, channel};

    /// What was on its way to a reactor that had ended stayed open for as long as anybody held a
    /// handle, with the lock on its device; and who asked it waited for as long as one may take.
    #[test]
    fn what_a_reactor_that_has_ended_did_not_take_is_closed() {
        let shared = Shared::new(2, Vec::new());
        for is_late in [false, true] {
            let (mut mine, theirs) = UnixStream::pair().unwrap();
            let (answer, answers) = channel();
            let orders = [
                Order::Connection(Accepted { socket: theirs.into(), is_tcp: false }),
                Order::Loads(answer),
            ];
            if is_late {
                shared.ended(0);
            }
            orders.into_iter().for_each(|order| shared.order(0, order));
            shared.ended(0);
            mine.set_nonblocking(true).unwrap();
            assert_eq!(mine.read(&mut [0]).unwrap(), 0, "it is closed");
            assert_eq!(answers.try_recv(), Err(TryRecvError::Disconnected));
            assert!(shared.take_orders(0).is_empty());
        }
        let (answer, _answers) = channel();
        shared.order(1, Order::Loads(answer));
        assert_eq!(shared.take_orders(1).len(), 1, "the other one goes on");
    }
}
