//! `status`, `scrub`, `pause`, `resume` and `tolerance`: commands for a running target.

use super::{BadInput, say};
use anyhow::{Result, bail};
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wattio_host::shadow::{ComparedStatus, Mode, ShadowStatus};
use wattio_service::arguments::share;
use wattio_service::client::ask;
use wattio_target::log::{counted, of_export, printable_line};
use wattio_target::shown::{Answer, Request, Shown, WattioTarget};
use wattio_target::status::{ReactorStatus, VolumeStatus};
use wattio_target_config::SOCKET;
use wattio_units::Bytes;
use wattio_volume::{BLOCK_BYTES, Compression};

/// How it stands.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target status                as text
  wattio-target status --json         everything, for scripts
  wattio-target status /run/c.sock    of the target with this control socket")]
pub struct Status {
    /// The target's control socket.
    #[arg(default_value = SOCKET)]
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
  wattio-target scrub --export disk      one export; status shows the progress")]
pub struct Scrub {
    /// The target's control socket.
    #[arg(default_value = SOCKET)]
    socket: PathBuf,
    /// Scrub this export only.
    #[arg(long)]
    export: Option<String>,
}

/// Which target.
#[derive(Debug, Args)]
pub struct Remote {
    /// The target's control socket.
    #[arg(default_value = SOCKET)]
    socket: PathBuf,
}

/// Which tolerance.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target tolerance 0.2      up to 20 % above the latency at full speed, from now on")]
pub struct Tolerance {
    /// The new tolerance: 0.1 is 10 % above the latency at full speed.
    #[arg(allow_negative_numbers = true, value_parser = share)]
    tolerance: f64,
    /// The target's control socket.
    #[arg(default_value = SOCKET)]
    socket: PathBuf,
}

impl Status {
    pub fn run(self) -> Result<ExitCode> {
        let answer = ask::<WattioTarget>(&self.socket, &Request::Inspect {})?;
        let Answer::Status { status } = answer else {
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
        tell(&self.socket, &Request::Scrub { export: self.export })
    }
}

impl Remote {
    /// Full speed until resumed.
    pub fn pause(self) -> Result<ExitCode> {
        tell(&self.socket, &Request::Pause {})
    }

    /// Ends a pause.
    pub fn resume(self) -> Result<ExitCode> {
        tell(&self.socket, &Request::Resume {})
    }
}

impl Tolerance {
    pub fn run(self) -> Result<ExitCode> {
        tell(&self.socket, &Request::SetTolerance { tolerance: self.tolerance })
    }
}

/// Has something done, and says what the target says.
fn tell(socket: &Path, request: &Request) -> Result<ExitCode> {
    match ask::<WattioTarget>(socket, request)? {
        Answer::Done { message } => {
            say(&printable_line(&message));
            Ok(ExitCode::SUCCESS)
        }
        Answer::Refused { message } => Err(BadInput(message).into()),
        Answer::Unable { message } => bail!("{message}"),
        Answer::Status { .. } => bail!("{}: unexpected answer", socket.display()),
    }
}

/// The status, for people.
fn page(shown: &Shown) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "wattio-target {}, {}, up {:.0} s",
        printable_line(&shown.version),
        printable_line(&shown.name),
        shown.uptime_s
    );
    page.push_str(&of_law(shown));
    for reactor in &shown.reactors {
        page.push_str(&of_reactor(reactor));
    }
    page
}

fn of_law(shown: &Shown) -> String {
    let state = shown.state.as_ref().map(|state| format!(" ({})", printable_line(state)));
    let state = state.unwrap_or_default();
    let (policy, reason) = (printable_line(&shown.policy), printable_line(&shown.reason));
    let is_shadow = shown.mode == Mode::Observe.name();
    let (mode, on) = match is_shadow {
        true => ("observe (acts on nothing), ", "would be on"),
        false => ("", "on"),
    };
    let because = if reason.is_empty() { reason } else { format!("; {reason}") };
    let mut text = format!(
        "{mode}policy {policy}{state}: {} of {} reactors {on}{because}\n",
        shown.reactors_active, shown.reactors_total
    );
    if let Some(forced) = &shown.forced {
        let _ = writeln!(text, "  full speed is forced: {}", printable_line(forced));
    }
    let latency = &shown.latency;
    if let (Some(rate), Some(mean)) = (latency.requests_per_s, latency.latency_us_mean) {
        let seen = latency.latency_us_seen.filter(|_| is_shadow);
        let would = seen.map(|seen| format!(" (would be {seen:.0} us, estimate)"));
        let would = would.unwrap_or_default();
        let _ = writeln!(text, "  {rate:.0} requests/s, mean {mean:.0} us{would}");
    }
    for bound in &shown.bounds {
        let limit = bound.limit_us.map_or("unknown".into(), |us| format!("{us:.0} us"));
        let (named, broken) = (printable_line(&bound.bound), bound.broken(is_shadow));
        let would = if is_shadow { "would be " } else { "" };
        let _ = writeln!(text, "  bound {limit} ({named}); {would}broken in {broken}");
    }
    for (what, value) in shown.power.rows() {
        let _ = writeln!(text, "  {what}: {}", printable_line(&value));
    }
    let model = shown.shadow.as_ref().and_then(ShadowStatus::error);
    for sentence in model.into_iter().chain(shown.compared.as_ref().map(ComparedStatus::sentence)) {
        let _ = writeln!(text, "  {}", printable_line(&sentence));
    }
    text
}

