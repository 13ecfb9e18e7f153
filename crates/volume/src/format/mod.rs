//! The on-disk format, byte for byte. All numbers are little-endian. Every block that wattio writes
//! for itself carries a CRC-32C of everything after it, the volume's identity, and the block's own
//! place, so that a block that was torn, lost or written elsewhere is never mistaken for another.

mod cursor;
mod page;
mod record;
mod record_space;
mod superblock;

pub(crate) use page::{decode_page, encode_page};
pub(crate) use record::{Extent, ExtentKind, Fragments, Header, RECORD_BLOCKS_MAX};
pub(crate) use record_space::Filling;
pub use superblock::{DeviceRole, Openings, Position, Superblock};
pub(crate) use superblock::{FORMAT_MAX, Flaw};

/// The identity of a volume, drawn at random when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct VolumeId(pub [u8; 16]);

impl std::fmt::Display for VolumeId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// Which opening of a volume something was written in, drawn at random for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpeningId(pub [u8; 8]);

/// The streams of the log: what clients write, and what garbage collection moves. Data that
/// outlived its segment is likely to live on; apart, it does not have to be moved with the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// What clients write.
    Clients = 0,
    /// What garbage collection moves.
    Moved = 1,
}

impl Stream {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Clients, Self::Moved];
}
