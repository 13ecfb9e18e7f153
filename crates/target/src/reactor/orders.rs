//! Orders: rare instructions to a reactor from other threads.

use super::link::Hand;
use super::shutdown::Stopping;
use super::{Loads, Moves, Order, Reactor, random};
use crate::log::{Priority, log};
use crate::normal::Moving;
use crate::status::{ReactorStatus, VolumeStatus};
use std::time::Instant;

impl Reactor {
    pub(super) fn order(&mut self, order: Order) {
        match order {
            Order::Connection(accepted) => self.normal.connect(&mut self.ring, accepted),
            Order::Status(answer) => {
                // Who asked may have gone.
                let _ = answer.send(self.status());
            }
            Order::Arrive(moving) => self.arrive(*moving),
            Order::ArriveVolume(moving) => {
                let volume = self.volumes.arrive(&mut self.ring, *moving);
                if let Some(lane) = self.volumes.get(volume) {
                    lane.set_budgets(self.rates, Instant::now());
                }
                self.shared.taken();
                self.normal.found(volume, self.number);
                self.tell_others(&Hand::Here, volume);
            }
            Order::Loads(answer) => {
                let volumes = self.volumes.named();
                let volumes = volumes.map(|(number, _, lane)| (number, lane.requests())).collect();
                let (reactor, connections) = (self.number, self.normal.loads());
                let _ = answer.send(Loads { reactor, connections, volumes });
            }
            Order::Move(moves) => self.let_leave(moves),
            Order::Park(is_parked) => self.is_parked = is_parked,
            Order::Budgets(rates) => {
                self.rates = rates;
                let now = Instant::now();
                self.volumes.lanes().for_each(|(_, lane)| lane.set_budgets(rates, now));
            }
            Order::Scrub { export, answer } => {
                let chosen = |name: &str| export.as_ref().is_none_or(|export| export == name);
                let all = self.volumes.named().filter(|(_, name, _)| chosen(name));
                let all: Vec<_> = all.map(|(number, name, _)| (number, name.to_owned())).collect();
                for &(number, _) in &all {
                    if let Some(lane) = self.volumes.get(number) {
                        lane.scrub_now(Instant::now(), random());
                    }
                }
                let _ = answer.send(all.into_iter().map(|(_, name)| name).collect());
            }
        }
    }

    fn arrive(&mut self, moving: Moving) {
        if let Err(error) = self.normal.arrive(&mut self.ring, &mut self.memory, moving) {
            log(Priority::Warning, &format!("a connection that moved is closed: {error}"));
        }
        self.shared.taken();
    }

    /// Begins to let connections and volumes go; not while the target stops.
    fn let_leave(&mut self, moves: Moves) {
        self.normal.stay(&mut self.ring, &mut self.memory);
        self.volumes.stay();
        if self.stopping != Stopping::No {
            return;
        }
        for leaver in moves.connections {
            self.normal.leave(&mut self.ring, leaver);
        }
        self.let_volumes_leave(moves.volumes);
    }

    /// Begins to let volumes go that could not while their devices were at a flush.
    pub(super) fn let_others_leave(&mut self) {
        if self.stopping == Stopping::No {
            let leavers = self.volumes.leavers();
            self.let_volumes_leave(leavers);
        }
    }

    fn let_volumes_leave(&mut self, volumes: Vec<(usize, usize)>) {
        let others = self.shared.reactors() - 1;
        for (volume, to) in volumes {
            if to != self.number && self.volumes.leave(volume, to, others) {
                self.normal.hold(volume);
                self.tell_others(&Hand::Hold, volume);
            }
        }
    }

    fn tell_others(&mut self, word: &dyn Fn(usize) -> Hand, volume: usize) {
        let others = (0..self.shared.reactors()).filter(|&other| other != self.number);
        self.words.extend(others.map(|other| (other, word(volume))));
    }

    fn status(&self) -> ReactorStatus {
        let volumes = self.volumes.named();
        let volumes = volumes.map(|(_, name, lane)| {
            VolumeStatus::of(name, lane.volume(), lane.opening(), lane.in_flight())
        });
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        ReactorStatus {
            number: self.number,
            connections: self.normal.connections(),
            in_flight: self.normal.in_flight(),
            turns: self.turns,
            processor_s: time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9,
            busy_s: self.busy.as_secs_f64(),
            reads: self.normal.latencies().reads.summary(),
            writes: self.normal.latencies().writes.summary(),
            others: self.normal.latencies().others.summary(),
            lane: self.normal.counters(),
            volumes: volumes.collect(),
        }
    }
}
