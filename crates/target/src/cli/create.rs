//! `create`: makes a volume.

use super::{bytes, of_sizes, say};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use wattio_service::arguments::share;
use wattio_target::create::{Plan, make};
use wattio_units::Bytes;
use wattio_volume::{BLOCK_BYTES, Compression};

/// What is made.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target create disk.vol --size 10GiB          in a new file
  wattio-target create /dev/sdb                       as large as the device allows
  wattio-target create /dev/sdb /dev/sdc              two devices that mirror each other
  wattio-target create disk.vol --size 10GiB --compress lz4   fewer bytes on the device
  wattio-target create disk.vol --size 1GiB --force   overwrite existing data")]
pub struct Create {
    /// A file or block device; a second one mirrors it.
    #[arg(required = true, num_args = 1..=2)]
    path: Vec<PathBuf>,
    /// The size that clients see, such as 10GiB; `resize` makes it up to four times as large.
    /// Default: as much as the device holds.
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,
    /// The unit in which space is used and garbage-collected: 64 KiB to 32 MiB.
    #[arg(long, value_parser = bytes, default_value = "32MiB")]
    segment_size: u64,
    /// The share of segments that stays free when all of the volume is written, such as 0.1. The
    /// smaller it is, the more garbage collection writes. Default: a little more than a fifth.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    spare: Option<f64>,
    /// How to compress each block's data, if that makes it smaller: `lz4` or `none`. This cannot be
    /// changed later. Versions of wattio without compression refuse a compressed volume.
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = compression)]
    compress: Compression,
    /// Overwrite existing data.
    #[arg(long)]
    force: bool,
}

impl Create {
    pub fn run(self) -> Result<ExitCode> {
        let made = make(&Plan {
            devices: self.path,
            size_bytes: self.size,
            segment_bytes: self.segment_size,
            spare_share: self.spare,
            compression: self.compress,
            is_forced: self.force,
        });
        let made = made.map_err(of_sizes)?;
        let geometry = made.geometry;
        let bytes = |count: u64| Bytes(count as f64);
        say(&format!(
            "volume {}: {} for clients, {} on each device in {} segments, {} of memory for its map \
             while it is served",
            made.volume,
            bytes(geometry.blocks * BLOCK_BYTES),
            bytes(geometry.device_bytes()),
            geometry.segments,
            // In whole MiB: the figure is for planning.
            bytes(geometry.map_bytes().next_multiple_of(1 << 20)),
        ));
        if self.compress != Compression::None {
            say(&format!("its data is compressed: {}", self.compress.name()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A way to compress, by its name.
fn compression(text: &str) -> Result<Compression, String> {
    let known = Compression::ALL.into_iter().find(|known| known.name() == text);
    let names = Compression::ALL.map(Compression::name).join(", ");
    known.ok_or_else(|| format!("{text:?} is not a way to compress; allowed: {names}"))
}
