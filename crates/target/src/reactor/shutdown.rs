//! How a reactor stops: it answers requests in flight, waits for the other reactors, and closes its
//! volumes.

use super::Reactor;
use std::time::{Duration, Instant};

/// How long requests under way may take when the target stops.
const STOP_MAX: Duration = Duration::from_secs(5);

/// How far stopping has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopping {
    No,
    /// Requests under way are answered, until then at the latest.
    Answering(Instant),
    /// Connections are closed; others may have some.
    Silent,
    /// Volumes are being closed.
    Closing,
}

impl Reactor {
    /// Goes on with stopping; whether nothing is left to do.
    pub(super) fn stop(&mut self, now: Instant) -> bool {
        match self.stopping {
            Stopping::No => {
                for (listener, _) in self.listeners.drain(..) {
                    self.ring.close(listener);
                }
                self.normal.stop();
                self.stopping = Stopping::Answering(now + STOP_MAX);
                self.normal.turn(&mut self.ring, &mut self.memory);
            }
            Stopping::Answering(until) => {
                if now >= until {
                    self.normal.abort(&mut self.ring);
                    self.normal.turn(&mut self.ring, &mut self.memory);
                }
            }
            Stopping::Silent if self.shared.all_silent() => {
                self.volumes.lanes().for_each(|(_, lane)| lane.close());
                self.stopping = Stopping::Closing;
            }
            Stopping::Silent => {}
            Stopping::Closing => return self.has_closed(),
        }
        let is_silent = self.normal.connections() == 0 && !self.volumes.is_any_leaving();
        if matches!(self.stopping, Stopping::Answering(_)) && is_silent {
            self.stopping = Stopping::Silent;
            self.shared.silent();
            return self.stop(now);
        }
        false
    }

    /// Whether all volumes are closed, as far as they can be; those that cannot are noted.
    fn has_closed(&mut self) -> bool {
        if !self.volumes.lanes().all(|(_, lane)| lane.is_closed()) {
            return false;
        }
        for (name, lane) in self.volumes.named_lanes() {
            if let Some(why) = lane.volume().failure() {
                self.shared.not_closed(name, why);
            }
        }
        true
    }
}
