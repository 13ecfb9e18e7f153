//! Waking a thread that sleeps in its ring.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Wakes the thread of one ring, from any thread; [`crate::Ring::doorbell`] gives it.
///
/// The system call is made only if that thread sleeps or is about to. This is a store and a load
/// on each side, of two places:
///
/// - the sleeper stores "asleep", fences, looks whether there is work, and sleeps if there is none;
/// - who brings work stores it, fences, and loads "asleep".
///
/// Between two sequentially consistent fences one comes first: if the sleeper's, the other side
/// loads "asleep" and rings; if the other's, the sleeper sees the work. Neither can miss both.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    descriptor: OwnedFd,
    asleep: AtomicBool,
}

impl Doorbell {
    pub(crate) fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Bell { descriptor, asleep: AtomicBool::new(false) })))
    }

    /// Wakes the thread if it sleeps; to be called after work was left where it looks. Whether the
    /// bell had to be rung.
    pub fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        // The load keeps the line shared while the thread is busy; of many who find it asleep,
        // one rings.
        if !self.0.asleep.load(Ordering::Relaxed) || !self.0.asleep.swap(false, Ordering::Relaxed) {
            return false;
        }
        // It fails only if the count is full, and then the bell is ringing.
        let _ = rustix::io::write(&self.0.descriptor, &1u64.to_ne_bytes());
        true
    }

    /// From here on, who brings work rings.
    pub(crate) fn announce_sleep(&self) {
        self.0.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn awake(&self) {
        self.0.asleep.store(false, Ordering::Relaxed);
    }

    /// Takes what was rung, so that a new poll waits for the next.
    pub(crate) fn silence(&self) {
        let mut count = [0; 8];
        // It fails if nothing was rung.
        let _ = rustix::io::read(&self.0.descriptor, &mut count);
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn only_who_sleeps_is_woken_and_once() {
        let bell = Doorbell::new().unwrap();
        assert!(!bell.ring());
        bell.announce_sleep();
        assert!(bell.clone().ring());
        assert!(!bell.ring());
        bell.announce_sleep();
        bell.awake();
        assert!(!bell.ring());
    }

    /// A place that shares its cache line with no other.
    #[derive(Default)]
    #[repr(align(128))]
    struct Place(AtomicU64);

    /// Waits until both sides have arrived, and then a little, differently each time: so that what
    /// follows meets in every order.
    fn meet(arrived: &Place, number: u64, delay: u64) {
        arrived.0.fetch_add(1, Ordering::AcqRel);
        while arrived.0.load(Ordering::Acquire) < 2 * number {
            std::hint::spin_loop();
        }
        for _ in 0..delay {
            std::hint::spin_loop();
        }
    }

    /// Both sides of the race at once, many times: the sleeper sees the work, or the bell rings. The
    /// work and "asleep" are each stored before the other is loaded, which a processor reorders
    /// unless it is told not to.
    #[test]
    fn work_is_seen_or_rung_for() {
        const ROUNDS: u64 = 300_000;
        let bell = Doorbell::new().unwrap();
        let (work, rung, start, end) =
            (Place::default(), Place::default(), Place::default(), Place::default());
        let mut missed = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=ROUNDS {
                    meet(&start, number, number % 23);
                    work.0.store(number, Ordering::Relaxed);
                    rung.0.store(u64::from(bell.ring()), Ordering::Relaxed);
                    meet(&end, number, 0);
                }
            });
            for number in 1..=ROUNDS {
                meet(&start, number, number % 29);
                bell.announce_sleep();
                let seen = work.0.load(Ordering::Relaxed) == number;
                meet(&end, number, 0);
                let told = rung.0.load(Ordering::Relaxed) == 1;
                missed += u64::from(!seen && !told);
                bell.awake();
            }
        });
        assert_eq!(missed, 0, "times of {ROUNDS} that it would sleep with work there");
    }
}
