//! Arguments and exit codes: 0 done, 1 found a problem, 2 bad input.

mod govern;
mod init;
mod inspect;
mod remote;
mod restore;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wattio_host::Root;
use wattio_host::lock::LockError;
use wattiod::assembly::BadInput;
use wattiod::govern::read;
use wattiod::log::{complain, printable, tell_details};
use wattiod::state::StateError;

/// The default configuration file.
const CONFIG: &str = "/etc/wattiod.toml";

/// Saves power on a storage server within a latency bound that you set.
///
/// Start with `wattiod doctor` and `wattiod init`, then run `wattiod observe`: it changes nothing
/// and reports what it would save. `run` saves every value before it changes it, and restores it
/// however it ends. After a kill -9 its keeper restores everything at once; failing that, `wattiod
/// restore` or the next start does.
#[derive(Debug, Parser)]
#[command(name = "wattiod", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// The root of the host's files: a folder shaped like one, for tests and benchmarks.
    #[arg(long, global = true, hide = true, default_value = "/")]
    root: PathBuf,
    /// Print details to stderr: what is read, opened and written, and a line for each window.
    #[arg(long, global = true)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  wattiod doctor                                 see what this host offers
  wattiod init --out nas.toml                    propose a configuration for it
  wattiod check /etc/wattiod.toml                check the configuration
  wattiod observe nas.toml --duration '10 min'   see what it would save here
  wattiod run /etc/wattiod.toml                  save it
  wattiod status --watch                         see how it is doing
  wattiod set plf 0.1                            set a tighter bound, at once
  wattiod restore                                restore everything after a crash

Exit codes: 0 done, 1 found a problem, 2 bad input.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a configuration file, without looking at the host.
    Check(inspect::Check),
    /// Propose a first configuration for this host.
    Init(init::Init),
    /// Report which sources, knobs and meters this host has, what is missing, and how to get it.
    Doctor(inspect::Doctor),
    /// Shadow mode: change nothing, report what would be saved.
    Observe(govern::Observe),
    /// Save power within the bound.
    Run(govern::Run),
    /// Show the status of a running daemon.
    Status(remote::Status),
    /// Change a value of a running daemon.
    Set(remote::Set),
    /// Run at full speed until `resume`.
    Pause(remote::Pause),
    /// End a pause, and reset the circuit breaker.
    Resume(remote::Resume),
    /// Restore what a killed daemon left changed.
    Restore(restore::Restore),
    /// Print a completion script for a shell.
    #[command(hide = true)]
    Completions {
        /// The shell to complete in.
        shell: clap_complete::Shell,
    },
}

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.verbose {
        tell_details();
    }
    let root = Root::new(&arguments.root);
    let done = match &arguments.command {
        Command::Check(command) => command.run(),
        Command::Init(command) => command.run(&root),
        Command::Doctor(command) => command.run(&root),
        Command::Observe(command) => command.run(root),
        Command::Run(command) => command.run(root),
        Command::Status(command) => command.run(),
        Command::Set(command) => command.run(),
        Command::Pause(command) => command.run(),
        Command::Resume(command) => command.run(),
        Command::Restore(command) => command.run(&root),
        Command::Completions { shell } => Ok(complete(*shell)),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("{error:#}"));
            let bad_input = error.downcast_ref::<BadInput>().is_some()
                || matches!(
                    error.downcast_ref(),
                    Some(StateError::Commands(_) | StateError::Lock(LockError::Untrusted(_)))
                );
            ExitCode::from(if bad_input { 2 } else { 1 })
        }
    }
}

/// Prints what a shell completes this command's words with.
fn complete(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "wattiod", &mut script);
    match std::io::stdout().write_all(&script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(1),
    }
}

/// Prints one line or several; a closed pipe is not an error.
fn say(line: &str) {
    if writeln!(std::io::stdout(), "{}", printable(line)).is_err() {
        std::process::exit(0);
    }
}

/// The control socket: as given, or that of the configuration if there is one.
fn socket(given: Option<&PathBuf>) -> Result<PathBuf> {
    match given {
        Some(path) => Ok(path.clone()),
        None if Path::new(CONFIG).exists() => Ok(read(Path::new(CONFIG))?.config.service.socket),
        None => Ok(wattio_host::config::ServiceConfig::default().socket),
    }
}
