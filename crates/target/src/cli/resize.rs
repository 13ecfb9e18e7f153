//! `resize`: makes a volume larger.

use super::{bytes, of_sizes, say};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use wattio_target::create::CreateError;
use wattio_target::resize::grow;
use wattio_units::Bytes;
use wattio_volume::{BLOCK_BYTES, OpenError, OpenOptions};

/// What is made larger.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target resize disk.vol --size 20GiB            a volume in a file, which grows too
  wattio-target resize /dev/sdb /dev/sdc --size 2TiB    both devices of a mirror
  wattio-target resize /dev/sdb --size 2TiB --thin      more than the device holds")]
pub struct Resize {
    /// The devices of the volume, which must not be served at the same time.
    #[arg(required = true, num_args = 1..=2)]
    path: Vec<PathBuf>,
    /// The new size that clients see.
    #[arg(long, value_parser = bytes)]
    size: u64,
    /// Leave the devices as they are, even if they hold less than that: once they are full, writes get
    /// ENOSPC. This is for data that compresses, or for volumes that are never full.
    #[arg(long)]
    thin: bool,
    /// The most memory that the volume's map may use.
    #[arg(long, value_parser = bytes, default_value = "4GiB")]
    map_memory: u64,
}

impl Resize {
    pub fn run(self) -> Result<ExitCode> {
        let options = OpenOptions {
            map_bytes_max: self.map_memory,
            accept_missing: false,
            accept_loss: false,
        };
        let geometry =
            grow(&self.path, self.size, self.thin, &options).map_err(|error| match error {
                CreateError::Volume(OpenError::Missing { .. }) => anyhow::anyhow!(
                    "{error}: name both, or if one is gone, serve the volume once with \
                     accept_missing = true"
                ),
                CreateError::Volume(
                    OpenError::Old(_) | OpenError::CutShort { devices: 2.., .. },
                ) => anyhow::anyhow!(
                    "{error}: serve the volume once with accept_missing = true, which fills that \
                     device from the other one"
                ),
                error => of_sizes(error),
            })?;
        let bytes = |count: u64| Bytes(count as f64);
        say(&format!(
            "{} for clients, {} on each device",
            bytes(geometry.blocks * BLOCK_BYTES),
            bytes(geometry.device_bytes())
        ));
        if geometry.capacity_blocks() < geometry.blocks {
            let room = bytes(geometry.capacity_blocks() * BLOCK_BYTES);
            say(&format!("its devices hold {room}: once they are full, writes get ENOSPC"));
        }
        Ok(ExitCode::SUCCESS)
    }
}
