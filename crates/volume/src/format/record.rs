//! The header of a record: what the log says happened to which blocks.

use super::cursor::{Writer, seal, unseal};
use super::{Stream, VolumeId};
use crate::entry::Place;
use wattio_pages::BLOCK;

const MAGIC: [u8; 4] = *b"WREC";
/// Bytes of a header before its extents.
const FIXED: usize = 96;
/// Bytes of an extent, of a checksum, of an origin.
const EXTENT: usize = 16;
const CHECKSUM: usize = 4;
const ORIGIN: usize = 8;

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
    /// A CRC-32C for each block of data.
    pub(crate) checksums: Vec<u32>,
    /// For each block that was moved or lost, where it was.
    pub(crate) origins: Vec<Place>,
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

    /// Bytes of a header that an extent of so many blocks takes.
    const fn bytes(self, blocks: u32) -> usize {
        let each = CHECKSUM * self.has_data() as usize + ORIGIN * self.has_origin() as usize;
        EXTENT + blocks as usize * each
    }
}

impl Header {
    /// Blocks of data behind the header.
    pub(crate) const fn data_blocks(&self) -> u32 {
        self.checksums.len() as u32
    }

    /// Blocks of the log that the record takes.
    pub(crate) const fn blocks(&self) -> u32 {
        1 + self.data_blocks()
    }

    /// How many of `blocks` of this kind still fit the header, where `used` bytes are taken and
    /// at most `room` blocks of data may follow.
    pub(crate) fn fits(kind: ExtentKind, blocks: u32, used: usize, room: u32) -> u32 {
        let left = BLOCK.saturating_sub(FIXED + used);
        let each = kind.bytes(1) - EXTENT;
        if left < kind.bytes(1) {
            return 0;
        }
        let by_header =
            (left - EXTENT).checked_div(each).map_or(u32::MAX, |fitting| fitting as u32);
        let by_room = if kind.has_data() { room } else { u32::MAX };
        blocks.min(by_header).min(by_room)
    }

    /// Bytes that an extent takes of a header.
    pub(crate) const fn taken(extent: Extent) -> usize {
        extent.kind.bytes(extent.blocks)
    }

    /// Writes it into a block. What it holds fits: see [`Self::fits`].
    pub(crate) fn encode(&self, block: &mut [u8; BLOCK]) {
        block.fill(0);
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
        out.put(&[0; FIXED - 92]);
        for extent in &self.extents {
            out.u64(extent.lba << 8 | u64::from(extent.kind.code()));
            out.u64(u64::from(extent.blocks));
        }
        for &checksum in &self.checksums {
            out.u32(checksum);
        }
        for origin in &self.origins {
            out.u64(u64::from(origin.segment) << 32 | u64::from(origin.block));
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
        reader.take::<{ FIXED - 92 }>()?;
        let extents = (0..extents)
            .map(|_| {
                let head = reader.u64()?;
                let kind = ExtentKind::from_code(head.to_le_bytes()[0])?;
                Some(Extent { kind, lba: head >> 8, blocks: u32::try_from(reader.u64()?).ok()? })
            })
            .collect::<Option<Vec<_>>>()?;
        let checksums = (0..checksums).map(|_| reader.u32()).collect::<Option<Vec<_>>>()?;
        let origins = (0..origins)
            .map(|_| {
                let bits = reader.u64()?;
                Some(Place { segment: (bits >> 32) as u32, block: bits as u32 })
            })
            .collect::<Option<Vec<_>>>()?;
        let blocks = |has: fn(ExtentKind) -> bool| {
            let matching = extents.iter().filter(|extent| has(extent.kind));
            matching.map(|extent| u64::from(extent.blocks)).sum::<u64>()
        };
        let is_sound = blocks(ExtentKind::has_data) == checksums.len() as u64
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
            origins,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VOLUME: VolumeId = VolumeId([7; 16]);
    const PLACE: Place = Place { segment: 9, block: 33 };

    fn header(extents: Vec<Extent>) -> Header {
        let blocks = |has: fn(ExtentKind) -> bool| {
            extents.iter().filter(|e| has(e.kind)).map(|e| e.blocks).sum::<u32>()
        };
        Header {
            volume: VOLUME,
            place: PLACE,
            generation: 5 << 32,
            epoch: 5,
            stream: Stream::Moved,
            sequence: 1000,
            durable: 990,
            next: (10, 5 << 32 | 1),
            checksums: (0..blocks(ExtentKind::has_data)).collect(),
            origins: (0..blocks(ExtentKind::has_origin))
                .map(|block| Place { segment: 1, block })
                .collect(),
            extents,
        }
    }

    /// Extents as a record would be filled with them, of the given kinds and sizes.
    fn filled(wanted: Vec<(u8, u32)>) -> Header {
        let (mut used, mut room, mut lba) = (0, RECORD_BLOCKS_MAX, 0);
        let mut extents = Vec::new();
        for (code, blocks) in wanted {
            let kind = ExtentKind::from_code(code).unwrap();
            let blocks = Header::fits(kind, blocks, used, room);
            if blocks == 0 {
                continue;
            }
            let extent = Extent { kind, lba, blocks };
            used += Header::taken(extent);
            room -= if kind.has_data() { blocks } else { 0 };
            lba += u64::from(blocks) + 1;
            extents.push(extent);
        }
        header(extents)
    }

    proptest! {
        #[test]
        fn a_header_comes_back(wanted in prop::collection::vec((0u8..5, 1u32..300), 0..400)) {
            let header = filled(wanted);
            prop_assert!(header.data_blocks() <= RECORD_BLOCKS_MAX);
            let mut block = [0; BLOCK];
            header.encode(&mut block);
            prop_assert_eq!(Header::decode(&block, VOLUME, PLACE), Some(header));
        }

        #[test]
        fn a_flipped_bit_is_seen(byte in 0usize..BLOCK, bit in 0u32..8) {
            let mut block = [0; BLOCK];
            filled(vec![(0, 8), (3, 100)]).encode(&mut block);
            block[byte] ^= 1 << bit;
            prop_assert_eq!(Header::decode(&block, VOLUME, PLACE), None);
        }

        #[test]
        fn any_contents_are_read_without_a_panic(contents in prop::collection::vec(any::<u8>(), 400)) {
            let mut block = [0; BLOCK];
            filled(vec![(0, 8)]).encode(&mut block);
            block[64..464].copy_from_slice(&contents);
            seal(&mut block, MAGIC);
            if let Some(header) = Header::decode(&block, VOLUME, PLACE) {
                prop_assert!(header.checksums.len() < BLOCK);
            }
        }
    }

    #[test]
    fn a_header_counts_only_where_it_was_meant_to_be() {
        let mut block = [0; BLOCK];
        header(Vec::new()).encode(&mut block);
        assert!(Header::decode(&block, VOLUME, PLACE).is_some());
        assert_eq!(Header::decode(&block, VOLUME, PLACE.plus(1)), None);
        assert_eq!(Header::decode(&block, VolumeId([1; 16]), PLACE), None);
    }

    #[test]
    fn a_record_of_moves_alone_fits_one_header() {
        let moves = (0..RECORD_BLOCKS_MAX).map(|_| (3, 1)).collect();
        assert_eq!(filled(moves).data_blocks(), RECORD_BLOCKS_MAX);
    }
}
