//! An entry of the map: where the data of a block is, in 8 bytes.

use crate::compression::BLOCK_SECTORS;

/// Bits of the checksum that an entry of a block stored as it is keeps.
const CHECK_BITS: u32 = 28;
/// Bits of the sector at which a compressed block begins, and of how many it takes: what they take is
/// missing in the checksum, which a compressed block carries whole by itself.
const SECTOR_BITS: u32 = 3;
const PACKED_CHECK_BITS: u32 = CHECK_BITS - 2 * SECTOR_BITS;
/// Bits of a block's place within its segment.
const OFFSET_BITS: u32 = 13;
/// Bits of a segment's number.
const SEGMENT_BITS: u32 = 21;

const CHECK_MASK: u64 = (1 << CHECK_BITS) - 1;
const PACKED_CHECK_MASK: u64 = (1 << PACKED_CHECK_BITS) - 1;
const SECTOR_MASK: u64 = (1 << SECTOR_BITS) - 1;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const SEGMENT_MASK: u64 = (1 << SEGMENT_BITS) - 1;

/// A place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Number of the segment.
    pub segment: u32,
    /// Block within the segment.
    pub block: u32,
    /// Sector of 512 bytes within the block: where a compressed block begins, else 0.
    pub sector: u32,
}

impl Place {
    /// A block of a segment.
    #[must_use]
    pub const fn new(segment: u32, block: u32) -> Self {
        Self { segment, block, sector: 0 }
    }

    /// The place `blocks` further on in the segment.
    #[must_use]
    pub const fn plus(self, blocks: u32) -> Self {
        Self { block: self.block + blocks, ..self }
    }

    /// The place `sectors` further on in the segment.
    #[must_use]
    pub const fn plus_sectors(self, sectors: u32) -> Self {
        let after = self.sectors() + sectors;
        Self { segment: self.segment, block: after / BLOCK_SECTORS, sector: after % BLOCK_SECTORS }
    }

    /// How many sectors of its segment are before it.
    const fn sectors(self) -> u32 {
        self.block * BLOCK_SECTORS + self.sector
    }
}

/// Blocks of a device that hold what is stored for a block of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one.
    pub first: Place,
    /// How many: two where a compressed block lies across their border.
    pub blocks: u32,
}

/// What the map knows of a block, packed into 8 bytes: two bits for which of these it is, and for
/// data the segment (21 bits), the block within it (13) and 28 bits of its CRC-32C. A compressed block
/// has the bits of a lost one and how many sectors it takes, which no lost one has: 3 bits for that, 3
/// for the sector at which it begins, and 22 of the CRC-32C of what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Entry(u64);

/// An [`Entry`], unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never written, or trimmed: reads as zeros.
    Hole,
    /// Zeros that were written.
    Zeros,
    /// Data in the log.
    Data(Place),
    /// Compressed data in the log, and how many sectors it takes: 1 to 7.
    Packed(Place, u32),
    /// Its data cannot be read any more.
    Lost,
}

impl Entry {
    /// Nothing there.
    pub const HOLE: Self = Self(0);
    /// Zeros.
    pub const ZEROS: Self = Self(1 << 62);
    /// Data that cannot be read any more.
    pub const LOST: Self = Self(3 << 62);

    /// Data at a place, with its CRC-32C.
    #[must_use]
    pub const fn data(place: Place, crc: u32) -> Self {
        Self(
            2 << 62
                | (place.segment as u64 & SEGMENT_MASK) << (OFFSET_BITS + CHECK_BITS)
                | (place.block as u64 & OFFSET_MASK) << CHECK_BITS
                | crc as u64 & CHECK_MASK,
        )
    }

    /// Compressed data at a place, in 1 to 7 sectors, with the CRC-32C of what it holds.
    #[must_use]
    pub const fn packed(place: Place, sectors: u32, crc: u32) -> Self {
        Self(
            3 << 62
                | (place.segment as u64 & SEGMENT_MASK) << (OFFSET_BITS + CHECK_BITS)
                | (place.block as u64 & OFFSET_MASK) << CHECK_BITS
                | (place.sector as u64 & SECTOR_MASK) << (SECTOR_BITS + PACKED_CHECK_BITS)
                | (sectors as u64 & SECTOR_MASK) << PACKED_CHECK_BITS
                | crc as u64 & PACKED_CHECK_MASK,
        )
    }

