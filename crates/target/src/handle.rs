//! A handle to the running reactors: queries and orders from any thread.

use crate::reactor::{Halt, Loads, Moves, Order, Published, Shared};
use crate::status::{ReactorStatus, each_volume_once};
use crate::volume::Rates;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// How long a reactor may take to say how it stands.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The same of what its connections and volumes ask for: whoever governs the target waits.
const LOADS_MAX: Duration = Duration::from_millis(200);

/// How often reactors are asked for a volume that none of them has: it is on its way from one to
/// another, where the next question comes behind it.
const ASKS_MAX: usize = 3;

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
        let mut reactors = Vec::new();
        for _ in 0..ASKS_MAX {
            reactors = self.ask(most, Order::Status);
            reactors.sort_by_key(|reactor| reactor.number);
            each_volume_once(&mut reactors);
            let volumes: usize = reactors.iter().map(|reactor| reactor.volumes.len()).sum();
            // What one has that does not answer is not on its way.
            let has_answers = reactors.len() == self.shared.reactors();
            if !has_answers || volumes == self.shared.exports().len() {
                break;
            }
        }
        reactors
    }

    /// Begins a tour of the scrub through a volume, or through all; the names of those, and `None` if
    /// there is no such export. A volume whose reactor does not answer is not among them.
    #[must_use]
    pub fn scrub(&self, export: Option<&str>) -> Option<Vec<String>> {
        let all = self.shared.exports().iter().map(String::as_str);
        let wanted: Vec<&str> =
            all.filter(|name| export.is_none_or(|export| export == *name)).collect();
        if wanted.is_empty() {
            return None;
        }
        let order = |answer| Order::Scrub { export: export.map(str::to_owned), answer };
        let mut begun = BTreeSet::new();
        for _ in 0..ASKS_MAX {
            let answers = self.ask(ANSWER_MAX, order);
            let has_answers = answers.len() == self.shared.reactors();
            begun.extend(answers.into_iter().flatten());
            if !has_answers || wanted.iter().all(|name| begun.contains(*name)) {
                break;
            }
        }
        Some(begun.into_iter().collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::VolumeStatus;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Two reactors; the volume `b` reaches the second one behind the first question.
    fn reactors(shared: &Shared, has_ended: &AtomicBool) {
        let mut has_arrived = false;
        while !has_ended.load(Ordering::Acquire) {
            for number in 0..2 {
                for order in shared.take_orders(number) {
                    let names = match (number, has_arrived) {
                        (0, _) => vec!["a".to_owned()],
                        (_, false) => Vec::new(),
                        (_, true) => vec!["b".to_owned()],
                    };
                    answer(order, number, names);
                    has_arrived |= number == 1;
                }
            }
            std::thread::yield_now();
        }
    }

    fn answer(order: Order, number: usize, names: Vec<String>) {
        match order {
            Order::Scrub { export, answer } => {
                let is_wanted = |name: &String| export.as_ref().is_none_or(|export| export == name);
                answer.send(names.into_iter().filter(is_wanted).collect()).unwrap();
            }
            Order::Status(answer) => {
                let volume = |export| VolumeStatus { export, ..VolumeStatus::default() };
                let volumes = names.into_iter().map(volume).collect();
                answer.send(ReactorStatus { number, volumes, ..Default::default() }).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }

    /// What is asked while a volume is on its way.
    fn asked<T>(ask: impl FnOnce(&Handle) -> T) -> T {
        let shared = Arc::new(Shared::new(2, vec!["a".to_owned(), "b".to_owned()]));
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| reactors(&shared, &has_ended));
            let told = ask(&Handle::new(Arc::clone(&shared)));
            has_ended.store(true, Ordering::Release);
            told
        })
    }

    /// It was missing in the status, and "no export is named" so.
    #[test]
    fn a_volume_on_its_way_to_another_reactor_is_asked_for_again() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(asked(|handle| handle.scrub(Some("b"))), Some(names(&["b"])));
        assert_eq!(asked(|handle| handle.scrub(None)), Some(names(&["a", "b"])));
        assert_eq!(asked(|handle| handle.scrub(Some("c"))), None);
        let status = asked(Handle::status);
        let all = status.iter().flat_map(|reactor| &reactor.volumes);
        assert_eq!(all.map(|volume| &volume.export[..]).collect::<Vec<_>>(), ["a", "b"]);
    }
}
