//! Which slot is to blame for a queue.
//!
//! A slot that falls behind leaves requests to the next one, which pays for them. To let a choice
//! by slots see the cause, a slot is charged for the requests that it leaves and credited for those
//! that it found. The price is how long they wait until a server at full speed has worked them off,
//! computed as a fluid with the run's arrivals and the server's capacity. Over a run, charges and
//! credits cancel.

use super::measure::Slot;
use wattio_plant::Server;

/// What requests wait that are left over at the start of a slot.
#[derive(Clone, Debug)]
pub struct Debts {
    /// Arrivals in each slot and its length in seconds.
    slots: Vec<(f64, f64)>,
    /// Requests that full speed serves in a second.
    capacity: f64,
}

/// A debt is followed over so many slots.
const SLOTS_MAX: usize = 2000;

impl Debts {
    /// Debts in a run that goes like this at full speed.
    pub fn new(server: &Server, native: &[Slot]) -> Self {
        let arrived: f64 = native.iter().map(|slot| slot.arrived).sum();
        let groups = server.groups.iter().enumerate().map(|(at, group)| {
            let busy = native.iter().map(|slot| slot.clients.get(at).unwrap_or(&0.0) * slot.span_s);
            let busy_s: f64 = busy.sum();
            if busy_s > 0.0 { f64::from(group.cores) * arrived / busy_s } else { f64::INFINITY }
        });
        let capacity = groups.fold(f64::INFINITY, f64::min);
        Self { slots: native.iter().map(|slot| (slot.arrived, slot.span_s)).collect(), capacity }
    }

    /// What so many requests, and those that come after them, wait in request-seconds when they are
    /// left over at the start of slot `at`.
    pub fn cost_s(&self, at: usize, left: f64) -> f64 {
        let mut left = left;
        let mut cost_s = 0.0;
        for &(arrived, span_s) in self.slots.iter().skip(at).take(SLOTS_MAX) {
            if left <= 0.0 || self.capacity.is_infinite() {
                break;
            }
            let growth = arrived / span_s - self.capacity;
            let empty_after_s = if growth < 0.0 { left / -growth } else { f64::INFINITY };
            let busy_s = span_s.min(empty_after_s);
            let after = (left + growth * busy_s).max(0.0);
            cost_s += f64::midpoint(left, after) * busy_s;
            left = after;
        }
        cost_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_waits_until_it_is_worked_off() {
        let debts = Debts { slots: vec![(50.0, 1.0), (100.0, 1.0), (0.0, 1.0)], capacity: 100.0 };
        // 25 left, worked off at 50 a second.
        assert_eq!(debts.cost_s(0, 25.0), 0.5 * 25.0 * 0.5);
        // 50 stay for a second, then go at 100 a second.
        assert_eq!(debts.cost_s(1, 50.0), 50.0 + 0.5 * 50.0 * 0.5);
        assert_eq!(debts.cost_s(3, 50.0), 0.0, "the run is over");
    }
}
