//! Arguments and exit codes: 0 done, 1 found a problem, 2 bad input.

mod check;
mod create;
mod remote;
mod resize;
mod serve;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use std::path::Path;
use std::process::ExitCode;
use thiserror::Error;
use wattio_files::read_text;
use wattio_host::shadow::Mode;
use wattio_service::arguments::arguments;
use wattio_service::cli::{complete, say};
use wattio_target::create::CreateError;
use wattio_target::log::{complain, detail, tell_details};
use wattio_target_config::Config;

/// A crash-safe block server over NBD.
///
/// A volume is stored on one file or block device, or on two that mirror each other. Data that a
/// client has flushed survives a power failure; checksums detect damaged data.
#[derive(Debug, Parser)]
#[command(name = "wattio-target", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print details to stderr: what is read and opened, and how.
    #[arg(long, global = true)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  wattio-target create /srv/disk.vol --size 10GiB                make a volume
  wattio-target serve --export /srv/disk.vol --unix /run/n.sock  serve it
  nbdinfo 'nbd+unix:///?socket=/run/n.sock'                      look at it
  wattio-target serve /etc/wattio-target.toml                    serve according to a file
  wattio-target check /etc/wattio-target.toml                    check the configuration
  wattio-target check /srv/disk.vol                              check the volume
  wattio-target serve --export a.vol --unix /run/n.sock --reactors 4 --policy pacer
                                                                 let a law govern it
  wattio-target observe /etc/wattio-target.toml                  see what the law would save
  wattio-target status                                           see how it is doing

Exit codes: 0 done, 1 found a problem, 2 bad input.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a volume on one device, or on two that mirror each other.
    Create(create::Create),
    /// Serve volumes until a signal arrives.
    #[command(visible_alias = "run")]
    Serve(Box<serve::Serve>),
    /// Serve at full speed, and show what the law would do and save.
    #[command(after_help = serve::OBSERVE)]
    Observe(Box<serve::Serve>),
    /// Check a configuration, or whether a volume is intact.
    Check(check::Check),
    /// Enlarge a volume that is not being served.
    Resize(resize::Resize),
    /// Show the status of a running target.
    Status(remote::Status),
    /// Make a running target read all data and repair what it can.
    Scrub(remote::Scrub),
    /// Make a running target run at full speed until `resume`.
    Pause(remote::Remote),
    /// End a pause.
    Resume(remote::Remote),
    /// Change the latency tolerance of a running target.
    Tolerance(remote::Tolerance),
    /// Print a completion script for a shell.
    #[command(hide = true)]
    Completions {
        /// The shell to complete in.
        shell: clap_complete::Shell,
    },
}

/// What a user gave is wrong: exit code 2.
#[derive(Debug, Error)]
#[error("{0}")]
struct BadInput(String);

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let arguments = match arguments::<Arguments>() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if arguments.verbose {
        tell_details();
    }
    let done = match arguments.command {
        Command::Create(command) => command.run(),
        Command::Serve(command) => command.run(Mode::Run),
        Command::Observe(command) => command.run(Mode::Observe),
        Command::Check(command) => command.run(),
        Command::Resize(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Scrub(command) => command.run(),
        Command::Pause(command) => command.pause(),
        Command::Resume(command) => command.resume(),
        Command::Tolerance(command) => command.run(),
        Command::Completions { shell } => Ok(complete(shell, &mut Arguments::command())),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
        ExitCode::from(if error.downcast_ref::<BadInput>().is_some() { 2 } else { 1 })
    })
}

/// An amount of data, as clap reads it.
fn bytes(text: &str) -> Result<u64, String> {
    let bytes: wattio_units::Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if bytes.0 < 1.0 || bytes.0 >= 2f64.powi(63) || bytes.0.fract() != 0.0 {
        return Err(format!("{text:?} is not a whole number of bytes; allowed: 1 B or more"));
    }
    Ok(bytes.0 as u64)
}

/// Memory, as clap reads it: what a configuration may say, too.
fn bytes_or_none(text: &str) -> Result<u64, String> {
    match text.parse::<wattio_units::Bytes>().map_err(|error| error.to_string())?.0 {
        0.0 => Ok(0),
        found if (1.0..=f64::from(1 << 20) * f64::from(1 << 20)).contains(&found) => bytes(text),
        _ => Err(format!("{text:?} is not within what is allowed: 0 B to 1 TiB")),
    }
}

/// What users gave wrongly when they make a volume or change its size.
fn of_sizes(error: CreateError) -> anyhow::Error {
    match error.is_bad_input() {
        true => BadInput(error.to_string()).into(),
        false => error.into(),
    }
}

/// A configuration from a file, and the text of the file.
fn read_config(path: &Path) -> Result<(Config, String), BadInput> {
    let wrong = |error: &dyn std::fmt::Display| BadInput(format!("{}: {error}", path.display()));
    detail(|| format!("reads {}", path.display()));
    let text = read_text(path).map_err(|error| wrong(&error))?;
    let config = Config::from_toml(&text).map_err(|error| wrong(&error))?;
    Ok((config, text))
}
