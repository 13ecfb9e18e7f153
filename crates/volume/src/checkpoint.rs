//! The checkpoint: the map on the devices, and a superblock that points to it.
//!
//! The map is written page by page while requests continue, into the area that the current
//! superblock does not point to; pages that are already up to date there are skipped. A page may
//! therefore contain effects of records after `replay_from`, the place in the log at which the
//! checkpoint began. Replaying these again leads to the same map, provided that the log is durable
//! up to `replay_until`, which the flush before the superblock ensures:
//!
//! 1. remember where the log stands (`replay_from`), and which segments are empty;
//! 2. write pages until none is left; remember where the log stands (`replay_until`);
//! 3. flush; write the first copies of the superblock; flush;
//! 4. the segments of step 1, and the area of the superblock before, are free; write the second
//!    copies.
//!
//! The next superblock begins with a flush, so that one copy of each slot is always durable (see
//! `format/superblock.rs`), though a checkpoint waits for two flushes only. The last one of a volume
//! that is closed is followed by another one.

use crate::devices::Part;
use crate::format::{DeviceRole, Position, Superblock, encode_page};
use crate::geometry::Geometry;
use crate::volume::{Purpose, Volume, Waiting};
use std::io;
use wattio_pages::Pages;

/// Pages that are written at once, and as how many writes.
const PAGES_AT_ONCE: u64 = 32;
const WRITES_AT_ONCE: u32 = 2;

#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// The area that the durable superblock points to.
    area: usize,
    under_way: Option<UnderWay>,
    superblock: Option<Writing>,
    /// Whether a device was lost, or filled, and the durable superblock does not say so.
    pub(crate) roles_changed: bool,
    pub(crate) closing: Closing,
    /// Blocks of the log when the last checkpoint began, and when the durable one did.
    log_blocks: u64,
    durable_log_blocks: u64,
}

/// How far closing the volume has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    No,
    Wanted,
    Closed,
}

#[derive(Debug)]
struct UnderWay {
    replay_from: u64,
    positions: [Position; 2],
    next_page: u64,
    writes: u32,
    /// Whether its superblock is being written: what changes now is the next checkpoint's.
    is_complete: bool,
}

/// A superblock that is being written.
#[derive(Debug)]
struct Writing {
    superblock: Superblock,
    is_checkpoint: bool,
    /// Devices that it is written to.
    devices: Vec<u8>,
    /// Writes of copies that have not ended.
    copies: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    FlushBefore,
    FirstCopies,
    FlushAfter,
    SecondCopies,
    FlushLast,
}

impl Checkpoint {
    pub(crate) const fn new(area: usize) -> Self {
        Self {
            area,
            under_way: None,
            superblock: None,
            roles_changed: false,
            closing: Closing::No,
            log_blocks: 0,
            durable_log_blocks: 0,
        }
    }

    /// The area that the durable superblock points to.
    pub(crate) const fn area(&self) -> usize {
        self.area
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing == Closing::Wanted
    }

    pub(crate) const fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(crate) const fn is_busy(&self) -> bool {
        self.under_way.is_some() || self.superblock.is_some()
    }

    /// A device is replaced: what is left of a superblock that is being written does not go to the new
    /// one, for which it does not speak.
    pub(crate) fn replaced(&mut self, device: u8) {
        if let Some(writing) = &mut self.superblock {
            writing.devices.retain(|&other| other != device);
        }
    }

    /// How far it is, for people.
    pub(crate) fn stage(&self) -> Option<&'static str> {
        Some(match self.superblock.as_ref().map(|writing| writing.stage) {
            Some(Stage::FlushBefore) => "flushing the map",
            Some(Stage::FirstCopies | Stage::SecondCopies) => "writing the superblock",
            Some(Stage::FlushAfter | Stage::FlushLast) => "flushing the superblock",
            None => self.under_way.as_ref().map(|_| "writing the map")?,
        })
    }
}

