//! The service manager's watchdog.

use sd_notify::NotifyState;
use std::time::Duration;

/// How often it is fed at most. To tell the service manager takes four system calls here, and wakes
/// another process.
const FED_EVERY: Duration = Duration::from_secs(1);

/// When it was fed, and when it is to be fed again.
pub(crate) struct Watchdog {
    every: Duration,
    fed_at: Option<Duration>,
}

impl Watchdog {
    /// As the service manager has set it for this process.
    pub fn new() -> Self {
        Self::waiting(sd_notify::watchdog_enabled())
    }

    /// One that waits for so long; `None` if nobody says.
    fn waiting(patience: Option<Duration>) -> Self {
        // A short one is fed as often as it takes.
        let every = patience.map_or(FED_EVERY, |patience| FED_EVERY.min(patience / 4));
        Self { every, fed_at: None }
    }

    /// Feeds it, if that is due. Only whole cycles do.
    pub fn feed(&mut self, now: Duration) {
        if self.is_due(now) {
            // Fails without a service manager, which is fine.
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
    }

    fn is_due(&mut self, now: Duration) -> bool {
        let due = self.fed_at.is_none_or(|at| now.saturating_sub(at) >= self.every);
        if due {
            self.fed_at = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed_at_ms(patience: Option<Duration>, window_ms: u64) -> Vec<u64> {
        let mut watchdog = Watchdog::waiting(patience);
        let windows = (0..3000 / window_ms).map(|window| window * window_ms);
        windows.filter(|at| watchdog.is_due(Duration::from_millis(*at))).collect()
    }

    /// It was fed in every window, which with windows of 50 ms cost more than the windows did.
    #[test]
    fn it_is_fed_once_a_second_and_more_often_where_it_is_short_of_patience() {
        let patient = Some(Duration::from_secs(20));
        assert_eq!(fed_at_ms(patient, 50), [0, 1000, 2000]);
        assert_eq!(fed_at_ms(None, 500), [0, 1000, 2000]);
        assert_eq!(fed_at_ms(patient, 1500), [0, 1500], "in every longer window");
        assert_eq!(fed_at_ms(Some(Duration::from_secs(2)), 500).len(), 6);
    }
}