    /// What it is.
    #[must_use]
    pub const fn state(self) -> State {
        let place = Place {
            segment: (self.0 >> (OFFSET_BITS + CHECK_BITS) & SEGMENT_MASK) as u32,
            block: (self.0 >> CHECK_BITS & OFFSET_MASK) as u32,
            sector: 0,
        };
        match self.0 >> 62 {
            0 => State::Hole,
            1 => State::Zeros,
            2 => State::Data(place),
            _ => match (self.0 >> PACKED_CHECK_BITS & SECTOR_MASK) as u32 {
                0 => State::Lost,
                sectors => {
                    let sector = self.0 >> (SECTOR_BITS + PACKED_CHECK_BITS) & SECTOR_MASK;
                    State::Packed(Place { sector: sector as u32, ..place }, sectors)
                }
            },
        }
    }

    /// Where its data is, if it has any.
    #[must_use]
    pub const fn place(self) -> Option<Place> {
        match self.state() {
            State::Data(place) | State::Packed(place, _) => Some(place),
            _ => None,
        }
    }

    /// Sectors that its data takes: all those of a block, if it is not compressed.
    #[must_use]
    pub const fn sectors(self) -> u32 {
        match self.state() {
            State::Data(_) => BLOCK_SECTORS,
            State::Packed(_, sectors) => sectors,
            _ => 0,
        }
    }

    /// The blocks of a device that its data lies in, if it has any.
    #[must_use]
    pub const fn span(self) -> Option<Span> {
        match self.place() {
            Some(place) => {
                let end = place.sector + self.sectors();
                let first = Place::new(place.segment, place.block);
                Some(Span { first, blocks: end.div_ceil(BLOCK_SECTORS) })
            }
            None => None,
        }
    }

    /// Whether data with this CRC-32C may be what it stands for.
    #[must_use]
    pub const fn matches(self, crc: u32) -> bool {
        let mask = match self.state() {
            State::Packed(..) => PACKED_CHECK_MASK,
            _ => CHECK_MASK,
        };
        self.0 & mask == crc as u64 & mask
    }

    /// As a number, for the disk.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// From a number; every number is an entry.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(segment in 0u32..1 << 21, block in 0u32..1 << 13, crc: u32) {
            let place = Place::new(segment, block);
            let entry = Entry::data(place, crc);
            prop_assert_eq!(entry.state(), State::Data(place));
            prop_assert_eq!(entry.span(), Some(Span { first: place, blocks: 1 }));
            prop_assert!(entry.matches(crc));
            prop_assert!(!entry.matches(crc ^ 1));
            prop_assert_eq!(Entry::from_bits(entry.to_bits()), entry);
        }

        #[test]
        fn a_compressed_block_comes_out_too(
            segment in 0u32..1 << 21, block in 0u32..1 << 13, sector in 0u32..8, sectors in 1u32..8,
            crc: u32,
        ) {
            let place = Place { segment, block, sector };
            let entry = Entry::packed(place, sectors, crc);
            prop_assert_eq!(entry.state(), State::Packed(place, sectors));
            let blocks = if sector + sectors > 8 { 2 } else { 1 };
            let first = Place::new(segment, block);
            prop_assert_eq!(entry.span(), Some(Span { first, blocks }));
            prop_assert!(entry.matches(crc));
            prop_assert!(!entry.matches(crc ^ 1));
        }

        #[test]
        fn every_number_is_an_entry(bits: u64) {
            prop_assert_eq!(Entry::from_bits(bits).to_bits(), bits);
            let _ = Entry::from_bits(bits).state();
        }
    }

    #[test]
    fn an_entry_takes_eight_bytes_and_zeros_are_holes() {
        assert_eq!(size_of::<Entry>(), 8);
        assert_eq!(Entry::default().state(), State::Hole);
        assert_eq!(Entry::ZEROS.state(), State::Zeros);
        assert_eq!(Entry::LOST.state(), State::Lost);
    }
}
