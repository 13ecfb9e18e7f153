//! The superblock: where the newest checkpoint is, and where the log goes on after it.
//!
//! A device has four places for it: two slots of two copies. Each superblock is written to all four:
//! to the first copy of both slots, and to the second ones when the first ones are durable. The next one
//! begins when the second ones are, too. So a loss of power leaves one copy of each slot whole, and
//! each slot says what has to be known: of a slot of which neither copy can be read, both were damaged
//! later, and the other slot will do.
//!
//! What a superblock relies on (its area of the map, segments of the log) is used for something else
//! once a newer one is durable in the first copies. A recovery that finds it only there first writes
//! it to the other places.
//!
//! Earlier versions wrote each superblock to one slot only, by turns, both copies at once.

use super::cursor::{Writer, seal, unseal};
use super::{OpeningId, VolumeId};
use crate::compression::Compression;
use crate::geometry::Geometry;
use wattio_pages::BLOCK;

const MAGIC: [u8; 4] = *b"WVOL";
/// The version of everything on the device: what the log and the map of a volume may hold, so that
/// who does not know it refuses it.
const FORMAT_PLAIN: u32 = 1;
/// The same, and blocks that LZ4 has compressed.
const FORMAT_LZ4: u32 = 2;
/// The newest one that is known.
pub(crate) const FORMAT_MAX: u32 = FORMAT_LZ4;

impl Compression {
    const fn format(self) -> u32 {
        match self {
            Self::None => FORMAT_PLAIN,
            Self::Lz4 => FORMAT_LZ4,
        }
    }

    const fn from_format(format: u32) -> Option<Self> {
        match format {
            FORMAT_PLAIN => Some(Self::None),
            FORMAT_LZ4 => Some(Self::Lz4),
            _ => None,
        }
    }
}

/// Where a stream of the log goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The segment, and which use of it this is.
    pub segment: u32,
    /// Which use of the segment: no two have the same number.
    pub generation: u64,
    /// The first block that is not covered by the checkpoint.
    pub block: u32,
    /// The segment after it, which was set aside for the stream, and which use of it.
    pub next: (u32, u64),
}

/// What a device is to the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRole {
    /// It holds everything.
    InSync,
    /// It failed or was not there: nothing on it counts.
    Out,
    /// It is being filled from the other one.
    Rebuilding,
}

impl DeviceRole {
    const fn code(self) -> u8 {
        match self {
            Self::InSync => 0,
            Self::Out => 1,
            Self::Rebuilding => 2,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::InSync),
            1 => Some(Self::Out),
            2 => Some(Self::Rebuilding),
            _ => None,
        }
    }
}

/// Openings that a superblock remembers at most.
const OPENINGS_MAX: usize = 200;

/// The newest openings of a volume, by which a device that was used without the other one is told from
/// one that was left behind: each superblock holds those of the ones it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Openings {
    /// The oldest first; the last one is of the superblock's epoch.
    all: Vec<Opening>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Opening {
    id: OpeningId,
    /// The number of its first superblock.
    number: u64,
}

impl Openings {
    fn push(&mut self, opening: Opening) {
        let surplus = (self.all.len() + 1).saturating_sub(OPENINGS_MAX);
        self.all.drain(..surplus);
        self.all.push(opening);
    }

    /// The one after which there were so many others, if it is known, and the one after it.
    fn before(&self, others: u64) -> Option<(Opening, Option<Opening>)> {
        let at = self.all.len().checked_sub(1)?.checked_sub(usize::try_from(others).ok()?)?;
        Some((self.all[at], self.all.get(at + 1).copied()))
    }
}

/// A superblock, the same on each device but for `device`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Whose it is.
    pub volume: VolumeId,
    /// Whether its data is compressed.
    pub compression: Compression,
    /// The volume's sizes.
    pub geometry: Geometry,
    /// Counts up with each superblock; the newest counts.
    pub number: u64,
    /// Counts up with each opening.
    pub epoch: u64,
    /// Which of the volume's devices this is.
    pub device: u8,
    /// The roles of all its devices.
    pub roles: Vec<DeviceRole>,
    /// Whether the volume was closed properly: the log holds nothing beyond the checkpoint.
    pub is_clean: bool,
    /// Which of the two areas holds the map.
    pub area: usize,
    /// The sequence number of the first record that the checkpoint may not cover.
    pub replay_from: u64,
    /// The sequence number after the last record of which the map may hold something: a log that
    /// ends before it was damaged.
    pub replay_until: u64,
    /// Where each stream goes on, in the order of [`super::Stream::ALL`].
    pub positions: [Position; 2],
    /// Whether it was written to both slots. Earlier versions wrote zero here, and the next one to the
    /// other slot.
    pub is_in_both_slots: bool,
    /// The openings up to this epoch. None of those of earlier versions, which wrote zeros here.
    pub openings: Openings,
}

