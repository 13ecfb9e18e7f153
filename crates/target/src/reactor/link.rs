//! Queues between two reactors, one in each direction.

use crate::messages::{ToNormal, ToVolume};
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::collections::VecDeque;
use wattio_ring::Doorbell;

/// What one reactor hands to another.
#[derive(Debug)]
pub enum Hand {
    /// To a volume.
    Ask(ToVolume),
    /// To a Normal lane.
    Answer(ToNormal),
    /// A volume is about to leave the reactor that says so: keep what it is asked from now on.
    Hold(usize),
    /// What that volume was asked has all been handed over.
    Held(usize),
    /// A volume is with the reactor that says so: ask it there.
    Here(usize),
}

/// Messages that a queue holds; more wait with the sender.
const QUEUE_MESSAGES: usize = 1024;

/// One reactor's side of the queues to and from another.
#[derive(Debug)]
pub struct Link {
    to: Producer<Hand>,
    from: Consumer<Hand>,
    /// What the queue had no room for.
    waiting: VecDeque<Hand>,
    doorbell: Doorbell,
    is_sent: bool,
}

/// The ends of the queues between all reactors, before their doorbells are known.
pub type Ends = Vec<Vec<Option<(Producer<Hand>, Consumer<Hand>)>>>;

/// Queues between each two of `count` reactors: by reactor, its ends to each other one.
#[must_use]
pub fn between(count: usize) -> Ends {
    let mut ends: Ends = Vec::new();
    for _ in 0..count {
        let mut own = Vec::new();
        for others in &mut ends {
            let (to, from_own) = RingBuffer::new(QUEUE_MESSAGES);
            let (to_own, from) = RingBuffer::new(QUEUE_MESSAGES);
            others.push(Some((to_own, from_own)));
            own.push(Some((to, from)));
        }
        own.push(None);
        ends.push(own);
    }
    ends
}

impl Link {
    /// To the reactor that this doorbell wakes.
    #[must_use]
    pub const fn new(to: Producer<Hand>, from: Consumer<Hand>, doorbell: Doorbell) -> Self {
        Self { to, from, waiting: VecDeque::new(), doorbell, is_sent: false }
    }

    /// Hands something over; the other one learns of it with [`Self::end_turn`].
    pub fn send(&mut self, hand: Hand) {
        self.is_sent = true;
        if !self.waiting.is_empty() {
            return self.waiting.push_back(hand);
        }
        if let Err(PushError::Full(hand)) = self.to.push(hand) {
            self.waiting.push_back(hand);
        }
    }

    /// Something that was handed over.
    pub fn take(&mut self) -> Option<Hand> {
        self.from.pop().ok()
    }

    /// Whether something was handed over, or can be.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.from.is_empty() || !self.waiting.is_empty()
    }

    /// Wakes the other one, once for all that was handed over in this turn.
    pub fn end_turn(&mut self) {
        while let Some(hand) = self.waiting.pop_front() {
            if let Err(PushError::Full(hand)) = self.to.push(hand) {
                self.waiting.push_front(hand);
                break;
            }
            self.is_sent = true;
        }
        if std::mem::take(&mut self.is_sent) {
            self.doorbell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Answer, Tag};
    use wattio_ring::Ring;

    fn hand(number: usize) -> Hand {
        let answer = Answer::Allocation(Vec::new());
        Hand::Answer(ToNormal { tag: Tag::new(0, number), answer })
    }

    fn number(hand: &Hand) -> usize {
        match hand {
            Hand::Answer(answer) => answer.tag.number(),
            Hand::Ask(ask) => ask.tag.number(),
            Hand::Hold(volume) | Hand::Held(volume) | Hand::Here(volume) => *volume,
        }
    }

    #[test]
    fn each_has_a_queue_to_each_other_and_none_to_itself() {
        let mut ends = between(3);
        for (at, own) in ends.iter().enumerate() {
            let has: Vec<bool> = own.iter().map(Option::is_some).collect();
            let expected: Vec<bool> = (0..3).map(|other| other != at).collect();
            assert_eq!(has, expected);
        }
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 1)] {
            ends[from][to].as_mut().unwrap().0.push(hand(10 * from + to)).unwrap();
            let came = ends[to][from].as_mut().unwrap().1.pop().unwrap();
            assert_eq!(number(&came), 10 * from + to);
        }
    }

    /// More than the queue holds waits with the sender, and comes in order.
    #[test]
    fn nothing_is_lost_or_reordered_when_the_queue_is_full() {
        let Ok(ring) = Ring::new(4) else {
            assert!(std::env::var_os("CI").is_none(), "no ring");
            return eprintln!("not tested: no io_uring here");
        };
        let mut ends = between(2);
        let (to, from) = ends[0][1].take().unwrap();
        let mut one = Link::new(to, from, ring.doorbell());
        let (to, from) = ends[1][0].take().unwrap();
        let mut other = Link::new(to, from, ring.doorbell());
        (0..3 * QUEUE_MESSAGES).for_each(|number| one.send(hand(number)));
        assert!(one.has_work() && other.has_work());
        for expected in 0..3 * QUEUE_MESSAGES {
            if expected.is_multiple_of(100) {
                one.end_turn();
            }
            assert_eq!(other.take().map(|hand| number(&hand)), Some(expected));
        }
        assert!(!one.has_work() && !other.has_work());
    }
}
