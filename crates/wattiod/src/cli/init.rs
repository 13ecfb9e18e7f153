//! `init`: a first configuration.

use super::say;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wattio_host::Root;
use wattio_host::lock::Lock;
use wattiod::assembly::BadInput;
use wattiod::log::{complain, printable_line, tell};
use wattiod::proposal::propose;

/// A proposal.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod init                           print a proposal
  wattiod init --out shadow.toml         write it to a file
  wattiod init --service smbd            for processes of that name
  wattiod init --out /etc/wattiod.toml --force

Uses the latency that etcd, MinIO, Ceph's OSDs, Redis and Valkey report themselves. For other servers,
or if it finds none of these, it proposes the time of the host's devices, and says what that leaves out.")]
pub struct Init {
    /// The server, by the name of its processes; default: the first running server that wattiod
    /// knows.
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The file to write; default: stdout.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long, requires = "out")]
    force: bool,
    /// Print the findings and the configuration as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Init {
    pub fn run(&self, root: &Root) -> Result<ExitCode> {
        if let Some(path) = &self.out {
            check(path, self.force)?;
        }
        if let Some(holder) = Lock::host_holder(root) {
            // What it holds back would be left out, for good.
            bail!(
                "{holder} acts on this host, whose cores and frequencies are as it has set them; stop \
                 it first (systemctl stop wattiod)"
            );
        }
        let proposal = propose(root, self.service.as_deref())?;
        let config = proposal.config.as_deref();
        if !self.json {
            // stdout is for the configuration.
            let findings = proposal.findings.iter();
            findings.for_each(|finding| tell(&format!("{}\n", finding.line())));
        }
        if let (Some(path), Some(config)) = (&self.out, config) {
            write(path, config, self.force)?;
        }
        if self.json {
            let written = self.out.as_ref().filter(|_| config.is_some());
            let findings = &proposal.findings;
            say(&json!({"findings": findings, "config": config, "written": written}).to_string());
        } else if let Some(config) = config {
            match &self.out {
                None => say(config.trim_end()),
                Some(path) => say(&next(path)),
            }
        } else {
            complain("nothing to measure was found, so there is nothing to propose");
        }
        Ok(ExitCode::from(u8::from(config.is_none())))
    }
}

/// What to do with the file.
fn next(path: &Path) -> String {
    let path = printable_line(&path.display().to_string());
    format!(
        "wrote {path}; read it, then:\n\
         wattiod doctor {path}\n\
         wattiod observe {path} --duration '10 min'"
    )
}

/// Whether the file can be written, before anything is looked at.
fn check(path: &Path, force: bool) -> Result<(), BadInput> {
    let shown = path.display();
    if path.is_dir() {
        return Err(BadInput::new(format!("--out {shown}: is a folder; name a file")));
    }
    if !force && path.symlink_metadata().is_ok() {
        let message = format!("--out {shown}: already exists; --force overwrites it");
        return Err(BadInput::new(message));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(BadInput::new(format!(
            "--out {shown}: there is no folder {}",
            folder.display()
        )));
    }
    if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err() {
        let message = format!("--out {shown}: you may not write in {}", folder.display());
        return Err(BadInput::new(message));
    }
    Ok(())
}

/// Writes the file whole or not at all.
fn write(path: &Path, config: &str, force: bool) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    // What a killed one left.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(cannot);
        }
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&beside)
        .with_context(cannot)?;
    let kept = file.write_all(config.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| {
        // A link fails where the name is taken since it was looked at; a rename would replace it.
        if force {
            fs::rename(&beside, path)
        } else {
            fs::hard_link(&beside, path).and_then(|()| fs::remove_file(&beside))
        }
    });
    if kept.is_err() {
        let _ = fs::remove_file(&beside);
    }
    kept.with_context(cannot)
}