impl Volume {
    /// Begins a checkpoint, unless one is under way.
    pub fn begin_checkpoint(&mut self) {
        if self.checkpoint.under_way.is_some() || self.failed.is_some() {
            return;
        }
        self.segments.begin_checkpoint();
        self.checkpoint_begins();
        self.checkpoint.log_blocks = self.log_blocks();
        self.checkpoint.under_way = Some(UnderWay {
            replay_from: self.log.applied(),
            positions: self.log.positions(),
            next_page: 0,
            writes: 0,
            is_complete: false,
        });
    }

    /// Blocks of the log that a recovery would have to read: those since the durable checkpoint began.
    #[must_use]
    pub fn replay_blocks(&self) -> u64 {
        self.log_blocks() - self.checkpoint.durable_log_blocks
    }

    /// Blocks of the log since the last checkpoint began.
    pub(crate) fn unsaved_blocks(&self) -> u64 {
        self.log_blocks() - self.checkpoint.log_blocks
    }

    fn log_blocks(&self) -> u64 {
        self.log.written_blocks.iter().sum()
    }

    /// Goes on with the checkpoint under way by one slice; whether there was something to do.
    pub(crate) fn checkpoint_slice(&mut self) -> bool {
        let area = 1 - self.checkpoint.area;
        let Some(under_way) = &mut self.checkpoint.under_way else { return false };
        if under_way.writes >= WRITES_AT_ONCE || under_way.is_complete || self.failed.is_some() {
            return false;
        }
        let Some(first) = self.map.next_dirty(area, under_way.next_page) else {
            return self.end_pages();
        };
        let mut end = first + 1;
        while end < first + PAGES_AT_ONCE && self.map.next_dirty(area, end) == Some(end) {
            end += 1;
        }
        let mut pages = Pages::zeroed((end - first) as usize);
        for (at, page) in (first..end).enumerate() {
            let entries = self.map.take_dirty(area, page);
            encode_page(pages.block_mut(at), self.superblock.volume, page, entries);
        }
        under_way.next_page = end;
        under_way.writes += 1;
        self.counters.checkpoint_blocks += end - first;
        let offset = self.geometry.page_offset(area, first);
        self.devices.write(Purpose::Page, offset, &[Part::whole(pages)]);
        true
    }

    /// All pages are given to the devices: once they are written, the superblock follows.
    fn end_pages(&mut self) -> bool {
        let Some(under_way) = &mut self.checkpoint.under_way else { return false };
        if under_way.writes > 0 || self.checkpoint.superblock.is_some() {
            return false;
        }
        under_way.is_complete = true;
        let is_clean = self.checkpoint.closing == Closing::Wanted
            && self.log.is_idle()
            && under_way.replay_from == self.log.applied();
        let superblock = Superblock {
            area: 1 - self.checkpoint.area,
            replay_from: under_way.replay_from,
            replay_until: self.log.applied(),
            positions: under_way.positions,
            is_clean,
            ..self.superblock.clone()
        };
        self.begin_superblock(superblock, true);
        true
    }

    pub(crate) fn page_written(&mut self, result: io::Result<()>) {
        if let Some(under_way) = &mut self.checkpoint.under_way {
            under_way.writes -= 1;
        }
        if let Err(error) = result {
            self.fail(format!("a page of the map could not be written: {error}"));
        }
    }

    /// A device was lost or filled: the superblock is written again as it is, to say so.
    pub(crate) fn write_superblock_if_needed(&mut self) {
        let checkpoint = &self.checkpoint;
        if checkpoint.roles_changed && checkpoint.superblock.is_none() && self.failed.is_none() {
            self.begin_superblock(self.superblock.clone(), false);
        }
    }

    fn begin_superblock(&mut self, superblock: Superblock, is_checkpoint: bool) {
        let stage = Stage::FlushBefore;
        let devices = Vec::new();
        self.checkpoint.superblock =
            Some(Writing { superblock, is_checkpoint, devices, copies: 0, stage });
        self.flush(Waiting::Superblock);
    }