fn of_reactor(reactor: &ReactorStatus) -> String {
    let lane = reactor.lane;
    let mut text = format!(
        "reactor {}: {}, {} under way; {}, {}, {}; {:.2} s of processor time\n",
        reactor.number,
        counted(reactor.connections as u64, "connection"),
        counted(reactor.in_flight as u64, "request"),
        counted(lane.reads, "read"),
        counted(lane.writes, "write"),
        match lane.flushes {
            1 => "1 flush".to_owned(),
            count => format!("{count} flushes"),
        },
        reactor.processor_s
    );
    for (what, latency) in [("reads", reactor.reads), ("writes", reactor.writes)] {
        if let (Some(mean), Some(p99)) = (latency.latency_us_mean, latency.latency_us_p99) {
            let _ = writeln!(text, "  {what}: mean {mean:.0} us, p99 {p99:.0} us");
        }
    }
    for volume in &reactor.volumes {
        text.push_str(&of_volume(volume));
    }
    text
}

fn of_volume(volume: &VolumeStatus) -> String {
    let rounded = |bytes: u64| {
        let unit = f64::from(if bytes < 1 << 20 { 1 << 10 } else { 1 << 20 });
        Bytes((bytes as f64 / unit).round() * unit).to_string()
    };
    let is_compressed = volume.compression != Compression::None.name();
    let room = rounded(volume.capacity_bytes);
    let mut text = format!(
        "  {}: {} of {}{}, {} of {} segments free, devices {}\n",
        printable_line(&of_export(&volume.export)),
        rounded(volume.live_bytes),
        rounded(volume.size_bytes),
        match volume.capacity_bytes < volume.size_bytes {
            // Compressed, it holds more than that.
            true if is_compressed => format!(" (its devices hold {room} uncompressed)"),
            true => format!(" (its devices hold {room})"),
            false => String::new(),
        },
        volume.free_segments,
        volume.segments,
        printable_line(&of_devices(volume))
    );
    if is_compressed {
        let written = volume.client_blocks * BLOCK_BYTES;
        let _ = writeln!(
            text,
            "    {}: {} in {}; written since the start: {} in {}",
            printable_line(&volume.compression),
            rounded(volume.live_bytes),
            rounded(volume.stored_bytes),
            rounded(written),
            rounded(volume.client_stored_bytes)
        );
    }
    text.push_str(&of_recovery(volume, &rounded(volume.replay_bytes)));
    if volume.refused_writes > 0 {
        let refused = counted(volume.refused_writes, "write");
        let _ = writeln!(text, "    {refused} refused since the start: the devices were full");
    }
    if let Some(failure) = &volume.failure {
        let _ = writeln!(text, "    nothing can be written: {}", printable_line(failure));
    }
    if let Some(why) = &volume.rebuild_failure {
        let _ = writeln!(text, "    a device is no longer filled: {}", printable_line(why));
    }
    if let Some(progress) = volume.scrub_progress {
        let _ = writeln!(text, "    scrub: {:.0} % read", 100.0 * progress);
    }
    if volume.damaged_blocks > 0 || volume.repaired_blocks > 0 {
        let found = counted(volume.damaged_blocks, "damaged block");
        let repaired = volume.repaired_blocks;
        let _ = writeln!(text, "    found since the start: {found}; repaired: {repaired}");
    }
    text
}

/// The role of each device, and its path where that is known.
fn of_devices(volume: &VolumeStatus) -> String {
    let paths = volume.device_paths.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    let devices = volume.devices.iter().zip(paths).map(|(role, path)| match path {
        Some(path) => format!("{role} ({path})"),
        None => role.clone(),
    });
    devices.collect::<Vec<_>>().join(", ")
}

