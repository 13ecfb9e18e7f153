//! The header of a record: what happened to which blocks.

use super::cursor::{Writer, seal, unseal};
use super::{Stream, VolumeId};
use crate::compression::{BLOCK_SECTORS, SECTOR};
use crate::entry::{Entry, Place};
use wattio_pages::BLOCK;

const MAGIC: [u8; 4] = *b"WREC";
/// Bytes of a header before its extents.
pub(super) const FIXED: usize = 96;
/// Bytes of an extent, of a checksum, of an origin.
pub(super) const EXTENT: usize = 16;
pub(super) const CHECKSUM: usize = 4;
pub(super) const ORIGIN: usize = 8;
/// Where the sector of an origin stands above its block, which is less than [`crate::SEGMENT_BLOCKS`].
const ORIGIN_SECTOR_SHIFT: u32 = 16;

/// Data blocks that a record may hold: that many moves, each an extent of its own, fit the header.
pub(crate) const RECORD_BLOCKS_MAX: u32 =
    ((BLOCK - FIXED) / (EXTENT + CHECKSUM + ORIGIN)) as u32 & !15;

/// What happened to a run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtentKind {
    /// A client wrote them.
    Write,
    /// A client wrote zeros.
    Zeros,
    /// A client discarded them.
    Trim,
    /// Garbage collection moved them, if they still were where it found them.
    Move,
    /// Garbage collection could not read them, where it found them.
    Lost,
}

/// A run of blocks and what happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) kind: ExtentKind,
    pub(crate) lba: u64,
    pub(crate) blocks: u32,
}

/// A record's header, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) volume: VolumeId,
    /// Where the header itself is; data follows it.
    pub(crate) place: Place,
    /// Which use of the segment.
    pub(crate) generation: u64,
    /// The opening of the volume in which it was written.
    pub(crate) epoch: u64,
    pub(crate) stream: Stream,
    /// Its place in the order of the whole log.
    pub(crate) sequence: u64,
    /// Every record before this one was known to be durable when this one was written.
    pub(crate) durable: u64,
    /// The segment that the stream goes on in, and which use of it.
    pub(crate) next: (u32, u64),
    /// In the order in which they take effect; their data lies in this order too.
    pub(crate) extents: Vec<Extent>,
    /// A CRC-32C for each block behind the header.
    pub(crate) checksums: Vec<u32>,
    /// Compressed blocks, if it has any.
    pub(crate) fragments: Fragments,
    /// For each block that was moved or lost, where it was.
    pub(crate) origins: Vec<Place>,
}

/// The compressed blocks of a record. They lie one after another behind the header, in its own block
/// already, and before the blocks that are stored as they are.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Fragments {
    /// The sector of the header's block at which they begin, 8 for the block after it; 0: there are
    /// none.
    pub(crate) from: u32,
    /// For each block of the volume that the record has data of, the sectors that it takes; empty if
    /// there are no fragments.
    pub(crate) sectors: Vec<u8>,
    /// For each fragment, the CRC-32C of the block it is of.
    pub(crate) checks: Vec<u32>,
}

impl ExtentKind {
    const fn code(self) -> u8 {
        match self {
            Self::Write => 0,
            Self::Zeros => 1,
            Self::Trim => 2,
            Self::Move => 3,
            Self::Lost => 4,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Write),
            1 => Some(Self::Zeros),
            2 => Some(Self::Trim),
            3 => Some(Self::Move),
            4 => Some(Self::Lost),
            _ => None,
        }
    }

    /// Whether data of the blocks follows the header.
    pub(crate) const fn has_data(self) -> bool {
        matches!(self, Self::Write | Self::Move)
    }

    /// Whether it takes effect only where the map still has the place it came from.
    pub(crate) const fn has_origin(self) -> bool {
        matches!(self, Self::Move | Self::Lost)
    }
}

impl Header {
    /// Blocks behind the header's.
    pub(crate) const fn data_blocks(&self) -> u32 {
        self.checksums.len() as u32
    }

    /// Blocks of the log that the record takes.
    pub(crate) const fn blocks(&self) -> u32 {
        1 + self.data_blocks()
    }

