//! `wattiod observe` and `wattiod run`: from the first look at the host to the last restore.

use crate::alternation::Plan;
use crate::assembly::{BadInput, Environment, Source, assemble, check_fits};
use crate::control::{Answer, Wattiod};
use crate::daemon::{Daemon, Mode, Next};
use crate::keeper::Keeper;
use crate::log::{detail, log};
use crate::progress::Progress;
use crate::shown::{self, Published};
use crate::state::{self, Locks, StateError};
use crate::status::{Counts, EventStatus, GroupStatus, Status};
use crate::status_text::one_line;
use crate::watchdog::Watchdog;
use anyhow::{Context, Result, anyhow};
use sd_notify::NotifyState;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;
use wattio_files::read_text;
use wattio_governor::journal::Journal;
use wattio_governor::{Clock, Restored, Severity};
use wattio_host::clock::HostClock;
use wattio_host::config::Application;
use wattio_host::facts::{self, RunFacts};
use wattio_host::{Root, Topology, programs, shadow, trust};
use wattio_service::arguments::is_bad_path;
use wattio_service::inbox::{Inbox, Message};
use wattio_service::log::counted;
use wattio_service::{Program, Service, ServiceRequest};

/// What the command line asks for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to act.
    pub mode: Mode,
    /// Where the configuration comes from.
    pub config: Configured,
    /// Where to keep windows and events; `None` keeps none.
    pub results: Option<PathBuf>,
    /// Governing by turns with full speed, to measure what it does.
    pub alternate: Option<Plan>,
    /// How long; `None`: until told to stop.
    pub duration: Option<Duration>,
    /// Where the host's files lie.
    pub root: Root,
    /// Whether to show a progress line each second.
    pub show_progress: bool,
}

/// Where a configuration comes from.
#[derive(Clone, Debug)]
pub enum Configured {
    /// A file.
    File(PathBuf),
    /// Block devices to watch, and nothing else: no file is needed for that.
    Disks(Vec<String>),
}

impl Configured {
    fn source(&self, root: &Root) -> Result<Source> {
        match self {
            Self::File(path) => read_trusted(path, root),
            Self::Disks(devices) => {
                let topology = Topology::read(root).map_err(BadInput::new)?;
                let text = of_disks(devices, &topology);
                let config = wattio_host::DaemonConfig::from_toml(&text)
                    .map_err(|error| BadInput::new(format!("--disk: {error}")))?;
                Ok(Source { config, text, path: PathBuf::from("--disk") })
            }
        }
    }
}

/// The configuration that watches block devices: all processors that are on as one group, PACER
/// with its defaults, a power model that nobody measured.
fn of_disks(devices: &[String], topology: &Topology) -> String {
    // A list of texts reads the same in JSON and in TOML, whatever the names hold.
    let devices = serde_json::json!(devices);
    let cores = topology.online.to_string();
    format!(
        "name = \"disks\"\n[latency]\nkind = \"diskstats\"\ndevices = {devices}\n\
         [[group]]\nname = \"all\"\ncores = \"{cores}\"\n[power]\nmodel = \"assumed\"\n"
    )
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// The last status.
    pub status: Status,
    /// What was restored.
    pub restored: Restored,
    /// The result folders, one for each application.
    pub folders: Vec<PathBuf>,
    /// Why it ended by itself, if that was a failure.
    pub failure: Option<String>,
}

