//! The layout of a device.

use wattio_pages::BLOCK;

/// Bytes of a block, as a count of bytes on a device.
pub const BLOCK_BYTES: u64 = BLOCK as u64;

/// Entries of the map in a page of a checkpoint: what a block holds beside the page's own head.
pub const PAGE_ENTRIES: u64 = (BLOCK_BYTES - 32) / 8;

/// Blocks of a segment where nothing else is asked for: 32 MiB.
pub const SEGMENT_BLOCKS: u32 = 8192;

/// The fewest that it may have: 64 KiB.
pub const SEGMENT_BLOCKS_MIN: u32 = 16;

/// Segments that a location can tell apart.
pub const SEGMENTS_MAX: u32 = 1 << 21;

/// Where the superblock lies, in bytes: two slots with two copies each, far apart.
const SUPERBLOCKS: [[u64; 2]; 2] = [[0, 2 << 20], [1 << 20, 3 << 20]];
/// Where the areas of the map begin.
const AREAS: u64 = 4 << 20;

/// Share of the segments that are neither a client's nor garbage collection's to fill: a divisor.
const RESERVE_DIVISOR: u32 = 32;
/// Segments that are held back at the least: two streams, their next ones, two to collect into
/// and two that wait for a checkpoint.
const RESERVE_MIN: u32 = 8;
/// How full the segments of a volume are when all its blocks are written, where nothing else is said:
/// the fuller, the dearer garbage collection (`examples/amplification.rs`).
const SHARE_FULL: (u64, u64) = (4, 5);
/// How many times as large a volume can become.
const GROWTH: u64 = 4;
/// Data blocks for each block of a record's header when garbage collection writes, at the least.
const DENSITY: u64 = 32;

/// The sizes of a volume; all else follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks that clients see.
    pub blocks: u64,
    /// Blocks that it can be resized to: what there is room for in the areas of the map.
    pub blocks_max: u64,
    /// Segments on each device.
    pub segments: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
}