/// Why a block is no superblock that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It is not one, or damaged.
    NotOne,
    /// It is of another version.
    Version(u32),
}

impl Superblock {
    /// Makes it the first one of another epoch.
    pub(crate) fn begin_epoch(&mut self, id: OpeningId) {
        self.epoch += 1;
        self.number += 1;
        self.openings.push(Opening { id, number: self.number });
    }

    /// Whether a device that holds it was used since it was part of the volume that a newer one is of: then
    /// each holds what the other one lacks.
    pub(crate) fn has_gone_its_own_way(&self, newest: &Self) -> bool {
        let as_of_newest = Self {
            device: newest.device,
            is_in_both_slots: newest.is_in_both_slots,
            ..self.clone()
        };
        let says_otherwise = self.number == newest.number && as_of_newest != *newest;
        let Some(others) = newest.epoch.checked_sub(self.epoch) else { return true };
        let is_without = self.roles.get(usize::from(newest.device)) == Some(&DeviceRole::Out);
        let has_left = match (newest.openings.before(others), self.openings.before(0)) {
            // It was not in that opening. One that the power ended before the other device had its
            // superblock served nothing, but looks like one that did.
            (Some((then, _)), Some((last, _))) if then != last => true,
            // It was, but went on in it when the other one had failed, and that one was opened later. As
            // many superblocks as the other one had, and one more if the power failed meanwhile, say
            // nothing of that.
            (Some((_, Some(next))), Some(_)) => {
                self.number > next.number || (self.number == next.number && is_without)
            }
            (Some((_, None)), Some(_)) => false,
            // Of earlier versions.
            _ => is_without,
        };
        says_otherwise || has_left
    }

    /// Writes it into a block.
    pub(crate) fn encode(&self, block: &mut [u8; BLOCK]) {
        block.fill(0);
        let mut out = Writer::new(&mut block[8..]);
        out.u32(self.compression.format());
        out.put(&self.volume.0);
        out.u64(self.geometry.blocks);
        out.u64(self.geometry.blocks_max);
        out.u32(self.geometry.segments);
        out.u32(self.geometry.segment_blocks);
        out.u64(self.number);
        out.u64(self.epoch);
        out.u8(self.device);
        out.u8(self.roles.len() as u8);
        out.u8(u8::from(self.is_clean));
        out.u8(self.area as u8);
        out.u64(self.replay_from);
        out.u64(self.replay_until);
        for role in &self.roles {
            out.u8(role.code());
        }
        for position in &self.positions {
            out.u32(position.segment);
            out.u64(position.generation);
            out.u32(position.block);
            out.u32(position.next.0);
            out.u64(position.next.1);
        }
        out.u8(u8::from(self.is_in_both_slots));
        out.u32(self.openings.all.len() as u32);
        for Opening { id, number } in &self.openings.all {
            out.put(&id.0);
            out.u64(*number);
        }
        seal(block, MAGIC);
    }

