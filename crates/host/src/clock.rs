//! The host's clocks.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wattio_governor::Clock;

/// Time that also passes while the host is suspended, and UTC as the host has it.
///
/// It begins as the kernel's monotonic clock, which other tools log by, and is that clock until the
/// host is suspended the first time. The monotonic clock stands still then, and would make old
/// samples look fresh.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    /// How long the host had been suspended when the clock began.
    suspended_before: Duration,
}

impl HostClock {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self::begun(time_of(ClockId::Monotonic), time_of(ClockId::Boottime))
    }

    /// Starts at these readings of the kernel's clock that stops and of the one that does not.
    fn begun(monotonic: Duration, since_boot: Duration) -> Self {
        Self { suspended_before: since_boot.saturating_sub(monotonic) }
    }

    /// The time when the clock that does not stop stands at `since_boot`.
    fn at(&self, since_boot: Duration) -> Duration {
        since_boot.saturating_sub(self.suspended_before)
    }
}

impl Clock for HostClock {
    fn now(&self) -> Duration {
        self.at(time_of(ClockId::Boottime))
    }

    fn utc_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

fn time_of(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour of suspension did not count: windows from before it looked recent.
    #[test]
    fn a_suspension_is_time_that_passes() {
        let second = Duration::from_secs;
        let clock = HostClock::begun(second(100), second(150));
        assert_eq!(clock.at(second(150)), second(100), "the monotonic clock so far");
        assert_eq!(clock.at(second(151)), second(101));
        // Suspended for an hour: the monotonic clock is at 102 s now.
        assert_eq!(clock.at(second(3752)), second(3702));
    }

    #[test]
    fn it_goes_by_the_clock_that_does_not_stop() {
        let clock = HostClock { suspended_before: Duration::ZERO };
        let before = time_of(ClockId::Boottime);
        let now = clock.now();
        assert!(before <= now && now <= time_of(ClockId::Boottime));
        assert!(HostClock::start().now() >= time_of(ClockId::Monotonic) - Duration::from_secs(1));
    }
}
