//! The view of a volume while it serves.

use crate::compression::{Compression, SECTOR};
use crate::counters::Counters;
use crate::entry::Entry;
use crate::format::DeviceRole;
use crate::geometry::Geometry;
use crate::request::Piece;
use crate::volume::{Purpose, Volume};
use std::time::Duration;
use wattio_pages::{BLOCK, Pages};

impl Volume {
    /// The volume's sizes.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes that clients see.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.geometry.blocks * BLOCK as u64
    }

    /// What its devices are.
    #[must_use]
    pub fn roles(&self) -> &[DeviceRole] {
        self.devices.roles()
    }

    /// Why nothing can be written any more, if so.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Blocks that are kept in memory because they may be read again.
    #[must_use]
    pub fn cached_blocks(&self) -> u64 {
        self.cache.read_blocks() as u64
    }

    /// Blocks that clients wrote and the log does not hold yet, each as often as it was written.
    #[must_use]
    pub const fn buffered_blocks(&self) -> u64 {
        self.buffered
    }

    /// Blocks with data.
    #[must_use]
    pub const fn live_blocks(&self) -> u64 {
        self.segments.live_blocks()
    }

    /// Bytes that their data takes on a device: fewer where it is compressed.
    #[must_use]
    pub const fn stored_bytes(&self) -> u64 {
        self.segments.live_sectors() * SECTOR as u64
    }

    /// Whether its data is compressed.
    #[must_use]
    pub const fn compression(&self) -> Compression {
        self.superblock.compression
    }

    /// Segments that can be written to, of all.
    #[must_use]
    pub fn free_segments(&self) -> u32 {
        self.segments.free()
    }

    /// Segments that the next checkpoint makes free.
    #[must_use]
    pub const fn empty_segments(&self) -> u32 {
        self.segments.empty()
    }

    /// Records that have been given to the devices and have not taken effect.
    #[must_use]
    pub fn records_under_way(&self) -> usize {
        self.log.flights()
    }

    /// How long clients have been waiting for a free segment; `None`: they do not.
    #[must_use]
    pub fn starved(&self) -> Option<Duration> {
        self.pace.starved()
    }

    /// What the devices have been at for longest, or have not been given yet: what it is for, and for
    /// how long.
    #[must_use]
    pub fn oldest_operation(&self) -> Option<(&'static str, Duration)> {
        let (purpose, since) = self.devices.oldest()?;
        Some((purpose.name(), self.pace.now() - since))
    }

    /// How far the checkpoint is that is under way.
    #[must_use]
    pub fn checkpoint_stage(&self) -> Option<&'static str> {
        self.checkpoint.stage()
    }

    /// How long the last checkpoint took, until it was durable.
    #[must_use]
    pub const fn last_checkpoint(&self) -> Option<Duration> {
        self.pace.last_checkpoint()
    }

    /// Counts since it was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let [header_blocks, client_data_blocks, moved_blocks] = self.log.written_blocks;
        Counters {
            header_blocks,
            client_blocks: self.log.client_blocks,
            stored_bytes: self.log.client_sectors * SECTOR as u64,
            client_data_blocks,
            moved_blocks,
            cache_hit_blocks: self.cache.hits,
            cache_miss_blocks: self.cache.misses,
            ..self.counters
        }
    }

    /// How blocks `lba..lba + blocks` are allocated: runs of blocks, and whether each run is a
    /// hole and whether it reads as zeros. At most `runs_max` runs; they may end early.
    #[must_use]
    pub fn allocation(&self, lba: u64, blocks: u64, runs_max: usize) -> Vec<(u64, bool, bool)> {
        let end = lba.saturating_add(blocks).min(self.geometry.blocks);
        let mut runs: Vec<(u64, bool, bool)> = Vec::new();
        let mut written = self.cache.written_in(lba..end).into_iter().peekable();
        let mut at = lba;
        while at < end {
            let is_written = written.next_if_eq(&at).is_some();
            let until = written.peek().map_or(end, |&next| next.min(end));
            let skipped = self.map.skip_empty(at).min(until);
            let (next, entry) = if skipped > at && !is_written {
                (skipped, Entry::HOLE)
            } else {
                (at + 1, self.map.get(at))
            };
            let is_hole = !is_written && entry == Entry::HOLE;
            let is_zero = !is_written && matches!(entry, Entry::HOLE | Entry::ZEROS);
            let kind = (is_hole, is_zero);
            let is_full = runs.len() == runs_max;
            match runs.last_mut() {
                Some(last) if (last.1, last.2) == kind => last.0 += next - at,
                _ if is_full => break,
                _ => runs.push((next - at, kind.0, kind.1)),
            }
            at = next;
        }
        runs
    }

    /// Takes memory of an answer back, to be used again.
    pub fn recycle(&mut self, piece: Piece) {
        if let Piece::Data(part) = piece
            && let Some(pages) = std::sync::Arc::into_inner(part.pages)
        {
            self.recycler.give(pages);
        }
    }

    /// Takes back what was written from, if it is memory of this volume; else it comes back.
    pub fn take_back(&mut self, pages: Pages) -> Option<Pages> {
        self.collector.take_back(pages)
    }
}

impl Purpose {
    /// Its name, for people.
    const fn name(&self) -> &'static str {
        match self {
            Self::Record(_) => "write of a record",
            Self::Read { .. } => "read",
            Self::Repair { .. } => "repair",
            Self::Flush => "flush",
            Self::Page => "write of the map",
            Self::Superblock => "write of a superblock",
            Self::Collect => "read to collect",
            Self::Scrub => "read to scrub",
            Self::Rebuild => "read to rebuild",
            Self::Copy => "write to rebuild",
        }
    }
}
