//! The segments of the log: which are free, which hold live data, and which may be reused.

use crate::compression::BLOCK_SECTORS;
use crate::entry::Entry;
use crate::format::Header;
use crate::geometry::Geometry;
use std::collections::VecDeque;

/// Segments that only garbage collection may take, so that it can always go on.
const HELD_FOR_MOVES: usize = 3;

/// Checkpoints for which a segment that a device failed to read from is left alone: then it may be
/// able to again.
const STUCK_CHECKPOINTS: u8 = 8;

/// Sectors that a block counts for at the least when space is promised, however small it became: its
/// share of a header, and of what is left over at a record's end, is then in it.
const CHARGED_MIN: u32 = 3;
/// Moved blocks for which a header and what is left over at the record's end take a sector: a record of
/// some 128 has 8 of the former and 4 of the latter.
const MOVED_FOR_SECTOR: u32 = 10;

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Nothing.
    Free,
    /// A stream writes to it, or will when its present one is full.
    Open,
    /// It is full, or will not be filled any more.
    Closed,
    /// Nothing in it is live, as the checkpoint that is being written will say.
    Dying,
    /// Nothing in it is live, as a durable checkpoint says; somebody still reads from it.
    Dead,
}

#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) purpose: Use,
    /// Which use of it this is.
    pub(crate) generation: u64,
    /// Sectors of it that the map points to, and blocks of the volume that lie in them.
    pub(crate) live: u32,
    live_blocks: u32,
    /// Records in it that have not taken effect yet.
    pub(crate) unapplied: u32,
    /// Reads of it, or writes of repairs to it, that are under way.
    pub(crate) pins: u32,
    /// Blocks that garbage collection has read to move them, which has not taken effect.
    pub(crate) moves: u32,
    /// The log's sequence number when it was closed.
    pub(crate) closed_at: u64,
    /// Checkpoints for which it is not collected, for a device failed to read from it.
    stuck: u8,
}

#[derive(Debug)]
pub(crate) struct Segments {
    all: Vec<Segment>,
    free: VecDeque<u32>,
    segment_blocks: u32,
    live_blocks: u64,
    live_sectors: u64,
    /// Sectors that all blocks count for.
    charged: u64,
    next_generation: u64,
    /// How many are empty and not yet free.
    empty: u32,
    /// How many clients were ever given.
    given_to_clients: u64,
}

impl Segment {
    /// Whether a header that was found in it is of this use of it, as far as that is known: that of
    /// a segment which was full when the volume was opened is not.
    pub(crate) const fn holds(&self, header: &Header) -> bool {
        self.generation == 0 || self.generation == header.generation
    }

    /// Whether a checkpoint would free it.
    fn is_empty(&self) -> bool {
        matches!(self.purpose, Use::Closed | Use::Dying) && self.live == 0 && self.unapplied == 0
    }
}

impl Segments {
    /// None in use. `epoch` keeps the generations of this opening apart from those of others.
    pub(crate) fn new(geometry: &Geometry, epoch: u64) -> Self {
        let segment = Segment {
            purpose: Use::Free,
            generation: 0,
            live: 0,
            live_blocks: 0,
            unapplied: 0,
            pins: 0,
            moves: 0,
            closed_at: 0,
            stuck: 0,
        };
        Self {
            all: vec![segment; geometry.segments as usize],
            free: VecDeque::new(),
            segment_blocks: geometry.segment_blocks,
            live_blocks: 0,
            live_sectors: 0,
            charged: 0,
            next_generation: epoch << 32,
            empty: 0,
            given_to_clients: 0,
        }
    }

    /// Finds out which segments are free, once live blocks are counted and open segments marked.
    pub(crate) fn settle(&mut self) {
        for segment in &mut self.all {
            if segment.purpose == Use::Free && segment.live > 0 {
                segment.purpose = Use::Closed;
            }
        }
        let is_free = |number: &u32| self.all[*number as usize].purpose == Use::Free;
        self.free = (0..self.all.len() as u32).filter(is_free).collect();
    }

