//! What reactors and the rest of the process have in common.

use crate::status::ReactorStatus;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, OnceLock, PoisonError};
use wattio_ring::Doorbell;

/// Something for a reactor that happens rarely.
#[derive(Debug)]
pub enum Order {
    /// Take this connection.
    Connection(OwnedFd),
    /// Say how you are.
    Status(Sender<ReactorStatus>),
    /// Scrub a volume, or all; the answer names those whose tour began.
    Scrub {
        /// Which one.
        export: Option<String>,
        /// Where the answer goes.
        answer: Sender<Vec<String>>,
    },
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

#[derive(Debug, Default)]
struct Inbox {
    has_any: AtomicBool,
    orders: Mutex<Vec<Order>>,
}

/// What reactors share.
#[derive(Debug)]
pub struct Shared {
    inboxes: Vec<Inbox>,
    doorbells: OnceLock<Vec<Doorbell>>,
    halt: AtomicU8,
    /// Reactors that may still ask volumes for something.
    speaking: AtomicUsize,
}

impl Shared {
    /// For so many reactors.
    #[must_use]
    pub fn new(reactors: usize) -> Self {
        Self {
            inboxes: (0..reactors).map(|_| Inbox::default()).collect(),
            doorbells: OnceLock::new(),
            halt: AtomicU8::new(0),
            speaking: AtomicUsize::new(reactors),
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

    /// Gives a reactor an order.
    pub fn order(&self, reactor: usize, order: Order) {
        let inbox = &self.inboxes[reactor];
        inbox.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        inbox.has_any.store(true, Ordering::Release);
        self.ring(reactor);
    }

    /// Whether a reactor has orders, or should look at [`Self::halt`].
    pub(super) fn has_orders(&self, reactor: usize) -> bool {
        self.inboxes[reactor].has_any.load(Ordering::Acquire)
    }

    pub(super) fn take_orders(&self, reactor: usize) -> Vec<Order> {
        let inbox = &self.inboxes[reactor];
        if !inbox.has_any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *inbox.orders.lock().unwrap_or_else(PoisonError::into_inner))
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

    /// Whether no reactor has connections.
    pub(super) fn all_silent(&self) -> bool {
        self.speaking.load(Ordering::Acquire) == 0
    }
}
