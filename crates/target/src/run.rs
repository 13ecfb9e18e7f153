//! The target while it serves: the reactors, and the loop that governs them and shows their status.

use crate::control_loop::{Books, Governing, Named};
use crate::exposure::warnings;
use crate::frequency::{Frequency, FrequencyError, FrequencySettings, ReactorCores};
use crate::handle::Handle;
use crate::log::{Priority, log};
use crate::manager::LiveReactors;
use crate::plant::{Governed, Layout, TargetPlant};
use crate::reactor::Listener;
use crate::server::{Server, ServerError, Settings};
use crate::shown::{Request, Shown, WattioTarget};
use crate::sockets::Listening;
use anyhow::{Context, Result};
use sd_notify::NotifyState;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;
use wattio_control::SettingError;
use wattio_governor::journal::Journal;
use wattio_governor::{Clock, Severity};
use wattio_host::Root;
use wattio_host::clock::HostClock;
use wattio_host::facts::{self, RunFacts};
use wattio_host::groups::Speeds;
use wattio_host::ledger::Ledger;
use wattio_host::price::Price;
use wattio_host::shadow::{self, Compared, Mode, SharedFitter};
use wattio_law::Bound;
use wattio_plant::PowerModel;
use wattio_service::inbox::{Inbox, Message};
use wattio_service::{Program, Service, ServiceRequest, ServiceSettings};
use wattio_target_config::SafetyConfig;

/// How often reactors are asked for what only they know, for the page and for metrics.
const DETAILS_EVERY: Duration = Duration::from_secs(10);

/// Signals that come within this time ask for one stop: `timeout` signals its child and then its whole
/// group, as others do.
const ONE_STOP: Duration = Duration::from_secs(1);

/// The law, and what it governs.
#[derive(Clone, Debug)]
pub struct LawSettings {
    /// The target's name in results and on the page.
    pub name: String,
    /// The law, and its hyperparameters.
    pub policy: (String, wattio_control::Settings),
    /// The bounds; if empty, the law's own.
    pub bounds: Vec<Bound>,
    /// Whether its decisions are carried out.
    pub mode: Mode,
    /// Another law whose decisions shadow mode shows beside.
    pub compare: Option<String>,
    /// How carefully its decisions are carried out.
    pub safety: SafetyConfig,
    /// How the reactors are grouped.
    pub layout: Layout,
    /// Where the frequency of their cores is turned, if it is.
    pub frequency: Option<FrequencySettings>,
    /// What estimates their power.
    pub power_model: Option<PowerModel>,
    /// What energy costs.
    pub price: Price,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is served.
    pub server: Settings,
    /// The law.
    pub law: LawSettings,
    /// Page, metrics and control socket.
    pub service: ServiceSettings,
    /// Where windows and events are kept; `None` keeps none.
    pub results: Option<PathBuf>,
    /// The configuration's file and text, for results; without one, the path is empty.
    pub config: (PathBuf, String),
    /// The options of the command line, for results.
    pub options: Vec<String>,
}

/// The folder for results cannot be used.
#[derive(Debug, Error)]
#[error("{}: results cannot be kept there: {error}; say where with --out", folder.display())]
pub struct NoResults {
    /// As it was named.
    pub folder: PathBuf,
    /// Why.
    pub error: std::io::Error,
}

/// How serving ended.
#[derive(Debug)]
pub struct Ended {
    /// How it stood then.
    pub shown: Shown,
    /// Where windows and events were kept.
    pub folder: Option<PathBuf>,
    /// Why a reactor stopped, or a volume was not closed.
    pub failure: Option<ServerError>,
}

