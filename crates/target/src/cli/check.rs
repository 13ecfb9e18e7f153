//! `check`: is a configuration right, is a volume whole?

use super::{BadInput, bytes, read_config, say};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use wattio_target::check::{CheckError, check};
use wattio_target::log::printable_line;
use wattio_units::Bytes;
use wattio_volume::{BLOCK_BYTES, Compression, OpenError, OpenOptions};

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
                printable_line(&path.display().to_string()),
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
        let found = check(&self.path, &options, |_, _| {}).map_err(|error| match error {
            CheckError::Volume(OpenError::NoVolume(_) | OpenError::Memory { .. }) => {
                anyhow::Error::from(BadInput(error.to_string()))
            }
            _ => error.into(),
        })?;
        let amount = |blocks: u64| Bytes((blocks * BLOCK_BYTES) as f64);
        let report = &found.report;
        let compression = found.superblock.compression;
        let packed = match compression {
            Compression::None => String::new(),
            _ => {
                let stored = Bytes(report.stored_bytes as f64);
                format!(" ({}: in {stored})", compression.name())
            }
        };
        say(&format!(
            "volume {}: {} for clients, {} of data{packed}, all of which was read",
            found.superblock.volume,
            amount(found.superblock.geometry.blocks),
            amount(report.live_blocks)
        ));
        let recovery = report.recovery;
        if recovery.was_clean {
            say("it was closed");
        } else {
            let (records, log) = (recovery.records, amount(recovery.blocks));
            say(&format!("it was not closed: {records} records in {log} of log are replayed"));
        }
        let damaged_on = report.damaged_on.iter();
        for (count, what) in damaged_on
            .map(|&(device, blocks)| (blocks, format!("blocks are damaged on device {device}")))
            .chain([
                (report.damaged_blocks, "of them on every device: their data is lost".to_owned()),
                (u64::from(recovery.devices_out), "devices do not count".to_owned()),
            ])
        {
            if count > 0 {
                say(&format!("{count} {what}"));
            }
        }
        if let Some(first) = report.damaged.first() {
            say(&format!("the first one is at {}", amount(*first)));
        }
        say(if found.is_whole() { "ok" } else { "not ok" });
        Ok(ExitCode::from(u8::from(!found.is_whole())))
    }
}
