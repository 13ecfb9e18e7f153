//! `serve`: serves volumes until a signal comes.

use super::{BadInput, bytes, bytes_or_none, read_config, say};
use anyhow::Result;
use clap::Args;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wattio_control::SettingError;
use wattio_host::config::{PageTls, check_policy};
use wattio_host::ledger::power_model;
use wattio_host::price::Price;
use wattio_host::shadow::Mode;
use wattio_plant::DescriptionError;
use wattio_service::arguments::{address, is_bad_path, whole_number};
use wattio_service::tls::Files;
use wattio_service::{ServiceError, ServiceSettings};
use wattio_target::activation;
use wattio_target::config;
use wattio_target::frequency::FrequencyError;
use wattio_target::log::{printable, printable_line};
use wattio_target::plant::Layout;
use wattio_target::run::{self, Ended, LawSettings, NoResults, Options};
use wattio_target::server::{ServerError, Settings, Volume};
use wattio_target::sockets::ListenError;
use wattio_target::volume::{Pace, VolumeMemory};
use wattio_target_config::{
    Address, DEVICE_DEPTH, DEVICE_DEPTH_MAX, EXPORTS_MAX, Idle, REACTORS_MAX, SafetyConfig,
    ServiceConfig, named_twice,
};
use wattio_volume::{OpenError, OpenOptions};

