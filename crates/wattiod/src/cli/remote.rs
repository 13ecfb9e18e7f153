//! `status`, `set`, `pause`, `resume`: commands for a running daemon.

use super::{say, socket};
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use wattio_service::arguments::share;
use wattio_service::client::ask;
use wattiod::assembly::BadInput;
use wattiod::control::{Answer, Request, Wattiod};
use wattiod::log::printable_line;
use wattiod::status;
use wattiod::status_text;

/// How `status` is shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod status            once, as text
  wattiod status --watch    refreshed every second
  wattiod status --json     everything, for scripts")]
pub struct Status {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Refresh every second, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// The daemon's control socket.
    #[arg(long)]
    socket: Option<PathBuf>,
}

/// What is set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod set plf 0.1       up to 10 % above the latency at full speed, from now on
  wattiod set plf 0.1 --application redis
                            for one of several applications")]
pub struct Set {
    /// The value to change: `plf`, the latency tolerance (0.1 is 10 % above the latency at full
    /// speed).
    name: String,
    /// The new value.
    #[arg(allow_negative_numbers = true, value_parser = share)]
    value: f64,
    /// Change one application only, if the daemon governs several; default: all.
    #[arg(long, value_name = "NAME")]
    application: Option<String>,
    /// The daemon's control socket.
    #[arg(long)]
    socket: Option<PathBuf>,
}

/// A pause.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod pause             before maintenance; status shows the pause")]
pub struct Pause {
    /// The daemon's control socket.
    #[arg(long)]
    socket: Option<PathBuf>,
}

/// The end of a pause.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod resume")]
pub struct Resume {
    /// The daemon's control socket.
    #[arg(long)]
    socket: Option<PathBuf>,
}

impl Status {
    pub fn run(&self) -> Result<ExitCode> {
        let socket = socket(self.socket.as_ref());
        loop {
            let Answer::Status { status } = ask::<Wattiod>(&socket, &Request::Status {})? else {
                bail!("{}: the answer is not a status", socket.display());
            };
            self.show(&status)?;
            if !self.watch {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn show(&self, status: &status::Status) -> Result<()> {
        if self.json {
            say(&serde_json::to_string(status)?);
            return Ok(());
        }
        if self.watch {
            // To the top of an empty screen.
            print!("\x1b[H\x1b[J");
        }
        say(status_text::page(status).trim_end());
        Ok(())
    }
}

impl Set {
    pub fn run(&self) -> Result<ExitCode> {
        if self.name != "plf" {
            return Err(BadInput::new(format!(
                "{:?} cannot be set while running; plf can",
                self.name
            ))
            .into());
        }
        let (tolerance, application) = (self.value, self.application.clone());
        tell(self.socket.as_ref(), &Request::SetTolerance { tolerance, application })
    }
}

impl Pause {
    pub fn run(&self) -> Result<ExitCode> {
        tell(self.socket.as_ref(), &Request::Pause {})
    }
}

impl Resume {
    pub fn run(&self) -> Result<ExitCode> {
        tell(self.socket.as_ref(), &Request::Resume {})
    }
}

/// Asks and prints the answer; a refusal is bad input, and what cannot be done now is not.
fn tell(given: Option<&PathBuf>, request: &Request) -> Result<ExitCode> {
    let socket = socket(given);
    match ask::<Wattiod>(&socket, request)? {
        Answer::Done { message } => {
            say(&printable_line(&message));
            Ok(ExitCode::SUCCESS)
        }
        Answer::Refused { message } => Err(BadInput::new(message).into()),
        Answer::Unable { message } => bail!("{message}"),
        Answer::Status { .. } => bail!("{}: unexpected answer", socket.display()),
    }
}
