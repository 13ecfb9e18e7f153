//! One application that the daemon governs: its governor, accounts, events and status.

mod view;

use crate::alternation::{AT_FULL_SPEED, Alternation, Condition, Plan, Window};
use crate::daemon::{Mode, Next};
use crate::status::{EventStatus, Status};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use wattio_control::check_tolerance;
use wattio_governor::journal::{Journal, Stamp, WindowPower, WindowRow};
use wattio_governor::{Clock, Governor, Restored, Severity, SnapshotError, Stepped};
use wattio_host::ledger::{Groups, Ledger, Others};
use wattio_host::overhead::Overhead;
use wattio_host::shadow::{Compared, Measured, SharedFitter};
use wattio_host::sources::cores_left::CoresLeft;
use wattio_host::sources::work_beside::WorkBeside;
use wattio_law::{Action, BoundAccount, DriveAction, GroupLimits, GroupObservation, Statistic};

/// A group as shown in the status.
#[derive(Clone, Debug)]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// Its limits.
    pub limits: GroupLimits,
    /// Whether a knob turns its frequency.
    pub turns_frequency: bool,
}

/// How it is known what others do on the groups' cores.
pub enum Beside {
    /// They do nothing there.
    Nobody,
    /// On cores that groups have left.
    Left {
        /// Those cores.
        cores: CoresLeft,
        /// Whether a group's utilisation counts what others do on the cores that it has.
        is_counted: bool,
    },
    /// Beside groups that have all their cores, of which they would leave some.
    Before(WorkBeside),
}

/// What an application is made of.
pub struct ApplicationParts {
    /// Whether the daemon acts.
    pub mode: Mode,
    /// Name of the configuration.
    pub host: String,
    /// Its own name; `None` if it is the only one.
    pub name: Option<String>,
    /// Name of the law.
    pub policy: String,
    /// Name of the latency source.
    pub latency: String,
    /// The least latency that it can tell from none.
    pub latency_us_resolution: f64,
    /// Why there is nothing to save, where nothing can be set.
    pub nothing_to_set: Option<String>,
    /// The groups.
    pub groups: Vec<GroupInfo>,
    /// The loop.
    pub governor: Governor,
    /// The model of this host; in shadow mode shared with the shadow model.
    pub fitter: SharedFitter,
    /// The energy account.
    pub ledger: Ledger,
    /// What others do on the groups' cores.
    pub beside: Beside,
    /// Another law in shadow mode.
    pub compared: Option<Compared>,
    /// Where windows are kept.
    pub journal: Option<Journal>,
}

/// An application.
pub struct Application {
    parts: ApplicationParts,
    started: Duration,
    full: Action,
    events: VecDeque<EventStatus>,
    last: Option<Stepped>,
    power: WindowPower,
    /// Why nobody knows what others do on the groups' cores.
    others_unknown: Option<String>,
    loss_predicted: Option<f64>,
    latency_us_p99: Option<f64>,
    stepped_utc_ns: u64,
    sampled_at: Duration,
    own: Overhead,
    alternation: Option<Alternation>,
    /// Events that were not logged yet.
    untold: Vec<EventStatus>,
    measured: Measured,
    /// Whether it was told that a bound cannot be checked.
    is_bound_untold: bool,
    tolerance_set: Option<ToleranceSet>,
}

/// A latency tolerance that an operator set.
#[derive(Clone, Debug)]
pub struct ToleranceSet {
    tolerance: f64,
    /// The bounds of the file that it took the place of.
    bounds: Vec<String>,
}

/// What to say of a bound on a percentile where the source tells none, or none that may grow.
#[must_use]
pub fn unjudged(bound: &str, source: &str, reports: &str) -> String {
    format!(
        "the bound {bound:?} cannot be checked: {source} reports {reports}; use a source with a \
         histogram (the guide's table, column \"histogram\")"
    )
}

