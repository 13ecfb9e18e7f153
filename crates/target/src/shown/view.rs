//! How the target stands, for its status.

use super::{ClassShown, Counts, GroupShown, LatencyShown, Shown};
use crate::control_loop::Governing;
use crate::plant::{ClassCounters, Group, Reactors};
use wattio_governor::{BoundStatus, Clock, mean_limit_us};
use wattio_host::shadow::{Compared, Mode, ShadowStatus};
use wattio_law::{BackgroundObservation, BoundAccount, Budget, Octaves};
use wattio_units::Seconds;

impl<R: Reactors> Governing<R> {
    /// Everything an operator may want to see.
    pub fn shown(&self, clock: &dyn Clock) -> Shown {
        let (driver, plant) = (&self.governed.driver, &self.governed.plant);
        let last = self.last.as_ref();
        let setting = plant.layout().setting(driver.in_force());
        let all = plant.layout().setting(&driver.limits().full_speed());
        let requests = &plant.totals().requests;
        let is_shadow = self.books.mode == Mode::Observe;
        let shadow = is_shadow.then(|| ShadowStatus::of(&self.books.fitter.get(), true));
        Shown {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.books.mode.name().to_owned(),
            name: self.named.name.clone(),
            policy: self.named.policy.clone(),
            state: driver.insight().mode.map(str::to_owned),
            reason: last.map_or("starting", |step| step.insight.reason).to_owned(),
            forced: last.and_then(|step| step.forced.clone()),
            paused: plant.is_paused,
            utc_ns: self.stepped_utc_ns,
            uptime_s: clock.now().saturating_sub(self.started).as_secs_f64(),
            latency: self.latency_shown(clock),
            bounds: BoundStatus::all_of(driver),
            groups: self.groups_shown(),
            reactors_active: setting.active().len(),
            reactors_total: all.active().len(),
            reactors: self.learned.clone(),
            background: self.background_shown(),
            background_pace: last.map_or(1.0, |step| step.background_share),
            power: self.books.ledger.status(shadow.as_ref().and_then(|shadow| shadow.why.clone())),
            shadow,
            compared: self.books.compared.as_ref().map(Compared::status),
            counts: self.counts(),
            own: self.own.cost(),
            events: self.events.iter().cloned().collect(),
            latencies: (
                requests.latencies.since(&Octaves::default()),
                Seconds(requests.latency_ns as f64 * 1e-9),
            ),
        }
    }

    fn latency_shown(&self, clock: &dyn Clock) -> LatencyShown {
        let last = self.last.as_ref();
        let sample = last.and_then(|step| step.sample.as_ref());
        let insight = last.map(|step| step.insight).unwrap_or_default();
        let in_flight = self.governed.plant.totals().in_flight(clock.now());
        let histogram = sample.and_then(|sample| sample.histogram.as_ref());
        LatencyShown {
            source: "the socket".to_owned(),
            requests_per_s: last.zip(sample).map(|(step, s)| s.requests as f64 / step.dt.0),
            latency_us_mean: sample.and_then(|sample| sample.latency_us_mean),
            latency_us_seen: last
                .and_then(|step| step.seen.latency.as_ref())
                .and_then(|latency| latency.latency_us_mean),
            latency_us_p99: histogram.and_then(|histogram| histogram.shown_us(0.99)),
            baseline_us: insight.baseline_us,
            bound: self.governed.driver.bounds().first().map(ToString::to_string),
            bound_us: mean_limit_us(&self.governed.driver),
            tolerance: self.governed.driver.mean_tolerance(),
            loss_measured: insight.loss.filter(|_| self.books.mode == Mode::Run),
            loss_predicted: self.loss_predicted,
            in_flight: in_flight.requests,
            in_flight_oldest_s: in_flight.oldest.map(|oldest| oldest.0),
        }
    }

    fn groups_shown(&self) -> Vec<GroupShown> {
        let driver = &self.governed.driver;
        let limits = driver.limits().groups.iter().zip(&driver.in_force().groups);
        let groups = self.governed.plant.layout().groups().iter().zip(limits).enumerate();
        let group = |(at, (group, (limits, held))): (
            usize,
            (&Group, (&wattio_law::GroupLimits, &wattio_law::GroupAction)),
        )| {
            let seen = self.last.as_ref().and_then(|step| step.truth.groups.get(at));
            let turns = limits.frequency_min < limits.frequency_max;
            let turned = |hertz: f64| turns.then_some(hertz);
            GroupShown {
                name: group.name.to_owned(),
                cores_active: held.cores,
                cores_total: limits.cores_max,
                cores_min: limits.cores_min,
                frequency_hz: turned(held.frequency.0),
                frequency_max_hz: turned(limits.frequency_max.0),
                utilisation_clients: seen.map_or(0.0, |seen| seen.utilisation_clients),
                utilisation_background: seen.map_or(0.0, |seen| seen.utilisation_background),
            }
        };
        groups.map(group).collect()
    }

    fn background_shown(&self) -> Vec<ClassShown> {
        let Some(last) = &self.last else { return Vec::new() };
        let told = last.truth.background.iter().zip(&self.governed.plant.totals().background);
        let class = |(at, (seen, total)): (usize, (&BackgroundObservation, &ClassCounters))| {
            let budget = match last.action.background_of(at).budget {
                Budget::AsDue => None,
                Budget::CoreSecondsPerSecond(rate) => Some(rate),
            };
            ClassShown {
                name: seen.class.to_string(),
                backlog_core_s_estimated: seen.backlog_core_s,
                urgency: seen.urgency.unwrap_or(0.0),
                budget_core_s_per_s: budget,
                done_core_s: total.done_ns as f64 * 1e-9,
                slices: total.slices,
                slice_us_max: (total.slices > 0).then_some(total.slice_ns_max as f64 * 1e-3),
            }
        };
        told.enumerate().map(class).collect()
    }

    fn counts(&self) -> Counts {
        let driver = &self.governed.driver;
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
            bounded_latency_us_sum: law.on_mean().map_or(0.0, |mean| mean.compared_us_sum),
            bounded_full_speed_us_sum: law.on_mean().map_or(0.0, |mean| mean.full_speed_us_sum),
            requests: self.measured.requests,
            reactors_on_s: self.reactors_on_s,
            setting_changes: law.knob_changes,
            state_span_s: spans.map(|(mode, span)| (mode.to_owned(), span.0)).collect(),
        }
    }
}
