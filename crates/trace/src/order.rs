//! Puts records in the order of time within a bounded window, and counts time from the first.

use crate::Record;
use crate::sink::Sink;

/// Records held back. A record that comes up to this many places too late is put in order.
pub(crate) const WINDOW: usize = 8192;

/// The window between the parser and the caller.
///
/// A record that comes even later than the window reaches (but within
/// [`BACKWARDS_NS_MAX`](crate::sink::BACKWARDS_NS_MAX)) is clamped to the time of the record that
/// was given out last, so that time never goes back.
#[derive(Debug, Default)]
pub(crate) struct Order {
    held: Vec<Record>,
    held_disordered: bool,
    /// The records of `held` that may be given out: sorted, complete.
    ready: usize,
    next: usize,
    first_ns: Option<u64>,
    last_ns: u64,
    clamped: u64,
}

impl Order {
    /// The next record in order, if the window is full enough to tell.
    #[inline]
    pub fn next(&mut self) -> Option<Record> {
        if self.next >= self.ready {
            return None;
        }
        let mut record = self.held[self.next];
        self.next += 1;
        let first_ns = *self.first_ns.get_or_insert(record.time_ns);
        if record.time_ns < self.last_ns {
            record.time_ns = self.last_ns;
            self.clamped += 1;
        }
        self.last_ns = record.time_ns;
        record.time_ns -= first_ns;
        Some(record)
    }

    /// Whether another batch is needed before `next` can give one.
    pub fn wants_more(&self) -> bool {
        self.next >= self.ready
    }

    /// Records whose time was clamped.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Take over the records of a batch.
    pub fn add(&mut self, sink: &mut Sink) {
        self.drop_given();
        self.held.append(&mut sink.records);
        self.held_disordered |= sink.disordered;
        sink.disordered = false;
        if self.held.len() >= 2 * WINDOW {
            self.sort();
            self.ready = self.held.len() - WINDOW;
        }
    }

    /// No more will come: everything held may be given out.
    pub fn finish(&mut self) {
        self.drop_given();
        self.sort();
        self.ready = self.held.len();
    }

    fn drop_given(&mut self) {
        self.held.drain(..self.next);
        self.ready -= self.next;
        self.next = 0;
    }

    fn sort(&mut self) {
        // A stable sort keeps the file's order among requests of the same instant.
        if self.held_disordered {
            self.held.sort_by_key(|record| record.time_ns);
            self.held_disordered = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn ordered(times_ns: &[u64]) -> (Vec<u64>, u64) {
        let mut order = Order::default();
        let mut sink = Sink::default();
        let mut out = Vec::new();
        for batch in times_ns.chunks(1000) {
            for &time_ns in batch {
                let record =
                    Record { time_ns, offset_bytes: 0, bytes: 1, device: 0, kind: Kind::Read };
                sink.push(record).expect("times within reach");
            }
            order.add(&mut sink);
            out.extend(std::iter::from_fn(|| order.next()).map(|record| record.time_ns));
        }
        order.finish();
        out.extend(std::iter::from_fn(|| order.next()).map(|record| record.time_ns));
        (out, order.clamped())
    }

    #[test]
    fn swapped_records_come_out_in_order_and_from_zero() {
        let (times, clamped) = ordered(&[105, 103, 110, 100, 120]);
        assert_eq!(times, [0, 3, 5, 10, 20]);
        assert_eq!(clamped, 0);
    }

    #[test]
    fn a_record_beyond_the_window_is_clamped() {
        let mut times: Vec<u64> = (1000..1000 + 5 * WINDOW as u64).collect();
        times.push(1001);
        let (out, clamped) = ordered(&times);
        assert_eq!(out.len(), times.len());
        assert!(out.is_sorted());
        assert_eq!(clamped, 1);
    }

    #[test]
    fn a_long_trace_in_order_passes_unchanged() {
        let times: Vec<u64> = (0..100_000).collect();
        assert_eq!(ordered(&times), (times, 0));
    }
}