/// What a source reports that has no histogram.
pub const NO_PERCENTILES: &str = "no percentiles";
/// The same, where it might have one.
const NO_PERCENTILES_YET: &str =
    "no percentiles, or only ones in the first bucket of its histogram, which is too wide";

/// Events that the status shows.
pub(crate) const EVENTS_SHOWN: usize = 50;

impl Application {
    /// Starts now.
    #[must_use]
    pub fn new(parts: ApplicationParts, clock: &dyn Clock) -> Self {
        let groups = parts.groups.iter().map(|group| group.limits.full()).collect();
        let full = Action { groups, drives: DriveAction::Own, background: Vec::new() };
        let now = clock.now();
        Self {
            parts,
            started: now,
            full,
            events: VecDeque::new(),
            last: None,
            power: WindowPower::default(),
            others_unknown: None,
            loss_predicted: None,
            latency_us_p99: None,
            stepped_utc_ns: clock.utc_ns(),
            sampled_at: now,
            own: Overhead::new(),
            alternation: None,
            untold: Vec::new(),
            measured: Measured::default(),
            is_bound_untold: false,
            tolerance_set: None,
        }
    }

    /// Governs by turns with full speed from now on, to measure the difference.
    pub fn alternate(&mut self, plan: Plan, clock: &dyn Clock) {
        let alternation = Alternation::new(plan, clock.now());
        self.follow(alternation.condition());
        self.alternation = Some(alternation);
    }

    fn follow(&mut self, condition: Condition) {
        let why = (condition == Condition::FullSpeed).then_some(AT_FULL_SPEED);
        self.parts.governor.force_full_speed(why);
    }

    /// One tick of the governor and its bookkeeping.
    pub fn tick(&mut self, clock: &dyn Clock) -> Next {
        let began = Instant::now();
        if let Some(alternation) = &mut self.alternation {
            if self.parts.governor.is_paused() {
                alternation.spoil();
            }
            if alternation.advance(clock.now()) {
                let condition = alternation.condition();
                self.follow(condition);
            }
        }
        let before = self.parts.governor.driver().insight().mode;
        let tick = self.parts.governor.tick(clock.now());
        for event in tick.events {
            self.tell(event.severity, event.message, clock.utc_ns());
        }
        let stepped = tick.stepped.is_some();
        if let Some(mut step) = tick.stepped {
            self.measured.window(&mut step, self.parts.mode, &self.parts.fitter);
            if step.insight.mode != before {
                let name = |mode: Option<&'static str>| mode.unwrap_or("none");
                let change = format!("{} -> {}", name(before), name(step.insight.mode));
                self.tell(Severity::Info, format!("{change}: {}", step.why()), clock.utc_ns());
            }
            self.account(step, clock);
            self.own.step(began.elapsed());
        }
        let events = std::mem::take(&mut self.untold);
        let turn = self.alternation.as_ref().map_or(Duration::MAX, Alternation::until);
        Next { at: tick.next.min(turn), stepped, events }
    }

    /// See [`wattio_law::Driver::excuse`].
    pub fn excuse(&mut self, began: Duration, ended: Duration) {
        self.parts.governor.excuse(began, ended);
    }

