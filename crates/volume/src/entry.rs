//! An entry of the map: where the data of a block is, in 8 bytes.

/// Bits of the checksum that an entry keeps.
const CHECK_BITS: u32 = 28;
/// Bits of a block's place within its segment.
const OFFSET_BITS: u32 = 13;
/// Bits of a segment's number.
const SEGMENT_BITS: u32 = 21;

const CHECK_MASK: u64 = (1 << CHECK_BITS) - 1;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const SEGMENT_MASK: u64 = (1 << SEGMENT_BITS) - 1;

/// A place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Number of the segment.
    pub segment: u32,
    /// Block within the segment.
    pub block: u32,
}

impl Place {
    /// The place `blocks` further on in the segment.
    #[must_use]
    pub const fn plus(self, blocks: u32) -> Self {
        Self { segment: self.segment, block: self.block + blocks }
    }
}

/// What the map knows of a block, packed into 8 bytes: two bits for which of these it is, and for
/// data the segment (21 bits), the block within it (13) and 28 bits of its CRC-32C.
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

    /// What it is.
    #[must_use]
    pub const fn state(self) -> State {
        match self.0 >> 62 {
            0 => State::Hole,
            1 => State::Zeros,
            2 => State::Data(Place {
                segment: (self.0 >> (OFFSET_BITS + CHECK_BITS) & SEGMENT_MASK) as u32,
                block: (self.0 >> CHECK_BITS & OFFSET_MASK) as u32,
            }),
            _ => State::Lost,
        }
    }

    /// Where its data is, if it has any.
    #[must_use]
    pub const fn place(self) -> Option<Place> {
        match self.state() {
            State::Data(place) => Some(place),
            _ => None,
        }
    }

    /// Whether data with this CRC-32C may be what it stands for.
    #[must_use]
    pub const fn matches(self, crc: u32) -> bool {
        self.0 & CHECK_MASK == crc as u64 & CHECK_MASK
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
            let place = Place { segment, block };
            let entry = Entry::data(place, crc);
            prop_assert_eq!(entry.state(), State::Data(place));
            prop_assert!(entry.matches(crc));
            prop_assert!(!entry.matches(crc ^ 1));
            prop_assert_eq!(Entry::from_bits(entry.to_bits()), entry);
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
