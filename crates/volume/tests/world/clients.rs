//! Clients: what they ask, and whether the answers are right.

use super::World;
use super::model::{Version, fill};
use rand::RngExt;
use wattio_pages::{BLOCK, Pages};
use wattio_volume::{Fault, Part, Piece, Reply, Request};

/// What a request that is under way was for.
#[derive(Debug)]
pub enum Asked {
    Write { blocks: Vec<(u64, Version)>, fua: bool },
    Read { lba: u64, oldest: Vec<Version> },
    Flush { answered: usize },
}

impl World {
    /// A client asks for something.
    pub(super) fn ask(&mut self) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.tally.requests += 1;
        let used = self.plan.geometry.blocks;
        // Half of what is asked concerns a tenth of the blocks.
        let hot = if self.random.random_bool(0.5) { used.div_ceil(10) } else { used };
        let lba = self.random.random_range(0..hot);
        let long = self.random.random_bool(0.05);
        let longest = if long { 300 } else { 12 };
        let blocks = self.random.random_range(1..=longest).min(self.plan.geometry.blocks - lba);
        let fua = self.random.random_bool(0.1);
        let chance = self.random.random::<f64>();
        if chance < self.plan.writes * 0.8 {
            self.ask_write(tag, lba, blocks, fua);
        } else if chance < self.plan.writes * 0.9 {
            let written = self.begin_write(lba, blocks, true);
            self.asked.insert(tag, Asked::Write { blocks: written, fua });
            let discard = self.random.random_bool(0.5);
            self.volume.submit(tag, Request::Zero { lba, blocks, discard, fua });
        } else if chance < self.plan.writes {
            let answered = self.model.answered();
            self.asked.insert(tag, Asked::Flush { answered });
            self.volume.submit(tag, Request::Flush);
        } else {
            let oldest = (lba..lba + blocks).map(|lba| self.model.oldest_for_read(lba)).collect();
            self.asked.insert(tag, Asked::Read { lba, oldest });
            self.volume.submit(tag, Request::Read { lba, blocks: blocks as u32 });
        }
        if self.random.random_bool(0.5) {
            self.volume.commit();
        }
    }

    fn ask_write(&mut self, tag: u64, lba: u64, blocks: u64, fua: bool) {
        let written = self.begin_write(lba, blocks, false);
        let mut pages = Pages::zeroed(blocks as usize);
        for (at, &(lba, version)) in written.iter().enumerate() {
            fill(pages.block_mut(at), lba, version);
        }
        self.asked.insert(tag, Asked::Write { blocks: written, fua });
        self.volume.submit(tag, Request::Write { lba, data: Part::whole(pages), fua });
    }

    fn begin_write(&mut self, lba: u64, blocks: u64, zeros: bool) -> Vec<(u64, Version)> {
        (lba..lba + blocks).map(|lba| (lba, self.model.begin_write(lba, zeros))).collect()
    }

    pub fn take_replies(&mut self) {
        while let Some(Reply { tag, result }) = self.volume.next_reply() {
            let asked = self.asked.remove(&tag).expect("an answer to something that was asked");
            match (asked, result) {
                (Asked::Write { blocks, fua }, Ok(_)) => {
                    for &(lba, version) in &blocks {
                        self.model.answer(lba, version);
                        if fua {
                            self.model.durable_write(lba, version);
                        }
                    }
                }
                (Asked::Flush { answered }, Ok(_)) => self.model.durable(answered),
                (Asked::Read { lba, oldest }, Ok(pieces)) => self.check_read(lba, &oldest, pieces),
                (Asked::Write { .. }, Err(Fault::NoSpace)) => self.tally.no_space += 1,
                (asked, Err(fault)) => {
                    assert!(
                        self.may_fail || self.volume.failure().is_some(),
                        "seed {}: {asked:?}: {fault:?}",
                        self.plan.seed
                    );
                    self.tally.faults += 1;
                }
            }
        }
    }

    fn check_read(&self, lba: u64, oldest: &[Version], pieces: Vec<Piece>) {
        let mut at = 0;
        let mut check = |contents: &[u8; BLOCK]| {
            self.model.check(lba + at as u64, contents, oldest[at], self.plan.seed);
            at += 1;
        };
        for piece in pieces {
            match piece {
                Piece::Zeros(blocks, _) => (0..blocks).for_each(|_| check(&[0; BLOCK])),
                Piece::Data(part) => part.blocks.for_each(|block| check(part.pages.block(block))),
            }
        }
        assert_eq!(at, oldest.len(), "seed {}: a read of another length", self.plan.seed);
    }

    /// Writes a block and waits for it.
    pub fn write_now(&mut self, lba: u64) {
        self.write_run_now(lba, 1);
    }

    /// Writes blocks at once and waits for them.
    pub fn write_run_now(&mut self, lba: u64, blocks: u64) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.ask_write(tag, lba, blocks, true);
        self.settle();
    }

    /// The same without making it durable.
    pub fn write_unflushed(&mut self, lba: u64) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.ask_write(tag, lba, 1, false);
        self.settle();
    }

    /// Flushes and waits for it.
    pub fn flush_now(&mut self) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let answered = self.model.answered();
        self.asked.insert(tag, Asked::Flush { answered });
        self.volume.submit(tag, Request::Flush);
        self.settle();
    }

    /// Reads blocks, with nothing else going on.
    pub fn read_now(&mut self, lba: u64, blocks: u32) -> Result<Vec<[u8; BLOCK]>, Fault> {
        let mut contents = Vec::new();
        for piece in self.ask_now(Request::Read { lba, blocks })? {
            match piece {
                Piece::Zeros(count, _) => contents.extend((0..count).map(|_| [0; BLOCK])),
                Piece::Data(part) => {
                    contents.extend(part.blocks.map(|block| *part.pages.block(block)));
                }
            }
        }
        Ok(contents)
    }

    /// Asks for something that the model is not told of, with nothing else going on.
    fn ask_now(&mut self, request: Request) -> Result<Vec<Piece>, Fault> {
        let tag = u64::MAX;
        self.volume.submit(tag, request);
        loop {
            if let Some(reply) = self.volume.next_reply() {
                assert_eq!(reply.tag, tag);
                return reply.result;
            }
            self.complete_one();
        }
    }
}
