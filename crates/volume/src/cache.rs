//! Blocks in memory: those that clients wrote and that are not in the log yet, and those that are
//! likely to be read again.

use crate::devices::Part;
use quick_cache::unsync::Cache;
use quick_cache::{Lifecycle, UnitWeighter};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use wattio_pages::{BLOCK, Pages};

/// Reads of more blocks than this are not kept: who reads so much at once reads it once.
const KEPT_BLOCKS_MAX: usize = 16;

/// The same in each run, so that a seed replays what the cache does.
type Hasher = BuildHasherDefault<DefaultHasher>;

/// What has to leave for something else: its memory can be used again.
#[derive(Clone, Debug)]
struct Leaving;

impl Lifecycle<u64, CachedBlock> for Leaving {
    type RequestState = Option<CachedBlock>;

    fn begin_request(&self) -> Self::RequestState {
        None
    }

    fn on_evict(&self, state: &mut Self::RequestState, _: u64, block: CachedBlock) {
        *state = Some(block);
    }
}

/// A block of shared memory.
#[derive(Clone, Debug)]
pub(crate) struct CachedBlock {
    pub(crate) pages: Arc<Pages>,
    pub(crate) block: usize,
}

/// What is in memory.
///
/// What was read is kept by the policy of `quick_cache`, which is one of the S3-FIFO kind: what is
/// read once, as by a scan, does not drive out what is read often.
#[derive(Debug)]
pub(crate) struct BlockCache {
    /// Written and answered, or about to be; not in the map yet. With the number of the write.
    written: HashMap<u64, (CachedBlock, u64)>,
    read: Option<Cache<u64, CachedBlock, UnitWeighter, Hasher, Leaving>>,
    /// Memory that is not used any more.
    freed: Vec<Pages>,
    next_write: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl BlockCache {
    /// One that keeps up to `bytes` of what was read.
    pub(crate) fn new(bytes: u64) -> Self {
        let blocks = (bytes / BLOCK as u64) as usize;
        let (weight, hasher) = (blocks as u64, Hasher::default());
        let read = (blocks > 0).then(|| Cache::with(blocks, weight, UnitWeighter, hasher, Leaving));
        Self { written: HashMap::new(), read, freed: Vec::new(), next_write: 1, hits: 0, misses: 0 }
    }

    /// Memory that is not used any more.
    pub(crate) fn freed(&mut self) -> impl Iterator<Item = Pages> {
        self.freed.drain(..)
    }

    /// Whether nothing can be in memory.
    pub(crate) fn is_off(&self) -> bool {
        self.read.is_none() && self.written.is_empty()
    }

    /// Blocks of a range that were written and are not in the map yet, in order.
    pub(crate) fn written_in(&self, lbas: std::ops::Range<u64>) -> Vec<u64> {
        let mut found: Vec<u64> =
            self.written.keys().copied().filter(|lba| lbas.contains(lba)).collect();
        found.sort_unstable();
        found
    }

    /// Blocks that are kept because they may be read again.
    pub(crate) fn read_blocks(&self) -> usize {
        self.read.as_ref().map_or(0, Cache::len)
    }

    /// A client writes: its blocks count from now on. Returns the number of the write.
    pub(crate) fn write(&mut self, lba: u64, data: &Part) -> u64 {
        let number = self.next_write;
        self.next_write += 1;
        for (lba, block) in (lba..).zip(data.blocks.clone()) {
            let cached = CachedBlock { pages: Arc::clone(&data.pages), block };
            self.written.insert(lba, (cached, number));
        }
        number
    }

    /// The map has a write's blocks.
    pub(crate) fn applied(&mut self, lba: u64, blocks: u32, number: u64) {
        for lba in lba..lba + u64::from(blocks) {
            // A read that was kept is of what the block held before.
            self.forget_read(lba);
            if self.written.get(&lba).is_some_and(|(_, newest)| *newest == number)
                && let Some((cached, _)) = self.written.remove(&lba)
            {
                self.keep(lba, cached);
            }
        }
    }

    /// The blocks hold something else now, which is not in memory.
    pub(crate) fn forget(&mut self, lba: u64, blocks: u64) {
        let Some(read) = &mut self.read else { return };
        if blocks > read.len() as u64 {
            read.retain(|&kept, _| !(lba..lba + blocks).contains(&kept));
        } else {
            (lba..lba + blocks).for_each(|lba| self.forget_read(lba));
        }
    }

    fn forget_read(&mut self, lba: u64) {
        if let Some(read) = &mut self.read {
            read.remove(&lba);
        }
    }

    /// What a block holds, if that is in memory.
    pub(crate) fn get(&mut self, lba: u64) -> Option<CachedBlock> {
        let written = self.written.get(&lba).map(|(cached, _)| cached);
        let found = written.or_else(|| self.read.as_ref().and_then(|read| read.get(&lba))).cloned();
        let count = if found.is_some() { &mut self.hits } else { &mut self.misses };
        *count += 1;
        found
    }

    /// Whether a block was written and is not in the map yet.
    pub(crate) fn is_written(&self, lba: u64) -> bool {
        self.written.contains_key(&lba)
    }

    /// Keeps what was read from the devices, if it is worth it. The caller knows that it is still
    /// what the block holds.
    pub(crate) fn keep_read(&mut self, lba: u64, part: &Part, at: usize) {
        if part.blocks.len() <= KEPT_BLOCKS_MAX && !self.is_written(lba) {
            let block = part.blocks.start + at;
            self.keep(lba, CachedBlock { pages: Arc::clone(&part.pages), block });
        }
    }

    /// A block alone in its memory, so that one of many does not hold all of them.
    fn keep(&mut self, lba: u64, cached: CachedBlock) {
        let Some(read) = &mut self.read else { return };
        let alone = if cached.pages.capacity_blocks() == 1 {
            cached
        } else {
            let mut alone = self.freed.pop().unwrap_or_else(Pages::single);
            alone.block_mut(0).copy_from_slice(cached.pages.block(cached.block));
            CachedBlock { pages: Arc::new(alone), block: 0 }
        };
        let left = read.insert_with_lifecycle(lba, alone);
        self.freed.extend(left.and_then(|left| Arc::into_inner(left.pages)));
    }
}
