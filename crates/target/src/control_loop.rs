//! The law's control loop in the target's process, with its events, journal, status and answers to
//! commands.

use crate::log::of_export;
use crate::plant::{Governed, Reactors};
use crate::shown::{Answer, Request, Shown};
use crate::status::{ReactorStatus, each_volume_once};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use wattio_control::check_tolerance;
use wattio_governor::journal::{EventRow, Journal, Stamp, WindowPower, WindowRow};
use wattio_governor::{Clock, Severity, Stepped};
use wattio_host::ledger::{Groups, Ledger, Others};
use wattio_host::overhead::Overhead;
use wattio_host::shadow::{Compared, Measured, Mode, SharedFitter};
use wattio_law::GroupObservation;

/// Events that are shown.
const EVENTS_SHOWN: usize = 50;

/// How often the law is asked while nothing happens.
const QUIET: Duration = Duration::from_secs(5);

/// What the configuration calls the target and its law.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The configuration.
    pub name: String,
    /// The law.
    pub policy: String,
}

/// What is kept beside the law.
pub struct Books {
    /// Whether the law's decisions are carried out.
    pub mode: Mode,
    /// The model of this host, which shadow mode's loop is closed over.
    pub fitter: SharedFitter,
    /// Another law in shadow mode.
    pub compared: Option<Compared>,
    /// The energy account.
    pub ledger: Ledger,
    /// Where windows and events are kept.
    pub journal: Option<Journal>,
}

/// The loop.
pub struct Governing<R> {
    pub(crate) governed: Governed<R>,
    pub(crate) named: Named,
    pub(crate) started: Duration,
    pub(crate) stepped_utc_ns: u64,
    pub(crate) last: Option<Stepped>,
    pub(crate) events: VecDeque<EventRow>,
    pub(crate) own: Overhead,
    pub(crate) books: Books,
    pub(crate) measured: Measured,
    /// The loss that the model predicts for the setting in force, or in shadow mode for the one that
    /// would be.
    pub(crate) loss_predicted: Option<f64>,
    /// Time that reactors were on, added up over them.
    pub(crate) reactors_on_s: f64,
    /// What only the reactors know, as of the last time that they were asked.
    pub(crate) learned: Vec<ReactorStatus>,
    /// Events that were not logged yet.
    untold: Vec<EventRow>,
    /// The last failure that was told.
    failure: Option<String>,
    /// From when until when the next look is put off.
    rest: Option<(Duration, Duration)>,
}

/// What is to be done after a tick.
#[derive(Debug)]
pub struct Next {
    /// When the next one is due.
    pub at: Duration,
    /// Whether a window ended.
    pub stepped: bool,
    /// What happened, for the log.
    pub events: Vec<EventRow>,
}

impl<R: Reactors> Governing<R> {
    /// Starts now.
    pub fn new(mut governed: Governed<R>, named: Named, books: Books, clock: &dyn Clock) -> Self {
        if books.mode == Mode::Observe {
            governed.plant.observe_only(books.fitter.clone());
        }
        let mut governing = Self {
            governed,
            named,
            started: clock.now(),
            stepped_utc_ns: clock.utc_ns(),
            last: None,
            events: VecDeque::new(),
            own: Overhead::new(),
            books,
            measured: Measured::default(),
            loss_predicted: None,
            reactors_on_s: 0.0,
            learned: Vec::new(),
            untold: Vec::new(),
            failure: None,
            rest: None,
        };
        governing.warn_of_no_choice(clock);
        governing
    }

    /// A law that may change neither reactors nor frequency saves next to nothing, and whoever asked for
    /// one would look for the reason elsewhere.
    fn warn_of_no_choice(&mut self, clock: &dyn Clock) {
        let limits = self.governed.driver.limits();
        let full = limits.full_speed();
        let is_fixed = limits.groups.iter().zip(&full.groups).all(|(of, full)| of.least() == *full);
        if is_fixed && self.named.policy != "native" {
            let message = format!(
                "{} only paces background work here: no reactor may be switched off (reactors, \
                 reactors_min), and no frequency is set ([frequency])",
                self.named.policy
            );
            self.tell(Severity::Warning, message, clock);
        }
    }

    /// The reactors.
    pub fn reactors(&mut self) -> &mut R {
        self.governed.plant.reactors()
    }

    /// Leaves the machine as it was found, from now on.
    pub fn let_go(&mut self) {
        self.governed.plant.let_go();
    }

