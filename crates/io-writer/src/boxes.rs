//! Blocks of a field that fill a box without a gap, as those of a node's ranks often do. A part file
//! that holds many such blocks has a virtual dataset of them, so that who publishes tells of one box
//! and not of each block: HDF5 takes 8 us for each that it is told of.

/// Blocks of a box, at least: a dataset takes HDF5 about as long as so many blocks.
pub const BLOCKS_MIN: usize = 8;

/// A box that is filled by blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Where it begins in the field.
    pub offset: Vec<u64>,
    /// Its extents.
    pub count: Vec<u64>,
    /// Its blocks, by their places in what was given.
    pub blocks: Vec<usize>,
}

/// The boxes that blocks fill, each told by where it begins and its extents: all of one number of axes,
/// none without elements. Every block is of one box. What overlaps is not joined.
#[must_use]
pub fn filled<'a>(blocks: impl Iterator<Item = (&'a [u64], &'a [u64])>) -> Vec<Filled> {
    let mut boxes: Vec<Filled> = blocks
        .enumerate()
        .map(|(at, (offset, count))| {
            let (offset, count) = (offset.to_vec(), count.to_vec());
            Filled { offset, count, blocks: vec![at] }
        })
        .collect();
    let axes = boxes.first().map_or(0, |one| one.offset.len());
    for axis in (0..axes).rev() {
        boxes.sort_by(|one, other| {
            across(one, axis)
                .cmp(across(other, axis))
                .then_with(|| one.offset[axis].cmp(&other.offset[axis]))
        });
        let mut joined: Vec<Filled> = Vec::with_capacity(boxes.len());
        for next in boxes {
            match joined.last_mut() {
                Some(last)
                    if across(last, axis).eq(across(&next, axis))
                        && last.offset[axis] + last.count[axis] == next.offset[axis] =>
                {
                    last.count[axis] += next.count[axis];
                    last.blocks.extend(next.blocks);
                }
                _ => joined.push(next),
            }
        }
        boxes = joined;
    }
    boxes
}

/// What two boxes have in common that follow on each other along an axis.
fn across(one: &Filled, axis: usize) -> impl Iterator<Item = (u64, u64)> {
    let places = one.offset.iter().copied().zip(one.count.iter().copied());
    places.enumerate().filter(move |&(at, _)| at != axis).map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 2 x 3 in a grid of ranks, row by row.
    fn grid(columns: u64, ranks: std::ops::Range<u64>) -> Vec<[[u64; 2]; 2]> {
        ranks.map(|rank| [[2 * (rank / columns), 3 * (rank % columns)], [2, 3]]).collect()
    }

    fn of(blocks: &[[[u64; 2]; 2]]) -> Vec<Filled> {
        let mut found = filled(blocks.iter().map(|[offset, count]| (&offset[..], &count[..])));
        found.sort_by_key(|one| one.offset.clone());
        found
    }

    #[test]
    fn ranks_of_whole_rows_fill_one_box() {
        let mut blocks = grid(4, 4..12);
        blocks.reverse();
        let found = of(&blocks);
        assert_eq!((&found[0].offset[..], &found[0].count[..]), (&[2, 0][..], &[4, 12][..]));
        assert_eq!((found.len(), found[0].blocks.len()), (1, 8));
    }

    #[test]
    fn ranks_from_the_midst_of_a_row_on_fill_several() {
        let places: Vec<_> =
            of(&grid(4, 2..11)).into_iter().map(|one| (one.offset, one.count)).collect();
        let (first, midst, last) =
            ((vec![0, 6], vec![2, 6]), (vec![2, 0], vec![2, 12]), (vec![4, 0], vec![2, 9]));
        assert_eq!(places, [first, midst, last]);
    }

    #[test]
    fn what_overlaps_or_leaves_a_gap_is_not_joined() {
        for second in [[[0, 2], [2, 3]], [[0, 4], [2, 3]], [[1, 3], [2, 3]], [[0, 3], [1, 3]]] {
            assert_eq!(of(&[[[0, 0], [2, 3]], second]).len(), 2, "{second:?}");
        }
        // One of two that are the same goes on.
        let found = of(&[[[0, 0], [2, 3]], [[0, 0], [2, 3]], [[0, 3], [2, 3]]]);
        assert_eq!(found.iter().map(|one| one.blocks.len()).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_has_no_axes_stays_alone() {
        assert_eq!(filled([(&[][..], &[][..]); 2].into_iter()).len(), 2);
    }
}
