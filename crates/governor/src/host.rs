//! The live host as a plant of the driver: samples sources and sets knobs.

use crate::account::Account;
use crate::arbiter::Requester;
use crate::breaker::Breaker;
use crate::cpus::Cpus;
use crate::event::{Event, Severity};
use crate::knob::{GroupSetting, Setting};
use crate::parts::{CoreGroup, GovernorSettings, ShadowModel};
use crate::priority::{Priorities, Window};
use crate::sensors::{Change, Sensors};
use crate::source::{GroupUse, Guard, LatencySample};
use crate::writer::Note;
use std::convert::Infallible;
use std::time::Duration;
use wattio_law::{
    Action, DriveAction, Glimpse, GroupObservation, LatencyObservation, Limits, Observation, Plant,
    Seen,
};
use wattio_units::Seconds;

/// The host that is governed.
pub(crate) struct Host {
    /// The first field is the first that a panic drops: the machine is restored before a source
    /// waits for its thread.
    pub machine: Requester,
    pub sensors: Sensors,
    pub breaker: Breaker,
    pub account: Account,
    pub is_paused: bool,
    /// Why whoever holds the governor wants full speed.
    pub forced_from_above: Option<&'static str>,
    /// Whether somebody wants full speed in the running window, and nothing else asks for it.
    is_wanted: bool,
    pub events: Vec<Event>,
    /// What the machine is set to.
    pub in_force: Action,
    /// The sample and the truth of the last window.
    pub sample: Option<LatencySample>,
    pub truth: Observation,
    /// Which of the knobs that follow the law are used.
    pub priorities: Priorities,
    groups: Vec<CoreGroup>,
    guards: Vec<Box<dyn Guard>>,
    /// What each of them last told of, as long as it lasts.
    problems: Vec<Option<String>>,
    shadow_model: Option<Box<dyn ShadowModel>>,
    power_is_shared: bool,
    settings: GovernorSettings,
    full: Action,
    /// What the law asked for last, which in shadow mode is not in force.
    held: Action,
    pub now: Duration,
    /// Length of the last window.
    window: Seconds,
    overdue: Seconds,
    /// The last failure of a knob, until all knobs are turned without one.
    last_failure: Option<String>,
}

/// What a host is made of besides its sources.
pub(crate) struct HostParts {
    pub machine: Requester,
    pub priorities: Priorities,
    pub groups: Vec<CoreGroup>,
    pub guards: Vec<Box<dyn Guard>>,
    pub shadow_model: Option<Box<dyn ShadowModel>>,
    pub power_is_shared: bool,
    pub settings: GovernorSettings,
}

impl Host {
    /// A host at full speed; a sample that is later than `overdue` is not waited for.
    pub fn new(
        parts: HostParts,
        sensors: Sensors,
        limits: &Limits,
        now: Duration,
        overdue: Seconds,
    ) -> Self {
        let full = limits.full_speed();
        Self {
            machine: parts.machine,
            sensors,
            breaker: Breaker::new(parts.settings.breaker),
            account: Account::default(),
            is_paused: false,
            forced_from_above: None,
            is_wanted: false,
            events: Vec::new(),
            in_force: full.clone(),
            sample: None,
            truth: Observation {
                latency: None,
                groups: Vec::new(),
                background: Vec::new(),
                power: None,
                alarm: false,
            },
            priorities: parts.priorities,
            groups: parts.groups,
            problems: vec![None; parts.guards.len()],
            guards: parts.guards,
            shadow_model: parts.shadow_model,
            power_is_shared: parts.power_is_shared,
            settings: parts.settings,
            held: full.clone(),
            full,
            now,
            window: Seconds(0.0),
            overdue,
            last_failure: None,
        }
    }

    pub fn event(&mut self, severity: Severity, message: String) {
        self.events.push(Event { at: seconds(self.now), severity, message });
    }

    /// What was measured, and why it must not be used, if so.
    fn measure(&mut self, dt: Seconds, alarm: bool) -> (Observation, Option<String>) {
        let uses = self.use_of_groups();
        let background = self.sensors.sample_background(seconds(self.now));
        let power = self.sensors.sample_power(seconds(self.now));
        self.account.windows_unmeasured += u64::from(self.sensors.has_power() && power.is_none());
        self.tell_of_sources();
        let forced = self.why_full_speed();
        let running = self.running(&self.in_force);
        let groups = running.groups.iter().enumerate().map(|(at, group)| {
            let used = uses.get(at).copied().unwrap_or(NO_USE);
            GroupObservation {
                cores: group.cores,
                frequency: group.frequency,
                utilisation_clients: used.utilisation_clients,
                utilisation_background: used.utilisation_background,
                queued: used.queued,
                waited_for_drives: used.waited_for_drives,
            }
        });
        let usable = self.sample.as_ref().filter(|_| forced.is_none() && dt.0 > 0.0);
        let latency = usable.map(|sample| LatencyObservation {
            requests: sample.requests,
            latency_us_mean: sample.latency_us_mean,
            histogram: sample.histogram.clone(),
            bytes_mean: sample.bytes_mean,
            read_share: sample.read_share,
            arrived: sample.arrived,
            in_flight: sample.in_flight,
            age: seconds(self.now) - sample.at,
        });
        let groups = groups.collect();
        (Observation { latency, groups, background, power, alarm }, forced)
    }

