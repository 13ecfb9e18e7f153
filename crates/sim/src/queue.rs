//! The event queue: a four-ary heap ordered by time.
//!
//! Most events schedule exactly one other. Taking an event therefore leaves a hole at the root,
//! and the next event scheduled fills it with one pass down the heap instead of two.

/// Simulated time in nanoseconds since the start of the run.
pub type Nanoseconds = u64;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug)]
pub struct Event<W> {
    /// When.
    pub at: Nanoseconds,
    /// What.
    pub what: W,
}

/// Pending events. Events of the same time come in an order that depends only on the calls made.
#[derive(Debug)]
pub struct EventQueue<W> {
    heap: Vec<Event<W>>,
    hole: bool,
}

const ARITY: usize = 4;

impl<W: Copy> EventQueue<W> {
    /// An empty queue.
    pub fn new() -> Self {
        Self { heap: Vec::with_capacity(1024), hole: false }
    }

    /// Adds an event.
    #[inline]
    pub fn schedule(&mut self, at: Nanoseconds, what: W) {
        let event = Event { at, what };
        if self.hole {
            self.hole = false;
            self.sift_down(event);
        } else {
            self.heap.push(event);
            self.sift_up(event);
        }
    }

    /// Takes the earliest event.
    #[inline]
    pub fn next(&mut self) -> Option<Event<W>> {
        if self.hole {
            self.close_hole();
        }
        let earliest = self.heap.first().copied();
        self.hole = earliest.is_some();
        earliest
    }

    /// How many events are pending.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.hole)
    }

    #[inline]
    fn close_hole(&mut self) {
        self.hole = false;
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sift_down(last);
        }
    }

    /// Puts `event` at the root and moves it down to its place.
    #[inline]
    fn sift_down(&mut self, event: Event<W>) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let least = if let Some(children) = heap.get(first..first + ARITY) {
                let left = usize::from(children[1].at < children[0].at);
                let right = 2 + usize::from(children[3].at < children[2].at);
                if children[right].at < children[left].at { first + right } else { first + left }
            } else {
                let rest = heap.get(first..).unwrap_or_default();
                match rest.iter().enumerate().min_by_key(|(_, child)| child.at) {
                    Some((offset, _)) => first + offset,
                    None => break,
                }
            };
            if heap[least].at >= event.at {
                break;
            }
            heap[at] = heap[least];
            at = least;
        }
        heap[at] = event;
    }

    /// Moves `event`, which stands last, up to its place.
    #[inline]
    fn sift_up(&mut self, event: Event<W>) {
        let heap = self.heap.as_mut_slice();
        let mut at = heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if heap[parent].at <= event.at {
                break;
            }
            heap[at] = heap[parent];
            at = parent;
        }
        heap[at] = event;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list, with takes and schedules in any order.
        #[test]
        fn events_come_in_order_of_time(steps in proptest::collection::vec(0u64..1000, 0..400)) {
            let mut queue = EventQueue::new();
            let mut sorted: Vec<u64> = Vec::new();
            for step in steps {
                if step % 3 == 0 {
                    let expected = (!sorted.is_empty()).then(|| sorted.remove(0));
                    prop_assert_eq!(queue.next().map(|event| event.at), expected);
                } else {
                    queue.schedule(step, ());
                    sorted.insert(sorted.partition_point(|&at| at <= step), step);
                }
                prop_assert_eq!(queue.len(), sorted.len());
            }
        }
    }
}
