//! The progress line on a terminal.

use crate::daemon::Daemon;
use crate::log::{printable_line, tell, tells_details};
use std::time::Duration;
use wattio_governor::Clock;
use wattio_host::clock::HostClock;

/// The line; with details in the log there is none.
pub struct Progress {
    wanted: bool,
    shown_at: Option<Duration>,
}

impl Progress {
    /// None has been shown.
    #[must_use]
    pub fn new(wanted: bool) -> Self {
        Self { wanted: wanted && !tells_details(), shown_at: None }
    }

    /// Shows it, at most once a second.
    pub fn show(&mut self, daemon: &Daemon, clock: &HostClock, until: Option<Duration>) {
        let now = clock.now();
        let due = self.shown_at.is_none_or(|at| now.saturating_sub(at) >= Duration::from_secs(1));
        if !self.wanted || !due {
            return;
        }
        self.shown_at = Some(now);
        let left = until.map(|until| format!(", {} s left", until.saturating_sub(now).as_secs()));
        let line = printable_line(&crate::status_text::one_line(&daemon.status(clock)));
        tell(&format!("\r\x1b[K{line}{}", left.unwrap_or_default()));
    }

    /// Makes place for a line of the log.
    pub fn clear(&self) {
        if self.shown_at.is_some() {
            tell("\r\x1b[K");
        }
    }
}
