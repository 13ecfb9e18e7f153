//! The daemon: the applications of one host, which share its machine.

pub use wattio_host::shadow::Mode;

use crate::alternation::Plan;
use crate::application::{Application, EVENTS_SHOWN, ToleranceSet};
use crate::control::{Answer, Request};
use crate::status::{EventStatus, Status};
use std::path::PathBuf;
use std::time::Duration;
use wattio_governor::journal::Journal;
use wattio_governor::{Clock, Restored, Severity, SnapshotError};

/// The daemon.
pub struct Daemon {
    first: Application,
    others: Vec<Application>,
}

/// What is to be done after a tick.
#[derive(Debug)]
pub struct Next {
    /// When the next tick is due.
    pub at: Duration,
    /// Whether a window ended.
    pub stepped: bool,
    /// What happened, for the log.
    pub events: Vec<EventStatus>,
}

/// What outlives a reload: the journals and the tolerances that an operator set, by application, and
/// whether he paused.
pub struct Lasting {
    journals: Vec<(Option<String>, Journal)>,
    tolerances: Vec<(Option<String>, ToleranceSet)>,
    is_paused: bool,
}

impl Daemon {
    /// Of these applications.
    #[must_use]
    pub fn new(first: Application, others: Vec<Application>) -> Self {
        Self { first, others }
    }

    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Application> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Governs by turns with full speed from now on, to measure the difference.
    pub fn alternate(&mut self, plan: Plan, clock: &dyn Clock) {
        // By one plan, from one moment: all change together.
        self.all().for_each(|application| application.alternate(plan, clock));
    }

    /// One tick of every application. What one of them writes may take seconds, in which none looks.
    pub fn tick(&mut self, clock: &dyn Clock) -> Next {
        let began = clock.now();
        let mut all = Next { at: Duration::MAX, stepped: false, events: Vec::new() };
        for application in self.all() {
            application.excuse(began, clock.now());
            let next = application.tick(clock);
            all.at = all.at.min(next.at);
            all.stepped |= next.stepped;
            all.events.extend(next.events);
        }
        let ended = clock.now();
        self.all().for_each(|application| application.excuse(began, ended));
        all
    }

    /// Answers a request from the socket.
    pub fn answer(&mut self, request: &Request, clock: &dyn Clock) -> Answer {
        let message = match request {
            Request::Status {} => return Answer::Status { status: Box::new(self.status(clock)) },
            Request::SetTolerance { tolerance, application } => {
                return self.set_tolerance(*tolerance, application.as_deref(), clock);
            }
            Request::Pause {} => {
                self.all().for_each(Application::pause);
                "paused: full speed from the next window on, until resumed"
            }
            Request::Resume {} => {
                self.all().for_each(Application::resume);
                "resumed"
            }
        };
        for application in self.all() {
            application.tell(Severity::Info, message.to_owned(), clock.utc_ns());
        }
        Answer::Done { message: message.to_owned() }
    }