impl Geometry {
    /// Whether a volume can have these sizes; if not, what is wrong with them.
    ///
    /// # Errors
    /// A sentence that names the size and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let Self { blocks, blocks_max, segments, segment_blocks } = *self;
        if blocks == 0 {
            return Err("a volume has at least one block of 4096 bytes".into());
        }
        if blocks_max > 1 << 40 {
            return Err(format!("{blocks_max} blocks are more than a volume may have (4 PiB)"));
        }
        if blocks > blocks_max {
            return Err(format!(
                "{blocks} blocks are more than its map has room for: {blocks_max}"
            ));
        }
        if !(SEGMENT_BLOCKS_MIN..=SEGMENT_BLOCKS).contains(&segment_blocks) {
            return Err(format!(
                "a segment has {SEGMENT_BLOCKS_MIN} to {SEGMENT_BLOCKS} blocks of 4096 bytes, not \
                 {segment_blocks}"
            ));
        }
        if segments <= self.reserve() || segments > SEGMENTS_MAX {
            let least = RESERVE_MIN + 1;
            return Err(format!(
                "a volume has {least} to {SEGMENTS_MAX} segments on a device, not {segments}"
            ));
        }
        Ok(())
    }

    /// The geometry whose device has room for `blocks` with none of them ever refused and a fifth to
    /// spare for garbage collection, and whose map can grow to four times as many.
    #[must_use]
    pub fn for_blocks(blocks: u64, segment_blocks: u32) -> Self {
        let blocks_max = (blocks.saturating_mul(GROWTH)).min(1 << 40).max(blocks);
        let mut geometry = Self { blocks, blocks_max, segments: RESERVE_MIN + 1, segment_blocks };
        let live = (u64::from(segment_blocks) * SHARE_FULL.0 / SHARE_FULL.1).max(1);
        let needed = blocks.div_ceil(live).min(u64::from(SEGMENTS_MAX)) as u32;
        geometry.segments = (needed + RESERVE_MIN).min(SEGMENTS_MAX);
        while geometry.capacity_blocks() < blocks && geometry.segments < SEGMENTS_MAX {
            geometry.segments += 1;
        }
        geometry
    }

    /// The same with as many segments as fit on a device of `bytes`.
    #[must_use]
    pub fn on_device(self, bytes: u64) -> Self {
        let room = bytes.saturating_sub(self.segment_offset(0));
        let each = u64::from(self.segment_blocks) * BLOCK_BYTES;
        Self { segments: (room / each).min(u64::from(SEGMENTS_MAX)) as u32, ..self }
    }

    /// Pages of the map.
    #[must_use]
    pub const fn map_pages(&self) -> u64 {
        self.blocks.div_ceil(PAGE_ENTRIES)
    }

    /// Pages of an area of the map.
    const fn area_pages(&self) -> u64 {
        self.blocks_max.div_ceil(PAGE_ENTRIES)
    }

    /// Bytes of the map in memory: 8 for each block.
    #[must_use]
    pub const fn map_bytes(&self) -> u64 {
        self.map_pages() * PAGE_ENTRIES * 8
    }

    /// Where the copies of slot 0 or 1 of the superblock lie, in bytes.
    #[must_use]
    pub const fn superblock_offsets(slot: usize) -> [u64; 2] {
        SUPERBLOCKS[slot]
    }

    /// Where the first copies of both slots lie, or the second ones, in bytes.
    #[must_use]
    pub fn superblock_copies(copy: usize) -> [u64; 2] {
        SUPERBLOCKS.map(|slot| slot[copy])
    }

    /// Where page `page` of area 0 or 1 lies, in bytes.
    #[must_use]
    pub const fn page_offset(&self, area: usize, page: u64) -> u64 {
        AREAS + (area as u64 * self.area_pages() + page) * BLOCK_BYTES
    }

    /// Where a segment begins, in bytes.
    #[must_use]
    pub const fn segment_offset(&self, segment: u32) -> u64 {
        let areas_end = (self.page_offset(2, 0)).div_ceil(1 << 20) << 20;
        areas_end + segment as u64 * self.segment_blocks as u64 * BLOCK_BYTES
    }

    /// Where a block of a segment lies, in bytes.
    #[must_use]
    pub const fn block_offset(&self, segment: u32, block: u32) -> u64 {
        self.segment_offset(segment) + block as u64 * BLOCK_BYTES
    }

    /// Bytes that a device needs.
    #[must_use]
    pub const fn device_bytes(&self) -> u64 {
        self.segment_offset(self.segments)
    }

    /// Segments that clients cannot fill.
    #[must_use]
    pub fn reserve(&self) -> u32 {
        (self.segments / RESERVE_DIVISOR).max(RESERVE_MIN)
    }

    /// Blocks with data that the volume can hold: clients that write more get "no space".
    #[must_use]
    pub fn capacity_blocks(&self) -> u64 {
        u64::from(self.segments - self.reserve().min(self.segments))
            * self.usable_for_each_segment()
    }

    /// Data blocks in a segment that garbage collection has written.
    fn usable_for_each_segment(&self) -> u64 {
        let density = DENSITY.min(u64::from(self.segment_blocks) / 4);
        (u64::from(self.segment_blocks) * density / (density + 1)).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_overlaps(blocks in 1u64..1 << 30, segment_blocks in 16u32..=SEGMENT_BLOCKS) {
            let geometry = Geometry::for_blocks(blocks, segment_blocks);
            prop_assume!(geometry.check().is_ok());
            let first = geometry.page_offset(0, 0);
            for slot in 0..2 {
                for offset in Geometry::superblock_offsets(slot) {
                    prop_assert!(offset + BLOCK_BYTES <= first);
                }
            }
            let end = geometry.page_offset(0, geometry.map_pages());
            prop_assert!(end <= geometry.page_offset(1, 0));
            prop_assert!(geometry.page_offset(1, geometry.map_pages()) <= geometry.segment_offset(0));
            let last = geometry.block_offset(geometry.segments - 1, segment_blocks - 1);
            prop_assert_eq!(last + BLOCK_BYTES, geometry.device_bytes());
        }

        #[test]
        fn a_volume_has_room_for_its_blocks(blocks in 1u64..1 << 30, log in 4u32..=13) {
            let geometry = Geometry::for_blocks(blocks, 1 << log);
            prop_assume!(geometry.segments < SEGMENTS_MAX);
            prop_assert!(geometry.check().is_ok(), "{:?}", geometry.check());
            prop_assert!(geometry.capacity_blocks() >= blocks);
            prop_assert_eq!(geometry.on_device(geometry.device_bytes()), geometry);
        }
    }

    #[test]
    fn sizes_that_no_volume_has_are_refused() {
        let good = Geometry::for_blocks(1000, 64);
        assert_eq!(good.check(), Ok(()));
        for bad in [
            Geometry { blocks: 0, ..good },
            Geometry { segment_blocks: 8, ..good },
            Geometry::for_blocks(1000, 1),
            Geometry::for_blocks(1000, SEGMENT_BLOCKS_MIN - 1),
            Geometry { blocks: good.blocks_max + 1, ..good },
            Geometry { segments: 8, ..good },
            Geometry { segments: SEGMENTS_MAX + 1, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
