//! Arguments and exit codes: 0 done, 1 found a problem, 2 bad input.

mod govern;
mod init;
mod inspect;
mod remote;
mod restore;

use clap::{CommandFactory, Parser, Subcommand};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wattio_files::read_text;
use wattio_governor::Severity;
use wattio_host::Root;
use wattio_host::config::ServiceConfig;
use wattio_host::lock::LockError;
use wattio_plant::read_toml;
use wattio_service::arguments::arguments;
use wattio_service::cli::{complete, say};
use wattiod::assembly::BadInput;
use wattiod::log::{complain, log, tell_details};
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
    let arguments = match arguments::<Arguments>() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if arguments.verbose {
        tell_details();
    }
    if !arguments.root.is_dir() {
        let root = arguments.root.display();
        complain(&format!("--root {root}: is not a folder; allowed: one that is shaped like /"));
        return ExitCode::from(2);
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
        Command::Completions { shell } => Ok(complete(*shell, &mut Arguments::command())),
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

/// The control socket: as given, or that of the configuration if there is one.
fn socket(given: Option<&PathBuf>) -> PathBuf {
    given.cloned().unwrap_or_else(|| socket_of(Path::new(CONFIG)))
}

/// The control socket of a configuration. A wrong one, or one that may not be read, keeps nobody from
/// pausing a daemon that runs.
fn socket_of(config: &Path) -> PathBuf {
    let usual = || ServiceConfig::default().socket;
    match path_of(config, "socket") {
        Ok(socket) => socket.unwrap_or_else(usual),
        Err(error) if error.kind() == ErrorKind::NotFound => usual(),
        Err(error) => {
            let (shown, socket) = (config.display(), usual());
            let message =
                format!("{shown}: {error}; asking {}; --socket names another", socket.display());
            log(Severity::Warning, &message);
            socket
        }
    }
}

/// What commands need of a file whose other keys may be wrong.
#[derive(Deserialize)]
struct Least {
    #[serde(default)]
    service: BTreeMap<String, Value>,
}

/// The path that a key of `[service]` names, if it is there; whatever else is wrong in the file.
fn path_of(config: &Path, key: &str) -> io::Result<Option<PathBuf>> {
    let wrong = |message: String| io::Error::new(ErrorKind::InvalidData, message);
    let text = read_text(config)?;
    let least: Least = read_toml(&text).map_err(|error| wrong(error.to_string()))?;
    match least.service.get(key) {
        None => Ok(None),
        Some(Value::String(path)) => Ok(Some(path.into())),
        Some(other) => Err(wrong(format!("service.{key} = {other}: it is a path in quotes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// `wattiod pause` refused for a typo in a key that it does not need.
    #[test]
    fn a_wrong_configuration_still_names_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wattiod.toml");
        let usual = ServiceConfig::default().socket;
        assert_eq!(socket_of(&file), usual, "there is none");
        for (text, socket) in [
            ("name = 7\nlatncy = 1\n[service]\nsocket = '/run/mine'\nlisten = 5", "/run/mine"),
            ("name = 'nas'", usual.to_str().unwrap()),
            ("[service]\nstate = '/var/mine'", usual.to_str().unwrap()),
            ("[service]\nsocket = '/run/mine", usual.to_str().unwrap()),
            ("[service]\nsocket = 5", usual.to_str().unwrap()),
            ("[service]\nstate = 5\nsocket = '/run/mine'", "/run/mine"),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(socket_of(&file), Path::new(socket), "{text}");
        }
        // As one that may not be read.
        assert_eq!(socket_of(folder.path()), usual);
    }
}