/// What help says of shadow mode.
pub const OBSERVE: &str = "\
Examples:
  wattio-target observe /etc/wattio-target.toml --out results
  wattio-target observe --export a.vol --unix /run/n.sock --reactors 4 --policy pacer --control /run/c.sock
  wattio-target status /run/c.sock        what the law would do
  wattio report results/target/*          what it would have saved, in full, once it has ended

When it ends, it says what the law would have saved, and whether its bound would have been kept.
Everything is served as by `serve`, but every reactor stays on and no frequency is set.";

/// What is served.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattio-target serve /etc/wattio-target.toml
  wattio-target serve --export disk.vol --unix /run/n.sock
  wattio-target serve --export a.vol --export b.vol --tcp 127.0.0.1:10809 --reactors 2
  wattio-target serve --export a.vol --unix /run/n.sock --reactors 4 --policy pacer --set plf=0.2 \
      --page 127.0.0.1:9289

SIGTERM or SIGINT stops it: requests in flight are answered and volumes closed. Another signal,
more than a second later, stops it at once; even then, nothing that was flushed is lost.")]
pub struct Serve {
    /// The configuration; without it, options say what to serve.
    #[arg(conflicts_with_all = [
        "export", "unix", "tcp", "reactors", "volume_reactors", "policy", "set", "power_model", "page",
        "control", "idle", "map_memory", "cache", "device_depth", "write_buffer",
    ])]
    file: Option<PathBuf>,
    /// A volume. Its name is the file's name, or empty if there is only one volume.
    #[arg(long)]
    export: Vec<PathBuf>,
    /// A UNIX socket to listen on.
    #[arg(long)]
    unix: Vec<PathBuf>,
    /// An address with a port to listen on.
    #[arg(long, value_parser = address)]
    tcp: Vec<SocketAddr>,
    /// The number of threads that serve.
    #[arg(long, default_value_t = 1, value_parser = reactors)]
    reactors: usize,
    /// How many of the reactors (the last ones) serve volumes only.
    #[arg(long, default_value_t = 0, value_parser = volume_reactors)]
    volume_reactors: usize,
    /// The law that decides how many reactors are on: native, pacer, foresight, ...
    #[arg(long, default_value = "native")]
    policy: String,
    /// A parameter of the law, such as plf=0.2.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, wattio_control::Value)>,
    /// The model that estimates power: a file, or "assumed" for the one that ships with wattio.
    #[arg(long, value_name = "MODEL")]
    power_model: Option<String>,
    /// An address with a port for the page and the metrics, such as 127.0.0.1:9289.
    #[arg(long, value_parser = address)]
    page: Option<SocketAddr>,
    /// The control socket, for `status` and similar commands; with a configuration, its
    /// service.socket is used.
    #[arg(long)]
    control: Option<PathBuf>,
    /// What reactors do when they have no work: block, "spin 20 us" or poll.
    #[arg(long, value_parser = idle, default_value = "block")]
    idle: Idle,
    /// A folder in which to keep windows and events, in a subfolder; default: none are kept.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the last status as one JSON object when it ends.
    #[arg(long)]
    json: bool,
    /// The most memory that the map of each volume may use.
    #[arg(long, value_parser = bytes, default_value = "4GiB")]
    map_memory: u64,
    /// Memory to cache blocks that are likely to be read again, for each volume; 0B for no cache.
    #[arg(long, value_parser = bytes_or_none, default_value = "256MiB")]
    cache: u64,
    /// The most operations that a volume's devices are given at once.
    #[arg(long, default_value_t = DEVICE_DEPTH, value_parser = device_depth)]
    device_depth: usize,
    /// Memory for writes that are acknowledged before they are on the device, for each volume. As
    /// with a disk's write cache, a flush waits for them. 0B: acknowledge a write once it is on the
    /// device.
    #[arg(long, value_parser = bytes_or_none, default_value = "16MiB")]
    write_buffer: u64,
}

impl Serve {
    /// Serves; in shadow mode at full speed, whatever the law asks for.
    pub fn run(self, mode: Mode) -> Result<ExitCode> {
        let options = self.options(mode)?;
        match run::run(&options, activation::passed()?) {
            Ok(ended) => self.finish(ended),
            Err(error) if self.is_no_volume(&error) => {
                let allowed = "allowed for --export: the path of a volume, as `wattio-target create` \
                               makes it";
                Err(BadInput(format!("{error}; {allowed}")).into())
            }
            Err(error) if is_half(&error) => {
                let by = match self.file {
                    Some(_) => {
                        "accept_missing = true in its [[export]] serves the volume without it"
                    }
                    None => "a configuration can ask for it, or name both devices",
                };
                let told = format!("{error}; {by}");
                if is_bad_input(&error) {
                    return Err(BadInput(told).into());
                }
                anyhow::bail!(told)
            }
            Err(error) if is_bad_input(&error) => Err(BadInput(error.to_string()).into()),
            Err(error) if self.file.is_none() => Err(of_page_option(error)),
            Err(error) => Err(error),
        }
    }

    /// Says what came of it, if there was anything to say, and why it ended if nobody asked for that.
    fn finish(&self, ended: Ended) -> Result<ExitCode> {
        let Ended { shown, folder, failure } = ended;
        if self.json {
            say(&serde_json::to_string(&shown)?);
        } else {
            // At full speed nothing was saved, and nobody asked.
            if shown.mode == Mode::Observe.name() || shown.policy != "native" {
                say(&printable(&shown.verdict()));
            }
            if let Some(folder) = folder {
                let folder = printable_line(&folder.display().to_string());
                say(&format!("results: {folder}\nreport:  wattio report {folder}"));
            }
        }
        failure.map_or(Ok(ExitCode::SUCCESS), |failure| Err(failure.into()))
    }

    /// Whether a command names what is not a volume. A device that a configuration names may come
    /// later.
    fn is_no_volume(&self, error: &anyhow::Error) -> bool {
        self.file.is_none()
            && match error.downcast_ref() {
                Some(ServerError::Device(error)) => error.is_missing() || error.is_bad_input(),
                Some(ServerError::Volume { error, .. }) => matches!(error, OpenError::NoVolume(_)),
                _ => false,
            }
    }

    fn options(&self, mode: Mode) -> Result<Options> {
        let Some(file) = &self.file else { return self.of_command(mode) };
        let (config, text) = read_config(file).map_err(|error| of_file(file, error))?;
        let ServiceConfig { listen, host_names, socket, .. } = config.service.clone();
        let wrong = |error| BadInput(format!("{}: {error}", file.display()));
        Ok(Options {
            server: config::settings(&config),
            law: config::law(&config, file, mode).map_err(wrong)?,
            service: ServiceSettings {
                listen: listen.0,
                host_names,
                socket: Some(socket),
                socket_group: config.service.group_id().map_err(wrong)?,
                ..of_page(&config.service)
            },
            results: self.out.clone(),
            config: (file.clone(), text),
            options: Vec::new(),
        })
    }

    fn of_command(&self, mode: Mode) -> Result<Options> {
        let server = self.settings()?;
        let wrong = |error: &dyn std::fmt::Display| BadInput(error.to_string());
        let mut layout = Layout::new(self.reactors, self.volume_reactors, 1)
            .map_err(|error| wrong(&format!("--{}: {error}", error.key.replace('_', "-"))))?;
        layout.idle_cores_sleep = server.idle != Idle::Poll;
        let mut settings = wattio_control::Settings::new();
        for (name, value) in &self.set {
            settings.insert(name.clone(), value.clone());
        }
        check_policy(&self.policy, &settings, &[]).map_err(|error| wrong(&of_option(&error)))?;
        let policy = (self.policy.clone(), settings);
        let (name, bounds) = ("target".to_owned(), Vec::new());
        let model = self.power_model.as_deref();
        let power_model = model.map(|model| power_model(model, Path::new(""))).transpose();
        let power_model = power_model
            .map_err(|error| wrong(&error.replacen("power.model, ", "--power-model ", 1)))?;
        let law = LawSettings {
            name,
            policy,
            bounds,
            mode,
            compare: None,
            safety: SafetyConfig::default(),
            layout,
            frequency: None,
            power_model,
            price: Price::default(),
        };
        let service = ServiceSettings {
            listen: self.page,
            socket: self.control.clone(),
            ..ServiceSettings::default()
        };
        // All but the program and the command.
        let options = std::env::args_os().skip(2).map(|one| one.to_string_lossy().into_owned());
        Ok(Options {
            server,
            law,
            service,
            results: self.out.clone(),
            config: (PathBuf::new(), String::new()),
            options: options.collect(),
        })
    }

    fn settings(&self) -> Result<Settings> {
        let bad = |what: &str| Err(BadInput(what.to_owned()).into());
        if self.export.is_empty() {
            return bad("nothing to serve: name a configuration, or volumes with --export");
        }
        if self.export.len() > EXPORTS_MAX {
            return bad(&format!("--export: allowed are up to {EXPORTS_MAX} volumes"));
        }
        if self.unix.is_empty() && self.tcp.is_empty() {
            return bad("nowhere to listen: give --unix SOCKET or --tcp ADDRESS:PORT");
        }
        let listen = self.listen();
        if let Some(twice) = named_twice(&listen) {
            return bad(&match twice {
                Address::Unix(path) => format!("--unix {}: is given twice", path.display()),
                Address::Tcp(address) => format!("--tcp {address}: is given twice"),
                Address::Systemd => "systemd: is given twice".to_owned(),
            });
        }
        if let Some(control) = self.control.as_ref().filter(|control| self.unix.contains(control)) {
            let control = control.display();
            let shared = "is also given as --unix: clients and commands need a socket each";
            return bad(&format!("--control {control}: {shared}"));
        }
        let volume = |path: &PathBuf| {
            Ok(Volume {
                export: self.name_of(path)?,
                devices: vec![path.clone()],
                is_read_only: false,
                open: OpenOptions {
                    map_bytes_max: self.map_memory,
                    accept_missing: false,
                    accept_loss: false,
                },
            })
        };
        Ok(Settings {
            volumes: self.export.iter().map(volume).collect::<Result<_, BadInput>>()?,
            listen,
            reactors: self.reactors,
            cores: Vec::new(),
            idle: self.idle,
            memory: VolumeMemory { cache_bytes: self.cache, write_buffer_bytes: self.write_buffer },
            tls: None,
            pace: Pace {
                scrub_period: Some(Duration::from_secs(7 * 86_400)),
                device_depth: self.device_depth,
            },
        })
    }
}

impl Serve {
    /// Where clients connect.
    fn listen(&self) -> Vec<Address> {
        let unix = self.unix.iter().cloned().map(Address::Unix);
        unix.chain(self.tcp.iter().copied().map(Address::Tcp)).collect()
    }

    /// By which name clients ask for a volume of several.
    fn name_of(&self, path: &Path) -> Result<String, BadInput> {
        if self.export.len() == 1 {
            return Ok(String::new());
        }
        let name = path.file_stem().and_then(OsStr::to_str).map(str::to_owned);
        name.ok_or_else(|| {
            BadInput(format!(
                "--export {path:?}: among several volumes, each is called by its file's name, and this \
                 path has none that is text in UTF-8; a configuration may name it otherwise"
            ))
        })
    }
}

/// Whether a device of a volume is not there, and nobody said that this is all right.
fn is_half(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(ServerError::Half { .. }) => true,
        Some(ServerError::Volume { error, .. }) => error.is_of_one_device(),
        _ => false,
    }
}

/// Where the page's address is in use: what to change is the option, as there is no configuration.
fn of_page_option(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(ServiceError::Listen { address, error }) => anyhow::anyhow!(
            "--page: cannot listen on {address}: {error}; choose another address, or leave it out to \
             have no page"
        ),
        _ => error,
    }
}

/// Whether what was asked for does not fit, however often it is tried.
fn is_bad_input(error: &anyhow::Error) -> bool {
    let frequency = error.downcast_ref().is_some_and(FrequencyError::is_bad_input);
    let page = error.downcast_ref().is_some_and(ServiceError::is_bad_input);
    let server = error.downcast_ref().is_some_and(ServerError::is_bad_input);
    let sockets = error.downcast_ref().is_some_and(ListenError::is_bad_input);
    let results = error.downcast_ref().is_some_and(|NoResults { error, .. }| is_bad_path(error));
    error.is::<SettingError>() || frequency || page || server || sockets || results
}

/// What is wrong with a configuration; a volume in its place is a slip that many make.
fn of_file(file: &Path, BadInput(wrong): BadInput) -> BadInput {
    match file.extension() {
        Some(extension) if extension == "toml" => BadInput(wrong),
        _ => BadInput(format!(
            "{wrong}; a configuration is a file in TOML, and --export names a volume"
        )),
    }
}

/// What is wrong with the law, with its option in place of the key.
fn of_option(error: &DescriptionError) -> String {
    let text = error.to_string();
    match (text.strip_prefix("policy.name: "), text.strip_prefix("policy.settings.")) {
        (Some(rest), _) => format!("--policy: {rest}"),
        (_, Some(rest)) => format!("--set {rest}"),
        _ => text,
    }
}

/// The number of reactors, as clap reads it.
fn reactors(text: &str) -> Result<usize, String> {
    whole_number(text, 1..=REACTORS_MAX)
}

/// The number of those that serve volumes only, as clap reads it; at least one other is left.
fn volume_reactors(text: &str) -> Result<usize, String> {
    whole_number(text, 0..=REACTORS_MAX - 1)
}

/// The most operations at once, as clap reads it.
fn device_depth(text: &str) -> Result<usize, String> {
    whole_number(text, 1..=DEVICE_DEPTH_MAX)
}

/// A hyperparameter, as clap reads it.
fn setting(text: &str) -> Result<(String, wattio_control::Value), String> {
    let wrong = || format!("{text:?} is not of the form NAME=VALUE, such as plf=0.2");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let value = match (value.parse(), value.parse()) {
        (Ok(flag), _) => wattio_control::Value::Flag(flag),
        (_, Ok(number)) => wattio_control::Value::Number(number),
        _ => wattio_control::Value::Text(value.to_owned()),
    };
    Ok((name.to_owned(), value))
}

/// What reactors do when nothing is to be done, as clap reads it.
fn idle(text: &str) -> Result<Idle, String> {
    Idle::read(text)
}

/// With what the page is served, and to whom.
pub(super) fn of_page(service: &ServiceConfig) -> ServiceSettings {
    let files = |PageTls { certificate, key }| Files { certificate, key, clients: None };
    let (tls, token) = (service.tls.clone().map(files), service.token.clone());
    ServiceSettings { tls, token, ..ServiceSettings::default() }
}

#[cfg(test)]
mod tests {
    use crate::cli::Arguments;
    use clap::Parser;
    use wattio_host::shadow::Mode;

    fn is_allowed(arguments: &str) -> bool {
        let words = ["wattio-target", "serve"].into_iter().chain(arguments.split_whitespace());
        Arguments::try_parse_from(words).is_ok()
    }

    /// With more than 256 reactors, answers went to others than had asked: a request names its
    /// reactor in a byte. And what a configuration says was not what a command beside it said.
    #[test]
    fn what_a_configuration_refuses_the_command_refuses_too() {
        for reactors in ["0", "65", "257", "100000"] {
            assert!(!is_allowed(&format!("--export a --unix b --reactors {reactors}")));
        }
        assert!(is_allowed("--export a --unix b --reactors 64 --volume-reactors 1"));
        assert!(is_allowed("file.toml --out results"));
        for beside in [
            "--reactors 2",
            "--volume-reactors 1",
            "--cache 1MiB",
            "--device-depth 3",
            "--power-model assumed",
        ] {
            assert!(!is_allowed(&format!("file.toml {beside}")), "{beside}");
        }
    }

    /// A report gave a command that there is none of: the program, the mode and the file.
    #[test]
    fn the_command_that_a_report_names_is_one() {
        for mode in [Mode::Observe, Mode::Run] {
            let words = ["wattio-target", mode.name(), "/etc/wattio-target.toml"];
            assert!(Arguments::try_parse_from(words).is_ok(), "{words:?}");
        }
    }
}
