//! Blocks that were read or written of late, in memory: S3-FIFO (Yang et al., "FIFO queues are all
//! you need for cache eviction", SOSP 2023). A block that is used once leaves by a small queue
//! without pushing out those that are used again, so that a scan does no harm.
//!
//! A block that is being changed may be read before and after: what a read brought is kept only
//! if no change of it has ended since the read began.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;
use wattio_pages::Pages;

/// The share of the small queue: a divisor.
const SMALL_DIVISOR: usize = 10;
/// Uses are counted up to here.
const USES_MAX: u8 = 3;
/// Counters of changes, by hash of the block.
const CHANGES: usize = 4096;

/// Where memory came from, and goes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A read of the volume.
    Volume,
    /// A client's payload.
    Client,
}

#[derive(Debug)]
struct Entry {
    pages: Arc<Pages>,
    origin: Origin,
    uses: u8,
    /// Tells its place in a queue from one of an earlier entry of the same block.
    stamp: u64,
}

/// Blocks by number; each is a run of one block.
#[derive(Debug)]
pub(super) struct Cache {
    blocks_max: usize,
    entries: HashMap<u64, Entry, BuildHasherDefault<Mixer>>,
    small: VecDeque<(u64, u64)>,
    main: VecDeque<(u64, u64)>,
    /// Blocks that left by the small queue, and which of them are remembered.
    ghosts: VecDeque<(u64, u64)>,
    is_ghost: HashMap<u64, u64, BuildHasherDefault<Mixer>>,
    changes: Vec<u32>,
    next_stamp: u64,
    hits: u64,
    misses: u64,
    /// What was pushed out since it was asked for last.
    freed: Vec<(Arc<Pages>, Origin)>,
}

/// What a read has to show to have what it brings kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u32);

