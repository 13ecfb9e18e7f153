//! Work that no client waits for, done in slices that the volume's driver hands out.

use crate::compression::BLOCK_SECTORS;
use crate::segments::Segments;
use crate::volume::Volume;

/// A class of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Garbage collection: frees segments.
    Collect,
    /// The checkpoint: bounds the time that a recovery takes, and lets emptied segments be used.
    Checkpoint,
    /// The scrub: finds damage while it can be repaired.
    Scrub,
    /// The rebuild: fills a device that was lost or replaced.
    Rebuild,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Collect, Self::Checkpoint, Self::Scrub, Self::Rebuild];

    /// Its name, in metrics and configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collect => "collect",
            Self::Checkpoint => "checkpoint",
            Self::Scrub => "scrub",
            Self::Rebuild => "rebuild",
        }
    }
}

/// What there is to do of a class.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Backlog {
    /// Blocks that have to be read or written.
    pub blocks: u64,
    /// How pressing it is: from 0, may wait, to 1, clients wait for it.
    pub urgency: f64,
}

/// Blocks of log after which a checkpoint is due: 256 MiB.
const REPLAY_BLOCKS: u64 = 65_536;

impl Volume {
    /// Does one slice of a class: at most one thing is asked of the devices, or one chunk of some
    /// 128 blocks is worked through. Whether there was something to do; what waits for a device
    /// has nothing to do.
    pub fn background(&mut self, class: Class) -> bool {
        match class {
            Class::Collect => self.collect_slice(),
            Class::Checkpoint => {
                self.close_slice();
                let backlog = self.backlog(class);
                if !self.checkpoint.is_busy() && backlog.blocks > 0 {
                    self.begin_checkpoint();
                }
                self.checkpoint_slice()
            }
            Class::Scrub => self.scrub_slice(),
            Class::Rebuild => self.rebuild_slice(),
        }
    }

    /// What there is to do of a class.
    #[must_use]
    pub fn backlog(&self, class: Class) -> Backlog {
        match class {
            Class::Collect => self.collect_backlog(),
            Class::Checkpoint => self.checkpoint_backlog(),
            Class::Scrub => {
                let left = self.scrub_progress().map_or(0.0, |done| 1.0 - done);
                let blocks = (left * self.stored_blocks()) as u64 + self.scrub_visit_blocks();
                Backlog { blocks, urgency: 0.0 }
            }
            Class::Rebuild => {
                let left = self.rebuild_progress().map_or(0.0, |done| 1.0 - done);
                let blocks = (left * self.stored_blocks()) as u64;
                // With one copy left, the next failure loses everything.
                let is_on = self.rebuild.is_some();
                Backlog {
                    blocks: blocks + u64::from(is_on),
                    urgency: f64::from(u8::from(is_on)) / 2.0,
                }
            }
        }
    }

    /// Blocks of devices that hold live data.
    fn stored_blocks(&self) -> f64 {
        self.segments.live_sectors() as f64 / f64::from(BLOCK_SECTORS)
    }

    /// How full the segments in use are, on average.
    pub(crate) fn live_share(&self) -> f64 {
        let used = f64::from(self.geometry.segments - self.segments.free()).max(1.0);
        self.stored_blocks() / used / f64::from(self.geometry.segment_blocks)
    }

    /// Free segments below which collecting begins, and below which clients soon wait. Few: what is
    /// kept free is missing where dead blocks could gather, and makes each collection dearer.
    fn free_limits(&self) -> (f64, f64) {
        let needed = f64::from(self.needed_segments());
        let floor = f64::from(Segments::held()) + 2.0 + needed;
        // What is emptied while a checkpoint goes on waits for the next one.
        let spare = (f64::from(self.geometry.segments) / 64.0).clamp(3.0, 16.0).max(needed);
        (floor + spare, floor)
    }

    /// How scarce free segments are: 0 enough, 1 clients wait or soon will.
    fn scarcity(&self, free: u32) -> f64 {
        let (comfort, floor) = self.free_limits();
        ((comfort - f64::from(free)) / (comfort - floor)).clamp(0.0, 1.0)
    }

    pub(crate) fn is_collection_wanted(&self) -> bool {
        self.scarcity(self.segments.free() + self.segments.empty()) > 0.0
    }

    /// Whether moved blocks are worth a record of their own even if they are few: when clients
    /// wait for space, or nothing more is collected.
    pub(crate) fn wants_all_moves(&self) -> bool {
        !self.log.moving.is_empty()
            && (self.log.is_starved || self.checkpoint.is_closing() || !self.collector.is_busy())
    }

    fn collect_backlog(&self) -> Backlog {
        let scarcity = self.scarcity(self.segments.free() + self.segments.empty());
        if scarcity == 0.0 && !self.collector.is_busy() {
            return Backlog::default();
        }
        // How full the next ones are is not known without looking at all: they are about as full
        // as the mean.
        let live = (self.live_share() * f64::from(self.geometry.segment_blocks)) as u64;
        let (comfort, _) = self.free_limits();
        let segments = (comfort - f64::from(self.segments.free())).max(1.0) as u64;
        let blocks = (live * segments).max(u64::from(self.collector.is_busy()));
        Backlog { blocks, urgency: scarcity }
    }

    fn checkpoint_backlog(&self) -> Backlog {
        // One that is under way shortens no recovery before it is durable.
        let is_under_way = self.checkpoint.is_under_way();
        let blocks = if is_under_way { self.replay_blocks() } else { self.unsaved_blocks() };
        let replay = blocks as f64 / REPLAY_BLOCKS as f64;
        let empty = self.segments.empty();
        let scarcity = if empty > 0 { self.scarcity(self.segments.free()) } else { 0.0 };
        let is_due = replay >= 1.0
            || scarcity > 0.0
            || self.checkpoint.is_busy()
            || self.checkpoint.is_closing();
        let pages = self.map.dirty_pages(1 - self.checkpoint.area()) + 2;
        let closing = if self.checkpoint.is_closing() { 1.0 } else { 0.0 };
        Backlog {
            blocks: if is_due { pages } else { 0 },
            urgency: scarcity.max(replay - 1.0).max(closing).clamp(0.0, 1.0),
        }
    }
}
