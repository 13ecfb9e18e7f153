//! A disk that does what disks do: until a flush it may lose, tear and reorder what was written;
//! it may fail, and its bits may flip.

use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::rc::Rc;
use wattio_pages::{BLOCK, Pages};
use wattio_volume::Disk;

/// What a disk writes as one: a block may be torn between sectors.
const SECTOR: usize = 512;

type Block = Rc<[u8; BLOCK]>;

#[derive(Clone, Debug)]
struct State {
    bytes: u64,
    /// Blocks as they are after a loss of power, by number; others are zeros.
    stable: HashMap<u64, Block>,
    /// Blocks that were written since, in order.
    volatile: BTreeMap<u64, Vec<Block>>,
    /// Blocks that cannot be read until they are written again, by number.
    unreadable: HashSet<u64>,
    /// Whether nothing can be read.
    is_unreadable: bool,
    /// How many more things can be done before the power fails.
    power: Option<u64>,
    is_dead: bool,
    done: u64,
}

/// A disk; clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk(Rc<RefCell<State>>);

/// What was not durable when a flush began, and will be when it ends.
#[derive(Debug)]
pub struct Flushing(Vec<(u64, usize)>);

impl SimDisk {
    pub fn new(bytes: u64) -> Self {
        Self(Rc::new(RefCell::new(State {
            bytes,
            stable: HashMap::new(),
            volatile: BTreeMap::new(),
            unreadable: HashSet::new(),
            is_unreadable: false,
            power: None,
            is_dead: false,
            done: 0,
        })))
    }

    /// Fails everything from now on.
    pub fn kill(&self) {
        self.0.borrow_mut().is_dead = true;
    }

    /// It works again, and holds what it held.
    pub fn revive(&self) {
        self.0.borrow_mut().is_dead = false;
    }

    /// Another disk that holds the same.
    pub fn copy(&self) -> Self {
        Self(Rc::new(RefCell::new(self.0.borrow().clone())))
    }

    /// Whether another disk holds the same, durable or not.
    pub fn holds_what(&self, other: &Self) -> bool {
        let (one, other) = (self.0.borrow(), other.0.borrow());
        one.stable == other.stable && one.volatile == other.volatile
    }

    /// Its end is gone.
    pub fn cut(&self, bytes: u64) {
        self.0.borrow_mut().bytes -= bytes;
    }

    /// Another disk in its place, empty.
    pub fn replace(&self) {
        let mut state = self.0.borrow_mut();
        state.is_dead = false;
        state.stable.clear();
        state.volatile.clear();
        state.unreadable.clear();
    }

    /// A block cannot be read until it is written again.
    pub fn spoil(&self, offset: u64) {
        self.0.borrow_mut().unreadable.insert(offset / BLOCK as u64);
    }

    /// Nothing can be read from now on, or all can again; what is written is written.
    pub fn fail_reads(&self, fails: bool) {
        self.0.borrow_mut().is_unreadable = fails;
    }

    pub fn is_dead(&self) -> bool {
        self.0.borrow().is_dead
    }

    /// Things that were asked of it so far.
    pub fn done(&self) -> u64 {
        self.0.borrow().done
    }

    /// The power fails after so many more things; `None`: it does not.
    pub fn fail_power_after(&self, things: Option<u64>) {
        self.0.borrow_mut().power = things;
    }

    /// The power fails: of each block that was written and not flushed, any of its versions is
    /// left, or sectors of two of them.
    pub fn lose_power(&self, random: &mut Xoshiro256PlusPlus) {
        let mut state = self.0.borrow_mut();
        state.power = None;
        for (number, versions) in std::mem::take(&mut state.volatile) {
            let before = state.stable.get(&number).cloned().unwrap_or_else(zeros);
            let all: Vec<Block> = std::iter::once(before).chain(versions).collect();
            let mut block = *all[random.random_range(0..all.len())];
            if random.random_bool(0.2) {
                let other = &all[random.random_range(0..all.len())];
                for sector in (0..BLOCK).step_by(SECTOR) {
                    // What was under the head when the power failed may be anything.
                    if random.random_bool(0.05) {
                        random.fill_bytes(&mut block[sector..sector + SECTOR]);
                    } else if random.random_bool(0.5) {
                        block[sector..sector + SECTOR]
                            .copy_from_slice(&other[sector..sector + SECTOR]);
                    }
                }
            }
            state.stable.insert(number, Rc::new(block));
        }
    }