/// Governs until told to stop.
///
/// # Errors
/// [`BadInput`] if the configuration asks for something that the host does not have; other errors
/// as they come. Whatever was written is restored first.
pub fn govern(options: &Options) -> Result<Ended> {
    let clock = HostClock::start();
    let mut source = options.config.source(&options.root)?;
    let lock = match options.mode {
        Mode::Run => Some(
            state::take_locks(&source.config.service.state, &options.root)
                .map_err(StateError::from)?,
        ),
        Mode::Observe => {
            warn_of_others(&options.root);
            None
        }
    };
    let inbox = Inbox::open()?;
    let (requests, requested) = channel();
    // Ends after the daemon, which restores first on every way out of here.
    let mut keeper = lock.as_ref().map_or(Ok(None), |_| keep(options, &source))?;
    let mut daemon = build(options, &source, lock.as_ref(), &clock)?;
    let (publisher, seen) = wattio_service::shown(daemon.status(&clock));
    let service = shown::serve(options.mode, &source, &seen, &requests)?;
    drop((seen, requests));
    // Not before all else has begun: a start that fails leaves no result without a window.
    let journals = start_journals(options, &source, &clock)?;
    for (_, journal) in &journals {
        detail(|| format!("keeps windows and events in {}", journal.folder().display()));
    }
    daemon.record(journals);
    let folders = daemon.folders();
    let mut status = Published::new(publisher, &clock);
    if let Some(page) = service.page() {
        shown::tell(page);
    }
    inbox.forward(requested)?;
    // Fails without a service manager, which is fine.
    let _ = sd_notify::notify(&[NotifyState::Ready]);

    let until = options.duration.map(|span| clock.now().saturating_add(span));
    let mut shown = Progress::new(options.show_progress);
    let mut watchdog = Watchdog::new();
    loop {
        let next = daemon.tick(&clock);
        if !next.events.is_empty() {
            shown.clear();
        }
        after_tick(&next, &daemon, &service, &mut status, &clock);
        keeper.iter().for_each(Keeper::beat);
        if next.stepped {
            watchdog.feed(clock.now());
            if let Some(message) = keeper.as_mut().and_then(Keeper::look) {
                daemon.tell(Severity::Warning, message, clock.utc_ns());
            }
        }
        shown.show(&daemon, &clock, until);
        let over = until.is_some_and(|until| clock.now() >= until);
        if over {
            break;
        }
        let wait = until.unwrap_or(Duration::MAX).min(next.at).saturating_sub(clock.now());
        match inbox.wait(wait) {
            None => {}
            Some(Message::Stop) => break,
            Some(Message::Request(request)) => answer(request, &mut daemon, &mut status, &clock),
            Some(Message::Reload) => {
                shown.clear();
                daemon = reload(options, &mut source, lock.as_ref(), daemon, &clock)?;
                status.send(&daemon, &clock);
            }
        }
    }
    shown.clear();
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    let (restored, last) = daemon.end(&clock);
    status.send_last(last.clone());
    drop(service);
    let failure = silence(&last).or_else(|| in_vain(&last));
    Ok(Ended { status: last, restored: restored?, folders, failure })
}

/// Starts what puts everything back where this process is killed or stopped.
fn keep(options: &Options, source: &Source) -> Result<Option<Keeper>> {
    let service = &source.config.service;
    let Configured::File(path) = &options.config else { return Ok(None) };
    if !service.keeper {
        return Ok(None);
    }
    let started = Keeper::start(path, &service.state, &options.root);
    let why = "the keeper cannot be started, which puts everything back after a kill; \
               service.keeper = false goes without";
    started.map(Some).context(why)
}

/// Why nothing was measured, if a source failed and no request was seen.
fn silence(status: &Status) -> Option<String> {
    let failed = |one: &&Status| one.counts.requests == 0 && one.counts.source_errors > 0;
    let silent = status.applications().find(failed)?;
    let warning = silent.events.iter().rev().find(|event| event.severity == Severity::Warning)?;
    Some(format!("no request was seen: {}", warning.message))
}

/// Why nothing was saved, if writing failed and nothing was ever written: a full disk, for example,
/// has no room for old values.
fn in_vain(status: &Status) -> Option<String> {
    let sum = |count: fn(&Counts) -> u64| -> u64 {
        status.applications().map(|one| count(&one.counts)).sum()
    };
    if sum(|counts| counts.knob_failures) == 0 || sum(|counts| counts.knob_writes) > 0 {
        return None;
    }
    let error = status.events.iter().rev().find(|event| event.severity == Severity::Error)?;
    Some(format!("nothing could be written: {}", error.message))
}

/// Shadow mode assumes that what it measures is full speed.
fn warn_of_others(root: &Root) {
    if let Some(message) = shadow::others(root) {
        log(Severity::Warning, message);
    }
}

/// Reads a configuration's file.
///
/// # Errors
/// [`BadInput`] with the file, line or key.
pub fn read(path: &std::path::Path) -> Result<Source> {
    let at = |what: &dyn std::fmt::Display| BadInput::new(format!("{}: {what}", path.display()));
    detail(|| format!("reads {}", path.display()));
    let text = read_text(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            at(&format!("{error}; `wattiod init --out FILE` proposes one for this host"))
        }
        _ => at(&error),
    })?;
    let config = wattio_host::DaemonConfig::from_toml(&text).map_err(|error| at(&error))?;
    Ok(Source { config, text, path: path.to_owned() })
}