/// Serves until a signal comes; on the sockets that were passed, too.
///
/// # Errors
/// What could not be opened; [`SettingError`] if there is no such law.
pub fn run(options: &Options, passed: Vec<Listener>) -> Result<Ended> {
    let clock = HostClock::start();
    // Before there are threads, which would have signals end the process.
    let inbox = Inbox::open()?;
    // The unit makes that of the default; without it, as by hand, nobody did.
    if let Some(folder) = options.service.socket.as_ref().and_then(|socket| socket.parent())
        && !options.config.0.as_os_str().is_empty()
    {
        // If this fails, opening the socket reports it.
        let _ = std::fs::create_dir_all(folder);
    }
    // What cannot be opened is said before a volume is touched.
    let service = Service::open::<WattioTarget>(options.service.clone())?;
    let listening = Listening::open(&options.server.listen, passed)?;
    let journal = start_journal(options, &clock)?;
    let folder = journal.as_ref().map(|journal| journal.folder().to_owned());
    if options.law.mode == Mode::Observe
        && let Some(message) = shadow::others(&Root::new("/"))
    {
        log(Priority::Warning, message);
    }
    let Cores { cores, speeds, frequency } = frequency(&options.law)?;
    let server = Settings { cores, ..options.server.clone() };
    let server = Server::start_on(&server, listening)?;
    let handle = server.handle();
    let turned = (speeds, frequency);
    let mut governing = govern(options, turned, handle.clone(), journal, &clock)?;
    governing.learn(handle.status());
    let (status, seen) = wattio_service::shown(governing.shown(&clock));
    let (requests, requested) = channel();
    let service = service.serve(seen, requests);
    if let Some(page) = service.page() {
        log(Priority::Info, &page.place());
    }
    let Settings { listen, tls, .. } = &options.server;
    let of_page = service.page().and_then(|page| page.warning());
    for message in of_page.into_iter().chain(warnings(listen, tls.as_ref())) {
        log(Priority::Warning, &message);
    }
    inbox.forward(requested)?;
    let serving = Serving::begin(server, &inbox)?;
    // Fails without a service manager, which is fine.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    log(
        Priority::Info,
        match options.law.mode {
            Mode::Run => "serving",
            Mode::Observe => "serving at full speed; the law acts on nothing",
        },
    );
    let mut detailed = Instant::now();
    while !serving.has_ended() {
        let next = governing.tick(&clock);
        governing.reactors().look_after();
        for event in &next.events {
            log(priority(event.severity), &event.message);
        }
        if next.stepped {
            if detailed.elapsed() >= DETAILS_EVERY {
                detailed = Instant::now();
                governing.learn(handle.status_soon());
            }
            status.send(governing.shown(&clock));
        }
        match inbox.wait(next.at.saturating_sub(clock.now())) {
            None => {}
            Some(Message::Stop) => break,
            Some(Message::Reload) => {
                log(Priority::Warning, "the configuration is read at the start only");
            }
            Some(Message::Request(request)) => {
                answer(request, &mut governing, &handle, &clock);
                status.send(governing.shown(&clock));
            }
        }
    }
    // At full speed, and before a second signal ends the process.
    governing.let_go();
    governing.learn(handle.status_soon());
    let ended = end(serving, &handle, &inbox);
    let shown = governing.end(&clock);
    drop(service);
    if ended.is_ok() {
        log(Priority::Info, "closed");
    }
    Ok(Ended { shown, folder, failure: ended.err() })
}

/// Answers what is under way and closes the volumes; another signal later ends the process at once.
fn end(serving: Serving, handle: &Handle, inbox: &Inbox<WattioTarget>) -> Result<(), ServerError> {
    let asked = Instant::now();
    if !serving.has_ended() {
        log(Priority::Info, "requests under way are answered, then volumes are closed");
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
        handle.stop();
    }
    while !serving.has_ended() {
        let is_stop = matches!(inbox.wait(Duration::MAX), Some(Message::Stop));
        if is_stop && asked.elapsed() > ONE_STOP && !serving.has_ended() {
            log(Priority::Warning, "ended at once; volumes are recovered when opened");
            std::process::exit(1);
        }
    }
    serving.join()
}

/// A thread that waits for the reactors, and says when they have ended.
struct Serving(JoinHandle<Result<(), ServerError>>, Arc<std::sync::atomic::AtomicBool>);

impl Serving {
    fn begin(server: Server, inbox: &Inbox<WattioTarget>) -> Result<Self> {
        let has_ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (ended, stop) = (Arc::clone(&has_ended), inbox.stopper());
        let wait = move || {
            let result = server.wait();
            ended.store(true, std::sync::atomic::Ordering::Release);
            stop();
            result
        };
        let thread = std::thread::Builder::new().name("serving".to_owned());
        let thread = thread.spawn(wait).context("no thread to wait for the reactors")?;
        Ok(Self(thread, has_ended))
    }

    fn has_ended(&self) -> bool {
        self.1.load(std::sync::atomic::Ordering::Acquire)
    }

    fn join(self) -> Result<(), ServerError> {
        let panicked = || std::io::Error::other("it has panicked");
        let ended = self.0.join();
        ended.unwrap_or_else(|_| Err(ServerError::Reactor { reactor: 0, error: panicked() }))
    }
}

/// The cores of reactors, what they can be set to, and what turns their frequency; a host on which
/// nothing does is told of.
#[derive(Default)]
struct Cores {
    cores: Vec<u32>,
    speeds: Option<Vec<Speeds>>,
    frequency: Option<Frequency>,
}