    /// Flips a bit of a block, where it is now.
    pub fn flip_bit(&self, offset: u64, random: &mut Xoshiro256PlusPlus) {
        let mut state = self.0.borrow_mut();
        let number = offset / BLOCK as u64;
        let mut block = *state.newest(number);
        block[random.random_range(0..BLOCK)] ^= 1 << random.random_range(0..8);
        state.volatile.remove(&number);
        state.stable.insert(number, Rc::new(block));
    }

    pub fn read(&self, offset: u64, pages: &mut Pages) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.work()?;
        state.check(offset, pages.len_bytes())?;
        let first = offset / BLOCK as u64;
        let mut numbers = first..first + pages.len_blocks() as u64;
        if state.is_unreadable || numbers.any(|number| state.unreadable.contains(&number)) {
            return Err(io::Error::other("a block cannot be read"));
        }
        for at in 0..pages.len_blocks() {
            pages.block_mut(at).copy_from_slice(&state.newest(first + at as u64)[..]);
        }
        Ok(())
    }

    pub fn write(&self, offset: u64, blocks: &[&[u8; BLOCK]]) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let result = state.work();
        state.check(offset, blocks.len() * BLOCK)?;
        if result.is_err() && state.is_dead {
            return result;
        }
        // A write during which the power fails may have happened, all of it or some of it.
        for (number, block) in (offset / BLOCK as u64..).zip(blocks) {
            state.unreadable.remove(&number);
            state.volatile.entry(number).or_default().push(Rc::new(**block));
        }
        result
    }

    /// Writes a block to some places, and flushes.
    pub fn write_page(&self, offsets: [u64; 2], page: &[u8]) {
        let pages = Pages::from_slice(page);
        for offset in offsets {
            self.write(offset, &[pages.block(0)]).expect("a healthy disk");
        }
        self.end_flush(&self.begin_flush()).expect("a healthy disk");
    }

    /// Begins a flush: it covers what was written before.
    pub fn begin_flush(&self) -> Flushing {
        let state = self.0.borrow();
        Flushing(state.volatile.iter().map(|(&number, all)| (number, all.len())).collect())
    }

    pub fn end_flush(&self, flushing: &Flushing) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.work()?;
        for &(number, count) in &flushing.0 {
            let Some(versions) = state.volatile.get_mut(&number) else { continue };
            let count = count.min(versions.len());
            let newest = versions.drain(..count).next_back();
            if versions.is_empty() {
                state.volatile.remove(&number);
            }
            if let Some(newest) = newest {
                state.stable.insert(number, newest);
            }
        }
        Ok(())
    }
}

impl State {
    fn work(&mut self) -> io::Result<()> {
        self.done += 1;
        if self.is_dead {
            return Err(io::Error::other("the disk is dead"));
        }
        match &mut self.power {
            Some(0) => Err(io::Error::other("the power has failed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn check(&self, offset: u64, bytes: usize) -> io::Result<()> {
        assert_eq!(offset % BLOCK as u64, 0, "not at a block");
        if offset + bytes as u64 > self.bytes {
            return Err(io::Error::other("beyond the end of the disk"));
        }
        Ok(())
    }

    fn newest(&self, number: u64) -> Block {
        let volatile = self.volatile.get(&number).and_then(|versions| versions.last());
        volatile.or(self.stable.get(&number)).cloned().unwrap_or_else(zeros)
    }
}

fn zeros() -> Block {
    thread_local!(static ZEROS: Block = Rc::new([0; BLOCK]));
    ZEROS.with(Rc::clone)
}

impl Disk for SimDisk {
    fn bytes(&self) -> u64 {
        self.0.borrow().bytes
    }

    fn read_at(&mut self, offset: u64, pages: &mut Pages) -> io::Result<()> {
        self.read(offset, pages)
    }

    fn write_at(&mut self, offset: u64, pages: &Pages) -> io::Result<()> {
        let blocks: Vec<_> = (0..pages.len_blocks()).map(|at| pages.block(at)).collect();
        self.write(offset, &blocks)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushing = self.begin_flush();
        self.end_flush(&flushing)
    }
}

/// A random number generator from a seed.
pub fn random(seed: u64) -> Xoshiro256PlusPlus {
    use rand::SeedableRng;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    random.next_u64();
    random
}
