//! `status` and `scrub`: commands for a running target.

use super::{BadInput, say};
use anyhow::{Result, bail};
use clap::Args;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use wattio_target::config::CONTROL;
use wattio_target::control::{Answer, ControlError, Request, ask};
use wattio_target::log::printable_line;
use wattio_target::status::{self, VolumeStatus};
use wattio_units::Bytes;

/// How it stands.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target status                as text
  wattio-target status --json         everything, for scripts
  wattio-target status /run/c.sock    of the target with this control socket")]
pub struct Status {
    /// The target's control socket.
    #[arg(default_value = CONTROL)]
    socket: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target scrub                    all exports
  wattio-target scrub --export disk      one of them; status shows how far it is")]
pub struct Scrub {
    /// The target's control socket.
    #[arg(default_value = CONTROL)]
    socket: PathBuf,
    /// Only this export.
    #[arg(long)]
    export: Option<String>,
}

impl Status {
    pub fn run(self) -> Result<ExitCode> {
        let Answer::Status { status } = ask(&self.socket, &Request::Status {})? else {
            bail!("{}: the answer is not a status", self.socket.display());
        };
        if self.json {
            say(&serde_json::to_string(&status)?);
        } else {
            say(page(&status).trim_end());
        }
        let failed = |volume: &VolumeStatus| volume.failure.is_some();
        let has_failed = status.reactors.iter().any(|one| one.volumes.iter().any(failed));
        Ok(ExitCode::from(u8::from(has_failed)))
    }
}

impl Scrub {
    pub fn run(self) -> Result<ExitCode> {
        match ask(&self.socket, &Request::Scrub { export: self.export }) {
            Ok(Answer::Scrub { exports }) => {
                exports.iter().for_each(|name| {
                    say(&format!("export `{}` is being scrubbed", printable_line(name)));
                });
                Ok(ExitCode::SUCCESS)
            }
            Err(ControlError::Refused(message)) => Err(BadInput(message).into()),
            Err(error) => Err(error.into()),
            Ok(_) => bail!("{}: unexpected answer", self.socket.display()),
        }
    }
}

/// The status, for people.
fn page(status: &status::Status) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(page, "wattio-target {}, up {:.0} s", status.version, status.uptime_s);
    for reactor in &status.reactors {
        let lane = reactor.lane;
        let _ = writeln!(
            page,
            "reactor {}: {} connections, {} requests under way; {} reads, {} writes, {} flushes; \
             {:.2} s of processor time",
            reactor.number,
            reactor.connections,
            reactor.in_flight,
            lane.reads,
            lane.writes,
            lane.flushes,
            reactor.processor_s
        );
        for (what, latency) in [("reads", reactor.reads), ("writes", reactor.writes)] {
            if let (Some(mean), Some(p99)) = (latency.latency_us_mean, latency.latency_us_p99) {
                let _ = writeln!(page, "  {what}: mean {mean:.0} us, p99 {p99:.0} us");
            }
        }
        for volume in &reactor.volumes {
            page.push_str(&of_volume(volume));
        }
    }
    page
}

fn of_volume(volume: &VolumeStatus) -> String {
    let rounded = |bytes: u64| {
        let mebibytes = (bytes as f64 / f64::from(1 << 20)).round();
        Bytes(mebibytes * f64::from(1 << 20)).to_string()
    };
    let mut text = format!(
        "  export `{}`: {} of {}, {} of {} segments free, devices {}\n",
        printable_line(&volume.export),
        rounded(volume.live_bytes),
        rounded(volume.size_bytes),
        volume.free_segments,
        volume.segments,
        volume.devices.join(", ")
    );
    if let Some(failure) = &volume.failure {
        let _ = writeln!(text, "    nothing can be written: {}", printable_line(failure));
    }
    if let Some(progress) = volume.scrub_progress {
        let _ = writeln!(text, "    scrub: {:.0} % read", 100.0 * progress);
    }
    if volume.damaged_blocks > 0 {
        let (damaged, repaired) = (volume.damaged_blocks, volume.repaired_blocks);
        let _ = writeln!(text, "    {damaged} damaged blocks were found, {repaired} repaired");
    }
    text
}
