//! `check`: is a configuration right, is a volume whole?

use super::{BadInput, bytes, read_config, say};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use wattio_target::check::{CheckError, check};
use wattio_target::log::printable;
use wattio_units::Bytes;
use wattio_volume::{BLOCK_BYTES, OpenError, OpenOptions};

/// What is checked.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target check /etc/wattio-target.toml   a configuration; devices are not looked at
  wattio-target check disk.vol                  a volume that nobody serves: reads all of it
  wattio-target check /dev/sdb /dev/sdc         one on two devices")]
pub struct Check {
    /// A configuration, whose name ends in `.toml`, or the devices of a volume.
    #[arg(required = true, num_args = 1..=2)]
    path: Vec<PathBuf>,
    /// Memory that the volume's map may take.
    #[arg(long, value_parser = bytes, default_value = "4GiB")]
    map_memory: u64,
}

impl Check {
    pub fn run(self) -> Result<ExitCode> {
        if let [path] = &self.path[..]
            && path.extension().is_some_and(|extension| extension == "toml")
        {
            let config = read_config(path)?;
            say(&format!(
                "{}: ok: {} exports, {} reactors",
                printable(&path.display().to_string()),
                config.exports.len(),
                config.reactors
            ));
            return Ok(ExitCode::SUCCESS);
        }
        let options = OpenOptions {
            map_bytes_max: self.map_memory,
            accept_missing: false,
            accept_loss: false,
        };
        let found = check(&self.path, &options).map_err(|error| match error {
            CheckError::Volume(OpenError::NoVolume(_) | OpenError::Memory { .. }) => {
                anyhow::Error::from(BadInput(error.to_string()))
            }
            _ => error.into(),
        })?;
        let amount = |blocks: u64| Bytes((blocks * BLOCK_BYTES) as f64);
        say(&format!(
            "volume {}: {} for clients, {} of data",
            found.volume,
            amount(found.geometry.blocks),
            Bytes(found.live_bytes as f64)
        ));
        let recovery = found.recovery;
        if recovery.was_clean {
            say("it was closed");
        } else {
            let (records, log) = (recovery.records, amount(recovery.blocks));
            say(&format!("it was not closed: {records} records in {log} of log are replayed"));
        }
        say(&format!("{} were read", amount(found.counters.scrubbed_blocks)));
        for (count, what) in [
            (recovery.damaged_blocks, "blocks are known to be lost"),
            (found.unrepairable_blocks, "blocks are damaged on every device"),
            (
                found.counters.repaired_blocks,
                "blocks are damaged on one device; scrub repairs them",
            ),
            (u64::from(recovery.devices_out), "devices do not count"),
        ] {
            if count > 0 {
                say(&format!("{count} {what}"));
            }
        }
        say(if found.is_whole() { "ok" } else { "not ok" });
        Ok(ExitCode::from(u8::from(!found.is_whole())))
    }
}
