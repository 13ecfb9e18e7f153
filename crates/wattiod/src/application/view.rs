//! An application's status.

use super::{Application, GroupInfo};
use crate::alternation::Alternation;
use crate::daemon::Mode;
use crate::status::{
    BoundStatus, Counts, GroupStatus, LatencyStatus, PowerStatus, ShadowStatus, Status,
};
use wattio_governor::{Clock, mean_limit_us};
use wattio_host::shadow::Compared;
use wattio_law::BoundAccount;
use wattio_units::Seconds;

impl Application {
    /// Everything an operator may want to see.
    #[must_use]
    pub fn status(&self, clock: &dyn Clock) -> Status {
        let parts = &self.parts;
        let last = self.last.as_ref();
        let forced = last.and_then(|step| step.forced.clone());
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: parts.mode.name().to_owned(),
            name: parts.host.clone(),
            application: parts.name.clone(),
            policy: parts.policy.clone(),
            state: parts.governor.driver().insight().mode.map(str::to_owned),
            reason: last.map_or("starting", |step| step.insight.reason).to_owned(),
            forced,
            paused: parts.governor.is_paused(),
            utc_ns: self.stepped_utc_ns,
            uptime_s: clock.now().saturating_sub(self.started).as_secs_f64(),
            latency: self.latency_status(clock),
            bounds: BoundStatus::all_of(parts.governor.driver()),
            groups: self.group_status(),
            background_pace: last.map_or(1.0, |step| step.background_share),
            power: self.power_status(),
            shadow: (parts.mode == Mode::Observe)
                .then(|| ShadowStatus::of(&parts.fitter.get(), false)),
            compared: parts.compared.as_ref().map(Compared::status),
            alternation: self.alternation.as_ref().map(Alternation::status),
            followers: parts.governor.followers(),
            counts: self.counts(),
            own: self.own.cost(),
            events: self.events.iter().cloned().collect(),
            others: Vec::new(),
        }
    }

    fn latency_status(&self, clock: &dyn Clock) -> LatencyStatus {
        let last = self.last.as_ref();
        let sample = last.and_then(|step| step.sample.as_ref());
        let insight = last.map(|step| step.insight).unwrap_or_default();
        LatencyStatus {
            source: self.parts.latency.clone(),
            latency_us_resolution: Some(self.parts.latency_us_resolution).filter(|&us| us > 1.0),
            requests_per_s: last.zip(sample).map(|(step, s)| s.requests as f64 / step.dt.0),
            latency_us_mean: sample.and_then(|sample| sample.latency_us_mean),
            latency_us_seen: last
                .and_then(|step| step.seen.latency.as_ref())
                .and_then(|latency| latency.latency_us_mean),
            latency_us_p99: self.latency_us_p99,
            sample_age_s: clock.now().saturating_sub(self.sampled_at).as_secs_f64(),
            baseline_us: insight.baseline_us,
            bound_us: mean_limit_us(self.parts.governor.driver()),
            bound: self.bounds().into_iter().next(),
            tolerance: self.parts.governor.driver().mean_tolerance(),
            loss_measured: insight.loss.filter(|_| self.parts.mode == Mode::Run),
            loss_predicted: self.loss_predicted,
        }
    }

    fn group_status(&self) -> Vec<GroupStatus> {
        let last = self.last.as_ref();
        let shown = match self.parts.mode {
            Mode::Run => self.parts.governor.in_force(),
            Mode::Observe => last.map_or(&self.full, |step| &step.action),
        };
        let group = |(at, info): (usize, &GroupInfo)| {
            let seen = last.and_then(|step| step.truth.groups.get(at));
            let turned = |hertz: f64| info.turns_frequency.then_some(hertz);
            GroupStatus {
                name: info.name.clone(),
                cores_active: shown.groups[at].cores,
                cores_total: info.limits.cores_max,
                cores_min: info.limits.cores_min,
                frequency_hz: turned(shown.groups[at].frequency.0),
                frequency_max_hz: turned(info.limits.frequency_max.0),
                utilisation_clients: seen.map_or(0.0, |group| group.utilisation_clients),
                utilisation_background: seen.map_or(0.0, |group| group.utilisation_background),
            }
        };
        self.parts.groups.iter().enumerate().map(group).collect()
    }

    fn power_status(&self) -> PowerStatus {
        let foreign = self.parts.governor.account().foreign;
        let why = match self.parts.mode {
            Mode::Observe => ShadowStatus::of(&self.parts.fitter.get(), false).why,
            Mode::Run => (foreign > 0)
                .then(|| format!("somebody else changed {foreign} of the places that were set")),
        };
        let status = self.parts.ledger.status(why.or_else(|| self.others_unknown.clone()));
        let meter_trouble = self.parts.governor.power_trouble().map(str::to_owned);
        match self.parts.nothing_to_set.clone() {
            // A saving of 0.0 W would pass for what was found.
            Some(nothing) => PowerStatus {
                meter_trouble,
                meter: status.meter,
                measured_w: status.measured_w,
                measured_j: status.measured_j,
                no_estimate: Some(nothing),
                ..PowerStatus::default()
            },
            None => PowerStatus { meter_trouble, ..status },
        }
    }

    fn counts(&self) -> Counts {
        let account = self.parts.governor.account();
        let driver = self.parts.governor.driver();
        let (law, bound) = (driver.account(), driver.account().bounds.first());
        let modes = driver.law().modes().iter().map(|&mode| (mode, Seconds(0.0)));
        let spans = modes.chain(law.span_by_mode.iter().copied());
        Counts {
            windows: law.windows,
            windows_missing: self.measured.windows_missing,
            windows_forced: self.measured.windows_forced,
            windows_bounded: bound.map_or(0, |bound| bound.windows),
            violations: bound.map_or(0, |bound| bound.windows_over),
            loss_mean: law.on_mean().and_then(BoundAccount::loss),
            requests: self.measured.requests,
            knob_writes: account.writes,
            knob_failures: account.failures,
            setting_changes: law.knob_changes,
            foreign_changes: account.foreign,
            source_errors: account.source_errors,
            windows_unmeasured: account.windows_unmeasured,
            flaps: account.flaps,
            breaker_trips: self.parts.governor.breaker_trips(),
            state_span_s: spans.map(|(mode, span)| (mode.to_owned(), span.0)).collect(),
        }
    }
}
