//! `observe` and `run`.

use super::{CONFIG, say};
use anyhow::Result;
use clap::Args;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use wattio_governor::{Clock, Severity};
use wattio_host::Root;
use wattio_host::clock::HostClock;
use wattio_units::Seconds;
use wattiod::alternation::{Plan, SHARES, SHORTEST};
use wattiod::daemon::Mode;
use wattiod::govern::{Configured, Ended, Options, govern};
use wattiod::log::{complain, log, printable_line};
use wattiod::{state, status_text};

/// Shadow mode.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod observe nas.toml                          until Ctrl-C
  wattiod observe nas.toml --duration '10 min'      then report what would have been saved
  wattiod observe nas.toml --no-results --json
  wattiod observe --disk sda --duration '10 min'    without a configuration: device time only")]
pub struct Observe {
    /// The configuration.
    #[arg(default_value = CONFIG, conflicts_with = "disk")]
    config: PathBuf,
    /// Watch this block device, without a configuration file; may be given several times. Reports
    /// device time only, not how long clients wait.
    #[arg(long, value_name = "DEVICE")]
    disk: Vec<String>,
    /// How long to run, such as "10 min"; default: until Ctrl-C.
    #[arg(long, value_parser = duration)]
    duration: Option<Duration>,
    /// The folder for results, which `wattio report` reads.
    #[arg(long, default_value = "results")]
    out: PathBuf,
    /// Do not keep results.
    #[arg(long)]
    no_results: bool,
    /// Print the last status as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Governing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod run                                       according to /etc/wattiod.toml
  wattiod run nas.toml --duration '8 h' --out /var/tmp/results
  wattiod run nas.toml --alternate '10 min' --duration '8 h'     measure the effect of governing here
  wattiod run nas.toml --alternate '10 min' --governed-share 1%  a first trial: 1 % of the time")]
pub struct Run {
    /// The configuration.
    #[arg(default_value = CONFIG)]
    config: PathBuf,
    /// How long to run, such as "8 h"; default: until stopped.
    #[arg(long, value_parser = duration)]
    duration: Option<Duration>,
    /// Alternate between governing and full speed, this long each and in random order, and report
    /// what governing saves and costs here, with confidence intervals. At least 5 s.
    #[arg(long, value_name = "LENGTH", value_parser = stretch)]
    alternate: Option<Duration>,
    /// With --alternate: the share of the time to govern; the shorter of the two stretches lasts
    /// LENGTH.
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share, requires = "alternate")]
    governed_share: f64,
    /// Keep every window in this folder, for `wattio report` (70 MB a day).
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the last status as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Observe {
    pub fn run(&self, root: Root) -> Result<ExitCode> {
        let results = (!self.no_results).then(|| self.out.clone());
        let config = match self.disk.as_slice() {
            [] => Configured::File(self.config.clone()),
            disks => Configured::Disks(disks.to_vec()),
        };
        let options = options(Mode::Observe, config, self.duration, results, root);
        finish(&govern(&options)?, self.json)
    }
}

impl Run {
    pub fn run(&self, root: Root) -> Result<ExitCode> {
        let config = Configured::File(self.config.clone());
        let mut options = options(Mode::Run, config, self.duration, self.out.clone(), root);
        // Of the time it is: the next run has another order.
        let seed = HostClock::start().utc_ns();
        let governed = self.governed_share;
        options.alternate = self.alternate.map(|stretch| Plan { stretch, governed, seed });
        finish(&govern(&options)?, self.json)
    }
}

/// How long to run. What is longer than anybody can wait is for ever.
fn duration(text: &str) -> Result<Duration, String> {
    let span: Seconds = text.parse().map_err(|error| format!("{error}"))?;
    if span.0 <= 0.0 {
        return Err(format!("{text:?} is too short; allowed: above 0 s, such as \"10 min\""));
    }
    Ok(Duration::try_from_secs_f64(span.0).unwrap_or(Duration::MAX))
}

/// The length of a stretch.
fn stretch(text: &str) -> Result<Duration, String> {
    let span: Seconds = text.parse().map_err(|error| format!("{error}"))?;
    if span.0 < SHORTEST.as_secs_f64() {
        return Err(format!("{text:?} is too short; allowed: {} s or more", SHORTEST.as_secs()));
    }
    Duration::try_from_secs_f64(span.0).map_err(|_| format!("{text:?} is too long"))
}

/// A share of time, such as "1 %" or 0.01.
fn share(text: &str) -> Result<f64, String> {
    let number = text.trim();
    let found = match number.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => number.parse(),
    };
    match found {
        Ok(share) if SHARES.contains(&share) => Ok(share),
        _ => Err(format!("{text:?} is not a share of the time; allowed: 0.1% to 99.9%")),
    }
}

fn options(
    mode: Mode,
    config: Configured,
    duration: Option<Duration>,
    results: Option<PathBuf>,
    root: Root,
) -> Options {
    Options {
        mode,
        config,
        alternate: None,
        results,
        duration,
        root,
        show_progress: std::io::stderr().is_terminal(),
    }
}

fn finish(ended: &Ended, json: bool) -> Result<ExitCode> {
    if json {
        say(&serde_json::to_string(&ended.status)?);
    } else {
        say(&status_text::verdict(&ended.status));
        for folder in &ended.folders {
            let folder = printable_line(&folder.display().to_string());
            say(&format!("results: {folder}\nreport:  wattio report {folder}"));
        }
    }
    let well = ended.restored.left.is_empty();
    for line in state::describe(&ended.restored) {
        if well { log(Severity::Info, &line) } else { complain(&line) }
    }
    if let Some(failure) = &ended.failure {
        complain(failure);
    }
    let well = well && ended.failure.is_none();
    Ok(ExitCode::from(u8::from(!well)))
}
