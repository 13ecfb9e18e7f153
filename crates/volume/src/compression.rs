//! Compressed blocks, which the log holds in place of blocks that LZ4 makes smaller.
//!
//! A compressed block (a fragment) occupies whole sectors of 512 bytes. It begins with the CRC-32C
//! of the data as the client wrote it, and the compressed length. So the checksum also covers the
//! compressor: data that does not decompress to what was written is detected like any damage.

use crate::entry::{Entry, State};
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use wattio_pages::BLOCK;

/// Bytes of a sector, in which fragments are laid.
pub(crate) const SECTOR: usize = 512;
/// Sectors of a block.
pub(crate) const BLOCK_SECTORS: u32 = (BLOCK / SECTOR) as u32;
/// Bytes of a fragment before its data.
const HEAD: usize = 6;

/// Whether and how the data of a volume is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// It is not.
    #[default]
    None,
    /// Each block by LZ4, where that makes it smaller by a sector.
    Lz4,
}

impl Compression {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::None, Self::Lz4];

    /// Its name, in options and status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        }
    }
}

/// Blocks of a write as they go into the log.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    /// The fragments, one after another, each in whole sectors.
    pub(crate) bytes: Vec<u8>,
    /// For each block, the sectors of its fragment: those of a block for one that is not compressed
    /// and has none.
    pub(crate) sectors: Vec<u8>,
}

/// Makes fragments; its memory is used again.
pub(crate) struct Packer {
    table: CompressTable,
    compressed: Vec<u8>,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    /// One for volumes that are compressed in this way; `None` for those that are not.
    pub(crate) fn new(compression: Compression) -> Option<Self> {
        match compression {
            Compression::None => None,
            Compression::Lz4 => Some(Self {
                table: CompressTable::small(),
                compressed: vec![0; get_maximum_output_size(BLOCK)],
            }),
        }
    }

    /// Adds a block with this CRC-32C: as a fragment, or as one that is stored as it is.
    pub(crate) fn add(&mut self, packed: &mut Packed, block: &[u8; BLOCK], crc: u32) {
        let made = compress_into_with_table(block, &mut self.compressed, &mut self.table);
        // The buffer is as large as LZ4 asks for; and what it refuses is stored as it is.
        let bytes = made.map_or(BLOCK, |bytes| HEAD + bytes);
        let sectors = bytes.div_ceil(SECTOR).min(BLOCK_SECTORS as usize);
        packed.sectors.push(sectors as u8);
        if sectors < BLOCK_SECTORS as usize {
            let end = packed.bytes.len() + sectors * SECTOR;
            packed.bytes.extend_from_slice(&crc.to_le_bytes());
            packed.bytes.extend_from_slice(&((bytes - HEAD) as u16).to_le_bytes());
            packed.bytes.extend_from_slice(&self.compressed[..bytes - HEAD]);
            packed.bytes.resize(end, 0);
        }
    }
}

/// The bytes that are stored for an entry, in memory that begins with the blocks that it lies in.
pub(crate) fn stored(entry: Entry, bytes: &[u8]) -> Option<&[u8]> {
    let from = entry.place()?.sector as usize * SECTOR;
    bytes.get(from..from + entry.sectors() as usize * SECTOR)
}

/// Whether memory that begins with the blocks that an entry lies in has its data, undamaged.
pub(crate) fn is_sound(entry: Entry, bytes: &[u8]) -> bool {
    stored(entry, bytes).is_some_and(|bytes| {
        let crc = match entry.state() {
            State::Packed(..) => unpack(bytes, &mut [0; BLOCK]),
            _ => Some(crc32c::crc32c(bytes)),
        };
        crc.is_some_and(|crc| entry.matches(crc))
    })
}

/// What a fragment says that the CRC-32C of its block is.
pub(crate) fn check_of(fragment: &[u8]) -> Option<u32> {
    fragment.first_chunk().map(|crc| u32::from_le_bytes(*crc))
}

/// Makes the block of a fragment, and returns its CRC-32C; `None` if it is damaged.
pub(crate) fn unpack(fragment: &[u8], block: &mut [u8; BLOCK]) -> Option<u32> {
    let (crc, rest) = fragment.split_first_chunk()?;
    let (bytes, rest) = rest.split_first_chunk()?;
    let data = rest.get(..usize::from(u16::from_le_bytes(*bytes)))?;
    let made = decompress_into(data, block).ok()?;
    let crc = u32::from_le_bytes(*crc);
    (made == BLOCK && crc32c::crc32c(block) == crc).then_some(crc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(block: &[u8; BLOCK]) -> Packed {
        let mut packed = Packed::default();
        let mut packer = Packer::new(Compression::Lz4).unwrap();
        packer.add(&mut packed, block, crc32c::crc32c(block));
        packed
    }

    /// A block whose first bytes are given and whose others repeat.
    fn block(bytes: &[u8]) -> [u8; BLOCK] {
        let mut block = [7; BLOCK];
        block[..bytes.len()].copy_from_slice(bytes);
        block
    }

    proptest! {
        #[test]
        fn a_fragment_is_its_block(bytes in prop::collection::vec(any::<u8>(), 0..=BLOCK)) {
            let block = block(&bytes);
            let packed = pack(&block);
            let sectors = usize::from(packed.sectors[0]);
            if sectors == BLOCK_SECTORS as usize {
                prop_assert!(packed.bytes.is_empty());
                prop_assert!(bytes.len() > 3000, "{} bytes of noise", bytes.len());
            } else {
                prop_assert_eq!(packed.bytes.len(), sectors * SECTOR);
                let mut out = [0; BLOCK];
                prop_assert_eq!(unpack(&packed.bytes, &mut out), check_of(&packed.bytes));
                prop_assert!(out == block);
            }
        }

        #[test]
        fn damage_is_seen(bytes in prop::collection::vec(any::<u8>(), 2000), at in 0usize..2000) {
            let block = block(&bytes);
            let mut packed = pack(&block);
            packed.bytes[at] ^= 1;
            let mut out = [0; BLOCK];
            let found = unpack(&packed.bytes, &mut out);
            prop_assert!(found.is_none() || out == block, "damage that is served");
        }

        #[test]
        fn any_contents_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = unpack(&bytes, &mut [0; BLOCK]);
        }
    }

    #[test]
    fn a_block_that_repeats_takes_one_sector() {
        assert_eq!(pack(&[1; BLOCK]).sectors, [1]);
    }
}