impl Cache {
    pub(super) fn new(bytes: u64) -> Self {
        let blocks_max = (bytes / wattio_pages::BLOCK as u64) as usize;
        Self {
            blocks_max,
            entries: HashMap::default(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            is_ghost: HashMap::default(),
            changes: vec![0; if blocks_max > 0 { CHANGES } else { 0 }],
            next_stamp: 0,
            hits: 0,
            misses: 0,
            freed: Vec::new(),
        }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.blocks_max > 0
    }

    /// Reads that were answered from here, and others.
    pub(super) const fn counts(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// How many blocks are kept at the most.
    pub(super) const fn blocks_max(&self) -> usize {
        self.blocks_max
    }

    pub(super) fn has(&self, lba: u64) -> bool {
        self.entries.contains_key(&lba)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The blocks of a range, if all are here.
    pub(super) fn get(&mut self, lbas: Range<u64>) -> Option<Vec<Arc<Pages>>> {
        if !self.is_on() {
            return None;
        }
        if !lbas.clone().all(|lba| self.entries.contains_key(&lba)) {
            self.misses += 1;
            return None;
        }
        self.hits += 1;
        let mut found = Vec::with_capacity((lbas.end - lbas.start) as usize);
        for lba in lbas {
            let entry = self.entries.get_mut(&lba)?;
            entry.uses = (entry.uses + 1).min(USES_MAX);
            found.push(Arc::clone(&entry.pages));
        }
        Some(found)
    }

    /// For a read of these blocks that begins now.
    pub(super) fn ticket(&self, lbas: Range<u64>) -> Ticket {
        let counts = lbas.map(|lba| self.changes.get(place(lba)).copied().unwrap_or(0));
        Ticket(counts.fold(0, u32::wrapping_add))
    }

    /// Whether none of the blocks has changed since.
    pub(super) fn is_valid(&self, ticket: Ticket, lbas: Range<u64>) -> bool {
        self.ticket(lbas) == ticket
    }

    /// A change of a block has ended; what is kept of it is out of date.
    pub(super) fn changed(&mut self, lbas: Range<u64>) {
        if !self.is_on() {
            return;
        }
        // Of a long change only what is there; each counter is reached by some block of it.
        let longest = (CHANGES + self.entries.len()) as u64;
        if lbas.end - lbas.start > longest {
            self.changes.iter_mut().for_each(|count| *count = count.wrapping_add(1));
            let kept: Vec<u64> = self.entries.keys().copied().collect();
            kept.into_iter().filter(|lba| lbas.contains(lba)).for_each(|lba| self.remove(lba));
            return;
        }
        for lba in lbas {
            let count = &mut self.changes[place(lba)];
            *count = count.wrapping_add(1);
            self.remove(lba);
        }
    }

    fn remove(&mut self, lba: u64) {
        if let Some(entry) = self.entries.remove(&lba) {
            self.freed.push((entry.pages, entry.origin));
        }
    }

    /// Keeps a block.
    pub(super) fn put(&mut self, lba: u64, pages: Arc<Pages>, origin: Origin) {
        if !self.is_on() {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&lba) {
            let old = std::mem::replace(&mut entry.pages, pages);
            self.freed.push((old, std::mem::replace(&mut entry.origin, origin)));
            return;
        }
        while self.entries.len() >= self.blocks_max {
            self.push_out();
        }
        self.next_stamp += 1;
        let stamp = self.next_stamp;
        let is_ghost = self.is_ghost.remove(&lba).is_some();
        let queue = if is_ghost { &mut self.main } else { &mut self.small };
        queue.push_back((lba, stamp));
        self.entries.insert(lba, Entry { pages, origin, uses: 0, stamp });
        self.tidy();
    }

    fn push_out(&mut self) {
        let small_max = (self.blocks_max / SMALL_DIVISOR).max(1);
        if self.small.len() >= small_max || self.main.is_empty() {
            let Some((lba, stamp)) = self.small.pop_front() else { return };
            match self.entries.get(&lba) {
                Some(entry) if entry.stamp != stamp => {}
                Some(entry) if entry.uses > 0 => self.main.push_back((lba, stamp)),
                Some(_) => {
                    self.remove(lba);
                    self.remember(lba, stamp);
                }
                None => {}
            }
        } else if let Some((lba, stamp)) = self.main.pop_front()
            && let Some(entry) = self.entries.get_mut(&lba)
            && entry.stamp == stamp
        {
            if entry.uses > 0 {
                entry.uses -= 1;
                self.main.push_back((lba, stamp));
            } else {
                self.remove(lba);
            }
        }
    }

    fn remember(&mut self, lba: u64, stamp: u64) {
        self.is_ghost.insert(lba, stamp);
        self.ghosts.push_back((lba, stamp));
        while self.ghosts.len() > self.blocks_max {
            if let Some((lba, stamp)) = self.ghosts.pop_front()
                && self.is_ghost.get(&lba) == Some(&stamp)
            {
                self.is_ghost.remove(&lba);
            }
        }
    }

    /// Drops places in queues whose entries are gone, before there are too many.
    fn tidy(&mut self) {
        if self.small.len() + self.main.len() <= 2 * self.blocks_max + 64 {
            return;
        }
        let entries = &self.entries;
        let is_there =
            |&(lba, stamp): &(u64, u64)| entries.get(&lba).is_some_and(|one| one.stamp == stamp);
        self.small.retain(is_there);
        self.main.retain(is_there);
    }

    /// Memory that is no longer kept.
    pub(super) fn freed(&mut self) -> std::vec::Drain<'_, (Arc<Pages>, Origin)> {
        self.freed.drain(..)
    }
}

fn place(lba: u64) -> usize {
    (mix(lba) % CHANGES as u64) as usize
}

const fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value ^ value >> 29
}

/// Hashes a number of a block: nobody gains from numbers that collide but who chose them.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: u64 = wattio_pages::BLOCK as u64;

    fn pages(byte: u8) -> Arc<Pages> {
        Arc::new(Pages::from_slice(&[byte; 8]))
    }

