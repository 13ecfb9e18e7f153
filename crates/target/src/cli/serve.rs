//! `serve`: serves volumes until a signal comes.

use super::{BadInput, bytes, bytes_or_none, read_config};
use anyhow::Result;
use clap::Args;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use wattio_target::activation;
use wattio_target::control;
use wattio_target::log::{Priority, log};
use wattio_target::reactor::Idle;
use wattio_target::server::{Address, Server, ServerError, Settings, Volume};
use wattio_target::volume::{DEVICE_DEPTH, Pace, VolumeMemory};
use wattio_volume::OpenOptions;

/// What is served.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target serve /etc/wattio-target.toml
  wattio-target serve --export disk.vol --unix /run/n.sock
  wattio-target serve --export a.vol --export b.vol --tcp 127.0.0.1:10809 --reactors 2

SIGTERM and SIGINT end it: requests under way are answered and volumes closed. The second one ends
it at once; nothing that was flushed is lost then either.")]
pub struct Serve {
    /// The configuration; without it, what is served stands in the command.
    #[arg(conflicts_with_all = ["export", "unix", "tcp"])]
    file: Option<PathBuf>,
    /// A volume; its name is that of the file, or empty for one alone.
    #[arg(long)]
    export: Vec<PathBuf>,
    /// A UNIX socket to listen on.
    #[arg(long)]
    unix: Vec<PathBuf>,
    /// An address with a port to listen on.
    #[arg(long)]
    tcp: Vec<SocketAddr>,
    /// Threads that serve.
    #[arg(long, default_value_t = 1)]
    reactors: usize,
    /// The socket of `status` and `scrub`; with a configuration, what that says.
    #[arg(long)]
    control: Option<PathBuf>,
    /// Memory that the map of each volume may take.
    #[arg(long, value_parser = bytes, default_value = "4GiB")]
    map_memory: u64,
    /// Memory for blocks of each volume that are likely to be read again; 0B for none.
    #[arg(long, value_parser = bytes_or_none, default_value = "256MiB")]
    cache: u64,
    /// Operations that the devices of a volume are given at once, at most.
    #[arg(long, default_value_t = DEVICE_DEPTH, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    device_depth: usize,
    /// Memory for what clients of each volume wrote and were answered before it is on the device,
    /// as in a disk's write cache: a flush waits for it. 0B to answer writes from the device.
    #[arg(long, value_parser = bytes_or_none, default_value = "16MiB")]
    write_buffer: u64,
}

impl Serve {
    pub fn run(self) -> Result<ExitCode> {
        let (settings, socket) = match &self.file {
            Some(file) => {
                let config = read_config(file)?;
                (config.settings(), Some(config.control))
            }
            None => (self.settings()?, self.control.clone()),
        };
        // Before there are threads, which would have signals end the process.
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let passed = activation::passed()?;
        let server = Server::start_on(&settings, passed).map_err(|error| match error {
            ServerError::NotPassed | ServerError::Unasked(_) => BadInput(error.to_string()).into(),
            _ => anyhow::Error::from(error),
        })?;
        let handle = server.handle();
        let _socket = socket.map(|path| control::serve(&path, handle.clone())).transpose()?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for (count, _) in signals.forever().enumerate() {
                if count > 0 {
                    log(Priority::Warning, "ended at once; volumes are recovered when opened");
                    std::process::exit(1);
                }
                log(Priority::Info, "requests under way are answered, then volumes are closed");
                let _ = sd_notify::notify(&[NotifyState::Stopping]);
                handle.stop();
            }
        })?;
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        log(Priority::Info, "serving");
        server.wait()?;
        log(Priority::Info, "closed");
        Ok(ExitCode::SUCCESS)
    }

    fn settings(&self) -> Result<Settings> {
        let bad = |what: &str| Err(BadInput(what.to_owned()).into());
        if self.export.is_empty() {
            return bad("nothing to serve: name a configuration, or volumes with --export");
        }
        if self.unix.is_empty() && self.tcp.is_empty() {
            return bad("nowhere to listen: give --unix SOCKET or --tcp ADDRESS:PORT");
        }
        let name = |path: &PathBuf| match self.export.len() {
            1 => String::new(),
            _ => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        };
        let volume = |path: &PathBuf| Volume {
            export: name(path),
            devices: vec![path.clone()],
            is_read_only: false,
            open: OpenOptions {
                map_bytes_max: self.map_memory,
                accept_missing: false,
                accept_loss: false,
            },
        };
        let unix = self.unix.iter().cloned().map(Address::Unix);
        Ok(Settings {
            volumes: self.export.iter().map(volume).collect(),
            listen: unix.chain(self.tcp.iter().copied().map(Address::Tcp)).collect(),
            reactors: self.reactors,
            idle: Idle::Block,
            memory: VolumeMemory { cache_bytes: self.cache, write_buffer_bytes: self.write_buffer },
            tls: None,
            pace: Pace {
                scrub_period: Some(Duration::from_secs(7 * 86_400)),
                device_depth: self.device_depth,
            },
        })
    }
}