    /// Its name; `None` if it is the only one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.parts.name.as_deref()
    }

    /// Another latency tolerance from the next step on; says so, or why not.
    ///
    /// # Errors
    /// Why it stays as it is.
    pub fn set_tolerance(&mut self, tolerance: f64) -> Result<String, String> {
        let driver = self.parts.governor.driver();
        let before = driver.tolerance_to_change(&self.parts.policy)?;
        check_tolerance(&self.parts.policy, tolerance).map_err(|error| error.to_string())?;
        let bounds = match self.tolerance_set.take() {
            Some(set) => set.bounds,
            None => self.bounds(),
        };
        self.tolerance_set = Some(ToleranceSet { tolerance, bounds });
        self.parts.governor.set_latency_tolerance(tolerance);
        Ok(format!("the latency tolerance is now {tolerance}, it was {before}"))
    }

    /// The tolerance that an operator set since the start, if any.
    #[must_use]
    pub fn tolerance_set(&self) -> Option<&ToleranceSet> {
        self.tolerance_set.as_ref()
    }

    /// After a reload: what an operator set stays, unless the file has other bounds than it had.
    pub fn keep_tolerance(&mut self, set: &ToleranceSet, utc_ns: u64) {
        let tolerance = set.tolerance;
        let kept = if self.bounds() == set.bounds {
            self.set_tolerance(tolerance)
        } else {
            Err("the file's own bounds changed, and apply".to_owned())
        };
        let (severity, message) = match kept {
            Ok(_) => {
                let text = "as it was set: in the file it did not change";
                (Severity::Info, format!("the latency tolerance stays at {tolerance}, {text}"))
            }
            Err(why) => {
                let text = "which was set, does not apply any more";
                (Severity::Warning, format!("the latency tolerance {tolerance}, {text}: {why}"))
            }
        };
        self.tell(severity, message, utc_ns);
    }

    /// Full speed until resumed.
    pub fn pause(&mut self) {
        self.parts.governor.pause();
    }

    /// Ends a pause, and closes the breaker.
    pub fn resume(&mut self) {
        self.parts.governor.resume();
    }

    /// Whether an operator paused it.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.parts.governor.is_paused()
    }

    /// Records an event from outside the loop.
    pub fn tell(&mut self, severity: Severity, message: String, utc_ns: u64) {
        let message = match &self.parts.name {
            Some(name) => format!("{name}: {message}"),
            None => message,
        };
        let event = EventStatus::new(utc_ns, severity, message);
        self.keep(|journal| journal.event(&event));
        self.push_event(event);
    }

    /// For the status, which shows the newest, and for the log.
    fn push_event(&mut self, event: EventStatus) {
        push_newest(&mut self.events, event.clone());
        self.untold.push(event);
    }

    /// What is measured until the next step does not count, for somebody interfered.
    pub fn spoil(&mut self, why: &str) {
        self.parts.governor.spoil(why);
        if let Some(alternation) = &mut self.alternation {
            alternation.spoil();
        }
    }

    /// Restores the machine, for all applications on it. It is turned again at the next step.
    ///
    /// # Errors
    /// When the snapshot could not be brought up to date.
    pub fn restore(&mut self) -> Result<Restored, SnapshotError> {
        self.parts.governor.restore()
    }

    /// Closes the journal with the last status, which is returned.
    pub fn end(mut self, clock: &dyn Clock) -> Status {
        let status = self.status(clock);
        self.keep(|journal| journal.keep(&status));
        status
    }

    /// The folder of the journal.
    #[must_use]
    pub fn folder(&self) -> Option<&std::path::Path> {
        self.parts.journal.as_ref().map(Journal::folder)
    }

    /// Keeps windows there from now on.
    pub fn record(&mut self, journal: Option<Journal>) {
        self.parts.journal = journal;
    }

    /// Gives the journal away.
    pub fn take_journal(&mut self) -> Option<Journal> {
        self.parts.journal.take()
    }

    fn account(&mut self, step: Stepped, clock: &dyn Clock) {
        let sample = step.sample.as_ref().filter(|_| step.dt.0 > 0.0);
        let rate = sample.map_or(0.0, |sample| sample.requests as f64 / step.dt.0);
        let spreads = sample.filter(|sample| sample.requests > 0).map(|s| s.histogram.is_some());
        if spreads == Some(false) {
            self.warn_of_quantiles(NO_PERCENTILES_YET, clock);
        }
        let (here, full) = self.groups_of(&step);
        let others = self.others(&step);
        let groups = match (&here, &full, &others) {
            (Some(here), Some(full), Some(others)) => Some(Groups { here, full, others }),
            _ => None,
        };
        self.power = self.parts.ledger.window(step.dt, rate, groups, step.truth.power);
        self.forecast(&step, rate);
        if let Some(alternation) = &mut self.alternation {
            let window = Window {
                dt_s: step.dt.0,
                requests: sample.map_or(0, |sample| sample.requests),
                latency_us_mean: sample.and_then(|sample| sample.latency_us_mean),
                measured_w: self.power.measured_w,
                estimated_w: self.power.estimated_w,
            };
            alternation.window(clock.now(), &window);
        }
        let ApplicationParts { compared, ledger, .. } = &mut self.parts;
        if let Some(compared) = compared {
            let estimate_w = |groups: &[GroupObservation]| {
                ledger.estimate_w(groups, &step.truth.groups, others.as_ref()?, rate)
            };
            compared.window(clock.now(), &step.truth, estimate_w);
        }
        self.stepped_utc_ns = clock.utc_ns();
        if let Some(sample) = &step.sample {
            self.sampled_at = Duration::try_from_secs_f64(sample.at.0).unwrap_or_default();
            self.latency_us_p99 = sample.histogram.as_ref().and_then(|h| h.shown_us(0.99));
        }
        let at = Stamp { utc_ns: clock.utc_ns(), monotonic_ns: clock.now().as_nanos() as u64 };
        let turns_frequency = self.parts.groups.iter().map(|group| group.turns_frequency);
        let row = WindowRow::of(&step, at, turns_frequency, self.power);
        self.last = Some(step);
        if self.parts.journal.is_some() {
            let status = self.status(clock);
            self.keep(|journal| journal.window(&row, &status));
        }
    }

    /// Says once that a bound on a percentile is nobody's to judge here.
    pub(crate) fn warn_of_quantiles(&mut self, reports: &str, clock: &dyn Clock) {
        let bounds = &self.parts.governor.driver().account().bounds;
        let quantile = |account: &&BoundAccount| account.bound.statistic != Statistic::Mean;
        let Some(bound) = bounds.iter().find(quantile).map(|account| account.bound.to_string())
        else {
            return;
        };
        if !std::mem::replace(&mut self.is_bound_untold, true) {
            let message = unjudged(&bound, &self.parts.latency, reports);
            self.tell(Severity::Warning, message, clock.utc_ns());
        }
    }

    /// The bounds in force, as they are written.
    fn bounds(&self) -> Vec<String> {
        let bounds = &self.parts.governor.driver().account().bounds;
        bounds.iter().map(|account| account.bound.to_string()).collect()
    }

    /// The groups as they are (in shadow mode: would be) and at full speed, under this load.
    fn groups_of(
        &self,
        step: &Stepped,
    ) -> (Option<Vec<GroupObservation>>, Option<Vec<GroupObservation>>) {
        match self.parts.mode {
            // If somebody else changes settings, the power in force is unknown.
            Mode::Run if self.parts.governor.account().foreign > 0 => (None, None),
            Mode::Run => {
                let full = self.parts.fitter.get().groups_with(&step.truth.groups, &self.full);
                (Some(step.truth.groups.clone()), Some(full))
            }
            // Without a model the law is shown no latency, and nothing is estimated.
            Mode::Observe => {
                let shown = step.seen.latency.is_some();
                (shown.then(|| step.seen.groups.clone()), Some(step.truth.groups.clone()))
            }
        }
    }

    /// What others do on the groups' cores; `None` if nobody knows.
    fn others(&mut self, step: &Stepped) -> Option<Others> {
        let others = match &mut self.parts.beside {
            Beside::Nobody => Ok(Others::Nothing),
            Beside::Left { cores, is_counted } => {
                let stayed: Vec<u32> = step.truth.groups.iter().map(|group| group.cores).collect();
                let others = if *is_counted { Others::OnLeft } else { Others::UncountedOnLeft };
                cores.busy(&stayed).map(others)
            }
            Beside::Before(work) => work.busy(step.dt).map(Others::OnAll),
        };
        self.others_unknown = others.as_ref().err().map(ToString::to_string);
        others.ok()
    }

    /// Learns from windows at full speed, and predicts what the setting in force costs.
    fn forecast(&mut self, step: &Stepped, rate: f64) {
        let here = match self.parts.mode {
            Mode::Observe => &step.action,
            Mode::Run => self.parts.governor.in_force(),
        };
        let window = (&step.truth, step.dt);
        let ApplicationParts { fitter, mode, .. } = &self.parts;
        self.loss_predicted = fitter.forecast(window, rate, &self.full, here, *mode);
    }

    /// A journal that cannot be written is abandoned with an error message; the host comes first.
    fn keep(&mut self, write: impl FnOnce(&mut Journal) -> std::io::Result<()>) {
        let Some(journal) = &mut self.parts.journal else { return };
        if let Err(error) = write(journal) {
            let message =
                format!("{}: {error}; nothing more is recorded", journal.folder().display());
            self.parts.journal = None;
            let utc_ns = self.stepped_utc_ns;
            self.push_event(EventStatus::new(utc_ns, Severity::Error, message));
        }
    }
}

