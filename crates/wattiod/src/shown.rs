//! What the daemon shows, and to whom: the page, the metrics and the control socket.

use crate::assembly::{BadInput, Source};
use crate::control::Wattiod;
use crate::daemon::{Daemon, Mode};
use crate::log::log;
use crate::status::Status;
use anyhow::Result;
use rustix::process::geteuid;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::Duration;
use wattio_governor::{Clock, Severity};
use wattio_host::clock::HostClock;
use wattio_host::config::{PageTls, ServiceConfig};
use wattio_host::{facts, trust};
use wattio_service::tls::Files;
use wattio_service::{
    Page, Publisher, Service, ServiceError, ServiceRequest, ServiceSettings, Shown,
};

/// Starts page and socket. Shadow mode continues without whatever another daemon has taken or only
/// root may open: it acts on nothing, and may run beside a daemon that does.
pub(crate) fn serve(
    mode: Mode,
    source: &Source,
    shown: &Shown<Wattiod>,
    requests: &Sender<ServiceRequest<Wattiod>>,
) -> Result<Service> {
    let mut settings = settings(source)?;
    loop {
        let error = match Service::start(settings.clone(), shown.clone(), requests.clone()) {
            Ok(service) => return Ok(service),
            Err(error) => error,
        };
        let without = match &error {
            ServiceError::Tls(_) | ServiceError::Token(_) => None,
            ServiceError::Listen { .. } => settings.listen.take().map(|_| "page"),
            _ => settings.socket.take().map(|_| "control socket"),
        };
        match without.filter(|_| mode == Mode::Observe) {
            Some(part) => log(Severity::Warning, &format!("{error}; going on without {part}")),
            None if error.is_bad_input() => return Err(BadInput::new(error).into()),
            None => return Err(error.into()),
        }
    }
}

/// Says where the page is, and who can see it.
pub(crate) fn tell(page: Page) {
    log(Severity::Info, &page.place());
    if let Some(warning) = page.warning() {
        log(Severity::Warning, &warning);
    }
}

fn settings(source: &Source) -> Result<ServiceSettings> {
    let service = &source.config.service;
    if let Some(folder) = service.socket.parent() {
        // If this fails, opening the socket reports it.
        let _ = std::fs::create_dir_all(folder);
    }
    let group = service.socket_group.as_deref().map(facts::group_id).transpose();
    let socket_group =
        group.map_err(|error| BadInput::new(format!("service.socket_group: {error}")))?;
    check_trust(service)?;
    Ok(ServiceSettings {
        listen: service.listen.0,
        host_names: service.host_names.clone(),
        socket: Some(service.socket.clone()),
        socket_group,
        ..of_page(service)
    })
}

/// With what the page is served, and to whom.
fn of_page(service: &ServiceConfig) -> ServiceSettings {
    let files = |tls: &PageTls| Files {
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
        clients: None,
    };
    let (tls, token) = (service.tls.as_ref().map(files), service.token.clone());
    ServiceSettings { tls, token, ..ServiceSettings::default() }
}

/// Whether certificate, key and token can be used, as at a start.
///
/// # Errors
/// Which one cannot, and why.
pub(crate) fn check_page(service: &ServiceConfig) -> Result<()> {
    check_trust(service)?;
    Ok(of_page(service).check_files()?)
}

/// Root serves no certificate, key or token that others may put there.
fn check_trust(service: &ServiceConfig) -> Result<(), BadInput> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let check = |key: &str, path: &Path| {
        let wrong = |error| BadInput::new(format!("service.{key}: {error}"));
        trust::check(path, None).map_err(wrong)
    };
    if let Some(tls) = &service.tls {
        check("tls.certificate", &tls.certificate)?;
        check("tls.key", &tls.key)?;
    }
    service.token.as_deref().map_or(Ok(()), |token| check("token", token))
}

/// The status that page, metrics and socket show.
///
/// Making it takes some hundredths of a step, and is done in every window only as long as somebody has
/// the page open.
pub(crate) struct Published {
    publisher: Publisher<Wattiod>,
    sent_at: Duration,
}

/// How old a status may be.
const STATUS_AGE_MAX: Duration = Duration::from_secs(1);

impl Published {
    pub fn new(publisher: Publisher<Wattiod>, clock: &HostClock) -> Self {
        Self { publisher, sent_at: clock.now() }
    }

    pub fn is_due(&self, service: &Service, clock: &HostClock) -> bool {
        // Half a window early, rather than a whole one late.
        let age = clock.now().saturating_sub(self.sent_at) + Duration::from_millis(250);
        service.is_watched() || age >= STATUS_AGE_MAX
    }

    pub fn send(&mut self, daemon: &Daemon, clock: &HostClock) {
        self.sent_at = clock.now();
        self.publisher.send(daemon.status(clock));
    }

    pub fn send_last(&self, status: Status) {
        self.publisher.send(status);
    }
}