/// The same for a daemon that acts on it: root trusts no file, and runs no program named in it,
/// that others may write.
///
/// # Errors
/// [`BadInput`] with the file, line or key.
pub fn read_trusted(path: &std::path::Path, root: &Root) -> Result<Source> {
    if rustix::process::geteuid().is_root() {
        trust::check(path, None).map_err(BadInput::new)?;
    }
    let source = read(path)?;
    let at = |error| BadInput::new(format!("{}: {error}", path.display()));
    programs::check(&source.config, root).map_err(at)?;
    Ok(source)
}

fn build(
    options: &Options,
    source: &Source,
    lock: Option<&Locks>,
    clock: &HostClock,
) -> Result<Daemon> {
    let writer = match lock {
        None => None,
        Some(lock) => {
            let config = &source.config;
            let held = state::take_over(&config.service.state, Some(config), &options.root, lock);
            let (writer, restored) = held?;
            for line in state::describe(&restored) {
                log(Severity::Warning, &format!("from an earlier start: {line}"));
            }
            anyhow::ensure!(
                restored.left.is_empty(),
                "an earlier start left {} that cannot be restored; see above",
                counted(restored.left.len() as u64, "value")
            );
            Some(writer)
        }
    };
    let around = Environment { root: &options.root, clock };
    let mut daemon = assemble(source, writer, around)?;
    if let Some(plan) = options.alternate {
        daemon.alternate(plan, clock);
    }
    detail(|| {
        let status = daemon.status(clock);
        let meter = status.power.meter.as_deref().unwrap_or("no meter");
        let lines = status.applications().map(|one| {
            let cores = |group: &GroupStatus| {
                format!("{} ({})", group.name, counted(group.cores_total.into(), "core"))
            };
            let groups: Vec<_> = one.groups.iter().map(cores).collect();
            let (policy, source) = (&one.policy, &one.latency.source);
            let name = one.application.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
            format!("{name}policy {policy}; latency by {source}; groups {}", groups.join(", "))
        });
        format!("{}; power by {meter}", lines.collect::<Vec<_>>().join("; "))
    });
    Ok(daemon)
}

/// A valid file replaces the old one; otherwise the old one stays in force.
fn reload(
    options: &Options,
    source: &mut Source,
    lock: Option<&Locks>,
    mut daemon: Daemon,
    clock: &HostClock,
) -> Result<Daemon> {
    // Type=notify-reload needs the time too; without the clock there is nothing to send.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        let _ = sd_notify::notify(&[NotifyState::Reloading, now]);
    }
    let refused = match options.config.source(&options.root) {
        Ok(new) if new.config.service != source.config.service => {
            let what = "[service] differs, which only takes effect at the next start; put it \
                        back, or restart the daemon";
            Some(what.to_owned())
        }
        Ok(new) => match make_way(options, &new, &mut daemon, clock) {
            Err(error) => Some(format!("{error:#}")),
            Ok(()) => {
                let lasting = daemon.take_lasting();
                let (restored, _) = daemon.end(clock);
                restored?;
                match build(options, &new, lock, clock) {
                    Ok(mut daemon) => {
                        *source = new;
                        daemon.go_on(lasting, clock.utc_ns());
                        daemon.tell(
                            Severity::Info,
                            "configuration reloaded, counts start again".to_owned(),
                            clock.utc_ns(),
                        );
                        let _ = sd_notify::notify(&[NotifyState::Ready]);
                        return Ok(daemon);
                    }
                    Err(error) => {
                        daemon = build(options, source, lock, clock).map_err(|old| {
                            // The file was right when it was read: no bad input, and worth a restart.
                            anyhow!("not reloaded: {error:#}; nor can the old one go on: {old:#}")
                        })?;
                        daemon.go_on(lasting, clock.utc_ns());
                        Some(format!("{error:#}; counts start again"))
                    }
                }
            }
        },
        Err(error) => Some(format!("{error:#}")),
    };
    if let Some(refused) = refused {
        let message = format!("not reloaded, the old configuration stays in force: {refused}");
        daemon.tell(Severity::Error, message, clock.utc_ns());
    }
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    Ok(daemon)
}

