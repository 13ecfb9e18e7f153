use super::*;
use crate::format::Filling;
use proptest::prelude::*;

const VOLUME: VolumeId = VolumeId([7; 16]);
const PLACE: Place = Place::new(9, 33);

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
            .map(|block| Place { segment: 1, block, sector: block % 8 })
            .collect(),
        fragments: Fragments::default(),
        extents,
    }
}

/// Extents as a record would be filled with them, of the given kinds and sizes.
fn filled(wanted: Vec<(u8, u32)>) -> Header {
    packed(wanted, None)
}

/// The same in a compressed volume, whose blocks take so many sectors by turns.
fn packed(wanted: Vec<(u8, u32)>, sizes: Option<&[u32]>) -> Header {
    let mut filling = Filling::new(RECORD_BLOCKS_MAX, sizes.is_some());
    let size = |at: usize| sizes.map_or(BLOCK_SECTORS, |sizes| sizes[at % sizes.len()]);
    let (mut extents, mut sectors, mut lba) = (Vec::new(), Vec::new(), 0);
    for (code, blocks) in wanted {
        let kind = ExtentKind::from_code(code).unwrap();
        let blocks = filling.add(kind, blocks, |at| size(sectors.len() + at as usize));
        if blocks == 0 {
            continue;
        }
        extents.push(Extent { kind, lba, blocks });
        lba += u64::from(blocks) + 1;
        let data = if kind.has_data() { blocks } else { 0 };
        (0..data).for_each(|_| sectors.push(size(sectors.len()) as u8));
    }
    let mut header = header(extents);
    let (from, behind) = filling.fragments();
    let is_fragment = |sectors: &&u8| u32::from(**sectors) < BLOCK_SECTORS;
    let fragments = sectors.iter().filter(is_fragment).count() as u32;
    if from > 0 {
        let plain = sectors.len() as u32 - fragments;
        header.checksums = (0..behind + plain).collect();
        header.fragments = Fragments { from, sectors, checks: (0..fragments).collect() };
    }
    header
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
    fn a_header_of_fragments_comes_back_and_they_do_not_overlap(
        wanted in prop::collection::vec((0u8..5, 1u32..300), 0..400),
        sizes in prop::collection::vec(1u32..=8, 1..20),
    ) {
        let header = packed(wanted, Some(&sizes));
        prop_assert!(header.data_blocks() <= RECORD_BLOCKS_MAX);
        let mut block = [0xaa; BLOCK];
        header.encode(&mut block);
        let begin = header.fragments.from as usize * SECTOR;
        if begin > 0 {
            prop_assert!(block[begin..].iter().all(|&byte| byte == 0xaa), "fragments stay");
        }
        let decoded = Header::decode(&block, VOLUME, PLACE);
        prop_assert_eq!(decoded.as_ref(), Some(&header));
        let mut taken = vec![false; (header.blocks() * BLOCK_SECTORS) as usize];
        taken[..header.fragments.from as usize].fill(true);
        for (_, entry) in header.data() {
            let place = entry.place().unwrap();
            let first = ((place.block - PLACE.block) * BLOCK_SECTORS + place.sector) as usize;
            let lies_in = &mut taken[first..first + entry.sectors() as usize];
            prop_assert!(!lies_in.contains(&true));
            lies_in.fill(true);
        }
        prop_assert_eq!(header.data().count(), header.data_count());
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
        for sizes in [None, Some(&[3, 8][..])] {
            packed(vec![(0, 8)], sizes).encode(&mut block);
            // The number of extents stands at 80, of checksums at 84, of origins at 88.
            for from in [64, 80, 96] {
                let mut block = block;
                block[from..from + 400].copy_from_slice(&contents);
                seal(&mut block, MAGIC);
                if let Some(header) = Header::decode(&block, VOLUME, PLACE) {
                    prop_assert!(header.checksums.len() < BLOCK);
                    prop_assert_eq!(header.data().count(), header.data_count());
                }
            }
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