    /// Of one application by its name, or of all: those without a bound have none to change then.
    fn set_tolerance(&mut self, tolerance: f64, of: Option<&str>, clock: &dyn Clock) -> Answer {
        let (mut done, mut refused, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for application in self.all() {
            let name = application.name().map(str::to_owned);
            names.extend(name.clone());
            if of.is_some_and(|of| name.as_deref() != Some(of)) {
                continue;
            }
            let named = |text: String| match &name {
                Some(name) => format!("{name}: {text}"),
                None => text,
            };
            match application.set_tolerance(tolerance) {
                Ok(message) => {
                    application.tell(Severity::Info, message.clone(), clock.utc_ns());
                    done.push(named(message));
                }
                Err(message) => refused.push(named(message)),
            }
        }
        match (of, done.is_empty(), refused.is_empty()) {
            (_, false, _) => {
                done.extend(refused.into_iter().map(|refused| format!("unchanged: {refused}")));
                Answer::Done { message: done.join("; ") }
            }
            (_, true, false) => Answer::Refused { message: refused.join("; ") },
            (of, true, true) => {
                let there =
                    if names.is_empty() { "none has a name".into() } else { names.join(", ") };
                let message = format!("no application {:?}; there are: {there}", of.unwrap_or(""));
                Answer::Refused { message }
            }
        }
    }

    /// Records an event of the host.
    pub fn tell(&mut self, severity: Severity, message: String, utc_ns: u64) {
        self.first.tell(severity, message, utc_ns);
    }

    /// Restores the machine; a daemon that goes on turns it again at the next step.
    ///
    /// # Errors
    /// When the snapshot could not be brought up to date.
    pub fn restore(&mut self) -> Result<Restored, SnapshotError> {
        self.first.restore()
    }

    /// Goes on after an interruption that began then: the windows that it fell into do not count.
    pub fn resume_after(&mut self, began: Duration, why: &str, clock: &dyn Clock) {
        let ended = clock.now();
        for application in self.all() {
            application.excuse(began, ended);
            application.spoil(why);
        }
    }

    /// Ends: restores the machine and closes the journals. The machine is restored whatever else
    /// fails.
    ///
    /// # Errors
    /// When the snapshot could not be brought up to date.
    pub fn end(mut self, clock: &dyn Clock) -> (Result<Restored, SnapshotError>, Status) {
        let restored = self.first.restore();
        let status = self.status(clock);
        for application in std::iter::once(self.first).chain(self.others) {
            application.end(clock);
        }
        (restored, status)
    }

    /// Everything an operator may want to see.
    #[must_use]
    pub fn status(&self, clock: &dyn Clock) -> Status {
        let others: Vec<_> = self.others.iter().map(|other| other.status(clock)).collect();
        let mut status = self.first.status(clock);
        status.events.extend(others.iter().flat_map(|other| other.events.iter().cloned()));
        status.events.sort_by_key(|event| event.utc_ns);
        status.events.drain(..status.events.len().saturating_sub(EVENTS_SHOWN));
        Status { others, ..status }
    }

    /// The names of the applications; `None` of the only one.
    #[must_use]
    pub fn names(&self) -> Vec<Option<&str>> {
        std::iter::once(&self.first).chain(&self.others).map(Application::name).collect()
    }

    /// The folders of the journals.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        let all = std::iter::once(&self.first).chain(&self.others);
        all.filter_map(Application::folder).map(PathBuf::from).collect()
    }

    /// Keeps windows from now on, each application in the journal of its name.
    pub fn record(&mut self, mut journals: Vec<(Option<String>, Journal)>) {
        for application in self.all() {
            let own = journals.iter().position(|(name, _)| name.as_deref() == application.name());
            application.record(own.map(|at| journals.swap_remove(at).1));
        }
    }

    /// Takes what outlives a reload.
    pub fn take_lasting(&mut self) -> Lasting {
        let mut lasting = Lasting {
            journals: Vec::new(),
            tolerances: Vec::new(),
            is_paused: self.first.is_paused(),
        };
        for application in self.all() {
            let name = application.name().map(str::to_owned);
            let tolerance = application.tolerance_set().cloned();
            lasting.tolerances.extend(tolerance.map(|set| (name.clone(), set)));
            lasting.journals.extend(application.take_journal().map(|journal| (name, journal)));
        }
        lasting
    }

    /// Continues with it.
    pub fn go_on(&mut self, lasting: Lasting, utc_ns: u64) {
        let kept = !lasting.journals.is_empty();
        self.record(lasting.journals);
        for application in self.all() {
            if lasting.is_paused {
                application.pause();
            }
            let name = application.name().map(str::to_owned);
            if let Some((_, set)) = lasting.tolerances.iter().find(|(of, _)| *of == name) {
                application.keep_tolerance(set, utc_ns);
            }
            if kept && application.folder().is_none() {
                let message = "is new: its windows are kept from the next start on";
                application.tell(Severity::Warning, message.to_owned(), utc_ns);
            }
        }
    }
}