    pub(crate) fn get(&self, number: u32) -> &Segment {
        &self.all[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Segment {
        &mut self.all[number as usize]
    }

    /// A segment to write to, with its generation; for clients only while there are more than
    /// garbage collection needs.
    pub(crate) fn open(&mut self, for_moves: bool) -> Option<(u32, u64)> {
        let held = if for_moves { 0 } else { HELD_FOR_MOVES };
        if self.free.len() <= held {
            return None;
        }
        let number = self.free.pop_front()?;
        self.given_to_clients += u64::from(!for_moves);
        let generation = self.next_generation;
        self.next_generation += 1;
        self.mark_open(number, generation);
        Some((number, generation))
    }

    /// The generation that the next segment to be opened gets.
    pub(crate) const fn next_generation(&self) -> u64 {
        self.next_generation
    }

    /// A segment that a stream writes to, as the superblock or the log says.
    pub(crate) fn mark_open(&mut self, number: u32, generation: u64) {
        let segment = self.get_mut(number);
        segment.purpose = Use::Open;
        segment.generation = generation;
        // What could not be read is not there any more.
        segment.stuck = 0;
    }

    /// Nothing is added to a segment any more.
    pub(crate) fn close(&mut self, number: u32, sequence: u64) {
        self.change(number, |segment| {
            segment.purpose = Use::Closed;
            segment.closed_at = sequence;
        });
    }

    /// A record of a segment is under way.
    pub(crate) fn launch(&mut self, number: u32) {
        self.change(number, |segment| segment.unapplied += 1);
    }

    /// A record of a segment has taken effect.
    pub(crate) fn land(&mut self, number: u32) {
        self.change(number, |segment| segment.unapplied -= 1);
    }

    /// A block of a segment is to be moved.
    pub(crate) fn begin_move(&mut self, number: u32) {
        self.get_mut(number).moves += 1;
    }

    /// It was moved, or need not be any more.
    pub(crate) fn end_move(&mut self, number: u32) {
        self.get_mut(number).moves -= 1;
    }

    /// A device failed to read from a segment: what is in it stays where it is for a while.
    pub(crate) fn stick(&mut self, number: u32) {
        self.get_mut(number).stuck = STUCK_CHECKPOINTS;
    }

    /// All may be collected again, also those that could not be read; whether there are such.
    pub(crate) fn unstick(&mut self) -> bool {
        let stuck = self.all.iter_mut().map(|segment| std::mem::take(&mut segment.stuck));
        stuck.fold(false, |any, stuck| any | (stuck > 0))
    }

    /// Changes a segment, and the count of empty ones with it.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut Segment)) {
        let segment = self.get_mut(number);
        let before = segment.is_empty();
        change(segment);
        let after = segment.is_empty();
        self.empty = self.empty + u32::from(after) - u32::from(before);
    }

    /// The map has one more entry.
    pub(crate) fn gain(&mut self, entry: Entry) {
        let Some(place) = entry.place() else { return };
        let sectors = entry.sectors();
        self.change(place.segment, |segment| {
            segment.live += sectors;
            segment.live_blocks += 1;
        });
        self.live_blocks += 1;
        self.live_sectors += u64::from(sectors);
        self.charged += u64::from(charge(sectors));
    }

    /// The map has one entry less.
    pub(crate) fn lose(&mut self, entry: Entry) {
        let Some(place) = entry.place() else { return };
        let sectors = entry.sectors();
        debug_assert!(self.get(place.segment).live >= sectors);
        self.change(place.segment, |segment| {
            segment.live -= sectors;
            segment.live_blocks -= 1;
        });
        self.live_blocks -= 1;
        self.live_sectors -= u64::from(sectors);
        self.charged -= u64::from(charge(sectors));
    }

    /// Segments that will be free when the checkpoint that begins now is durable.
    pub(crate) fn begin_checkpoint(&mut self) {
        for segment in &mut self.all {
            if segment.purpose == Use::Closed && segment.is_empty() {
                segment.purpose = Use::Dying;
            }
        }
    }

    /// The checkpoint is durable.
    pub(crate) fn end_checkpoint(&mut self) {
        for number in 0..self.all.len() as u32 {
            let segment = self.get_mut(number);
            segment.stuck = segment.stuck.saturating_sub(1);
            if segment.purpose == Use::Dying {
                self.change(number, |segment| segment.purpose = Use::Dead);
                self.free_if_unused(number);
            }
        }
    }

    /// Somebody reads from a segment: it is not used again meanwhile.
    pub(crate) fn pin(&mut self, number: u32) {
        self.get_mut(number).pins += 1;
    }

    /// Somebody has read.
    pub(crate) fn unpin(&mut self, number: u32) {
        self.get_mut(number).pins -= 1;
        self.free_if_unused(number);
    }

    fn free_if_unused(&mut self, number: u32) {
        let segment = self.get_mut(number);
        if segment.purpose == Use::Dead && segment.pins == 0 {
            segment.purpose = Use::Free;
            self.free.push_back(number);
        }
    }

    /// Segments that clients were ever given.
    pub(crate) const fn given_to_clients(&self) -> u64 {
        self.given_to_clients
    }

    /// Free segments that clients are not given.
    pub(crate) const fn held() -> u32 {
        HELD_FOR_MOVES as u32
    }

    /// Segments that can be written to.
    pub(crate) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Whether clients can be given a segment.
    pub(crate) fn has_room_for_clients(&self) -> bool {
        self.free.len() > HELD_FOR_MOVES
    }

    /// Segments that a checkpoint would free.
    pub(crate) const fn empty(&self) -> u32 {
        self.empty
    }

    /// Blocks of the volume that have data.
    pub(crate) const fn live_blocks(&self) -> u64 {
        self.live_blocks
    }

    /// Sectors that their data takes.
    pub(crate) const fn live_sectors(&self) -> u64 {
        self.live_sectors
    }

    /// Sectors that they count for when space is promised.
    pub(crate) const fn charged(&self) -> u64 {
        self.charged
    }

    /// The segment that is best collected now: most free space for what is moved, weighed by how
    /// long it has been left alone, since what was just written may soon die by itself
    /// (cost-benefit of Rosenblum and Ousterhout, "The Design and Implementation of a
    /// Log-Structured File System", 1992: free space times age over the cost of reading and
    /// writing).
    pub(crate) fn victim(&self, sequence: u64) -> Option<u32> {
        let sectors = self.segment_blocks * BLOCK_SECTORS;
        let value = |segment: &Segment| {
            let live = f64::from(segment.live) / f64::from(sectors);
            let age = sequence.saturating_sub(segment.closed_at) as f64 + 1.0;
            (1.0 - live) * age / (1.0 + live)
        };
        let is_candidate = |segment: &Segment| {
            segment.purpose == Use::Closed
                && segment.live > 0
                && segment.unapplied == 0
                // What is being moved would be moved once more, to no gain.
                && segment.moves == 0
                && segment.stuck == 0
                // A full one gives nothing: its data would take as much again.
                && segment.live
                    + (segment.live / 32).max(segment.live_blocks / MOVED_FOR_SECTOR)
                    + 2 * BLOCK_SECTORS
                    < sectors
        };
        let candidates = (0..).zip(&self.all).filter(|(_, segment)| is_candidate(segment));
        let values = candidates.map(|(number, segment)| (number, value(segment)));
        values.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|(number, _)| number)
    }
}

