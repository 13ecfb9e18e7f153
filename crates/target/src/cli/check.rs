//! `check`: checks a configuration or a volume.

use super::serve::of_page;
use super::{BadInput, bytes, read_config, say};
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wattio_host::shadow::Mode;
use wattio_target::check::{CheckError, check};
use wattio_target::config;
use wattio_target::log::{counted, printable_line};
use wattio_target::tls::Identity;
use wattio_target_config::Config;
use wattio_units::Bytes;
use wattio_volume::{BLOCK_BYTES, CheckReport, Compression, OpenOptions};

/// What is checked.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target check /etc/wattio-target.toml   a configuration, but not its devices
  wattio-target check disk.vol                  a volume that is not being served: reads all of it
  wattio-target check /dev/sdb /dev/sdc         a volume on two devices
  wattio-target check --accept-missing /dev/sdb
                                                what is left of one on two devices")]
pub struct Check {
    /// A configuration, with a name that ends in `.toml`, or the devices of a volume.
    #[arg(required = true, num_args = 1..=2)]
    path: Vec<PathBuf>,
    /// The most memory that the volume's map may use.
    #[arg(long, value_parser = bytes, default_value = "4GiB")]
    map_memory: u64,
    /// Check one device of a volume on two.
    #[arg(long)]
    accept_missing: bool,
}

impl Check {
    pub fn run(self) -> Result<ExitCode> {
        if let [path] = &self.path[..]
            && path.extension().is_some_and(|extension| extension == "toml")
        {
            let (config, _) = read_config(path)?;
            check_host(&config, path)
                .map_err(|what| BadInput(format!("{}: {what}", path.display())))?;
            say(&format!(
                "{}: ok: {}, {}",
                printable_line(&path.display().to_string()),
                counted(config.exports.len() as u64, "export"),
                counted(config.reactors as u64, "reactor")
            ));
            return Ok(ExitCode::SUCCESS);
        }
        let options = OpenOptions {
            map_bytes_max: self.map_memory,
            accept_missing: self.accept_missing,
            accept_loss: false,
        };
        let found = check(&self.path, &options, |_, _| {});
        let found = found.map_err(|error| match error.is_bad_input() {
            true => anyhow::Error::from(BadInput(error.to_string())),
            false => match error {
                CheckError::Volume(ref wrong) if wrong.is_of_one_device() => {
                    anyhow::anyhow!("{error}: --accept-missing")
                }
                error => error.into(),
            },
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
            let records = counted(records, "record");
            say(&format!("it was not closed: {records} to replay, in {log} of log"));
            if recovery.resynced_blocks > 0 {
                let blocks = counted(recovery.resynced_blocks, "block");
                say(&format!(
                    "{blocks} to be copied from one device to the other at the next start"
                ));
            }
        }
        self.troubles(report).iter().for_each(|line| say(line));
        say(if found.is_whole() { "ok" } else { "not ok" });
        Ok(ExitCode::from(u8::from(!found.is_whole())))
    }
}

impl Check {
    /// What is not as it should be, in lines: whatever keeps a volume from being whole is among it.
    fn troubles(&self, report: &CheckReport) -> Vec<String> {
        let path = |at: usize| printable_line(&self.path[at].display().to_string());
        let blocks = |count| counted(count, "block");
        let on_device = report.damaged_on.iter();
        let on_device = on_device
            .map(|&(at, count)| (count, format!("{} damaged on {}", blocks(count), path(at))));
        let new = report.damaged_blocks - report.lost_blocks;
        let others = [
            (new, format!("{new} of them on every device: their data is lost")),
            (
                report.lost_blocks,
                format!("{} lost before this check: reading fails", blocks(report.lost_blocks)),
            ),
            (
                report.recovery.damaged_blocks,
                format!(
                    "{} damaged on every device in what is to be replayed",
                    blocks(report.recovery.damaged_blocks)
                ),
            ),
            (
                u64::from(report.recovery.superblock_lost),
                "neither copy of a superblock can be read: the next start writes both again".into(),
            ),
            (
                u64::from(report.recovery.first_copies_lost),
                "no first copy of a superblock can be read, and a second one counts".into(),
            ),
            (
                u64::from(report.recovery.devices_out),
                format!("left out: {}", self.left_out(report)),
            ),
        ];
        let all = on_device.chain(others).filter(|&(count, _)| count > 0);
        let mut lines: Vec<String> = all.map(|(_, line)| line).collect();
        if let Some(first) = report.damaged.first() {
            lines.push(format!("the first one is at {}", Bytes((first * BLOCK_BYTES) as f64)));
        }
        lines
    }

    /// The devices that do not count, by their paths if they are named.
    fn left_out(&self, report: &CheckReport) -> String {
        let counts = |at: &usize| report.damaged_on.iter().any(|(counting, _)| counting == at);
        let others = (0..self.path.len()).filter(|at| !counts(at));
        let others = others.map(|at| printable_line(&self.path[at].display().to_string()));
        let others: Vec<String> = others.collect();
        match others.is_empty() {
            true => counted(report.recovery.devices_out.into(), "device"),
            false => others.join(", "),
        }
    }
}

/// Whether certificates, keys, the token, the power model and the socket's group can be used, as at a
/// start.
fn check_host(config: &Config, path: &Path) -> Result<(), String> {
    config::law(config, path, Mode::Run)?;
    config.service.group_id()?;
    if let Some((files, _)) = &config::settings(config).tls {
        Identity::read(files).map_err(|error| format!("tls: {error}"))?;
    }
    of_page(&config.service).check_files().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str =
        "listen = [\"tcp:127.0.0.1:10809\"]\n[[export]]\nname = \"a\"\ndevices = [\"/dev/sdb\"]\n";

    /// They were first looked at by `serve`, in the night.
    #[test]
    fn what_a_configuration_names_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target.toml");
        let checked = |more: &str| {
            std::fs::write(&path, format!("{CONFIG}{more}")).unwrap();
            let check =
                Check { path: vec![path.clone()], map_memory: 1 << 30, accept_missing: false };
            check.run().map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(checked(""), Ok(()));
        let files = "{ certificate = \"/nowhere/c.pem\", key = \"/nowhere/k.pem\" }";
        for (more, says) in [
            (format!("[service]\ntls = {files}\n"), "service.tls: /nowhere/k.pem"),
            ("[service]\ntoken = \"/nowhere/token\"\n".to_owned(), "service.token: /nowhere/token"),
            ("[power]\nmodel = \"/nowhere/m\"\n".to_owned(), "power.model, /nowhere/m: "),
            ("[service]\nsocket_group = \"no one\"\n".to_owned(), "service.socket_group: "),
            (
                format!("[tls]\n{}\n", files.trim_matches(['{', '}', ' ']).replace(", ", "\n")),
                "tls: /nowhere/k.pem",
            ),
        ] {
            let message = checked(&more).unwrap_err();
            let named = format!("{}: {says}", path.display());
            assert!(message.starts_with(&named), "{message}");
        }
    }
}
