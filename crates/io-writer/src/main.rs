//! `wattio-io-writer`: the program that writes the dumps of a job. The library starts it and sends
//! it the job on its standard input; or a launcher starts it, for ranks that connect to it at a
//! path.

mod boxes;
mod clients;
mod fields;
mod folder;
mod hdf5;
mod member;
mod note;
mod part;
mod process;
mod publisher;
mod serve;

use clap::{Args, Parser, Subcommand};
use clients::{Memory, Signals};
use folder::{Output, Unclaimed};
use hdf5::Hdf5;
use member::Member;
use publisher::Publisher;
use rustix::process::{Resource, getrlimit, setrlimit};
use serve::Server;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use wattio_files::printable_line;
use wattio_io::config::Config;
use wattio_io::connection::Address;
use wattio_io::error::tell;
use wattio_io::job::{Account, Answer, Job, Lines, random_hex};
use wattio_io::open::PATH_RANKS_MAX;

/// Write the dumps of a parallel program that links libwattio_io.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Command {
    #[command(subcommand)]
    what: Option<What>,
}

const EXAMPLES: &str = "\
Examples:
  wattio-io-writer serve --config hpcio.toml --ranks 3 /tmp/job.sock
  wattio-io-writer check --config hpcio.toml";

#[derive(Subcommand)]
enum What {
    /// Serve the ranks of one node, which connect to this writer at a path, without MPI.
    Serve(ServeArguments),
    /// Check whether a configuration can be used on this machine, including its HDF5 library.
    Check {
        /// The configuration: TOML, or a Damaris file (.xml).
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

#[derive(Args)]
struct ServeArguments {
    /// The configuration: TOML, or a Damaris file (.xml).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// How many ranks will connect.
    #[arg(long, value_name = "N")]
    ranks: usize,
    /// A rank started this writer; if it cannot serve, it reports the reason over its standard
    /// input.
    #[arg(long, hide = true)]
    started_by_rank: bool,
    /// The path of the socket to create, to which the ranks connect.
    path: PathBuf,
}

/// Exit codes: done; a dump was lost, or the machine lacks something; the request was refused.
const DONE: i32 = 0;
const LOST: i32 = 1;
const REFUSED: i32 = 2;

/// Why a writer does not begin.
#[derive(Debug)]
struct Refusal {
    /// Whether what it was asked is to blame, and not the machine.
    input: bool,
    text: String,
}

impl Refusal {
    fn input(text: impl ToString) -> Self {
        Self { input: true, text: text.to_string() }
    }

    fn machine(text: impl ToString) -> Self {
        Self { input: false, text: text.to_string() }
    }

    fn code(&self) -> i32 {
        if self.input { REFUSED } else { LOST }
    }
}

fn main() {
    process::let_go_of_what_others_opened();
    let command = Command::parse();
    let code = match command.what {
        Some(What::Serve(arguments)) => serve_path(&arguments),
        Some(What::Check { config }) => check(&config),
        None => serve_parent(),
    };
    process::exit(code);
}

fn check(path: &Path) -> i32 {
    let usable = || -> Result<(), Refusal> {
        let (config, _) = Config::read_any(path).map_err(Refusal::input)?;
        load(&config)?;
        Output::new(&config.output).try_out().map_err(Refusal::input)?;
        config.program.as_deref().map_or(Ok(()), runs).map_err(Refusal::input)
    };
    match usable() {
        Ok(()) => {
            println!("{}: can be used", printable_line(&path.display().to_string()));
            DONE
        }
        Err(refusal) => {
            tell("wattio-io-writer", &refusal.text);
            refusal.code()
        }
    }
}

/// Whether a program can be started.
fn runs(program: &Path) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("program {}: {why}", program.display()));
    if program.is_dir() {
        return refuse("is a folder");
    }
    match rustix::fs::access(program, rustix::fs::Access::EXEC_OK) {
        Err(error) => refuse(&folder::plain(&error.into())),
        Ok(()) => Ok(()),
    }
}

/// Serve the rank that has started this process.
fn serve_parent() -> i32 {
    let Some(socket) = parent() else {
        tell(
            "wattio-io-writer",
            "is started by libwattio_io; by hand: wattio-io-writer serve --help",
        );
        return REFUSED;
    };
    let mut lines = Lines::new(socket);
    let Ok(job) = lines.hear::<Job>() else { return REFUSED };
    let refuse = |lines: &Lines, refusal: Refusal| {
        let code = refusal.code();
        let _ = lines.say(&Answer::Refused { input: refusal.input, text: refusal.text });
        code
    };
    let Ok(parent) = lines.socket().try_clone() else { return LOST };
    let begun = begin(&job, Some(parent));
    let (library, listener, address, signals) = match begun {
        Ok(begun) => begun,
        Err(refusal) => return refuse(&lines, refusal),
    };
    let memory = match Memory::new(&job) {
        Ok(memory) => memory,
        Err(text) => return refuse(&lines, Refusal::machine(text)),
    };
    let (mut line, claim) = match line(&library, &job) {
        Ok(line) => line,
        Err(refusal) => return refuse(&lines, refusal),
    };
    let publisher = line.as_ref().ok().map(|publisher| publisher.address().to_owned());
    if lines.say(&Answer::Ready { address, publisher }).is_err() {
        return LOST;
    }
    let account = match memory.admit(&job, &listener, &signals, line.as_mut().ok(), claim) {
        Ok(admitted) => Server::new(&library, &job, admitted, line).serve(signals),
        Err(text) => return refuse(&lines, Refusal::machine(text)),
    };
    end(account, Some(&lines))
}