/// Sectors that a block whose data takes `sectors` counts for.
pub(crate) const fn charge(sectors: u32) -> u32 {
    if sectors == 0 || sectors > CHARGED_MIN { sectors } else { CHARGED_MIN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Place;

    /// A block in a segment.
    fn block(segment: u32) -> Entry {
        Entry::data(Place::new(segment, 0), 0)
    }

    fn segments() -> Segments {
        let mut segments = Segments::new(&Geometry::for_blocks(1000, 64), 1);
        segments.settle();
        segments
    }

    #[test]
    fn a_segment_is_free_after_a_checkpoint_that_began_when_it_was_empty() {
        let mut segments = segments();
        let free = segments.free();
        let (number, _) = segments.open(false).unwrap();
        segments.gain(block(number));
        segments.close(number, 5);
        segments.begin_checkpoint();
        segments.lose(block(number));
        segments.end_checkpoint();
        assert_eq!(segments.free(), free - 1, "it was not empty when the checkpoint began");
        segments.begin_checkpoint();
        segments.pin(number);
        segments.end_checkpoint();
        assert_eq!(segments.free(), free - 1, "somebody reads from it");
        segments.unpin(number);
        assert_eq!(segments.free(), free);
    }

    #[test]
    fn a_segment_of_small_blocks_is_worth_its_sectors_and_less_than_what_moving_them_takes() {
        let mut segments = segments();
        let small = |segment| Entry::packed(Place::new(segment, 0), 1, 0);
        let (full, _) = segments.open(false).unwrap();
        (0..64 * 8 - 50).for_each(|_| segments.gain(small(full)));
        segments.close(full, 0);
        assert_eq!(segments.victim(1000), None, "headers would take what is gained");
        assert_eq!(segments.charged(), 3 * segments.live_sectors());
        let (half, _) = segments.open(false).unwrap();
        (0..64 * 4).for_each(|_| segments.gain(small(half)));
        segments.close(half, 0);
        assert_eq!(segments.victim(1000), Some(half));
    }

    #[test]
    fn the_last_segments_are_for_moves_alone() {
        let mut segments = segments();
        while segments.open(false).is_some() {}
        assert!(!segments.has_room_for_clients());
        let moves = std::iter::from_fn(|| segments.open(true)).count();
        assert_eq!(moves, HELD_FOR_MOVES);
    }

    /// One that a device could not read once was never collected again, whatever was in it.
    #[test]
    fn a_segment_that_could_not_be_read_is_collected_again() {
        let mut segments = segments();
        let half_full = |segments: &mut Segments, number| {
            (0..32).for_each(|_| segments.gain(block(number)));
            segments.close(number, 0);
        };
        let (number, _) = segments.open(false).unwrap();
        half_full(&mut segments, number);
        segments.stick(number);
        assert_eq!(segments.victim(9), None);
        // It is emptied, used anew and half empty again.
        (0..32).for_each(|_| segments.lose(block(number)));
        segments.begin_checkpoint();
        segments.end_checkpoint();
        while segments.open(true).is_some_and(|(next, _)| next != number) {}
        half_full(&mut segments, number);
        assert_eq!(segments.victim(9), Some(number));
        // Or nothing of it changes.
        segments.stick(number);
        for _ in 0..STUCK_CHECKPOINTS {
            assert_eq!(segments.victim(9), None);
            segments.begin_checkpoint();
            segments.end_checkpoint();
        }
        assert_eq!(segments.victim(9), Some(number));
        segments.stick(number);
        assert!(segments.unstick());
        assert_eq!(segments.victim(9), Some(number));
        assert!(!segments.unstick());
    }

    #[test]
    fn an_old_half_empty_segment_is_worth_more_than_a_young_emptier_one() {
        let mut segments = segments();
        for (live, closed_at) in [(32, 10), (20, 990), (63, 0)] {
            let (number, _) = segments.open(false).unwrap();
            (0..live).for_each(|_| segments.gain(block(number)));
            segments.close(number, closed_at);
        }
        assert_eq!(segments.victim(1000), Some(0));
        segments.launch(0);
        assert_eq!(segments.victim(1000), Some(1), "its records have not all taken effect");
        segments.begin_move(1);
        assert_eq!(segments.victim(1000), None, "it is being emptied already");
        segments.end_move(1);
        assert_eq!(segments.victim(1000), Some(1));
    }
}
