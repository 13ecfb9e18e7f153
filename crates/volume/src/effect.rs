//! The effect of a record on the map, the same in service and in recovery.

use crate::entry::{Entry, Place};
use crate::format::{Extent, ExtentKind, Header};
use crate::map::Map;
use crate::segments::Segments;

/// A record takes effect. What was moved, or lost, counts only where the map still has the place
/// that it was found at: a client may have written the block meanwhile.
pub(crate) fn apply(header: &Header, map: &mut Map, segments: &mut Segments) {
    let mut data = header.entries();
    let mut origins = header.origins.iter().copied();
    for &Extent { kind, lba, blocks } in &header.extents {
        let end = lba + u64::from(blocks);
        match kind {
            ExtentKind::Write => {
                (lba..end).zip(&mut data).for_each(|(lba, entry)| set(map, segments, lba, entry));
            }
            ExtentKind::Zeros => (lba..end).for_each(|lba| set(map, segments, lba, Entry::ZEROS)),
            ExtentKind::Trim => {
                let mut at = map.skip_empty(lba);
                while at < end {
                    set(map, segments, at, Entry::HOLE);
                    at = if at + 1 < end { map.skip_empty(at + 1) } else { end };
                }
            }
            ExtentKind::Move => {
                for ((lba, entry), origin) in (lba..end).zip(&mut data).zip(&mut origins) {
                    replace(map, segments, lba, origin, entry);
                }
            }
            ExtentKind::Lost => {
                for (lba, origin) in (lba..end).zip(&mut origins) {
                    replace(map, segments, lba, origin, Entry::LOST);
                }
            }
        }
    }
}

fn set(map: &mut Map, segments: &mut Segments, lba: u64, entry: Entry) {
    segments.gain(entry);
    segments.lose(map.set(lba, entry));
}

fn replace(map: &mut Map, segments: &mut Segments, lba: u64, origin: Place, entry: Entry) {
    if map.get(lba).place() == Some(origin) {
        set(map, segments, lba, entry);
    }
}
