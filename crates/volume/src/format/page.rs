//! A page of the map, as a checkpoint keeps it.

use super::VolumeId;
use super::cursor::{Writer, seal, unseal};
use crate::entry::Entry;
use crate::geometry::PAGE_ENTRIES;
use wattio_pages::BLOCK;

const MAGIC: [u8; 4] = *b"WMAP";

/// Writes page number `number` of the map into a block.
pub(crate) fn encode_page(
    block: &mut [u8; BLOCK],
    volume: VolumeId,
    number: u64,
    entries: &[Entry],
) {
    block.fill(0);
    let mut out = Writer::new(&mut block[8..]);
    out.put(&volume.0);
    out.u64(number);
    for entry in entries {
        out.u64(entry.to_bits());
    }
    seal(block, MAGIC);
}

/// Reads page number `number` of the map; `None` if it is damaged or not that page.
pub(crate) fn decode_page(
    block: &[u8; BLOCK],
    volume: VolumeId,
    number: u64,
) -> Option<Vec<Entry>> {
    let mut reader = unseal(block, MAGIC)?;
    let is_it = reader.take()? == volume.0 && reader.u64()? == number;
    if !is_it {
        return None;
    }
    (0..PAGE_ENTRIES).map(|_| reader.u64().map(Entry::from_bits)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Place;
    use proptest::prelude::*;

    const VOLUME: VolumeId = VolumeId([7; 16]);

    fn page(count: usize) -> Vec<Entry> {
        let mut entries = vec![Entry::HOLE; PAGE_ENTRIES as usize];
        for (block, entry) in (0..).zip(entries.iter_mut().take(count)) {
            *entry = Entry::data(Place::new(3, block), block);
        }
        entries
    }

    #[test]
    fn a_page_comes_back_and_only_as_itself() {
        let mut block = [1; BLOCK];
        encode_page(&mut block, VOLUME, 5, &page(100));
        assert_eq!(decode_page(&block, VOLUME, 5), Some(page(100)));
        assert_eq!(decode_page(&block, VOLUME, 6), None, "written elsewhere");
        assert_eq!(decode_page(&block, VolumeId([8; 16]), 5), None, "of another volume");
        assert_eq!(decode_page(&[0; BLOCK], VOLUME, 0), None, "never written");
    }

    proptest! {
        #[test]
        fn a_flipped_bit_is_seen(byte in 0usize..BLOCK, bit in 0u32..8) {
            let mut block = [0; BLOCK];
            encode_page(&mut block, VOLUME, 5, &page(508));
            block[byte] ^= 1 << bit;
            prop_assert_eq!(decode_page(&block, VOLUME, 5), None);
        }
    }
}
