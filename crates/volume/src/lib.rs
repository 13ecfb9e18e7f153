//! A crash-safe block volume: a log on one device, or on two that mirror each other.
//!
//! Nothing here does I/O, reads a clock or starts a thread. [`open`] recovers a volume through
//! [`Disk`]s. Then [`Volume`] accepts requests and hands out operations for the devices, and its
//! driver (a reactor over io_uring, a simulation of failing disks) reports their results.
//!
//! Everything that clients write goes to the end of a log of records; a map in memory gives each
//! block's place in the log. Records take effect, and are answered, strictly in the order of the
//! log. A checkpoint writes the map, so that recovery does not have to read the whole log. Garbage
//! collection empties segments of the log that hold little live data. See `docs/target.md`.

mod background;
mod cache;
mod check;
mod checkpoint;
mod collect;
mod compression;
mod counters;
mod create;
mod devices;
mod disk;
mod effect;
mod entry;
mod error;
mod flush;
mod format;
mod geometry;
mod identify;
mod inspect;
mod log;
mod map;
mod open;
mod pace;
mod reads;
mod rebuild;
mod record_builder;
mod replay;
mod request;
mod resize;
mod scrub;
mod scrub_map;
mod segments;
mod volume;

pub use background::{Backlog, Class};
pub use check::{CheckReport, check};
pub use compression::Compression;
pub use counters::Counters;
pub use create::create;
pub use devices::{Done, Io, Op, Part};
pub use disk::Disk;
pub use error::{DeviceName, OpenError};
pub use format::{DeviceRole, OpeningId, Openings, Position, Superblock, VolumeId};
pub use geometry::{BLOCK_BYTES, Geometry, SEGMENT_BLOCKS, SEGMENT_BLOCKS_MIN};
pub use identify::read_superblock;
pub use open::{OpenOptions, Opened, Recovery, open};
pub use request::{Fault, Piece, Reply, Request};
pub use resize::{geometry_of, resize};
pub use volume::Volume;