    /// What the last action makes of the host: others may need a higher frequency of cores that
    /// change it together, and while all save power, turbo may be off.
    fn running(&self, action: &Action) -> Action {
        let mut running = self.shared(action);
        if self.machine.any_at_full() {
            return running;
        }
        if self.saves(action) && self.priorities.lowers_frequency() {
            for (setting, group) in running.groups.iter_mut().zip(&self.groups) {
                let lowered = group.saving_max.filter(|max| *max < setting.frequency);
                setting.frequency = lowered.unwrap_or(setting.frequency);
            }
        }
        running
    }

    fn saves(&self, action: &Action) -> bool {
        action.groups != self.full.groups || action.drives == DriveAction::Asleep
    }

    /// What knobs that follow the law saved and cost in a window.
    fn rank_knobs(&mut self, dt: Seconds, is_forced: bool, alarm: bool) {
        let is_usable = !is_forced && !alarm && self.machine.acts() && self.saves(&self.in_force);
        let sample = self.sample.as_ref();
        let window = Window {
            now: self.now,
            dt_s: dt.0,
            saving: is_usable.then_some(&self.in_force),
            power_w: self.truth.power.map(|power| power.0),
            requests: sample.map_or(0, |sample| sample.requests),
            latency_us_mean: sample.and_then(|sample| sample.latency_us_mean),
        };
        if let Some(news) = self.priorities.window(&window) {
            self.event(Severity::Info, news);
        }
    }

    fn use_of_groups(&mut self) -> Vec<GroupUse> {
        let groups = self.groups.iter().zip(&self.in_force.groups);
        let active: Vec<_> = groups.map(|(group, setting)| active(group, setting.cores)).collect();
        self.sensors.sample_cpu(seconds(self.now), &active)
    }

    fn why_full_speed(&mut self) -> Option<String> {
        let at = seconds(self.now);
        // Every guard is asked every time: one may count what it sees.
        let problems: Vec<_> = self.guards.iter_mut().map(|guard| guard.problem(at)).collect();
        self.tell_of_problems(&problems);
        let spoiled = self.sensors.take_spoiled();
        let open = self.breaker.open(at).map(|trip| trip.reason().to_owned());
        let wrong = open.or_else(|| problems.into_iter().flatten().next()).or(spoiled);
        let wanted = if self.is_paused { Some("paused") } else { self.forced_from_above };
        self.is_wanted = wrong.is_none() && wanted.is_some();
        let wanted = wanted.map(str::to_owned);
        if self.is_paused { wanted } else { wrong.or(wanted) }
    }

    /// The last action, with the frequencies that it led to.
    fn shared(&self, action: &Action) -> Action {
        let mut shared = action.clone();
        for (group, frequency) in shared.groups.iter_mut().zip(self.machine.frequencies()) {
            group.frequency = frequency;
        }
        shared
    }

    /// Turns the knobs where the setting changed or is due to be looked at again.
    fn put_into_force(&mut self, action: &Action) {
        let faster = is_faster(action, &self.in_force);
        match self.turn(action, faster) {
            None => {}
            Some(true) => {
                self.note_flap(action);
                self.last_failure = None;
                self.in_force = action.clone();
            }
            Some(false) => {
                // A setting that was only half applied counts as none: full speed.
                let full = self.full.clone();
                if self.turn(&full, true) == Some(false) {
                    // The machine's speed is unknown now, so this window must not become a baseline.
                    self.sensors.spoil("a knob cannot be brought back to full speed");
                }
                self.in_force = full;
                self.machine.distrust();
            }
        }
    }

    /// Turns the knobs; returns whether all went well, or `None` if there was nothing to turn.
    fn turn(&mut self, action: &Action, faster: bool) -> Option<bool> {
        let refresh = Duration::try_from_secs_f64(self.settings.refresh.0).unwrap_or(Duration::MAX);
        let setting = self.setting(action);
        let applied = self.machine.request(setting, faster, self.now, refresh)?;
        let well = !applied.failed();
        self.account.writes += u64::from(applied.writes);
        self.tell(applied.notes);
        Some(well)
    }

    fn tell(&mut self, notes: Vec<Note>) {
        for note in notes {
            match note {
                Note::Failed { knob, message } => {
                    self.account.failures += 1;
                    let message = format!("{knob}: {message}");
                    // Retried in every window, but reported again only when the failure changes.
                    if self.last_failure.as_ref() != Some(&message) {
                        self.event(Severity::Error, message.clone());
                        self.last_failure = Some(message);
                    }
                    self.fail();
                }
                Note::Foreign { knob, address, written, found } => {
                    self.account.foreign += 1;
                    let message = format!(
                        "{knob}: {address} was set to {written:?} and is now {found:?}: somebody \
                         else changed it, and it is left alone from now on"
                    );
                    self.event(Severity::Warning, message);
                }
            }
        }
    }