    /// A flush that a superblock waited for is done.
    pub(crate) fn superblock_flushed(&mut self) {
        match self.checkpoint.superblock.as_ref().map(|writing| writing.stage) {
            Some(Stage::FlushBefore) => self.begin_copies(),
            Some(Stage::FlushAfter) => self.superblock_durable(),
            Some(Stage::FlushLast) => {
                self.checkpoint.superblock = None;
                self.write_superblock_if_needed();
                if self.checkpoint.superblock.is_none() {
                    self.checkpoint.closing = Closing::Closed;
                }
            }
            _ => {}
        }
    }

    fn begin_copies(&mut self) {
        let roles = self.roles_to_write();
        let Some(writing) = &mut self.checkpoint.superblock else { return };
        writing.superblock.number = self.superblock.number + 1;
        writing.devices = (0..roles.len() as u8).collect();
        writing.superblock.roles = roles;
        self.write_copies(0);
    }

    /// Writes the first copies, or the second ones.
    fn write_copies(&mut self, copy: usize) {
        let Some(writing) = &mut self.checkpoint.superblock else { return };
        writing.stage = if copy == 0 { Stage::FirstCopies } else { Stage::SecondCopies };
        let roles = self.devices.roles();
        writing.devices.retain(|&device| roles[usize::from(device)] != DeviceRole::Out);
        for &device in &writing.devices {
            let mut page = Pages::zeroed(1);
            Superblock { device, ..writing.superblock.clone() }.encode(page.block_mut(0));
            let part = Part::whole(page);
            for offset in Geometry::superblock_copies(copy) {
                writing.copies += 1;
                self.devices.write_to(Purpose::Superblock, device, offset, vec![part.clone()]);
            }
        }
    }

    pub(crate) fn superblock_written(&mut self, result: io::Result<()>) {
        if let Err(error) = result
            && self.devices.is_lost()
        {
            return self.fail(format!("a superblock could not be written: {error}"));
        }
        let Some(writing) = &mut self.checkpoint.superblock else { return };
        writing.copies -= 1;
        if writing.copies > 0 {
            return;
        }
        let is_last = writing.superblock.is_clean && self.log.is_idle();
        writing.stage = match writing.stage {
            Stage::FirstCopies => Stage::FlushAfter,
            _ if is_last => Stage::FlushLast,
            _ => {
                self.checkpoint.superblock = None;
                return self.write_superblock_if_needed();
            }
        };
        self.flush(Waiting::Superblock);
    }

    fn superblock_durable(&mut self) {
        let Some(writing) = &self.checkpoint.superblock else { return };
        let (superblock, is_checkpoint) = (writing.superblock.clone(), writing.is_checkpoint);
        self.roles_durable(&superblock.roles);
        self.superblock = superblock;
        self.answer_flushes();
        if self.superblock.roles == self.roles_to_write() {
            self.checkpoint.roles_changed = false;
        }
        if is_checkpoint {
            self.checkpoint.area = self.superblock.area;
            self.checkpoint.under_way = None;
            self.checkpoint.durable_log_blocks = self.checkpoint.log_blocks;
            self.counters.checkpoints += 1;
            self.segments.end_checkpoint();
            self.checkpoint_ends();
        }
        self.write_copies(1);
    }

    /// Begins to close the volume: what was submitted is finished, then a checkpoint says that the
    /// log holds nothing beyond it. Drive it until [`Self::is_closed`]; submit nothing more.
    pub fn close(&mut self) {
        self.checkpoint.closing = Closing::Wanted;
        self.hurry();
        self.commit();
        self.close_slice();
    }

    /// Whether nothing is left to do, or nothing can be done because the devices failed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.checkpoint.closing == Closing::Closed
            || (self.failed.is_some() && !self.devices.is_busy())
    }

    /// Goes on with closing.
    pub(crate) fn close_slice(&mut self) {
        let writing = self.checkpoint.superblock.as_ref();
        let is_last = writing.is_some_and(|writing| writing.superblock.is_clean);
        if self.checkpoint.closing == Closing::Wanted && self.log.is_idle() && !is_last {
            self.begin_checkpoint();
        }
    }
}
