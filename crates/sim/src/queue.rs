//! The event queue: a four-ary heap ordered by time.
//!
//! Most events schedule exactly one other. So removing an event leaves a hole at the root, and the
//! next scheduled event fills it with one pass down the heap instead of two.

use std::marker::PhantomData;

/// Simulated time in nanoseconds since the start of the run.
pub type Nanoseconds = u64;

/// An event and its time.
#[derive(Clone, Copy, Debug)]
pub struct Scheduled<W> {
    /// When.
    pub at: Nanoseconds,
    /// What.
    pub what: W,
}

/// What fits into a number. Two numbers make an event, and a processor chooses between numbers
/// without a jump.
pub trait Packed {
    /// As a number.
    fn pack(self) -> u64;
    /// From the number that [`Packed::pack`] made.
    fn unpack(packed: u64) -> Self;
}

/// Pending events. Events of the same time come in an order that depends only on the calls made.
#[derive(Debug)]
pub struct EventQueue<W> {
    /// The earliest event.
    root: Node,
    /// The four children of each node, the root's first: node n > 0 is the child (n - 1) % 4 of
    /// node (n - 1) / 4. What lies behind the last event is [`NEVER`].
    children: Vec<[Node; ARITY]>,
    /// Nodes in use.
    nodes: usize,
    /// Whether the root's event was taken and its place is free.
    hole: bool,
    of: PhantomData<W>,
}

/// An event.
#[derive(Clone, Copy, Debug)]
struct Node {
    at: Nanoseconds,
    what: u64,
}

const ARITY: usize = 4;
/// Families of children that there is always room for: those of the levels that
/// [`EventQueue::sift_down`] goes through without asking.
const FAMILIES_MIN: usize = 1 + ARITY + ARITY * ARITY;
/// Later than all events.
const NEVER: Node = Node { at: Nanoseconds::MAX, what: 0 };

impl<W: Packed> EventQueue<W> {
    /// An empty queue.
    pub fn new() -> Self {
        let children = vec![[NEVER; ARITY]; FAMILIES_MIN];
        Self { root: NEVER, children, nodes: 0, hole: false, of: PhantomData }
    }

    /// Adds an event.
    #[inline]
    pub fn schedule(&mut self, at: Nanoseconds, what: W) {
        let event = Node { at, what: what.pack() };
        if self.hole {
            self.hole = false;
            self.sift_down(event);
        } else {
            self.sift_up(event);
        }
    }

    /// Takes the earliest event.
    #[inline]
    pub fn next(&mut self) -> Option<Scheduled<W>> {
        if self.hole {
            self.close_hole();
        }
        self.hole = self.nodes > 0;
        self.hole.then(|| Scheduled { at: self.root.at, what: W::unpack(self.root.what) })
    }

    /// How many events are pending.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.nodes - usize::from(self.hole)
    }

    #[inline]
    fn close_hole(&mut self) {
        self.hole = false;
        self.nodes -= 1;
        if let Some(last) = self.nodes.checked_sub(1)
            && let Some(family) = self.children.get_mut(last / ARITY)
        {
            let last = std::mem::replace(&mut family[last % ARITY], NEVER);
            self.sift_down(last);
        }
    }

    /// Puts `event` at the root and moves it down to its place: the first of the earliest children
    /// comes up as long as it is earlier.
    ///
    /// How deep an event goes nobody can guess, a processor neither. The three levels that a quiet
    /// server's events take are therefore gone through without a jump: at each, what stays, what
    /// comes up and the event are chosen between.
    #[inline]
    fn sift_down(&mut self, event: Node) {
        let Some(families) = self.children.first_chunk_mut::<FAMILIES_MIN>() else { return };
        let one = earliest(&families[0]);
        let two_of = 1 + one;
        let two = earliest(&families[two_of]);
        let three_of = (ARITY * two_of + two + 1) % FAMILIES_MIN;
        let three = earliest(&families[three_of]);
        let (first, second, third) =
            (families[0][one], families[two_of][two], families[three_of][three]);
        let (up, up_again, up_thrice) =
            (first.at < event.at, second.at < event.at, third.at < event.at);
        self.root = choose(up, first, event);
        families[0][one] = choose(up, choose(up_again, second, event), first);
        families[two_of][two] = choose(up_again, choose(up_thrice, third, event), second);
        families[three_of][three] = choose(up_thrice, event, third);
        if self.nodes > 1 + ARITY * FAMILIES_MIN && up_thrice {
            self.sift_on(three_of, three, event);
        }
    }

    /// Moves `event` further down from where it is.
    fn sift_on(&mut self, mut family: usize, mut child: usize, event: Node) {
        let children = self.children.as_mut_slice();
        loop {
            let below = ARITY * family + child + 1;
            let Some(four) = children.get(below) else { return };
            let least = earliest(four);
            let first = four[least];
            if first.at >= event.at {
                return;
            }
            children[family][child] = first;
            children[below][least] = event;
            (family, child) = (below, least);
        }
    }

    /// Adds `event` behind the last one and moves it up to its place.
    #[inline]
    fn sift_up(&mut self, event: Node) {
        let mut at = self.nodes;
        self.nodes += 1;
        if at > self.children.len() * ARITY {
            self.children.resize(2 * self.children.len(), [NEVER; ARITY]);
        }
        while at > 0 {
            let (family, child) = ((at - 1) / ARITY, (at - 1) % ARITY);
            let parent = match family.checked_sub(1) {
                None => self.root,
                Some(parent) => self.children[parent / ARITY][parent % ARITY],
            };
            if parent.at <= event.at {
                self.children[family][child] = event;
                return;
            }
            self.children[family][child] = parent;
            at = family;
        }
        self.root = event;
    }
}

