//! The daemon's pulse, by which its keeper knows, without polling, that the daemon is not stopped:
//! a timer that both share. The daemon resets it in each cycle; if it does not, the kernel wakes
//! the keeper. Polling twice a second would cost a quarter of what governing 128 cores does.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_gettime, timerfd_settime,
};
use std::io;

const NONE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// A pulse that stays away for so long is missed: half as long again as a window. A daemon whose
/// windows are longer, or that waits for a drive, is looked at as one that is silent.
pub(crate) const MISSED_AFTER: Timespec = Timespec { tv_sec: 0, tv_nsec: 750_000_000 };

/// One side's hold of the timer.
#[derive(Debug)]
pub(crate) struct Pulse(OwnedFd);

impl Pulse {
    /// Begins with a beat.
    ///
    /// # Errors
    /// When the system has no timer left.
    pub fn start() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let pulse = Self(timerfd_create(TimerfdClockId::Monotonic, flags)?);
        pulse.beat();
        Ok(pulse)
    }

    /// The keeper's side, which it is given as its standard input; `None` if that is something else.
    pub fn given() -> Option<Self> {
        let given = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
        timerfd_gettime(&given).ok()?;
        Some(Self(given))
    }

    /// What to give to the keeper.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn to_give(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Puts the timer off.
    pub fn beat(&self) {
        let next = Itimerspec { it_interval: NONE, it_value: MISSED_AFTER };
        // The kernel refuses other times only. Without a beat the keeper looks for itself.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &next);
    }

    /// Whether none has been missed since the last beat.
    pub fn beats(&self) -> bool {
        timerfd_gettime(&self.0).is_ok_and(|left| left.it_value != NONE)
    }
}

impl AsFd for Pulse {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_is_missed_until_the_next_beat() {
        let daemons = Pulse::start().unwrap();
        let keepers = Pulse(daemons.to_give().unwrap());
        let at_once =
            Itimerspec { it_interval: NONE, it_value: Timespec { tv_sec: 0, tv_nsec: 1 } };
        timerfd_settime(&daemons.0, TimerfdTimerFlags::empty(), &at_once).unwrap();
        while keepers.beats() {}
        // On a busy machine this may be missed too before it is seen.
        while !keepers.beats() {
            daemons.beat();
        }
    }
}
