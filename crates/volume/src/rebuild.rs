//! Rebuild: copies all live data to a device that was left out, or to a new one in its place.
//!
//! From the moment it begins, new writes go to the new device too. Older data is copied segment by
//! segment; each segment is pinned meanwhile so that it is not reused. Then a checkpoint writes the
//! whole map, and finally a superblock marks the device as in sync. Until that superblock is
//! durable the device does not count: a crash would lose what only it holds. Blocks that cannot be
//! read are left as they are, for the scrub to repair or report; but if nothing can be read, the
//! device is left out again.

use crate::devices::Part;
use crate::entry::Place;
use crate::format::DeviceRole;
use crate::segments::Use;
use crate::volume::{Purpose, Volume};
use std::io;
use wattio_pages::Pages;

/// Blocks that are copied at once.
const CHUNK_BLOCKS: u32 = 64;
/// So many blocks in a row that cannot be read are not damaged, each by itself: what they are read
/// from fails, and may have them when it works again.
const UNREADABLE_MAX: u32 = CHUNK_BLOCKS;

#[derive(Debug)]
pub(crate) struct Rebuild {
    device: u8,
    stage: Stage,
    /// What the streams had written of their segments when it began: the rest reaches the device by
    /// itself, and so does all of every segment that is opened later.
    written: Vec<(u32, u32)>,
    next_generation: u64,
    /// What is being copied, if anything.
    under_way: Option<Copying>,
    /// A read that has ended: what it read.
    arrived: Option<io::Result<Pages>>,
    /// Blocks before this place are read one by one, for they could not be read at once.
    singles_until: Place,
    /// Blocks that could not be read since one could.
    unreadable: u32,
    /// Whether any block could be read, and the segments with blocks that could not.
    has_read: bool,
    skipped: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Records from before it began are still under way: they do not go to the new device.
    Settling { until: u64 },
    /// The next block to be copied.
    Copying(Place),
    /// A checkpoint writes the map; this many had been completed before.
    Map { checkpoints: u64, has_begun: bool },
    /// A superblock says that the device counts.
    Superblock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copying {
    Reading(Place, u32),
    Writing(Place, u32),
}

impl Volume {
    /// Begins to fill a device that does not count, from those that do. The device may hold
    /// anything. Returns whether it begins: not if the device counts, another one is being filled,
    /// or there is none to copy from.
    pub fn begin_rebuild(&mut self, device: u8) -> bool {
        let is_out = self.roles().get(usize::from(device)) == Some(&DeviceRole::Out);
        if !is_out || self.rebuild.is_some() || self.failed.is_some() {
            return false;
        }
        self.rebuild_failure = None;
        self.devices.set_role(device, DeviceRole::Rebuilding);
        let until = self.log.next_sequence();
        let stage = Stage::Settling { until };
        self.rebuild = Some(Rebuild {
            device,
            stage,
            written: self.log.written(),
            next_generation: self.segments.next_generation(),
            under_way: None,
            arrived: None,
            singles_until: Place::new(0, 0),
            unreadable: 0,
            has_read: false,
            skipped: Vec::new(),
        });
        self.map.forget_areas();
        self.checkpoint.replaced(device);
        self.checkpoint.roles_changed = true;
        self.write_superblock_if_needed();
        true
    }

    /// The share of the rebuild under way that is done; `None` if none is.
    #[must_use]
    pub fn rebuild_progress(&self) -> Option<f64> {
        let rebuild = self.rebuild.as_ref()?;
        Some(match rebuild.stage {
            Stage::Settling { .. } => 0.0,
            Stage::Copying(place) => f64::from(place.segment) / f64::from(self.geometry.segments),
            Stage::Map { .. } | Stage::Superblock => 1.0,
        })
    }

    /// Why the last rebuild was given up; `None` if none was, or one has begun since.
    #[must_use]
    pub fn rebuild_failure(&self) -> Option<&str> {
        self.rebuild_failure
    }

    /// Goes on with the rebuild by one slice; whether there was something to do.
    pub(crate) fn rebuild_slice(&mut self) -> bool {
        let Some(rebuild) = &mut self.rebuild else { return false };
        let device = rebuild.device;
        if self.devices.roles()[usize::from(device)] == DeviceRole::Out || self.failed.is_some() {
            return self.abandon_rebuild();
        }
        if let Some(pages) = rebuild.arrived.take() {
            return self.copy_read(pages);
        }
        if rebuild.under_way.is_some() {
            return false;
        }
        match rebuild.stage {
            Stage::Settling { until } if self.log.applied() >= until => {
                rebuild.stage = Stage::Copying(Place::new(0, 0));
                true
            }
            Stage::Settling { .. } => false,
            Stage::Copying(place) => self.copy_next(place),
            Stage::Map { checkpoints, has_begun } => self.finish_map(checkpoints, has_begun),
            Stage::Superblock => false,
        }
    }

    fn copy_next(&mut self, place: Place) -> bool {
        let Some(rebuild) = &mut self.rebuild else { return false };
        if place.segment == self.geometry.segments {
            if !rebuild.has_read && !rebuild.skipped.is_empty() {
                return self.give_up_rebuild();
            }
            // The checkpoint under way, if any, began when the device had no map at all.
            let checkpoints = self.counters.checkpoints;
            rebuild.stage = Stage::Map { checkpoints, has_begun: false };
            return true;
        }
        let segment = self.segments.get(place.segment);
        let is_new = segment.generation >= rebuild.next_generation;
        let is_used = !matches!(segment.purpose, Use::Free | Use::Dead);
        let open = rebuild.written.iter().find(|(segment, _)| *segment == place.segment);
        let end = open.map_or(self.geometry.segment_blocks, |&(_, written)| written);
        let singles = rebuild.singles_until;
        let is_single = place.segment == singles.segment && place.block < singles.block;
        let most = if is_single { 1 } else { CHUNK_BLOCKS };
        let blocks = most.min(end.saturating_sub(place.block));
        if blocks == 0 || is_new || !is_used {
            rebuild.stage = Stage::Copying(Place::new(place.segment + 1, 0));
            return true;
        }
        rebuild.under_way = Some(Copying::Reading(place, blocks));
        let offset = self.geometry.block_offset(place.segment, place.block);
        let pages = Pages::zeroed(blocks as usize);
        if self.devices.read(Purpose::Rebuild, offset, pages, 0).is_ok() {
            self.segments.pin(place.segment);
        } else {
            rebuild.under_way = None;
        }
        true
    }