    /// Whether nothing has happened for a window, at full speed: a law that is asked later misses
    /// nothing. Where idle reactors poll, it misses what it could have saved.
    fn is_quiet(&self) -> bool {
        let saves_nothing =
            self.governed.plant.layout().idle_cores_sleep || self.named.policy == "native";
        let driver = &self.governed.driver;
        let is_full = driver.in_force().groups == driver.limits().full_speed().groups;
        let latency = self.last.as_ref().and_then(|step| step.sample.as_ref());
        let is_idle = latency.is_some_and(|latency| {
            let in_flight = latency.in_flight.map_or(0, |in_flight| in_flight.requests);
            latency.requests == 0 && latency.arrived == Some(0) && in_flight == 0
        });
        let background = self.last.as_ref().map_or(&[][..], |step| &step.truth.background);
        saves_nothing
            && is_full
            && is_idle
            && background.iter().all(|class| class.backlog_core_s == 0.0)
    }

    /// Takes in what the reactors say of themselves; of one that did not answer it keeps what that
    /// said before.
    pub fn learn(&mut self, mut reactors: Vec<ReactorStatus>) {
        for before in std::mem::take(&mut self.learned) {
            if reactors.iter().all(|told| told.number != before.number) {
                reactors.push(before);
            }
        }
        each_volume_once(&mut reactors);
        reactors.sort_by_key(|reactor| reactor.number);
        self.learned = reactors;
    }

    /// One look at the reactors and its bookkeeping.
    pub fn tick(&mut self, clock: &dyn Clock) -> Next {
        let (began, now) = (Instant::now(), clock.now());
        if let Some((from, until)) = self.rest.take() {
            // What was meant is no jump of time; what came on top of it is.
            self.governed.driver.excuse(from, until.min(now));
        }
        let before = self.governed.driver.insight().mode;
        let (at, step) = self.governed.tick(now);
        let stepped = step.is_some();
        if let Some(mut step) = step {
            self.stepped_utc_ns = clock.utc_ns();
            self.measured.window(&mut step, self.books.mode, &self.books.fitter);
            self.tell_of(&step, before, clock);
            let on: u32 = step.truth.groups.iter().map(|group| group.cores).sum();
            self.reactors_on_s += f64::from(on) * step.dt.0;
            let power = self.account(&step, clock);
            self.record(&step, power, clock);
            self.last = Some(step);
            self.own.step(began.elapsed());
        }
        let at = if self.is_quiet() { at.max(now + QUIET) } else { at };
        self.rest = self.is_quiet().then_some((now, at));
        Next { at, stepped, events: std::mem::take(&mut self.untold) }
    }

    fn tell_of(&mut self, step: &Stepped, before: Option<&'static str>, clock: &dyn Clock) {
        if step.insight.mode != before {
            let name = |mode: Option<&'static str>| mode.unwrap_or("none");
            let change = format!("{} -> {}", name(before), name(step.insight.mode));
            let message = format!("{change}: {}", step.why());
            self.tell(Severity::Info, message, clock);
            // Every second or so, for weeks: the page and the journal have it, the log need not.
            self.untold.pop();
        }
        for note in self.governed.plant.take_notes() {
            self.tell(Severity::Warning, note, clock);
        }
        // Retried in every window, but told only when it changes.
        let failure = self.governed.plant.failure().map(str::to_owned);
        if failure != self.failure {
            if let Some(failure) = &failure {
                self.tell(Severity::Error, format!("{failure}: full speed"), clock);
            }
            self.failure = failure;
        }
    }

    /// Power and energy of a window, and an estimate of what full speed would have taken: the same
    /// work on all reactors. Then what the model and the other law make of it.
    fn account(&mut self, step: &Stepped, clock: &dyn Clock) -> WindowPower {
        let layout = self.governed.plant.layout();
        let idle_cores_sleep = layout.idle_cores_sleep;
        let truth = drawing(&step.truth.groups, idle_cores_sleep);
        let here = match self.books.mode {
            Mode::Run => Some(truth.clone()),
            // Without a model the law is shown no latency, and nothing is estimated.
            Mode::Observe => {
                let is_shown = step.seen.latency.is_some();
                is_shown.then(|| drawing(&step.seen.groups, idle_cores_sleep))
            }
        };
        let all = truth.iter().zip(layout.groups()).map(|(group, of)| {
            let cores = of.reactors.len() as u32;
            let spread = match idle_cores_sleep {
                true => f64::from(group.cores) / f64::from(cores.max(1)),
                false => 1.0,
            };
            GroupObservation {
                cores,
                utilisation_clients: group.utilisation_clients * spread,
                utilisation_background: group.utilisation_background * spread,
                ..*group
            }
        });
        let all: Vec<GroupObservation> = all.collect();
        let requests = step.sample.as_ref().map_or(0, |sample| sample.requests);
        let rate = requests as f64 / step.dt.0.max(1e-9);
        let full = self.governed.driver.limits().full_speed();
        let Books { mode, fitter, compared, ledger, .. } = &mut self.books;
        let groups =
            here.as_deref().map(|here| Groups { here, full: &all, others: &Others::Nothing });
        let power = ledger.window(step.dt, rate, groups, step.truth.power);
        let window = (&step.truth, step.dt);
        self.loss_predicted = fitter.forecast(window, rate, &full, &step.action, *mode);
        if let Some(compared) = compared {
            let estimate_w = |groups: &[GroupObservation]| {
                let drawn = drawing(groups, idle_cores_sleep);
                ledger.estimate_w(&drawn, &drawn, &Others::Nothing, rate)
            };
            compared.window(clock.now(), &step.truth, estimate_w);
        }
        power
    }