    /// Reads one.
    pub(crate) fn decode(block: &[u8; BLOCK]) -> Result<Self, Flaw> {
        let mut reader = unseal(block, MAGIC).ok_or(Flaw::NotOne)?;
        let version = reader.u32().ok_or(Flaw::NotOne)?;
        let compression = Compression::from_format(version).ok_or(Flaw::Version(version))?;
        let mut read = || {
            let volume = VolumeId(reader.take()?);
            let geometry = Geometry {
                blocks: reader.u64()?,
                blocks_max: reader.u64()?,
                segments: reader.u32()?,
                segment_blocks: reader.u32()?,
            };
            geometry.check().ok()?;
            let number = reader.u64()?;
            let epoch = reader.u64()?;
            let device = reader.u8()?;
            let devices = reader.u8()?;
            let is_clean = reader.u8()? != 0;
            let area = usize::from(reader.u8()?);
            let replay_from = reader.u64()?;
            let replay_until = reader.u64()?;
            let roles = (0..devices)
                .map(|_| DeviceRole::from_code(reader.u8()?))
                .collect::<Option<Vec<_>>>()?;
            let mut position = || {
                Some(Position {
                    segment: reader.u32()?,
                    generation: reader.u64()?,
                    block: reader.u32()?,
                    next: (reader.u32()?, reader.u64()?),
                })
            };
            let positions = [position()?, position()?];
            let is_in_both_slots = reader.u8()? != 0;
            let openings = reader.u32()?;
            let mut opening =
                |_| Some(Opening { id: OpeningId(reader.take()?), number: reader.u64()? });
            let openings =
                Openings { all: (0..openings).map(&mut opening).collect::<Option<_>>()? };
            let is_inside = |at: &Position| {
                at.segment.max(at.next.0) < geometry.segments && at.block <= geometry.segment_blocks
            };
            let is_sound = area < 2
                && device < devices
                && positions.iter().all(is_inside)
                && replay_from <= replay_until
                && openings.all.len() <= OPENINGS_MAX;
            is_sound.then_some(Self {
                volume,
                compression,
                geometry,
                number,
                epoch,
                device,
                roles,
                is_clean,
                area,
                replay_from,
                replay_until,
                positions,
                is_in_both_slots,
                openings,
            })
        };
        read().ok_or(Flaw::NotOne)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn superblock() -> Superblock {
        let position = Position { segment: 4, generation: 1 << 32, block: 12, next: (5, 77) };
        Superblock {
            volume: VolumeId([3; 16]),
            compression: Compression::None,
            geometry: Geometry::for_blocks(5000, 64),
            number: 9,
            epoch: 2,
            device: 1,
            roles: vec![DeviceRole::InSync, DeviceRole::Rebuilding],
            is_clean: false,
            area: 1,
            replay_from: 100,
            replay_until: 200,
            positions: [position, Position { segment: 6, next: (7, 78), ..position }],
            is_in_both_slots: true,
            openings: Openings {
                all: vec![
                    Opening { id: OpeningId([1; 8]), number: 1 },
                    Opening { id: OpeningId([2; 8]), number: 7 },
                ],
            },
        }
    }

    #[test]
    fn a_superblock_comes_back() {
        let mut block = [9; BLOCK];
        for compression in [Compression::None, Compression::Lz4] {
            let superblock = Superblock { compression, ..superblock() };
            superblock.encode(&mut block);
            assert_eq!(Superblock::decode(&block), Ok(superblock));
        }
        assert_eq!(Superblock::decode(&[0; BLOCK]), Err(Flaw::NotOne));
    }

    #[test]
    fn as_many_openings_are_remembered_as_fit_and_the_newest_of_them() {
        let mut superblock = superblock();
        let id = |number: u64| OpeningId(number.to_le_bytes());
        (0..1000).for_each(|number| superblock.begin_epoch(id(number)));
        let mut block = [0; BLOCK];
        superblock.encode(&mut block);
        let found = Superblock::decode(&block).expect("a superblock");
        assert_eq!(found, superblock);
        let before = |others| found.openings.before(others).map(|(opening, _)| opening.id);
        assert_eq!(before(0), Some(id(999)));
        assert_eq!(before(199), Some(id(800)));
        assert_eq!(before(200), None);
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let mut block = [0; BLOCK];
        superblock().encode(&mut block);
        block[8..12].copy_from_slice(&7u32.to_le_bytes());
        seal(&mut block, MAGIC);
        assert_eq!(Superblock::decode(&block), Err(Flaw::Version(7)));
    }

    proptest! {
        #[test]
        fn any_contents_are_read_without_a_panic(contents in prop::collection::vec(any::<u8>(), 200)) {
            let mut block = [0; BLOCK];
            block[8..208].copy_from_slice(&contents);
            block[8..12].copy_from_slice(&FORMAT_MAX.to_le_bytes());
            seal(&mut block, MAGIC);
            let _ = Superblock::decode(&block);
        }
    }
}