/// Which child is the earliest; of several the first.
#[inline]
fn earliest(four: &[Node; ARITY]) -> usize {
    let [zeroth, first, second, third] = [four[0].at, four[1].at, four[2].at, four[3].at];
    let (left, left_at) = if first < zeroth { (1, first) } else { (0, zeroth) };
    let (right, right_at) = if third < second { (3, third) } else { (2, second) };
    if right_at < left_at { right } else { left }
}

/// One of two events.
#[inline]
fn choose(first: bool, one: Node, other: Node) -> Node {
    Node {
        at: if first { one.at } else { other.at },
        what: if first { one.what } else { other.what },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Packed for u64 {
        fn pack(self) -> u64 {
            self
        }
        fn unpack(packed: u64) -> Self {
            packed
        }
    }

    /// A heap as it stands in books, four children to a node: the slow reference also for the
    /// order of events of one time.
    #[derive(Default)]
    struct Textbook {
        heap: Vec<(u64, u64)>,
        hole: bool,
    }

    impl Textbook {
        fn schedule(&mut self, at: u64, what: u64) {
            if std::mem::take(&mut self.hole) {
                return self.sift_down((at, what));
            }
            let mut place = self.heap.len();
            self.heap.push((at, what));
            while place > 0 && self.heap[(place - 1) / 4].0 > at {
                self.heap.swap(place, (place - 1) / 4);
                place = (place - 1) / 4;
            }
        }

        fn next(&mut self) -> Option<(u64, u64)> {
            if std::mem::take(&mut self.hole)
                && let Some(last) = self.heap.pop()
                && !self.heap.is_empty()
            {
                self.sift_down(last);
            }
            self.hole = !self.heap.is_empty();
            self.heap.first().copied()
        }

        fn sift_down(&mut self, event: (u64, u64)) {
            let mut place = 0;
            self.heap[0] = event;
            while let Some(least) =
                (4 * place + 1..self.heap.len().min(4 * place + 5)).min_by_key(|&c| self.heap[c].0)
                && self.heap[least].0 < event.0
            {
                self.heap.swap(place, least);
                place = least;
            }
        }
    }

    proptest! {
        #[test]
        fn events_of_one_time_come_as_from_the_textbook(
            steps in proptest::collection::vec((0u64..5, 0u64..60), 0..3000),
        ) {
            let (mut queue, mut textbook) = (EventQueue::new(), Textbook::default());
            for (number, (step, at)) in steps.into_iter().enumerate() {
                if step < 2 {
                    let next = queue.next().map(|event: Scheduled<u64>| (event.at, event.what));
                    prop_assert_eq!(next, textbook.next());
                } else {
                    queue.schedule(at, number as u64);
                    textbook.schedule(at, number as u64);
                }
            }
            while let Some(event) = queue.next() {
                prop_assert_eq!(Some((event.at, event.what)), textbook.next());
            }
            prop_assert_eq!(textbook.next(), None);
        }

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
                    queue.schedule(step, 0_u64);
                    sorted.insert(sorted.partition_point(|&at| at <= step), step);
                }
                prop_assert_eq!(queue.len(), sorted.len());
            }
        }
    }
}