    fn byte(cache: &mut Cache, lba: u64) -> Option<u8> {
        cache.get(lba..lba + 1).map(|found| found[0].as_bytes()[0])
    }

    /// What a device holds, with changes that are under way, and reads that have begun.
    #[derive(Clone, Debug)]
    enum Step {
        BeginRead(u64),
        EndRead,
        Change(u64, u64),
        Write(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..40_u64).prop_map(Step::BeginRead),
            4 => Just(Step::EndRead),
            1 => (0..40_u64, 1..10_u64).prop_map(|(first, count)| Step::Change(first, count)),
            2 => (0..40_u64).prop_map(Step::Write),
        ]
    }

    proptest! {
        /// Whatever is read, changed and kept: what is here is what a device holds, and there is
        /// never more than is allowed.
        #[test]
        fn nothing_out_of_date_is_kept(steps in prop::collection::vec(step(), 1..400)) {
            let mut cache = Cache::new(8 * BLOCK);
            let mut device = [0_u8; 60];
            let mut reads: VecDeque<(u64, u8, Ticket)> = VecDeque::new();
            let mut version = 0_u8;
            for step in steps {
                version = version.wrapping_add(1);
                match step {
                    Step::BeginRead(lba) => {
                        if let Some(found) = byte(&mut cache, lba) {
                            prop_assert_eq!(found, device[lba as usize]);
                        } else {
                            let ticket = cache.ticket(lba..lba + 1);
                            reads.push_back((lba, device[lba as usize], ticket));
                        }
                    }
                    Step::EndRead => if let Some((lba, read, ticket)) = reads.pop_front()
                        && cache.is_valid(ticket, lba..lba + 1)
                    {
                        prop_assert_eq!(read, device[lba as usize]);
                        cache.put(lba, pages(read), Origin::Volume);
                    },
                    Step::Change(first, count) => {
                        device[first as usize..(first + count) as usize].fill(version);
                        cache.changed(first..first + count);
                    }
                    Step::Write(lba) => {
                        device[lba as usize] = version;
                        cache.changed(lba..lba + 1);
                        cache.put(lba, pages(version), Origin::Client);
                    }
                }
                prop_assert!(cache.len() <= 8);
                prop_assert!(cache.small.len() + cache.main.len() <= 2 * 8 + 64);
                prop_assert!(cache.ghosts.len() <= 8 && cache.is_ghost.len() <= 8);
                cache.freed().count();
            }
        }
    }

    #[test]
    fn a_scan_leaves_what_is_used_again() {
        let mut cache = Cache::new(100 * BLOCK);
        let hot = 0..50;
        for _ in 0..3 {
            for lba in hot.clone() {
                if byte(&mut cache, lba).is_none() {
                    cache.put(lba, pages(1), Origin::Volume);
                }
            }
        }
        for lba in 1000..10_000 {
            cache.put(lba, pages(2), Origin::Volume);
        }
        let left = hot.filter(|&lba| byte(&mut cache, lba).is_some()).count();
        assert_eq!(left, 50);
    }

    #[test]
    fn a_long_change_reaches_everything_in_it() {
        let mut cache = Cache::new(10 * BLOCK);
        for lba in [5, 1 << 30] {
            cache.put(lba, pages(1), Origin::Volume);
        }
        let ticket = cache.ticket(7..8);
        cache.changed(0..1 << 29);
        assert_eq!(byte(&mut cache, 5), None);
        assert_eq!(byte(&mut cache, 1 << 30), Some(1));
        assert!(!cache.is_valid(ticket, 7..8));
        assert_eq!(cache.freed().count(), 1);
    }

    #[test]
    fn none_keeps_nothing() {
        let mut cache = Cache::new(4095);
        cache.put(1, pages(1), Origin::Volume);
        cache.changed(0..9);
        assert!(cache.get(1..2).is_none() && cache.is_valid(cache.ticket(0..9), 0..9));
        assert_eq!((cache.len(), cache.counts()), (0, (0, 0)));
    }
}