/// Serve ranks that meet this process at a path.
fn serve_path(arguments: &ServeArguments) -> i32 {
    let run = || -> Result<i32, Refusal> {
        let config = Config::read_for_path(&arguments.config).map_err(Refusal::input)?;
        if !(1..=PATH_RANKS_MAX).contains(&arguments.ranks) {
            return Err(Refusal::input(format!(
                "--ranks {}; allowed: 1 to {PATH_RANKS_MAX}",
                arguments.ranks
            )));
        }
        let clients: Vec<usize> = (0..arguments.ranks).collect();
        let job = Job {
            id: random_hex(16).map_err(Refusal::machine)?,
            approach: config.approach_text(),
            process: arguments.ranks,
            share: config.buffer.value() as u64 / arguments.ranks as u64,
            computing: clients.clone(),
            clients,
            publisher: None,
            writers: 1,
            // Of a path, the file system says who may come.
            token: "0".repeat(32),
            spread: false,
            address: Some(arguments.path.clone()),
            config,
        };
        let (library, listener, _, signals) = begin(&job, None)?;
        let opened = || -> Result<_, Refusal> {
            let memory = Memory::new(&job).map_err(Refusal::machine)?;
            let (mut line, claim) = line(&library, &job)?;
            let others = line.as_mut().ok();
            let admitted =
                memory.admit(&job, &listener, &signals, others, claim).map_err(Refusal::machine)?;
            Ok((line, admitted))
        };
        let opened = opened();
        let _ = std::fs::remove_file(&arguments.path);
        let (line, admitted) = opened?;
        let account = Server::new(&library, &job, admitted, line).serve(signals);
        Ok(end(account, None))
    };
    run().unwrap_or_else(|refusal| {
        let (input, text) = (refusal.input, refusal.text.clone());
        let parent = arguments.started_by_rank.then(parent).flatten();
        let said = parent.map(|socket| Lines::new(socket).say(&Answer::Refused { input, text }));
        if !matches!(said, Some(Ok(()))) {
            tell("wattio-io-writer", &refusal.text);
        }
        refusal.code()
    })
}

/// The rank that has started this process, at the other end of its standard input.
fn parent() -> Option<UnixStream> {
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    socket.peer_addr().is_ok().then_some(socket)
}

type Begun = (Hdf5, UnixListener, String, Signals);

/// What every writer does first; what fails is the job's fault, or the machine's.
fn begin(job: &Job, parent: Option<UnixStream>) -> Result<Begun, Refusal> {
    process::yield_to_others();
    // Of a large job, the one that publishes hears from many.
    let mut limits = getrlimit(Resource::Nofile);
    limits.current = limits.maximum;
    let _ = setrlimit(Resource::Nofile, limits);
    let library = load(&job.config)?;
    let address = match &job.address {
        Some(path) => Address::Path(path.clone()),
        None => {
            Address::Abstract(format!("wattio-io-{}", random_hex(12).map_err(Refusal::machine)?))
        }
    };
    let listener = address.listen().map_err(|error| match &job.address {
        Some(_) => Refusal::input(error),
        None => Refusal::machine(error),
    })?;
    let signals = signals(parent).map_err(Refusal::machine)?;
    Ok((library, listener, address.to_string(), signals))
}

fn load(config: &Config) -> Result<Hdf5, Refusal> {
    let library = Hdf5::load(config.hdf5.as_deref()).map_err(|error| match config.hdf5 {
        Some(_) => Refusal::input(error),
        None => Refusal::machine(error),
    })?;
    if config.gzip().is_some() && !library.can_deflate() {
        let given = &config.compression;
        return Err(Refusal::input(format!(
            "compression = {given:?}: this HDF5 cannot compress; allowed: none"
        )));
    }
    Ok(library)
}

type LineAndClaim<'a> = (Result<Publisher<'a>, Member>, Option<folder::Claim>);

/// How this writer's dumps get their names: by itself, or by another one.
fn line<'a>(library: &'a Hdf5, job: &'a Job) -> Result<LineAndClaim<'a>, Refusal> {
    if let Some(address) = &job.publisher {
        return Ok((Err(Member::connect(address, job).map_err(Refusal::machine)?), None));
    }
    let claim = Output::new(&job.config.output).claim().map_err(|refused| match refused {
        Unclaimed::NoRoom(text) => Refusal::machine(text),
        Unclaimed::Unusable(text) => Refusal::input(text),
    })?;
    Ok((Ok(Publisher::new(library, job).map_err(Refusal::machine)?), Some(claim)))
}

/// Signals that ask for the end; a batch system's warnings, which would end the process, are borne:
/// what was accepted is being written anyway. So are those of a limit, which calls tell of.
fn signals(parent: Option<UnixStream>) -> std::io::Result<Signals> {
    use signal_hook::consts::{
        SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ,
    };
    let (end, told) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, told.try_clone()?)?;
    }
    let borne = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for signal in [SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGPIPE] {
        signal_hook::flag::register(signal, std::sync::Arc::clone(&borne))?;
    }
    Ok(Signals { end, parent })
}

fn end(mut account: Account, lines: Option<&Lines>) -> i32 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    #[allow(clippy::cast_precision_loss)]
    let cpu_s = spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9;
    account.cpu_s = cpu_s;
    if let Some(lines) = lines {
        let _ = lines.say(&account);
    }
    if account.failed.is_empty() { DONE } else { LOST }
}
