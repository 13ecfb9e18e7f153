//! How many segments are kept free: as many as are used while a checkpoint runs, because emptied
//! segments become free only when it ends. If a flush takes seconds, that is more than a few.

use crate::compression::BLOCK_SECTORS;
use crate::segments::Segments;
use crate::volume::Volume;
use std::time::Duration;

/// Checkpoints that take less need nothing kept free, and clients that wait for less are not counted.
const SHORT: Duration = Duration::from_secs(1);

/// What checkpoints take, and what clients use meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// What whoever drives the volume last said that the time is.
    now: Duration,
    began: Option<Began>,
    /// How long the last checkpoint took, until it was durable.
    last_checkpoint: Option<Duration>,
    /// Since when clients wait for a segment.
    starved_since: Option<Duration>,
    /// For how long they did so in the checkpoint under way, before that.
    starved: Duration,
    /// Segments that a checkpoint needs.
    needed: u32,
}

/// When the checkpoint under way began, and how many segments clients had been given before.
#[derive(Clone, Copy, Debug)]
struct Began {
    at: Duration,
    given_to_clients: u64,
}

impl Pace {
    pub(crate) const fn last_checkpoint(&self) -> Option<Duration> {
        self.last_checkpoint
    }

    /// How long clients have been waiting for a segment.
    pub(crate) fn starved(&self) -> Option<Duration> {
        self.starved_since.map(|since| self.now - since)
    }

    pub(crate) const fn now(&self) -> Duration {
        self.now
    }
}

impl Volume {
    /// Says what time it is, since whenever, as long as it is the same each time. Without it nothing
    /// is known of how long things take, and nothing is kept free for devices that are slow.
    pub fn set_time(&mut self, now: Duration) {
        self.pace.now = self.pace.now.max(now);
        self.devices.now = self.pace.now;
    }

    /// Clients may have come to wait for a segment, or have got one.
    pub(crate) fn note_starving(&mut self) {
        let is_starved = self.log.is_starved && self.failed.is_none();
        let pace = &mut self.pace;
        match (is_starved, pace.starved_since) {
            (true, None) => pace.starved_since = Some(pace.now),
            (false, Some(since)) => {
                let from = pace.began.map_or(since, |began| since.max(began.at));
                pace.starved += pace.now - from;
                pace.starved_since = None;
            }
            _ => {}
        }
    }

    pub(crate) fn checkpoint_begins(&mut self) {
        let given_to_clients = self.segments.given_to_clients();
        self.pace.began = Some(Began { at: self.pace.now, given_to_clients });
        self.pace.starved = Duration::ZERO;
    }

    pub(crate) fn checkpoint_ends(&mut self) {
        let (used, most) = (self.used_meanwhile(), self.needed_max());
        let pace = &mut self.pace;
        let Some(began) = pace.began.take() else { return };
        let took = pace.now - began.at;
        let waiting = pace.starved_since.map(|since| pace.now - since.max(began.at));
        let needed = if took < SHORT {
            0
        } else if pace.starved + waiting.unwrap_or_default() > SHORT {
            // They would have used more, nobody knows how much.
            2 * pace.needed.max(used).max(1)
        } else {
            used.max(pace.needed.saturating_sub(1))
        };
        pace.last_checkpoint = Some(took);
        pace.needed = needed.min(most);
    }

    /// Segments that are used while the checkpoint under way goes on: those that clients were given,
    /// and those that it takes to empty as many for them.
    fn used_meanwhile(&self) -> u32 {
        let Some(began) = self.pace.began else { return 0 };
        let clients = self.segments.given_to_clients() - began.given_to_clients;
        let gain = (1.0 - self.live_share()).max(0.05);
        (clients as f64 / gain).ceil() as u32
    }

    /// A quarter of what is not filled with live data: the rest is for dead blocks to gather in.
    fn needed_max(&self) -> u32 {
        let sectors = u64::from(self.geometry.segment_blocks) * u64::from(BLOCK_SECTORS);
        let live = self.segments.live_sectors().div_ceil(sectors) as u32;
        self.geometry.segments.saturating_sub(live + Segments::held() + 2) / 4
    }

    /// Segments that are used while a checkpoint goes on; none where that takes no time.
    pub(crate) fn needed_segments(&self) -> u32 {
        let pace = &self.pace;
        let is_slow = pace.began.is_some_and(|began| pace.now - began.at > SHORT);
        let used = if is_slow { self.used_meanwhile() } else { 0 };
        pace.needed.max(used.min(self.needed_max()))
    }
}
