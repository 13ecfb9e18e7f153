//! `resize`: makes a volume larger.

use super::{bytes, of_sizes, say};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use wattio_target::resize::grow;
use wattio_units::Bytes;
use wattio_volume::{BLOCK_BYTES, OpenOptions};

/// What is made larger.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target resize disk.vol --size 20GiB            a volume in a file, which grows too
  wattio-target resize /dev/sdb /dev/sdc --size 2TiB    both devices of a mirror")]
pub struct Resize {
    /// The devices of the volume, which must not be served at the same time.
    #[arg(required = true, num_args = 1..=2)]
    path: Vec<PathBuf>,
    /// The new size that clients see.
    #[arg(long, value_parser = bytes)]
    size: u64,
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
        let geometry = grow(&self.path, self.size, &options).map_err(of_sizes)?;
        let bytes = |count: u64| Bytes(count as f64);
        say(&format!(
            "{} for clients, {} on each device",
            bytes(geometry.blocks * BLOCK_BYTES),
            bytes(geometry.device_bytes())
        ));
        Ok(ExitCode::SUCCESS)
    }
}
