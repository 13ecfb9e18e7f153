//! The control loop on a live host: a driver, with the host as its plant.

use crate::account::Account;
use crate::event::Severity;
use crate::host::{Host, HostParts, seconds};
use crate::parts::{Parts, Stepped, Tick};
use crate::priority::{FollowerStatus, Priorities};
use crate::sensors::Sensors;
use crate::snapshot::SnapshotError;
use crate::writer::Restored;
use std::time::Duration;
use wattio_law::{Action, Driver, Law, Limits};

/// The loop on a live host.
pub struct Governor {
    /// The first field is the first that a panic drops: the machine is restored before all else.
    host: Host,
    driver: Driver<Box<dyn Law>>,
}

impl Governor {
    /// Starts at full speed at `now`; nothing is written before the first step. `limits` holds what
    /// is known of the host besides its cores.
    #[must_use]
    pub fn new(parts: Parts, now: Duration) -> Self {
        let groups = parts.groups.iter().map(|group| group.limits.clone()).collect();
        let limits = Limits::of(groups);
        let settings = parts.settings.driver;
        let overdue = parts.law.period() * settings.stale_after_windows;
        let sensors =
            Sensors::new(parts.latency, parts.cpu, parts.background, parts.power, seconds(now));
        let host = HostParts {
            machine: parts.machine,
            priorities: Priorities::new(parts.followers),
            groups: parts.groups,
            guards: parts.guards,
            shadow_model: parts.shadow_model,
            power_is_shared: parts.power_is_shared,
            settings: parts.settings,
        };
        Self {
            host: Host::new(host, sensors, &limits, now, overdue),
            driver: Driver::new(parts.law, limits, &parts.bounds, settings, now),
        }
    }

    /// Samples; when a window has ended or an alarm went off, steps the law and applies what it
    /// says. `now` is monotonic time on the clock that [`Governor::new`] was given.
    pub fn tick(&mut self, now: Duration) -> Tick {
        let Ok(stepped) = self.driver.advance(&mut self.host, now);
        if let Some(jump) = stepped.as_ref().and_then(|stepped| stepped.jump.as_ref()) {
            self.host.event(Severity::Warning, format!("{jump}: this window does not count"));
        }
        if let Some(stepped) = &stepped {
            let room_us = |(bound, full): (f64, f64)| (bound - full).max(0.0);
            let insight = &stepped.insight;
            self.host.priorities.set_room(insight.bound_us.zip(insight.baseline_us).map(room_us));
        }
        let stepped = stepped.map(|stepped| Stepped {
            dt: stepped.dt,
            sample: self.host.sample.take(),
            truth: self.host.truth.clone(),
            seen: stepped.seen,
            background_share: self.host.background_share(&stepped.action),
            action: stepped.action,
            insight: stepped.insight,
            forced: stepped.forced,
        });
        let next = self.driver.next_look(&self.host);
        Tick { next, stepped, events: std::mem::take(&mut self.host.events) }
    }

    /// See [`Driver::excuse`].
    pub fn excuse(&mut self, began: Duration, ended: Duration) {
        self.driver.excuse(began, ended);
    }

    /// Full speed until [`Governor::resume`].
    pub fn pause(&mut self) {
        self.host.is_paused = true;
    }

    /// Ends a pause, and closes the breaker.
    pub fn resume(&mut self) {
        self.host.is_paused = false;
        self.host.breaker.close();
    }

    /// Full speed for a reason of somebody above, until it is `None` again. The breaker stays as it
    /// is, and so does a pause.
    pub fn force_full_speed(&mut self, why: Option<&'static str>) {
        self.host.forced_from_above = why;
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.host.is_paused
    }

    /// The law, its bounds and its account.
    #[must_use]
    pub fn driver(&self) -> &Driver<Box<dyn Law>> {
        &self.driver
    }

    /// Changes the share of every relative bound from the next step on; the caller checks the
    /// range.
    pub fn set_latency_tolerance(&mut self, share: f64) {
        self.driver.set_tolerance(share);
    }

    /// What was done to the host so far.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.host.account
    }

    /// Why power is not known, where its source says that something is wrong.
    #[must_use]
    pub fn power_trouble(&self) -> Option<&str> {
        self.host.sensors.power_trouble()
    }

    /// The knobs that follow the law, those that save most for what they cost first.
    #[must_use]
    pub fn followers(&self) -> Vec<FollowerStatus> {
        self.host.priorities.statuses(self.host.now)
    }

    /// How often the breaker opened.
    #[must_use]
    pub fn breaker_trips(&self) -> u64 {
        self.host.breaker.trips()
    }

    /// What the machine is set to.
    #[must_use]
    pub fn in_force(&self) -> &Action {
        &self.host.in_force
    }

    /// Marks the running window as one that must not be used.
    pub fn spoil(&mut self, why: &str) {
        self.host.sensors.spoil(why);
    }

    /// Restores the machine, for all applications on it. It is turned again at the next step.
    ///
    /// # Errors
    /// When the snapshot could not be brought up to date.
    pub fn restore(&mut self) -> Result<Restored, SnapshotError> {
        self.host.machine.restore()
    }
}