    /// What the map has of each block that the record has data of, in their order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        let Fragments { from, sectors, checks } = &self.fragments;
        let fragment_blocks = self.checksums.len() - (self.data_count() - checks.len());
        let (behind, mut checks) = (1 + fragment_blocks as u32, checks.iter());
        let mut plain = (behind..).zip(&self.checksums[fragment_blocks..]);
        let mut fragment = self.place.plus_sectors(*from);
        (0..self.data_count()).filter_map(move |at| {
            let sectors = sectors.get(at).map_or(BLOCK_SECTORS, |&sectors| u32::from(sectors));
            if sectors == BLOCK_SECTORS {
                let (block, &crc) = plain.next()?;
                return Some(Entry::data(self.place.plus(block), crc));
            }
            let place = fragment;
            fragment = fragment.plus_sectors(sectors);
            Some(Entry::packed(place, sectors, *checks.next()?))
        })
    }

    /// The blocks that the record has data of, and what the map has of each.
    pub(crate) fn data(&self) -> impl Iterator<Item = (u64, Entry)> {
        let with_data = self.extents.iter().filter(|extent| extent.kind.has_data());
        let lbas = with_data.flat_map(|extent| extent.lba..extent.lba + u64::from(extent.blocks));
        lbas.zip(self.entries())
    }

    /// How many blocks the record has data of.
    const fn data_count(&self) -> usize {
        if self.fragments.from == 0 { self.checksums.len() } else { self.fragments.sectors.len() }
    }

    /// Writes it into a block, in which the first fragments may lie already. What it holds fits: see
    /// [`super::Filling`].
    pub(crate) fn encode(&self, block: &mut [u8; BLOCK]) {
        let fragments = match self.fragments.from as usize {
            0 => BLOCK,
            from => from * SECTOR,
        };
        block[..fragments].fill(0);
        let mut out = Writer::new(&mut block[8..]);
        out.put(&self.volume.0);
        out.u32(self.place.segment);
        out.u32(self.place.block);
        out.u64(self.generation);
        out.u64(self.epoch);
        out.u64(self.sequence);
        out.u64(self.durable);
        out.u32(self.next.0);
        out.u64(self.next.1);
        out.u32(self.stream as u32);
        out.u32(self.extents.len() as u32);
        out.u32(self.checksums.len() as u32);
        out.u32(self.origins.len() as u32);
        out.u32(self.fragments.from);
        for extent in &self.extents {
            out.u64(extent.lba << 8 | u64::from(extent.kind.code()));
            out.u64(u64::from(extent.blocks));
        }
        for &checksum in &self.checksums {
            out.u32(checksum);
        }
        out.put(&self.fragments.sectors);
        for &check in &self.fragments.checks {
            out.u32(check);
        }
        for origin in &self.origins {
            let within = origin.sector << ORIGIN_SECTOR_SHIFT | origin.block;
            out.u64(u64::from(origin.segment) << 32 | u64::from(within));
        }
        seal(block, MAGIC);
    }

    /// Reads the header that lies at `place`; `None` if there is none, or one that was meant for
    /// another volume or place. Its generation, epoch and sequence are the caller's to judge.
    pub(crate) fn decode(block: &[u8; BLOCK], volume: VolumeId, place: Place) -> Option<Self> {
        let mut reader = unseal(block, MAGIC)?;
        let is_it = reader.take()? == volume.0
            && reader.u32()? == place.segment
            && reader.u32()? == place.block;
        if !is_it {
            return None;
        }
        let generation = reader.u64()?;
        let epoch = reader.u64()?;
        let sequence = reader.u64()?;
        let durable = reader.u64()?;
        let next = (reader.u32()?, reader.u64()?);
        let stream = match reader.u32()? {
            0 => Stream::Clients,
            1 => Stream::Moved,
            _ => return None,
        };
        let (extents, checksums, origins) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let from = reader.u32()?;
        let extents = (0..extents)
            .map(|_| {
                let head = reader.u64()?;
                let kind = ExtentKind::from_code(head.to_le_bytes()[0])?;
                Some(Extent { kind, lba: head >> 8, blocks: u32::try_from(reader.u64()?).ok()? })
            })
            .collect::<Option<Vec<_>>>()?;
        let checksums = (0..checksums).map(|_| reader.u32()).collect::<Option<Vec<_>>>()?;
        let blocks = |has: fn(ExtentKind) -> bool| {
            let matching = extents.iter().filter(|extent| has(extent.kind));
            matching.map(|extent| u64::from(extent.blocks)).sum::<u64>()
        };
        let data = blocks(ExtentKind::has_data);
        let mut fragments = Fragments { from, ..Fragments::default() };
        if from > 0 {
            fragments.sectors = (0..data).map(|_| reader.u8()).collect::<Option<Vec<_>>>()?;
            let count = fragments.sectors.iter().filter(|&&it| u32::from(it) < BLOCK_SECTORS);
            fragments.checks = count.map(|_| reader.u32()).collect::<Option<Vec<_>>>()?;
        }
        let origins = (0..origins)
            .map(|_| {
                let bits = reader.u64()?;
                let within = bits as u32;
                Some(Place {
                    segment: (bits >> 32) as u32,
                    block: within & ((1 << ORIGIN_SECTOR_SHIFT) - 1),
                    sector: within >> ORIGIN_SECTOR_SHIFT,
                })
            })
            .collect::<Option<Vec<_>>>()?;
        let is_sound = fragments.blocks(data) == Some(checksums.len() as u64)
            && blocks(ExtentKind::has_origin) == origins.len() as u64;
        is_sound.then_some(Self {
            volume,
            place,
            generation,
            epoch,
            stream,
            sequence,
            durable,
            next,
            extents,
            checksums,
            fragments,
            origins,
        })
    }
}

impl Fragments {
    /// Blocks behind the header of a record with data of so many; `None` if they cannot be right.
    fn blocks(&self, data: u64) -> Option<u64> {
        if self.from == 0 {
            return Some(data);
        }
        let sizes = self.sectors.iter().map(|&sectors| u32::from(sectors));
        let is_sound = self.from <= BLOCK_SECTORS
            && sizes.clone().all(|sectors| (1..=BLOCK_SECTORS).contains(&sectors));
        let fragments: u32 = sizes.filter(|&sectors| sectors < BLOCK_SECTORS).sum();
        let plain = data - self.checks.len() as u64;
        let behind = (self.from + fragments).div_ceil(BLOCK_SECTORS) - 1;
        is_sound.then_some(u64::from(behind) + plain)
    }
}

#[cfg(test)]
mod tests;
