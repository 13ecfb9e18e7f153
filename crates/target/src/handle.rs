//! A handle to the running reactors: queries and orders from any thread.

use crate::reactor::{Halt, Loads, Moves, Order, Published, Shared};
use crate::status::{ReactorStatus, each_volume_once};
use crate::volume::Rates;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// How long a reactor may take to say how it stands.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The same of what its connections and volumes ask for: whoever governs the target waits.
const LOADS_MAX: Duration = Duration::from_millis(200);

/// Asks and orders, from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Asks all reactors how they stand. One that does not answer is left out.
    #[must_use]
    pub fn status(&self) -> Vec<ReactorStatus> {
        self.status_within(ANSWER_MAX)
    }

    /// The same for whoever governs the target, and waits no longer than that allows.
    #[must_use]
    pub fn status_soon(&self) -> Vec<ReactorStatus> {
        self.status_within(LOADS_MAX)
    }

    fn status_within(&self, most: Duration) -> Vec<ReactorStatus> {
        let mut reactors = self.ask(most, Order::Status);
        reactors.sort_by_key(|reactor| reactor.number);
        each_volume_once(&mut reactors);
        reactors
    }

    /// Begins a tour of the scrub through a volume, or through all; the names of those.
    #[must_use]
    pub fn scrub(&self, export: Option<&str>) -> Vec<String> {
        let order = |answer| Order::Scrub { export: export.map(str::to_owned), answer };
        self.ask(ANSWER_MAX, order).into_iter().flatten().collect()
    }

    /// Asks all reactors what their connections and volumes ask for. One that does not answer is
    /// left out.
    #[must_use]
    pub fn loads(&self) -> Vec<Loads> {
        let mut loads = self.ask(LOADS_MAX, Order::Loads);
        loads.sort_by_key(|load| load.reactor);
        loads
    }

    /// Has a reactor let connections and volumes go.
    pub fn move_from(&self, reactor: usize, moves: Moves) {
        self.shared.order(reactor, Order::Move(moves));
    }

    /// Says whether a reactor gets new connections.
    pub fn set_accepting(&self, reactor: usize, accepts: bool) {
        self.shared.set_accepting(reactor, accepts);
    }

    /// Says whether a reactor gets new connections, and whether it may look for work or sleeps when
    /// there is none.
    pub fn set_active(&self, reactor: usize, is_active: bool) {
        self.shared.set_accepting(reactor, is_active);
        self.shared.order(reactor, Order::Park(!is_active));
    }

    /// What a reactor publishes.
    #[must_use]
    pub fn published(&self, reactor: usize) -> &Published {
        self.shared.published(reactor)
    }

    /// Says how much of a core's time background work of each volume may take.
    pub fn set_budgets(&self, rates: Rates) {
        for reactor in 0..self.shared.reactors() {
            self.shared.order(reactor, Order::Budgets(rates));
        }
    }

    /// How many reactors there are.
    #[must_use]
    pub fn reactors(&self) -> usize {
        self.shared.reactors()
    }

    fn ask<T>(&self, most: Duration, order: impl Fn(Sender<T>) -> Order) -> Vec<T> {
        let (answer, answers) = channel();
        for reactor in 0..self.shared.reactors() {
            self.shared.order(reactor, order(answer.clone()));
        }
        drop(answer);
        let until = Instant::now() + most;
        let left = || until.saturating_duration_since(Instant::now());
        std::iter::from_fn(|| answers.recv_timeout(left()).ok()).collect()
    }

    /// Answers what is under way, closes the volumes, and ends.
    pub fn stop(&self) {
        self.shared.stop(Halt::Orderly);
    }
}
