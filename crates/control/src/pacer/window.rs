//! How the law interprets a window: its distance from the bounds, its load, and whether it is a
//! burst.

use super::adaptor::Distance;
use super::baseline::{Baseline, Level};
use super::burst::Late;
use super::closed_loop::Advice;
use super::state::OperatingState;
use super::tried::Blame;
use super::{NO_HISTOGRAM, Pacer};
use crate::mix::Mix;
use wattio_law::{LatencyObservation, Observation};

/// The loss distance at which a step that raised the energy of requests is given back.
const BACK: f64 = -0.25;

impl Pacer {
    /// How far the last sample is from what is promised, times the windows that it stands for; or
    /// why that cannot be told.
    pub(super) fn distance(&mut self) -> Result<Distance, &'static str> {
        let settings = &self.settings;
        let sample = self.stability.last().ok_or("no window to go by")?;
        let known = self.level.and_then(|level| self.baselines.known(level));
        let full_speed = known.ok_or("a load whose latency at full speed is not known")?;
        let translation = self.expectation.translation(full_speed.mix(), sample.mix());
        let lately = self.stability.over_all_windows().unwrap_or(sample);
        let below_bound = self
            .promise
            .distance(sample, lately, full_speed, translation, settings)
            .ok_or(NO_HISTOGRAM)?;
        let base_us = full_speed.mean().latency_us_mean * translation;
        self.closed_loop.learn(sample, full_speed, base_us);
        let advice = self.closed_loop.advise(lately, full_speed, settings.windows);
        // As printed, the latency alone steers.
        let advice = advice.filter(|_| settings.coordinated);
        self.reason = match advice {
            _ if below_bound < 0.0 => "no room below the bound",
            None | Some(Advice::Go) => "room below the bound",
            Some(Advice::Wait) => "clients wait for answers: waiting for what the last step did",
            Some(Advice::Back) => "clients wait for answers, and slower ones take more energy each",
        };
        let distance = match advice {
            None | Some(Advice::Go) => below_bound,
            Some(Advice::Wait) => below_bound.min(0.0),
            Some(Advice::Back) => below_bound.min(BACK),
        };
        let merged = (sample.span / settings.window).clamp(1.0, settings.merged_gain_max);
        let blames = match advice {
            Some(Advice::Back) => Some(Blame::AnyStep),
            _ if below_bound < -settings.overshoot_max => Some(Blame::CoarseStep),
            _ => None,
        };
        let is_kept = advice != Some(Advice::Back)
            && self.promise.is_kept(lately, full_speed, translation) == Some(true);
        Ok(Distance { loss: distance * merged, blames, span: sample.span, is_kept })
    }

    /// The load is at this level now; what was tried at another one says nothing.
    pub(super) fn move_to(&mut self, level: Option<Level>) {
        self.level = level;
        if level != self.tried_at {
            self.adaptor.forget_tries();
            self.closed_loop.clear();
            self.tried_at = level;
        }
    }

    /// Lays a window that went much too far to the last step down; whether there was one just before.
    pub(super) fn blame(&mut self, latency: &LatencyObservation) -> bool {
        let mix = Mix::of(latency.read_share, latency.bytes_mean);
        let (Some(mean_us), Some((full_speed, translation))) =
            (latency.latency_us_mean, self.full_speed(mix))
        else {
            return false;
        };
        let loss = mean_us / (full_speed.mean().latency_us_mean * translation) - 1.0;
        let most =
            self.promise.share(full_speed, translation) * (1.0 + self.settings.overshoot_max);
        loss > most && self.adaptor.blame(&self.limits, &self.settings)
    }

    /// The level that the load is at now: the one in force until the load has left it. Clients that
    /// wait for answers ask less often of a slower server, and are at the level that full speed's
    /// rate would be.
    pub(super) fn level_of_load(&self) -> Option<Level> {
        let held = self.level?;
        let Some(lately) = self.stability.over_all_windows() else { return Some(held) };
        let slowed = self.full_speed(lately.mix()).map_or(1.0, |(full_speed, translation)| {
            lately.latency_us_mean / (full_speed.mean().latency_us_mean * translation)
        });
        let may_follow = if self.closed_loop.is_open() { 1.0 } else { slowed };
        if self.baselines.still_at(held, lately, may_follow) {
            return Some(held);
        }
        let follows = if self.closed_loop.is_closed() { slowed } else { 1.0 };
        Some(self.baselines.level_of_slowed(lately, follows))
    }

    /// The baseline of the level in force, and by how much the latency of a mix of requests
    /// differs from it; `None` when it has to be learned.
    pub(super) fn full_speed(&self, mix: Option<Mix>) -> Option<(&Baseline, f64)> {
        let baseline = self.baselines.known(self.level?)?;
        Some((baseline, self.expectation.translation(baseline.mix(), mix)))
    }

    /// Section IV-B: latency or utilisation leaps within one window, or more requests came than
    /// the active cores can take. Background tasks wait for idle cores, so a core that is busy with
    /// them is no sign of a burst.
    pub(super) fn burst_seen(
        &self,
        seen: &Observation,
        latency: &LatencyObservation,
    ) -> Option<&'static str> {
        let LatencyObservation { requests, latency_us_mean, in_flight, .. } = *latency;
        let slow = self
            .late(Mix::of(latency.read_share, latency.bytes_mean))
            .is_some_and(|late| late.is_late(requests, latency_us_mean, in_flight, &self.settings));
        let clients = seen.groups.iter().map(|group| group.utilisation_clients);
        let busy = clients.fold(0.0, f64::max) > self.settings.burst_utilisation;
        if seen.alarm {
            Some("burst: the alarm went off")
        } else if slow {
            Some("burst: the latency leapt")
        } else {
            busy.then_some("burst: the cores are busy")
        }
    }

    /// From when on requests of a mix are as late as those of a burst.
    pub(super) fn late(&self, mix: Option<Mix>) -> Option<Late> {
        let (full_speed, translation) = self.full_speed(mix)?;
        let base_us = full_speed.mean().latency_us_mean * translation;
        let growth = 1.0 + self.promise.share(full_speed, translation) + self.settings.burst_margin;
        // Little's law, or what was seen at full speed where that is more.
        let by_rate = full_speed.mean().rate() * base_us * 1e-6;
        let in_flight = full_speed.mean().in_flight.map_or(by_rate, |seen| seen.max(by_rate));
        Some(Late { base_us, limit_us: base_us * growth, in_flight: in_flight * growth })
    }

    /// What is alarming until the next step.
    pub(super) fn watch_for(&mut self, latency: Option<&LatencyObservation>) {
        let is_stable = self.state == OperatingState::Stable;
        let lately = self.stability.over_all_windows().filter(|_| is_stable);
        let arrivals = lately.and_then(|lately| {
            self.burst.requests_of_a_burst(lately, &self.held.groups, &self.settings)
        });
        let first = (self.state == OperatingState::Idle).then_some(1);
        self.burst.arrivals = arrivals.or(first);
        let mix = latency.and_then(|latency| Mix::of(latency.read_share, latency.bytes_mean));
        self.burst.late = self.late(mix).filter(|_| is_stable);
    }

    /// Keeps what [`wattio_law::Law::insight`] tells of a window, by what was known while it ran.
    pub(super) fn look_back(&mut self, latency: Option<&LatencyObservation>) {
        let Some(latency) = latency.filter(|latency| latency.requests > 0) else { return };
        let mix = Mix::of(latency.read_share, latency.bytes_mean);
        let known = self.full_speed(mix).map(|(full_speed, translation)| {
            let tails_us = self.promise.tails_us(full_speed);
            (
                full_speed.mean().latency_us_mean * translation,
                tails_us.map(|(q, tail_us)| (q, tail_us * translation)).collect(),
            )
        });
        let (baseline_us, tails_us) = known.unzip();
        self.baseline_us = baseline_us;
        self.baseline_tails_us = tails_us.unwrap_or_default();
        self.loss = latency.latency_us_mean.zip(self.baseline_us).map(|(l, base)| l / base - 1.0);
    }
}