fn frequency(law: &LawSettings) -> Result<Cores, FrequencyError> {
    let Some(settings) = &law.frequency else { return Ok(Cores::default()) };
    let root = Root::new("/");
    if law.mode == Mode::Observe {
        let (cores, speeds) = ReactorCores::look(settings, &law.layout, &root)?;
        return Ok(Cores { cores, speeds, frequency: None });
    }
    let opened = ReactorCores::open(settings, &law.layout, &root)?;
    for line in opened.restored {
        log(Priority::Warning, &format!("from an earlier start: {line}"));
    }
    let cores = opened.cores;
    match opened.turned {
        Ok(frequency) => {
            Ok(Cores { cores, speeds: Some(frequency.speeds.clone()), frequency: Some(frequency) })
        }
        Err(why) => {
            log(Priority::Warning, &format!("the law sets no frequency: {why}"));
            Ok(Cores { cores, ..Cores::default() })
        }
    }
}

fn govern(
    options: &Options,
    (speeds, frequency): (Option<Vec<Speeds>>, Option<Frequency>),
    handle: Handle,
    journal: Option<Journal>,
    clock: &HostClock,
) -> Result<Governing<LiveReactors>, SettingError> {
    let law = &options.law;
    let LawSettings { name, policy: (policy, settings), bounds, mode, .. } = law;
    let model = law.power_model.clone();
    let mut layout = law.layout.clone();
    if let Some(speeds) = &speeds {
        layout = layout.with_speeds(speeds, model.as_ref());
    }
    let limits = layout.limits();
    let full = layout.setting(&limits.full_speed());
    let reactors = LiveReactors::new(handle, options.server.volumes.len(), full);
    let mut plant = TargetPlant::new(layout, reactors, clock.now());
    if let Some(frequency) = frequency {
        plant = plant.with_frequency(frequency);
    }
    let driver = law.safety.driver();
    let governed = Governed::new((policy, settings), bounds, driver, plant, clock.now())?;
    let named = Named { name: name.clone(), policy: policy.clone() };
    let speeds: Vec<_> = limits.groups.iter().map(|group| group.frequency_max).collect();
    let error_max = law.safety.model_error_max;
    let fitter = SharedFitter::new(error_max, model.as_ref(), speeds.clone());
    let compared = law
        .compare
        .as_ref()
        .filter(|_| *mode == Mode::Observe)
        .map(|other| Compared::new(other, limits, bounds, driver, fitter.clone(), clock.now()));
    let mut ledger = Ledger::new(model, None, speeds).priced(law.price);
    if options.config.0.as_os_str().is_empty() {
        ledger = ledger.with_model_key("--power-model");
    }
    let books = Books { mode: *mode, fitter, compared: compared.transpose()?, ledger, journal };
    Ok(Governing::new(governed, named, books, clock))
}

fn answer(
    ServiceRequest { request, reply }: ServiceRequest<WattioTarget>,
    governing: &mut Governing<LiveReactors>,
    handle: &Handle,
    clock: &HostClock,
) {
    if request == (Request::Inspect {}) {
        governing.learn(handle.status());
    }
    let answer = governing.answer(&request, |export| handle.scrub(export), clock);
    // The client may have left.
    let _ = reply.send(answer);
}

fn start_journal(options: &Options, clock: &HostClock) -> Result<Option<Journal>> {
    let Some(results) = &options.results else { return Ok(None) };
    let LawSettings { name, policy, layout, mode, .. } = &options.law;
    let group = |group: &crate::plant::Group| {
        let (first, last) = (group.reactors.start, group.reactors.end - 1);
        (group.name, format!("{first}-{last}"), group.reactors_min)
    };
    let facts = RunFacts {
        program: (WattioTarget::NAME, env!("CARGO_PKG_VERSION")),
        mode: mode.name(),
        name,
        policy: &policy.0,
        groups: layout.groups().iter().map(group).collect(),
        config_file: &options.config.0,
        options: options.options.clone(),
    };
    let facts = facts.describe(&Root::new("/"), clock);
    let stamp = facts::stamp(clock.utc_ns(), &options.config.1);
    let journal = Journal::create(results, name, &stamp, &options.config.1, &facts);
    let journal = journal.map_err(|error| NoResults { folder: results.clone(), error })?;
    log(Priority::Info, &format!("keeps windows and events in {}", journal.folder().display()));
    Ok(Some(journal))
}

const fn priority(severity: Severity) -> Priority {
    match severity {
        Severity::Error => Priority::Error,
        Severity::Warning => Priority::Warning,
        Severity::Info => Priority::Info,
    }
}
