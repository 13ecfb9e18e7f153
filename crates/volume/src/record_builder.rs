//! A record under construction: what goes into it, and how it is laid out.

use crate::compression::{BLOCK_SECTORS, Packed, SECTOR};
use crate::devices::Part;
use crate::entry::Entry;
use crate::format::{ExtentKind, Filling, Fragments, Header};
use std::ops::Range;
use std::sync::Arc;
use wattio_pages::Pages;

/// A client's request to be logged, as far as that has not happened.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) tag: u64,
    pub(crate) kind: ExtentKind,
    pub(crate) lba: u64,
    pub(crate) blocks: u64,
    pub(crate) data: Option<Part>,
    /// Of each block of data.
    pub(crate) checksums: Vec<u32>,
    /// The blocks as they are stored, where the volume is compressed.
    pub(crate) packed: Option<Packed>,
    /// Bytes of fragments that are in records already.
    fragments_taken: usize,
    pub(crate) fua: bool,
    /// The number of the write in the cache, if it is there.
    pub(crate) number: u64,
    /// Whether the client has been told already that it is done.
    pub(crate) is_answered: bool,
    /// Space that it takes and nothing of the volume took before, at the most, in sectors.
    pub(crate) promised: u64,
    /// Blocks in memory that it counts for, until it has taken effect.
    pub(crate) buffered: u64,
    /// Blocks that are in records already.
    pub(crate) taken: u64,
}

impl Pending {
    pub(crate) const fn new(tag: u64, kind: ExtentKind, lba: u64, blocks: u64, fua: bool) -> Self {
        let checksums = Vec::new();
        Self {
            tag,
            kind,
            lba,
            blocks,
            data: None,
            checksums,
            packed: None,
            fragments_taken: 0,
            fua,
            number: 0,
            is_answered: false,
            promised: 0,
            buffered: 0,
            taken: 0,
        }
    }

    pub(crate) fn with_data(
        mut self,
        data: Part,
        checksums: Vec<u32>,
        packed: Option<Packed>,
        promised: u64,
    ) -> Self {
        self.data = Some(data);
        self.checksums = checksums;
        self.packed = packed;
        self.promised = promised;
        self
    }

    /// Sectors that its block `at` takes.
    pub(crate) fn sectors(&self, at: usize) -> u32 {
        self.packed.as_ref().map_or(BLOCK_SECTORS, |packed| u32::from(packed.sectors[at]))
    }

    /// Puts its blocks `from..to` into a record.
    pub(crate) fn take(&mut self, building: &mut Building, from: usize, to: usize) {
        let Some(data) = &self.data else { return };
        for at in from..to {
            match self.sectors(at) {
                BLOCK_SECTORS => {
                    let block = data.blocks.start + at;
                    building.plain(&data.pages, block, self.checksums[at]);
                }
                sectors => {
                    let bytes = self.fragments_taken..;
                    let bytes = self.packed.as_ref().map_or(&[][..], |packed| &packed.bytes[bytes]);
                    let bytes = &bytes[..sectors as usize * SECTOR];
                    building.fragment(bytes, self.checksums[at]);
                    self.fragments_taken += bytes.len();
                }
            }
        }
    }
}

/// A block that garbage collection found live.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) lba: u64,
    /// What the map said of it: if it says the same when the move is logged, nobody has written the
    /// block since, nor another one to its place.
    pub(crate) entry: Entry,
    /// What is stored of it; absent if that cannot be read any more.
    pub(crate) data: Option<Stored>,
}

/// What is stored of a block, in memory.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) pages: Arc<Pages>,
    /// The sector at which it begins, and how many it takes.
    pub(crate) sector: usize,
    pub(crate) sectors: u32,
    /// The CRC-32C of the block.
    pub(crate) crc: u32,
}

impl Stored {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let from = self.sector * SECTOR;
        &self.pages.as_bytes()[from..from + self.sectors as usize * SECTOR]
    }
}

/// A record that is being put together.
#[derive(Debug)]
pub(crate) struct Building {
    pub(crate) header: Header,
    pub(crate) filling: Filling,
    /// The fragments, one after another.
    fragments: Vec<u8>,
    /// The blocks that are stored as they are.
    parts: Vec<Part>,
}

impl Building {
    /// An empty one, that at most `room` blocks may follow.
    pub(crate) const fn new(header: Header, room: u32, packs: bool) -> Self {
        let filling = Filling::new(room, packs);
        Self { header, filling, fragments: Vec::new(), parts: Vec::new() }
    }

    /// Adds a block that is stored as it is.
    pub(crate) fn plain(&mut self, pages: &Arc<Pages>, block: usize, checksum: u32) {
        self.header.checksums.push(checksum);
        self.header.fragments.sectors.push(BLOCK_SECTORS as u8);
        push_part(&mut self.parts, pages, block..block + 1);
    }

    /// Adds a compressed block.
    pub(crate) fn fragment(&mut self, bytes: &[u8], check: u32) {
        self.header.fragments.sectors.push((bytes.len() / SECTOR) as u8);
        self.header.fragments.checks.push(check);
        self.fragments.extend_from_slice(bytes);
    }

    /// The header, and all that is written, from the header's block on.
    pub(crate) fn finish(self) -> (Header, Vec<Part>) {
        let Self { mut header, filling, fragments, mut parts } = self;
        let (from, blocks) = filling.fragments();
        let mut head = Pages::zeroed(1 + blocks as usize);
        if fragments.is_empty() {
            header.fragments = Fragments::default();
        } else {
            let begin = from as usize * SECTOR;
            head.as_bytes_mut()[begin..begin + fragments.len()].copy_from_slice(&fragments);
            header.fragments.from = from;
            let behind = 1..=blocks as usize;
            let checksums = behind.map(|block| crc32c::crc32c(head.block(block)));
            header.checksums.splice(0..0, checksums);
        }
        header.encode(head.block_mut(0));
        parts.insert(0, Part::whole(head));
        (header, parts)
    }
}

/// Adds blocks to what a record gathers, joined with those before where they follow them.
fn push_part(parts: &mut Vec<Part>, pages: &Arc<Pages>, blocks: Range<usize>) {
    match parts.last_mut() {
        Some(last) if Arc::ptr_eq(&last.pages, pages) && last.blocks.end == blocks.start => {
            last.blocks.end = blocks.end;
        }
        _ => parts.push(Part { pages: Arc::clone(pages), blocks }),
    }
}
