//! One tick: sample, step the law, apply, verify, account.

use crate::account::Account;
use crate::act::Act;
use crate::breaker::Breaker;
use crate::cpus::Cpus;
use crate::event::{Event, Severity};
use crate::hands::Note;
use crate::knob::{GroupSetting, Setting};
use crate::parts::{CoreGroup, GovernorSettings, Lens, Parts, Stepped, Tick};
use crate::senses::{Change, Fresh, Senses};
use crate::source::{GroupUse, Guard, LatencySample};
use std::time::Duration;
use wattio_law::{
    Action, GroupObservation, LatencyObservation, Law, Limits, Loop, Observation, OperatingState,
};
use wattio_units::Seconds;

/// The loop on a live host.
pub struct Governor {
    /// The first field is the first that a panic drops: the machine is restored before a source
    /// waits for its thread.
    act: Option<Act>,
    looping: Loop<Box<dyn Law>>,
    groups: Vec<CoreGroup>,
    senses: Senses,
    guards: Vec<Box<dyn Guard>>,
    lens: Option<Box<dyn Lens>>,
    settings: GovernorSettings,
    breaker: Breaker,
    account: Account,
    paused: bool,
    /// What the machine is set to.
    in_force: Action,
    /// The last setting that knobs were asked for, and when.
    asked: Option<(Setting, Duration)>,
    /// The last failure of a knob, until all knobs are turned without one.
    last_failure: Option<String>,
    last_tick: Duration,
    last_step: Duration,
    next_step: Duration,
    events: Vec<Event>,
}

/// A tick that comes later than this many windows after the one before lost time: the machine was
/// suspended, or the daemon starved.
const LATE_WINDOWS: f64 = 4.0;

fn seconds(at: Duration) -> Seconds {
    Seconds(at.as_secs_f64())
}

fn duration(span: Seconds) -> Duration {
    Duration::try_from_secs_f64(span.0).unwrap_or(Duration::MAX)
}

impl Governor {
    /// Starts at full speed at `now`; nothing is written before the first step.
    #[must_use]
    pub fn new(parts: Parts, now: Duration) -> Self {
        let limits = Limits { groups: parts.groups.iter().map(|g| g.limits.clone()).collect() };
        let in_force = limits.full_speed();
        let looping = Loop::new(parts.law, limits, parts.settings.looping);
        let next_step = now.saturating_add(duration(looping.period()));
        Self {
            looping,
            groups: parts.groups,
            senses: Senses::new(parts.latency, parts.cpu, parts.background, seconds(now)),
            guards: parts.guards,
            act: parts.act,
            lens: parts.lens,
            breaker: Breaker::new(parts.settings.breaker),
            settings: parts.settings,
            account: Account::default(),
            paused: false,
            in_force,
            asked: None,
            last_failure: None,
            last_tick: now,
            last_step: now,
            next_step,
            events: Vec::new(),
        }
    }

    /// Samples; when a window has ended or an alarm went off, steps the law and applies what it
    /// says. `now` is monotonic time on the clock that [`Governor::new`] was given.
    pub fn tick(&mut self, now: Duration) -> Tick {
        self.notice_gap(now);
        self.last_tick = now;
        let alarm = self.take_sample(now);
        let stepped = (alarm || self.window_ends(now)).then(|| self.step(now, alarm));
        Tick { next: self.next_tick(now), stepped, events: std::mem::take(&mut self.events) }
    }

