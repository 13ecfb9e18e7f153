//! Threads of a process that wait for one writer: of several, one sleeps at what the kernel has, and the
//! others sleep until that one wakes. What the kernel has tells a single sleeper.

use crate::connection::Woken;
use crate::error::Result;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Who sleeps where.
#[derive(Debug, Default)]
pub struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a thread sleeps at what the kernel has.
    taken: bool,
    /// How often somebody has woken.
    number: u64,
}

impl Turns {
    /// To be had before one looks for what one waits for.
    pub fn number(&self) -> u64 {
        self.state().number
    }

    /// Sleep: `at_kernel`, or until who does so wakes; not at all where somebody woke since `number`,
    /// which may have changed what was looked at.
    ///
    /// # Errors
    ///
    /// Those of `at_kernel`.
    pub fn sleep(
        &self,
        number: u64,
        until: Option<Instant>,
        at_kernel: impl FnOnce() -> Result<Woken>,
    ) -> Result<Woken> {
        let mut state = self.state();
        while state.number == number && state.taken {
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(left) if left.is_zero() => return Ok(Woken::TimedOut),
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        if state.number != number {
            return Ok(Woken::Rung);
        }
        state.taken = true;
        drop(state);
        let woken = at_kernel();
        // Both at once: who came in between would sleep at the kernel for what has been told already.
        let mut state = self.state();
        state.taken = false;
        self.told(&mut state);
        woken
    }

    /// Something has changed: nobody who sleeps beside the kernel goes on without looking. Whether
    /// somebody sleeps at what the kernel has.
    pub fn wake(&self) -> bool {
        let mut state = self.state();
        self.told(&mut state);
        state.taken
    }

    fn told(&self, state: &mut State) {
        state.number += 1;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::HANGS;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    #[test]
    fn one_sleeps_at_the_kernel_and_wakes_the_others() {
        let (turns, asleep) = (Turns::default(), AtomicUsize::new(0));
        let (ring, bell) = channel();
        let bell = Mutex::new(bell);
        let number = turns.number();
        std::thread::scope(|scope| {
            let sleepers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        turns.sleep(number, Some(Instant::now() + HANGS), || {
                            assert_eq!(asleep.fetch_add(1, SeqCst), 0);
                            bell.lock().unwrap().recv_timeout(HANGS).unwrap();
                            Ok(Woken::Rung)
                        })
                    })
                })
                .collect();
            ring.send(()).unwrap();
            for one in sleepers {
                assert_eq!(one.join().unwrap(), Ok(Woken::Rung));
            }
        });
        assert_eq!(asleep.load(SeqCst), 1);
        // Who looked before that sleeps no more.
        assert_eq!(turns.sleep(number, None, || unreachable!()), Ok(Woken::Rung));
    }

    #[test]
    fn who_sleeps_beside_the_kernel_wakes_at_its_own_time_and_takes_the_next_turn() {
        let turns = Turns::default();
        let number = turns.number();
        let inner = turns.sleep(number, None, || {
            let late = turns.sleep(turns.number(), Some(Instant::now()), || unreachable!());
            assert_eq!(late, Ok(Woken::TimedOut));
            assert!(turns.wake());
            Ok(Woken::Spoken)
        });
        assert_eq!(inner, Ok(Woken::Spoken));
        let next = turns.number();
        assert_eq!(turns.sleep(next, None, || Ok(Woken::TimedOut)), Ok(Woken::TimedOut));
        assert!(!turns.wake());
    }
}