    fn tell_of_sources(&mut self) {
        for change in self.sensors.take_changes() {
            match change {
                Change::Answers(name) => {
                    self.event(Severity::Info, format!("{name}: answers again"));
                }
                Change::Note(note) => self.event(Severity::Warning, note),
                Change::Missed(error) => self.event(Severity::Warning, error.to_string()),
                Change::Silent(error) => {
                    self.account.source_errors += 1;
                    self.event(Severity::Warning, error.to_string());
                    self.fail();
                }
            }
        }
    }

    /// Tells of each guard's problem once, when it begins, and when it is over; its words may change
    /// meanwhile.
    fn tell_of_problems(&mut self, problems: &[Option<String>]) {
        for (at, now) in problems.iter().enumerate() {
            match (self.problems[at].clone(), now) {
                (None, Some(why)) => {
                    self.event(Severity::Warning, format!("full speed is forced: {why}"));
                    self.problems[at] = Some(why.clone());
                }
                (Some(why), None) => {
                    self.event(Severity::Info, format!("over: {why}"));
                    self.problems[at] = None;
                }
                _ => {}
            }
        }
    }

    fn fail(&mut self) {
        if let Some(trip) = self.breaker.error(seconds(self.now)) {
            self.event(Severity::Error, format!("{}: full speed", trip.reason()));
        }
    }

    /// What somebody wants is no change of the law's mind.
    fn note_flap(&mut self, action: &Action) {
        if self.is_wanted {
            return;
        }
        if action.groups == self.full.groups && self.in_force.groups != self.full.groups {
            self.account.flaps += 1;
            if let Some(trip) = self.breaker.flap(seconds(self.now)) {
                self.event(Severity::Error, format!("{}: full speed", trip.reason()));
            }
        }
    }

    /// How much background work may run, as a share of what becomes due.
    pub fn background_share(&self, action: &Action) -> f64 {
        action.background_share(&self.truth.background, self.window)
    }

    fn setting(&self, action: &Action) -> Setting {
        let groups = self.groups.iter().zip(&action.groups).map(|(group, wanted)| GroupSetting {
            active: active(group, wanted.cores),
            frequency: wanted.frequency,
        });
        Setting {
            groups: groups.collect(),
            drives: action.drives,
            background: action.background.clone(),
            background_share: self.background_share(action),
            full_speed: *action == self.full,
            at_full: Cpus::default(),
            held_back: if self.saves(action) { self.priorities.held_back() } else { Vec::new() },
        }
    }
}

impl Plant for Host {
    type Error = Infallible;

    fn advance(&mut self, until: Duration) -> Result<Glimpse, Infallible> {
        self.now = until;
        let glimpse = self.sensors.sample_latency(seconds(until));
        self.tell_of_sources();
        let is_ready = self.sensors.has_news(seconds(until), self.overdue);
        Ok(Glimpse { is_ready, ..glimpse })
    }

    fn observe(&mut self, dt: Seconds, alarm: bool) -> Seen {
        self.window = dt;
        self.sample = self.sensors.take_pending();
        let (truth, forced) = self.measure(dt, alarm);
        self.truth = truth;
        self.rank_knobs(dt, forced.is_some(), alarm);
        let held = self.running(&self.held);
        let mut observation = match &mut self.shadow_model {
            Some(shadow_model) => shadow_model.see(&self.truth, &held, dt),
            None => self.truth.clone(),
        };
        if self.power_is_shared {
            observation.power = None;
        }
        Seen { observation, forced }
    }

    fn apply(&mut self, action: &Action) -> Action {
        self.held = action.clone();
        if !self.machine.acts() {
            self.turn(action, false);
            return self.shared(action);
        }
        self.machine.share_time();
        self.put_into_force(action);
        // Releases places that others changed.
        let notes = self.machine.inspect(self.settings.inspected);
        self.tell(notes);
        self.in_force = self.shared(&self.in_force);
        self.in_force.clone()
    }

    fn interval(&self) -> Option<Seconds> {
        self.sensors.interval()
    }
}

const NO_USE: GroupUse = GroupUse {
    utilisation_clients: 0.0,
    utilisation_background: 0.0,
    queued: None,
    waited_for_drives: false,
};

pub(crate) fn seconds(at: Duration) -> Seconds {
    Seconds(at.as_secs_f64())
}

/// The cores of a group that work when `count` of them do.
fn active(group: &CoreGroup, count: u32) -> Cpus {
    group.cores.iter().copied().take(count as usize).collect()
}

/// Whether any group gets more than it has, or a drive is woken.
fn is_faster(action: &Action, before: &Action) -> bool {
    let woken = before.drives == DriveAction::Asleep && action.drives != DriveAction::Asleep;
    let mut pairs = action.groups.iter().zip(&before.groups);
    woken || pairs.any(|(now, then)| now.cores > then.cores || now.frequency > then.frequency)
}