    pub(crate) fn rebuild_read(&mut self, pages: io::Result<Pages>) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.arrived = Some(pages);
        }
    }

    fn copy_read(&mut self, pages: io::Result<Pages>) -> bool {
        let Some(rebuild) = &mut self.rebuild else { return false };
        let Some(Copying::Reading(place, blocks)) = rebuild.under_way else { return false };
        let offset = self.geometry.block_offset(place.segment, place.block);
        match pages {
            Ok(pages) => {
                rebuild.under_way = Some(Copying::Writing(place, blocks));
                (rebuild.unreadable, rebuild.has_read) = (0, true);
                let parts = vec![Part::whole(pages)];
                self.devices.write_to(Purpose::Copy, rebuild.device, offset, parts);
            }
            Err(_) => {
                rebuild.under_way = None;
                self.segments.unpin(place.segment);
                return self.cannot_read(place, blocks);
            }
        }
        true
    }

    /// What cannot be read at once is read block by block. A block that cannot be read by itself is
    /// one that the new device does not get; what that holds in its place may be the block as it was
    /// when it last counted.
    fn cannot_read(&mut self, place: Place, blocks: u32) -> bool {
        let Some(rebuild) = &mut self.rebuild else { return false };
        if blocks > 1 {
            rebuild.singles_until = place.plus(blocks);
            return true;
        }
        rebuild.unreadable += 1;
        self.counters.damaged_blocks += 1;
        if rebuild.unreadable == UNREADABLE_MAX {
            return self.give_up_rebuild();
        }
        if rebuild.skipped.last() != Some(&place.segment) {
            rebuild.skipped.push(place.segment);
        }
        rebuild.stage = Stage::Copying(place.plus(1));
        true
    }

    /// What is to be copied cannot be read: the device does not count, as before.
    fn give_up_rebuild(&mut self) -> bool {
        let Some(rebuild) = self.rebuild.take() else { return false };
        self.rebuild_failure = Some("what it is copied from cannot be read");
        self.devices.set_role(rebuild.device, DeviceRole::Out);
        self.checkpoint.roles_changed = true;
        self.write_superblock_if_needed();
        true
    }

    pub(crate) fn copy_written(&mut self, _: io::Result<()>) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let Some(Copying::Writing(place, blocks)) = rebuild.under_way.take() else { return };
        rebuild.stage = Stage::Copying(place.plus(blocks));
        self.counters.rebuilt_blocks += u64::from(blocks);
        self.segments.unpin(place.segment);
    }

    fn finish_map(&mut self, before: u64, has_begun: bool) -> bool {
        let Some(rebuild) = &mut self.rebuild else { return false };
        if !has_begun {
            if self.checkpoint.is_busy() {
                return false;
            }
            let checkpoints = self.counters.checkpoints;
            rebuild.stage = Stage::Map { checkpoints, has_begun: true };
            self.begin_checkpoint();
            return true;
        }
        if self.counters.checkpoints == before {
            return self.checkpoint_slice();
        }
        rebuild.stage = Stage::Superblock;
        self.checkpoint.roles_changed = true;
        self.write_superblock_if_needed();
        true
    }

    /// The device that holds everything, as a superblock is to say.
    fn filled(&self) -> Option<u8> {
        let rebuild = self.rebuild.as_ref().filter(|rebuild| rebuild.stage == Stage::Superblock)?;
        let role = self.devices.roles()[usize::from(rebuild.device)];
        (role == DeviceRole::Rebuilding).then_some(rebuild.device)
    }

    /// The roles of devices as the next superblock is to have them.
    pub(crate) fn roles_to_write(&self) -> Vec<DeviceRole> {
        let mut roles = self.devices.roles().to_vec();
        if let Some(device) = self.filled() {
            roles[usize::from(device)] = DeviceRole::InSync;
        }
        roles
    }

    /// A superblock with these roles is durable: the device that was filled counts if it says so.
    pub(crate) fn roles_durable(&mut self, roles: &[DeviceRole]) {
        let Some(device) = self.filled() else { return };
        if roles[usize::from(device)] != DeviceRole::InSync {
            return;
        }
        self.devices.set_role(device, DeviceRole::InSync);
        let skipped = self.rebuild.take().map_or_else(Vec::new, |rebuild| rebuild.skipped);
        skipped.into_iter().for_each(|segment| self.scrub_soon(segment, 1 << device));
    }

    /// The device that was being filled failed, or everything did.
    fn abandon_rebuild(&mut self) -> bool {
        let is_waiting = self
            .rebuild
            .as_ref()
            .is_some_and(|rebuild| rebuild.under_way.is_some() && rebuild.arrived.is_none());
        if is_waiting {
            return false;
        }
        let rebuild = self.rebuild.take();
        if self.failed.is_none() {
            self.rebuild_failure = Some("it cannot be written");
        }
        if let Some(Copying::Reading(place, _)) = rebuild.and_then(|rebuild| rebuild.under_way) {
            self.segments.unpin(place.segment);
        }
        true
    }
}
