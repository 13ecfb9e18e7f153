//! How a fluid server gets from one change to the next.

use super::FluidServer;
use crate::memo::Key;
use crate::steady::Steady;
use crate::sums::Sums;
use std::sync::Arc;
use wattio_plant::GROUPS_MAX;

impl FluidServer {
    /// The equilibrium of the present rate and setting, or of the greatest rate that is served.
    pub(super) fn equilibrium(&mut self) -> &Arc<Steady> {
        let steady = self.steady.take().unwrap_or_else(|| self.new_equilibrium());
        self.steady.insert(steady)
    }

    fn new_equilibrium(&mut self) -> Arc<Steady> {
        let demand = &self.load.demands[self.stretch.demand as usize];
        let mut key = Key { rate: self.rate(), demand: self.stretch.demand, setting: self.setting };
        let mut steady = self.memo.get(&key, &self.server, demand, self.clients);
        let full = self.waiting > 0.0 || key.rate > steady.served;
        if full || steady.served * steady.latency_s > self.clients {
            key.rate = f64::INFINITY;
            let most = self.memo.get(&key, &self.server, demand, self.clients);
            if full || most.served < steady.served {
                steady = most;
            }
        }
        steady
    }

    /// Goes on to `until` or to the next time at which anything changes.
    pub(super) fn flow(&mut self, until_ns: u64, sums: &mut Sums) {
        let steady = self.equilibrium().clone();
        self.flowed = Some((steady.clone(), self.stretch.demand));
        let rate = self.rate();
        let mut end_ns = until_ns.min(self.stretch.until_ns).min(self.slot_end_ns);
        let groups = self.server.groups.len();
        let mut growth = [0.0; GROUPS_MAX];
        for (at, growth) in growth.iter_mut().enumerate().take(groups) {
            end_ns = end_ns.min(self.groups[at].on_at).min(self.groups[at].off_at);
            *growth = self.due_rate[at] - steady.done[at];
            if *growth < 0.0 && self.backlog[at] > 0.0 {
                end_ns = end_ns.min(self.after(self.backlog[at] / -*growth));
            }
        }
        let queue_growth = rate - steady.served;
        if self.waiting > 0.0 && queue_growth < 0.0 {
            end_ns = end_ns.min(self.after(self.waiting / -queue_growth));
        }
        let dt = (end_ns - self.now_ns) as f64 * 1e-9;
        self.now_ns = end_ns;
        let waiting_before = self.waiting;
        let overloaded = self.waiting > 0.0 || queue_growth > 1e-9 * rate;
        if overloaded {
            self.waiting = (self.waiting + queue_growth * dt).max(0.0);
            if self.waiting < 1e-6 {
                self.waiting = 0.0;
            }
        }
        self.add_flow(&steady, rate, dt, 0.5 * (waiting_before + self.waiting), sums);
        self.pass_backlog(&growth, dt);
        self.pass_boundaries(waiting_before);
    }

    fn after(&self, seconds: f64) -> u64 {
        self.now_ns + ((seconds * 1e9).min(1e18) as u64).max(1)
    }

    fn add_flow(&self, steady: &Steady, rate: f64, dt: f64, waiting: f64, sums: &mut Sums) {
        let served = if waiting > 0.0 { steady.served } else { rate };
        let completed = served * dt;
        let mut latency_s = steady.latency_s;
        if waiting > 0.0 && served > 0.0 {
            // Clients who have no request to spare keep the rest outside of the server.
            latency_s = (latency_s + waiting / served).min((self.clients / served).max(latency_s));
        }
        let demand = self.demand();
        sums.span_s += dt;
        sums.arrived += rate * dt;
        sums.completed += completed;
        sums.reads += completed * demand.mix.read_share;
        sums.bytes += completed * demand.mix.bytes_mean;
        sums.latency_s += completed * latency_s;
        for at in 0..self.server.groups.len() {
            let group = &self.groups[at];
            let clients = completed * demand.groups[at].time_s * group.stretch;
            let background = steady.done[at] * group.stretch * dt;
            let powered = f64::from(group.powered) * dt;
            sums.clients[at] += clients;
            sums.background[at] += background;
            sums.powered[at] += powered;
            sums.cores_j +=
                powered * group.idle_w + (clients + background) * (group.running_w - group.idle_w);
            sums.done += steady.done[at] * dt;
            sums.due += self.due_rate[at] * dt;
        }
        sums.drives_j += steady.drives.power_w * dt;
    }

    fn pass_backlog(&mut self, growth: &[f64; GROUPS_MAX], dt: f64) {
        for (at, &growth) in growth.iter().enumerate().take(self.server.groups.len()) {
            let before = self.backlog[at];
            // What rounding leaves is none.
            let grown = before + if growth.abs() > 1e-9 { growth * dt } else { 0.0 };
            let after = if grown < 1e-9 { 0.0 } else { grown.min(self.backlog_max(at)) };
            self.backlog[at] = after;
            if (before > 0.0) != (after > 0.0) && self.budgets[at].is_some() {
                self.reset_setting();
            }
        }
    }

    fn pass_boundaries(&mut self, waiting_before: f64) {
        let now = self.now_ns;
        let mut changed = (waiting_before > 0.0) != (self.waiting > 0.0);
        if now >= self.stretch.until_ns {
            self.at += 1;
            self.stretch = self.load.stretch(self.at);
            changed = true;
        }
        if now >= self.slot_end_ns {
            self.enter_slot();
            changed = true;
        }
        for at in 0..self.server.groups.len() {
            changed |= self.groups[at].settle(now);
        }
        if changed {
            self.reset_setting();
        }
    }
}
