//! How much fits into a record: its header, and the blocks after it.

use super::record::{CHECKSUM, EXTENT, ExtentKind, FIXED, ORIGIN};
use crate::compression::{BLOCK_SECTORS, SECTOR};
use wattio_pages::BLOCK;

/// How full a record is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    /// Bytes of the header, but for the checksums of blocks that fragments lie in.
    bytes: usize,
    /// Sectors of fragments.
    sectors: u32,
    /// Blocks that are stored as they are.
    plain: u32,
    /// Blocks that may follow the header.
    room: u32,
    /// Whether there may be fragments.
    packs: bool,
}

impl Filling {
    /// Of an empty record that at most `room` blocks of data may follow.
    pub(crate) const fn new(room: u32, packs: bool) -> Self {
        Self { bytes: FIXED, sectors: 0, plain: 0, room, packs }
    }

    /// The sector at which fragments begin, and how many blocks behind the header they lie in.
    pub(crate) const fn fragments(&self) -> (u32, u32) {
        let mut blocks = 0;
        if self.sectors == 0 {
            return (0, 0);
        }
        loop {
            let from = (self.bytes + CHECKSUM * blocks as usize).div_ceil(SECTOR) as u32;
            let needed = (from + self.sectors).div_ceil(BLOCK_SECTORS) - 1;
            if needed == blocks {
                return (from, blocks);
            }
            // More blocks have more checksums, never fewer.
            blocks = needed;
        }
    }

    const fn fits(&self) -> bool {
        let (_, blocks) = self.fragments();
        self.bytes + CHECKSUM * blocks as usize <= BLOCK && blocks + self.plain <= self.room
    }

    /// Adds an extent of as many of `blocks` as fit, and returns how many that are; `sectors` says what
    /// each takes.
    pub(crate) fn add(
        &mut self,
        kind: ExtentKind,
        blocks: u32,
        sectors: impl Fn(u32) -> u32,
    ) -> u32 {
        let mut after = Self { bytes: self.bytes + EXTENT, ..*self };
        if !kind.has_data() && !kind.has_origin() {
            let taken = if after.fits() { blocks } else { 0 };
            self.bytes = if taken > 0 { after.bytes } else { self.bytes };
            return taken;
        }
        for at in 0..blocks {
            after.bytes += ORIGIN * usize::from(kind.has_origin());
            if kind.has_data() {
                // The checksum of a block, or the check of a fragment.
                after.bytes += CHECKSUM + usize::from(self.packs);
                match sectors(at) {
                    BLOCK_SECTORS => after.plain += 1,
                    sectors => after.sectors += sectors,
                }
            }
            if !after.fits() {
                return at;
            }
            *self = after;
        }
        blocks
    }
}