    /// Full speed until [`Governor::resume`].
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Ends a pause, and closes the breaker.
    pub fn resume(&mut self) {
        self.paused = false;
        self.breaker.close();
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The law.
    #[must_use]
    pub fn law(&self) -> &dyn Law {
        self.looping.law()
    }

    /// Changes the law's tolerance from the next step on; the caller checks the range.
    pub fn set_latency_tolerance(&mut self, share: f64) {
        self.looping.law_mut().set_latency_tolerance(share);
    }

    /// What was done so far.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The account of the loop: states, changes.
    #[must_use]
    pub fn loop_account(&self) -> &wattio_law::Accounting {
        self.looping.accounting()
    }

    /// How often the breaker opened.
    #[must_use]
    pub fn breaker_trips(&self) -> u64 {
        self.breaker.trips()
    }

    /// What the machine is set to.
    #[must_use]
    pub fn in_force(&self) -> &Action {
        &self.in_force
    }

    /// The acting side, to restore.
    pub fn act(&mut self) -> Option<&mut Act> {
        self.act.as_mut()
    }

    /// A tick that comes far too late, or before the one before it, spoils the running window.
    fn notice_gap(&mut self, now: Duration) {
        let late = duration(self.looping.period() * LATE_WINDOWS);
        let gap = now.checked_sub(self.last_tick);
        if gap.is_none_or(|gap| gap > late) {
            let gap =
                gap.map_or("back".to_owned(), |gap| format!("on by {:.1} s", gap.as_secs_f64()));
            self.event(
                now,
                Severity::Warning,
                format!("time jumped {gap}: this window does not count"),
            );
            self.senses.spoil("time jumped");
            if now < self.last_step {
                self.last_step = now;
            }
            self.next_step = now;
        }
    }

    /// Takes in what the latency source has; answers whether that is an alarm.
    fn take_sample(&mut self, now: Duration) -> bool {
        let fresh = self.senses.sample_latency(seconds(now));
        self.tell_of_sources(now);
        fresh.is_some_and(|fresh| self.is_alarming(&fresh))
    }

    /// Asks the law about a sample as if it were of one alarm span. The mean of one that is not much
    /// shorter than a window is no news: it is judged when the window ends.
    fn is_alarming(&self, fresh: &Fresh) -> bool {
        let spans = (fresh.span / self.looping.alarm_span()).max(1.0);
        let arrived = (fresh.arrived as f64 / spans).ceil() as u64;
        let mean = fresh.latency_us_mean.filter(|_| fresh.span < self.looping.period() * 0.5);
        self.looping.law().is_alarming(arrived, mean)
    }

    /// Whether it is time to step: the window is over, and a sample of it is there or overdue.
    fn window_ends(&self, now: Duration) -> bool {
        let overdue = self.looping.period() * self.settings.looping.stale_after_windows;
        now >= self.next_step && self.senses.has_news(seconds(now), overdue)
    }

    /// The end of the window, or sooner where that serves the law's alarm: at full speed there is
    /// nothing that a burst could ask for. Whoever waits for a sample that is due looks again soon.
    fn next_tick(&self, now: Duration) -> Duration {
        let span = self.looping.alarm_span();
        // Twice a span, so that what a span brought is not as old again when it is seen.
        let interval = self.senses.interval().filter(|&interval| interval > span);
        let pace = interval.unwrap_or(span * 0.5);
        let soon = |span| now.saturating_add(duration(span).max(Duration::from_millis(1)));
        let saving = self.looping.held().groups != self.looping.limits().full_speed().groups;
        if now >= self.next_step {
            soon(span)
        } else if saving || self.looping.state() == Some(OperatingState::Idle) {
            soon(pace).min(self.next_step)
        } else {
            self.next_step
        }
    }

    fn step(&mut self, now: Duration, alarm: bool) -> Stepped {
        let dt = Seconds(now.saturating_sub(self.last_step).as_nanos() as f64 * 1e-9);
        let sample = self.senses.take_pending();
        let (truth, forced) = self.observe(now, dt, sample.as_ref(), alarm);
        // Not every law asks for the latency, but nobody's power is saved blindly.
        let known = truth.latency.is_some_and(|latency| self.looping.can_use(&latency));
        let forced = forced.or_else(|| (!known).then(|| "no latency to go by".to_owned()));
        let held = self.looping.held();
        let seen = match &mut self.lens {
            Some(lens) => lens.see(&truth, held, dt),
            None => truth.clone(),
        };
        let state_before = self.looping.state();
        let mut action = self.looping.step(seen.clone(), dt);
        if forced.is_some() {
            action = self.looping.limits().full_speed();
        }
        let insight = self.looping.law().insight();
        self.account.window(dt, &truth, &seen, &insight, state_before, forced.is_some());
        if let Some(act) = &mut self.act {
            act.hands.share_time(true);
        }
        self.put_into_force(now, &action);
        self.look_for_others(now);
        self.last_step = now;
        self.next_step = now.saturating_add(duration(self.looping.period()));
        Stepped { dt, sample, truth, seen, action, state: self.looping.state(), insight, forced }
    }

    /// What was measured, and why it must not be gone by, where that is so.
    fn observe(
        &mut self,
        now: Duration,
        dt: Seconds,
        sample: Option<&LatencySample>,
        alarm: bool,
    ) -> (Observation, Option<String>) {
        let uses = self.use_of_groups(now);
        let background = self.senses.sample_background(seconds(now));
        self.tell_of_sources(now);
        let forced = self.why_full_speed(now);
        let groups = self.in_force.groups.iter().enumerate().map(|(at, group)| {
            let used = uses.get(at).copied().unwrap_or(NO_USE);
            GroupObservation {
                cores: group.cores,
                frequency: group.frequency,
                utilisation_clients: used.utilisation_clients,
                utilisation_background: used.utilisation_background,
                waited_for_drives: used.waited_for_drives,
            }
        });
        let latency =
            sample.filter(|_| forced.is_none() && dt.0 > 0.0).map(|sample| LatencyObservation {
                requests: sample.requests,
                latency_us_mean: sample.latency_us_mean,
                bytes_mean: sample.bytes_mean,
                read_share: sample.read_share,
                age: seconds(now) - sample.at,
            });
        let groups = groups.collect();
        (Observation { latency, groups, background, alarm }, forced)
    }

    fn use_of_groups(&mut self, now: Duration) -> Vec<GroupUse> {
        let active: Vec<_> = self
            .groups
            .iter()
            .zip(&self.in_force.groups)
            .map(|(group, setting)| active(group, setting.cores))
            .collect();
        self.senses.sample_cpu(seconds(now), &active)
    }

    fn why_full_speed(&mut self, now: Duration) -> Option<String> {
        let at = seconds(now);
        // Every guard is asked every time: one may count what it sees.
        let troubles: Vec<_> =
            self.guards.iter_mut().filter_map(|guard| guard.trouble(at)).collect();
        let spoiled = self.senses.take_spoiled();
        if self.paused {
            return Some("paused".to_owned());
        }
        let open = self.breaker.open(at).map(|trip| trip.reason().to_owned());
        open.or_else(|| troubles.into_iter().next()).or(spoiled)
    }

    /// Turns the knobs where the setting changed or is due to be looked at again.
    fn put_into_force(&mut self, now: Duration, action: &Action) {
        if self.act.is_none() {
            return;
        }
        let full = self.looping.limits().full_speed();
        let setting = self.setting(action);
        let refresh = duration(self.settings.refresh);
        let asked_at = self.asked.as_ref().filter(|(asked, _)| *asked == setting).map(|a| a.1);
        let again = asked_at.is_some();
        if asked_at.is_some_and(|at| now.saturating_sub(at) < refresh) {
            return;
        }
        let faster = is_faster(action, &self.in_force);
        if self.turn(now, &setting, faster, again) {
            self.note_flap(now, action);
            self.last_failure = None;
            self.in_force = action.clone();
            self.asked = Some((setting, now));
        } else {
            // Half a setting is none: towards full performance.
            let setting = self.setting(&full);
            if !self.turn(now, &setting, true, false) {
                // Nobody knows how fast the machine is: what it does now is no baseline.
                self.senses.spoil("a knob cannot be brought back to full speed");
            }
            self.in_force = full;
            self.asked = None;
        }
    }

    /// Turns the knobs; answers whether all went well.
    fn turn(&mut self, now: Duration, setting: &Setting, faster: bool, again: bool) -> bool {
        let Some(act) = &mut self.act else { return true };
        let applied = act.turn(setting, faster, again);
        let well = !applied.failed();
        self.account.writes += u64::from(applied.writes);
        self.tell(now, applied.notes);
        well
    }

    /// Lets go of places that others changed.
    fn look_for_others(&mut self, now: Duration) {
        let count = self.settings.inspected;
        if let Some(act) = &mut self.act {
            let notes = act.hands.inspect(count);
            self.tell(now, notes);
        }
    }

    fn tell(&mut self, now: Duration, notes: Vec<Note>) {
        for note in notes {
            match note {
                Note::Failed { knob, message } => {
                    self.account.failures += 1;
                    let message = format!("{knob}: {message}");
                    // Tried again in every window, and told again when it is another one.
                    if self.last_failure.as_ref() != Some(&message) {
                        self.event(now, Severity::Error, message.clone());
                        self.last_failure = Some(message);
                    }
                    self.fail(now);
                }
                Note::Foreign { knob, address, written, found } => {
                    self.account.foreign += 1;
                    let message = format!(
                        "{knob}: {address} was set to {written:?} and is now {found:?}: somebody \
                         else's, left alone from now on"
                    );
                    self.event(now, Severity::Warning, message);
                }
            }
        }
    }

    fn tell_of_sources(&mut self, now: Duration) {
        for change in self.senses.take_changes() {
            match change {
                Change::Answers(name) => {
                    self.event(now, Severity::Info, format!("{name}: answers again"));
                }
                Change::Silent(error) => {
                    self.account.source_errors += 1;
                    self.event(now, Severity::Warning, error.to_string());
                    self.fail(now);
                }
            }
        }
    }

    fn fail(&mut self, now: Duration) {
        if let Some(trip) = self.breaker.error(seconds(now)) {
            self.event(now, Severity::Error, format!("{}: full speed", trip.reason()));
        }
    }

    fn note_flap(&mut self, now: Duration, action: &Action) {
        let full = self.looping.limits().full_speed();
        if action.groups == full.groups && self.in_force.groups != full.groups {
            self.account.flaps += 1;
            if let Some(trip) = self.breaker.flap(seconds(now)) {
                self.event(now, Severity::Error, format!("{}: full speed", trip.reason()));
            }
        }
    }

    fn setting(&self, action: &Action) -> Setting {
        let groups = self.groups.iter().zip(&action.groups).map(|(group, wanted)| GroupSetting {
            active: active(group, wanted.cores),
            frequency: wanted.frequency,
        });
        Setting {
            groups: groups.collect(),
            background: action.background,
            state: self.looping.state(),
            full_speed: *action == self.looping.limits().full_speed(),
        }
    }

    fn event(&mut self, now: Duration, severity: Severity, message: String) {
        self.events.push(Event { at: seconds(now), severity, message });
    }
}

const NO_USE: GroupUse =
    GroupUse { utilisation_clients: 0.0, utilisation_background: 0.0, waited_for_drives: false };

/// The cores of a group that work when `count` of them do.
fn active(group: &CoreGroup, count: u32) -> Cpus {
    group.cores.iter().copied().take(count as usize).collect()
}

/// Whether any group gets more than it has.
fn is_faster(action: &Action, before: &Action) -> bool {
    action
        .groups
        .iter()
        .zip(&before.groups)
        .any(|(now, then)| now.cores > then.cores || now.frequency > then.frequency)
}