/// Only as many as are shown are kept.
fn push_newest(events: &mut VecDeque<EventStatus>, event: EventStatus) {
    while events.len() >= EVENTS_SHOWN {
        events.pop_front();
    }
    events.push_back(event);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembly::{Environment, Source, assemble};
    use std::fs;
    use std::io;
    use wattio_host::clock::HostClock;
    use wattio_host::{DaemonConfig, Root};

    const TWO: &str = r#"
name = "nas"
[[application]]
name = "one"
latency = { kind = "diskstats", devices = ["sda"] }
[[application.group]]
name = "one"
cores = "0"
[[application]]
name = "other"
latency = { kind = "diskstats", devices = ["sda"] }
[[application.group]]
name = "other"
cores = "1"
"#;

    fn host() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for (path, text) in [
            ("/sys/devices/system/cpu/present", "0-1"),
            ("/sys/devices/system/cpu/online", "0-1"),
            ("/proc/stat", "cpu0 1 0 1 9 0 0 0 0 0 0\ncpu1 1 0 1 9 0 0 0 0 0 0\n"),
            ("/proc/diskstats", "   8       0 sda 9 0 72 9 9 0 72 9 0 9 18 0 0 0 0 0 0\n"),
        ] {
            fs::create_dir_all(root.path(path).parent().unwrap()).unwrap();
            fs::write(root.path(path), text).unwrap();
        }
        (folder, root)
    }

    /// The list had one more than is shown from then on, was not cut any more, and grew for ever.
    #[test]
    fn events_are_few_after_a_journal_failed() {
        let (folder, root) = host();
        let config = DaemonConfig::from_toml(TWO).unwrap();
        let source = Source { config, text: TWO.to_owned(), path: "wattiod.toml".into() };
        let clock = HostClock::start();
        let mut daemon =
            assemble(&source, None, Environment { root: &root, clock: &clock }).unwrap();
        for application in daemon.all() {
            let name = application.name().unwrap().to_owned();
            for at in 0..EVENTS_SHOWN {
                application.tell(Severity::Info, at.to_string(), 0);
            }
            let none = serde_json::Value::Null;
            let journal = Journal::create(folder.path(), &name, "stamp", TWO, &none).unwrap();
            application.record(Some(journal));
            application.keep(|_| Err(io::Error::other("no space")));
            for _ in 0..10 {
                application.tell(Severity::Info, "more".to_owned(), 0);
            }
            assert_eq!(application.events.len(), EVENTS_SHOWN, "{name}");
            let last = &application.events.back().unwrap().message;
            assert_eq!(last, &format!("{name}: more"));
        }
    }
}