/// Restores everything, so that the host is examined as its operator set it up, and makes sure that
/// the new configuration fits it. Where it does not, the daemon is whole and goes on: a service that is
/// down, or a core that is off, would keep the old configuration from starting too.
fn make_way(options: &Options, new: &Source, daemon: &mut Daemon, clock: &HostClock) -> Result<()> {
    let began = clock.now();
    let check = |restored: Restored| match restored.left.first() {
        None => check_fits(new, options.mode, &options.root).map_err(Into::into),
        Some(first) => {
            let values = counted(restored.left.len() as u64, "value");
            Err(anyhow!("{values} cannot be restored now: {}", first.message))
        }
    };
    let fits = daemon.restore().map_err(Into::into).and_then(check);
    if fits.is_err() && options.mode == Mode::Run {
        daemon.resume_after(began, "everything was restored for a reload", clock);
    }
    fits
}

fn after_tick(
    next: &Next,
    daemon: &Daemon,
    service: &Service,
    status: &mut Published,
    clock: &HostClock,
) {
    for EventStatus { severity, message, .. } in &next.events {
        log(*severity, message);
    }
    if next.stepped {
        detail(|| {
            let seen = daemon.status(clock);
            format!("window {}: {}: {}", seen.counts.windows, one_line(&seen), seen.reason)
        });
        if !next.events.is_empty() || status.is_due(service, clock) {
            status.send(daemon, clock);
        }
    }
}

fn answer(
    request: ServiceRequest<Wattiod>,
    daemon: &mut Daemon,
    status: &mut Published,
    clock: &HostClock,
) {
    detail(|| format!("asked: {:?}", request.request));
    let answer: Answer = daemon.answer(&request.request, clock);
    status.send(daemon, clock);
    // The client may have left.
    let _ = request.reply.send(answer);
}

/// A journal for each application, by its name.
fn start_journals(
    options: &Options,
    source: &Source,
    clock: &HostClock,
) -> Result<Vec<(Option<String>, Journal)>> {
    let Some(results) = &options.results else { return Ok(Vec::new()) };
    let config = &source.config;
    let stamp = facts::stamp(clock.utc_ns(), &source.text);
    let start = |application: Application<'_>| {
        let name = match application.name {
            Some(name) => format!("{}-{name}", config.name),
            None => config.name.clone(),
        };
        let groups = application.groups.iter();
        let facts = RunFacts {
            program: (Wattiod::NAME, env!("CARGO_PKG_VERSION")),
            mode: options.mode.name(),
            name: &name,
            policy: &application.policy.name,
            groups: groups
                .map(|group| (&*group.name, group.cores.clone(), group.cores_min))
                .collect(),
            config_file: &source.path,
            options: options.alternate.map_or_else(Vec::new, |plan| plan.options()),
        };
        let facts = facts.describe(&options.root, clock);
        let journal = Journal::create(results, &name, &stamp, &source.text, &facts);
        let journal = journal.map_err(|error| {
            let told = format!(
                "{}: results cannot be kept there: {error}; say where with --out, or keep none \
                 (observe --no-results)",
                results.display()
            );
            if is_bad_path(&error) { BadInput::new(told).into() } else { anyhow!(told) }
        })?;
        Ok((application.name.map(str::to_owned), journal))
    };
    config.applications().into_iter().map(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a full disk for the old values, `run` turned nothing for as long as it ran, and ended with 0.
    #[test]
    fn a_run_that_could_write_nothing_has_failed() {
        let counts = |knob_writes, knob_failures| Status {
            counts: Counts { knob_writes, knob_failures, ..Counts::default() },
            ..Status::default()
        };
        let event = |severity, message: &str| EventStatus::new(0, severity, message.to_owned());
        let full = event(Severity::Error, "cpu.online: old values cannot be saved");
        let events = vec![full, event(Severity::Info, "unstable -> stable")];
        let mut status = Status { events, ..counts(0, 3) };
        let why = "nothing could be written: cpu.online: old values cannot be saved";
        assert_eq!(in_vain(&status).as_deref(), Some(why));
        status.others = vec![counts(2, 0)];
        assert_eq!(in_vain(&status), None, "of another application something was");
        assert_eq!(in_vain(&counts(0, 0)), None, "nothing was to be written");
    }
}