/// What a recovery took, or would take, and what clients wait for.
fn of_recovery(volume: &VolumeStatus, replay: &str) -> String {
    let mut text = format!("    a recovery would replay {replay}; ");
    let _ = match volume.checkpoint_s {
        Some(span_s) => write!(text, "the last checkpoint took {span_s:.3} s"),
        None => write!(text, "no checkpoint since it was opened"),
    };
    let _ = match volume.recovered_bytes {
        Some(bytes) => {
            let (kib, span_s) = (bytes / 1024, volume.opened_s);
            writeln!(text, "; recovered at the start in {span_s:.2} s: {kib} KiB of log")
        }
        None => writeln!(text, "; opened in {:.2} s", volume.opened_s),
    };
    if let Some(span_s) = volume.starved_s {
        let empty = volume.empty_segments;
        let _ = write!(
            text,
            "    clients have waited {span_s:.1} s for a free segment, {empty} are empty"
        );
        if let Some(stage) = &volume.checkpoint_stage {
            let _ = write!(text, "; checkpoint: {}", printable_line(stage));
        }
        text.push('\n');
    }
    if let Some((what, span_s)) = volume.device_oldest.as_ref().zip(volume.device_oldest_s)
        && span_s >= 1.0
    {
        let what = printable_line(what);
        let _ = writeln!(text, "    the devices have been at a {what} for {span_s:.1} s");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_governor::BoundStatus;
    use wattio_host::ledger::PowerStatus;

    /// What a target says of itself may come from whoever made its volumes.
    #[test]
    fn nothing_reaches_the_terminal_raw() {
        let raw = || "\u{1b}[2J\nname\u{7f}".to_owned();
        let volume = VolumeStatus {
            export: raw(),
            devices: vec![raw(), raw()],
            device_paths: vec![Some(raw()), None],
            failure: Some(raw()),
            rebuild_failure: Some(raw()),
            compression: raw(),
            starved_s: Some(2.0),
            checkpoint_stage: Some(raw()),
            device_oldest: Some(raw()),
            device_oldest_s: Some(2.0),
            ..VolumeStatus::default()
        };
        let shown = Shown {
            version: raw(),
            name: raw(),
            policy: raw(),
            state: Some(raw()),
            reason: raw(),
            forced: Some(raw()),
            bounds: vec![BoundStatus { bound: raw(), windows: 1, ..BoundStatus::default() }],
            power: PowerStatus { no_estimate: Some(raw()), ..PowerStatus::default() },
            compared: Some(ComparedStatus { policy: raw(), ..ComparedStatus::default() }),
            reactors: vec![ReactorStatus { volumes: vec![volume], ..ReactorStatus::default() }],
            ..Shown::default()
        };
        let page = page(&shown);
        assert!(page.chars().all(|one| one == '\n' || !one.is_control()), "{page:?}");
        assert_eq!(page.lines().count(), 14, "{page}");
        assert!(page.contains("; broken in 0 of 1 window\n"), "{page}");
        let recovery =
            "a recovery would replay 0 B; no checkpoint since it was opened; opened in 0.00 s";
        assert!(page.contains(recovery));
        assert_eq!(page.matches("name").count(), 18, "{page}");
    }

    /// A volume of 100 KiB had "0 B of 0 B".
    #[test]
    fn a_small_volume_has_a_size() {
        let capacity_bytes = 32 << 20;
        let of = |live_bytes, size_bytes| {
            let sizes =
                VolumeStatus { live_bytes, size_bytes, capacity_bytes, ..VolumeStatus::default() };
            of_volume(&sizes)
        };
        assert!(of(4096, 100 << 10).contains(": 4 KiB of 100 KiB, "), "{}", of(4096, 100 << 10));
        assert!(of(5_300_000, 16 << 20).contains(": 5 MiB of 16 MiB, "));
    }

    /// What the scrub had repaired was not shown.
    #[test]
    fn damage_is_shown_whoever_found_it() {
        let of = |damaged_blocks, repaired_blocks| {
            of_volume(&VolumeStatus { damaged_blocks, repaired_blocks, ..VolumeStatus::default() })
        };
        assert!(!of(0, 0).contains("damaged"), "{}", of(0, 0));
        assert!(of(1, 0).contains("    found since the start: 1 damaged block; repaired: 0\n"));
        assert!(of(0, 31).contains("    found since the start: 0 damaged blocks; repaired: 31\n"));
    }

    #[test]
    fn what_would_be_is_not_said_to_be() {
        let shadow =
            ShadowStatus { error_median: Some(0.05), error_p90: Some(0.1), ..Default::default() };
        let mut shown = Shown {
            mode: "observe".to_owned(),
            policy: "pacer".to_owned(),
            reactors_active: 1,
            reactors_total: 4,
            bounds: vec![BoundStatus { bound: "mean 20% run".into(), ..BoundStatus::default() }],
            shadow: Some(shadow),
            ..Shown::default()
        };
        shown.latency.requests_per_s = Some(1e3);
        shown.latency.latency_us_mean = Some(100.0);
        shown.latency.latency_us_seen = Some(110.0);
        let text = of_law(&shown);
        for told in [
            "observe (acts on nothing), policy pacer: 1 of 4 reactors would be on",
            "mean 100 us (would be 110 us, estimate)",
            "would be broken in 0 of 0 windows",
            "no estimate: not yet",
            "the model is off by 5.0 %",
        ] {
            assert!(text.contains(told), "{told}\n{text}");
        }
        shown.mode = "run".to_owned();
        let text = of_law(&shown);
        assert!(text.contains("1 of 4 reactors on\n") && !text.contains("would be"), "{text}");
    }
}
