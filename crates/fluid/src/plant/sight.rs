//! What a law sees of a fluid server.

use super::FluidServer;
use crate::demand::{Class, Demand};
use crate::steady::Steady;
use crate::sums::Sums;
use crate::tail::{Kind, Spread};
use std::sync::Arc;
use wattio_law::{GroupObservation, InFlight, LatencyObservation};
use wattio_units::Seconds;

impl FluidServer {
    /// The equilibrium of what flowed last; at a change of load, that before it.
    fn flowed(&mut self) -> Arc<Steady> {
        match &self.flowed {
            Some((steady, _)) => steady.clone(),
            None => self.equilibrium().clone(),
        }
    }

    /// What the requests asked for that flowed last; at a change of load, those before it.
    fn demand_flowed(&self) -> &Demand {
        let at = self.flowed.as_ref().map_or(self.stretch.demand, |&(_, demand)| demand);
        &self.load.demands[at as usize]
    }

    /// Turns expected sums into drawn ones.
    pub(super) fn draw(&mut self, sums: &mut Sums) {
        let steady = self.flowed();
        let arrived = self.counts.poisson(sums.arrived);
        let completed = (sums.completed + arrived - sums.arrived).round().max(0.0);
        let scale = if sums.completed > 0.0 { completed / sums.completed } else { 0.0 };
        let mean_s = if sums.completed > 0.0 { sums.latency_s / sums.completed } else { 0.0 };
        let read_share = if sums.completed > 0.0 { sums.reads / sums.completed } else { 0.0 };
        sums.arrived = arrived;
        sums.completed = completed;
        sums.bytes *= scale;
        for at in 0..self.server.groups.len() {
            let group = &self.groups[at];
            let more = sums.clients[at] * (scale - 1.0);
            sums.clients[at] += more;
            sums.cores_j += more * (group.running_w - group.idle_w);
        }
        if completed <= 0.0 {
            (sums.reads, sums.latency_s) = (0.0, 0.0);
            return;
        }
        let spread = (read_share * (1.0 - read_share)).max(0.0).sqrt() / completed.sqrt();
        let off = if spread > 0.0 { spread * self.counts.normal() } else { 0.0 };
        let drawn_share = (read_share + off).clamp(0.0, 1.0);
        let of_mix = (steady.latency_read_s - steady.latency_write_s) * (drawn_share - read_share);
        let error_s = (steady.variance_s2 / completed).sqrt() * self.counts.normal();
        // A mean is never below what requests take without a wait; half of it is taken for that.
        let drawn_s = (mean_s + of_mix + error_s).max(0.5 * mean_s);
        sums.reads = (drawn_share * completed).round();
        sums.latency_s = drawn_s * completed;
    }

    /// The requests under way now: those of what flowed until now. Where the load or the setting
    /// changes at this moment, what comes has no equilibrium yet.
    pub(super) fn in_flight(&self) -> InFlight {
        self.under_way
    }

    /// Looks at the requests under way. Of those who send whatever the server does as many are by
    /// chance as come by chance; always as many are a sign of clients that wait, to laws.
    pub(super) fn look_at_in_flight(&mut self) {
        let steady = self.flowed();
        let (served, latency_s) = (steady.served, steady.latency_s);
        let inside_s = (latency_s - self.server.network.0).max(0.0);
        let mean = (served * inside_s + self.waiting).min(self.clients);
        let requests = match (self.settings.noise, self.settings.clients) {
            (true, Some(clients)) => self.counts.binomial(clients, mean / self.clients),
            (true, None) => self.counts.poisson(mean),
            (false, _) => mean.round(),
        };
        let oldest_s = inside_s + if served > 0.0 { self.waiting / served } else { 0.0 };
        let requests = requests as u64;
        let oldest = (requests > 0).then_some(Seconds(oldest_s));
        self.under_way = InFlight { requests, oldest };
    }

    /// How the latencies of a window of this mean spread: as in equilibrium, scaled.
    fn spread(&mut self, mean_s: f64) -> &Spread {
        let steady = self.flowed();
        let scale = mean_s / steady.latency_s;
        // Drawn means to a five-hundredth or so, for windows that differ by less are alike.
        let log = scale.max(1e-9).ln() * 500.0;
        let grain = if self.settings.noise { log.round() } else { log };
        let known = self.spread.take().filter(|(of, at, _)| *of == steady && *at == grain);
        let found = known.unwrap_or_else(|| {
            let demand = self.demand_flowed();
            let us = 1e6 * (grain / 500.0).exp();
            let kind = |(class, (mean_s, variance_s2)): (&Class, (f64, f64))| Kind {
                share: class.share,
                mean_us: mean_s * us,
                deviation_us: variance_s2.sqrt() * us,
                least_us: class.least_s(&self.server, &self.setting) * us.min(1e6),
            };
            let kinds = demand.classes.iter().zip(steady.kinds).map(kind);
            let present = kinds.filter(|kind| kind.share > 0.0 && kind.mean_us > 0.0);
            let present: Vec<Kind> = present.collect();
            (steady, grain, Spread::of(&present))
        });
        &self.spread.insert(found).2
    }

    pub(super) fn latency(&mut self) -> LatencyObservation {
        let window = self.window;
        let requests = window.completed.round();
        let in_flight = self.in_flight();
        let mut latency = LatencyObservation {
            arrived: Some(window.arrived.round() as u64),
            in_flight: Some(in_flight),
            ..LatencyObservation::quiet(Seconds(0.0))
        };
        if requests >= 1.0 {
            latency.requests = requests as u64;
            latency.latency_us_mean = Some(window.latency_s / window.completed * 1e6);
            latency.bytes_mean = Some(window.bytes / window.completed);
            latency.read_share = Some(window.reads / window.completed);
            if self.settings.tails {
                let spread = self.spread(window.latency_s / window.completed);
                latency.histogram = Some(spread.histogram(requests as u64));
            }
        }
        if self.settings.tails && window.completed > 0.0 {
            let mut latencies = std::mem::take(&mut self.latencies);
            self.spread(window.latency_s / window.completed)
                .add_to(&mut latencies, window.completed);
            self.latencies = latencies;
        }
        latency
    }

    pub(super) fn groups_seen(&self) -> Vec<GroupObservation> {
        let window = &self.window;
        let group = |at: usize| {
            let group = &self.groups[at];
            let powered = window.powered[at].max(1e-12);
            GroupObservation {
                cores: group.target,
                frequency: group.frequency,
                utilisation_clients: (window.clients[at] / powered).min(1.0),
                utilisation_background: (window.background[at] / powered).min(1.0),
                queued: Some(self.queued(at)),
                waited_for_drives: window.completed > 0.0
                    && self.demand_flowed().classes.iter().any(|class| class.returns_to(at)),
            }
        };
        (0..self.server.groups.len()).map(group).collect()
    }

    /// Tasks that wait for a core of a group.
    fn queued(&self, at: usize) -> u64 {
        let Some((steady, _)) = &self.flowed else { return 0 };
        let flow = steady.served * self.demand_flowed().groups[at].count;
        let backlog = if at == steady.bottleneck { self.waiting.min(self.clients) } else { 0.0 };
        (flow * steady.waits[at].mean_s + backlog).round() as u64
    }
}