    fn record(&mut self, step: &Stepped, power: WindowPower, clock: &dyn Clock) {
        if self.books.journal.is_none() {
            return;
        }
        let at = Stamp { utc_ns: clock.utc_ns(), monotonic_ns: clock.now().as_nanos() as u64 };
        let turns_frequency = self.governed.plant.layout().turns_frequency();
        let row = WindowRow::of(step, at, turns_frequency, power);
        let shown = self.shown(clock);
        self.keep(|journal| journal.window(&row, &shown));
    }

    /// Records an event.
    pub fn tell(&mut self, severity: Severity, message: String, clock: &dyn Clock) {
        let event = EventRow::new(clock.utc_ns(), severity, message);
        self.keep(|journal| journal.event(&event));
        self.show(event);
    }

    fn show(&mut self, event: EventRow) {
        if self.events.len() == EVENTS_SHOWN {
            self.events.pop_front();
        }
        self.events.push_back(event.clone());
        self.untold.push(event);
    }

    /// Answers an operator. `scrub` begins a tour of an export, or of all, and names those whose tour
    /// began; `None` if there is no such export.
    pub fn answer(
        &mut self,
        request: &Request,
        scrub: impl FnOnce(Option<&str>) -> Option<Vec<String>>,
        clock: &dyn Clock,
    ) -> Answer {
        let refused = |message: String| Answer::Refused { message };
        let driver = &mut self.governed.driver;
        let message = match request {
            Request::Status {} | Request::Inspect {} => {
                return Answer::Status { status: Box::new(self.shown(clock)) };
            }
            Request::SetTolerance { tolerance } => {
                let policy = &self.named.policy;
                let before = match driver.tolerance_to_change(policy) {
                    Ok(before) => before,
                    Err(message) => return refused(message),
                };
                if let Err(error) = check_tolerance(policy, *tolerance) {
                    return refused(error.to_string());
                }
                driver.set_tolerance(*tolerance);
                format!("the latency tolerance is now {tolerance}, it was {before}")
            }
            Request::Pause {} => {
                self.governed.plant.is_paused = true;
                "paused: full speed from the next window on, until resumed".to_owned()
            }
            Request::Resume {} => {
                self.governed.plant.is_paused = false;
                "resumed".to_owned()
            }
            Request::Scrub { export } => match (scrub(export.as_deref()), export) {
                (None, Some(export)) => {
                    return refused(format!("no export is named {export:?}"));
                }
                (begun, _) => match begun.unwrap_or_default() {
                    begun if begun.is_empty() => {
                        let message = "its reactor does not answer; try again".to_owned();
                        return Answer::Unable { message };
                    }
                    begun => {
                        let begun: Vec<String> = begun.iter().map(|one| of_export(one)).collect();
                        format!("reads everything of {}", begun.join(", "))
                    }
                },
            },
        };
        self.tell(Severity::Info, message.clone(), clock);
        Answer::Done { message }
    }

    /// Ends the journal.
    pub fn end(mut self, clock: &dyn Clock) -> Shown {
        let shown = self.shown(clock);
        self.keep(|journal| journal.keep(&shown));
        shown
    }

    /// A journal that cannot be written is abandoned with an error; clients come first.
    fn keep(&mut self, write: impl FnOnce(&mut Journal) -> std::io::Result<()>) {
        let Some(journal) = &mut self.books.journal else { return };
        if let Err(error) = write(journal) {
            let message =
                format!("{}: {error}; nothing more is recorded", journal.folder().display());
            self.books.journal = None;
            let utc_ns = self.stepped_utc_ns;
            self.show(EventRow::new(utc_ns, Severity::Error, message));
        }
    }
}

/// Groups as they draw power: a reactor that looks for work is busy, whatever it finds.
fn drawing(groups: &[GroupObservation], idle_cores_sleep: bool) -> Vec<GroupObservation> {
    let one = |group: &GroupObservation| match idle_cores_sleep {
        true => *group,
        false => GroupObservation { utilisation_clients: 1.0, ..*group },
    };
    groups.iter().map(one).collect()
}

#[cfg(test)]
mod tests;
