//! The data that a connection sends next: headers of replies, and data between them, in one call.

use std::ops::Range;
use std::sync::Arc;
use wattio_pages::{BLOCK, Pages, Recycler};
use wattio_ring::Part;

#[derive(Debug)]
enum Segment {
    /// Bytes of `heads`.
    Heads(Range<usize>),
    Data(Part),
}

/// What requests cost until their replies are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) requests: usize,
    pub(super) bytes: u64,
}

impl Cost {
    pub(super) const fn of(bytes: u64) -> Self {
        Self { requests: 1, bytes }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
    }

    pub(super) fn sub(&mut self, other: Self) {
        self.requests -= other.requests;
        self.bytes -= other.bytes;
    }
}

/// One call's worth of replies.
#[derive(Debug)]
pub(super) struct Message {
    /// What is sent first.
    pub(super) head: Vec<u8>,
    /// What is sent behind it.
    pub(super) parts: Vec<Part>,
    /// What to keep until it is sent.
    pub(super) sending: Sending,
}

/// What is kept of a message while it is sent.
#[derive(Debug)]
pub(super) struct Sending {
    cost: Cost,
    /// Memory of the heads that come behind data.
    heads: Arc<Pages>,
}

impl Sending {
    /// It is sent, and its parts are gone: what its replies cost.
    pub(super) fn end(self, memory: &mut Recycler) -> Cost {
        if let Some(heads) = Arc::into_inner(self.heads) {
            memory.give(heads);
        }
        self.cost
    }
}

/// Replies in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct Output {
    heads: Vec<u8>,
    segments: Vec<Segment>,
    cost: Cost,
    /// Kept for the next call.
    spare: Vec<Part>,
}

impl Output {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Bytes that are not data.
    pub(super) fn heads_bytes(&self) -> usize {
        self.heads.len()
    }

    /// What is to be sent, which has no data: before there are requests.
    pub(super) fn take_heads(&mut self) -> Vec<u8> {
        self.segments.clear();
        std::mem::take(&mut self.heads)
    }

    pub(super) fn head(&mut self, bytes: &[u8]) {
        self.write(|heads| heads.extend_from_slice(bytes));
    }

    /// Adds what `write` appends.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.heads.len();
        write(&mut self.heads);
        let end = self.heads.len();
        match self.segments.last_mut() {
            _ if start == end => {}
            Some(Segment::Heads(range)) => range.end = end,
            _ => self.segments.push(Segment::Heads(start..end)),
        }
    }

    pub(super) fn data(&mut self, part: Part) {
        self.segments.push(Segment::Data(part));
    }

    /// A reply is complete: its request no longer counts once this is sent.
    pub(super) fn reply(&mut self, cost: Cost) {
        self.cost.add(cost);
    }

    /// All of it, and whose replies these are.
    pub(super) fn take(&mut self, memory: &mut Recycler) -> Message {
        let first = match self.segments.first() {
            Some(Segment::Heads(range)) => range.end,
            _ => 0,
        };
        let mut parts = std::mem::take(&mut self.spare);
        // Heads that come behind data are sent from memory that can be shared, like the data.
        let later = self.heads.len() - first;
        let mut pages = Pages::default();
        if later > 0 {
            pages = memory.take(later.div_ceil(BLOCK));
            pages.as_bytes_mut()[..later].copy_from_slice(&self.heads[first..]);
        }
        let pages = Arc::new(pages);
        for segment in self.segments.drain(..) {
            match segment {
                Segment::Heads(range) if range.start == 0 => {}
                Segment::Heads(range) => {
                    let range = range.start - first..range.end - first;
                    parts.push(Part::bytes(Arc::clone(&pages), range));
                }
                Segment::Data(part) => parts.push(part),
            }
        }
        let mut head = std::mem::take(&mut self.heads);
        head.truncate(first);
        let sending = Sending { cost: std::mem::take(&mut self.cost), heads: pages };
        Message { head, parts, sending }
    }

    /// Keeps the lists of a call that is done.
    pub(super) fn keep(&mut self, mut head: Vec<u8>, parts: Vec<Part>) {
        if self.heads.is_empty() && self.segments.is_empty() {
            head.clear();
            self.heads = head;
        }
        if self.spare.capacity() == 0 {
            self.spare = parts;
            self.spare.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_are_sent_in_the_order_in_which_they_were_put(
            pieces in prop::collection::vec((any::<bool>(), 1usize..200), 1..300),
        ) {
            let mut memory = Recycler::new(1 << 20);
            let mut output = Output::default();
            for _ in 0..2 {
                let mut expected = Vec::new();
                for (at, &(is_data, length)) in pieces.iter().enumerate() {
                    let bytes = vec![at as u8; length];
                    // What is sent begins with a head.
                    if is_data && at > 0 {
                        let pages = Arc::new(Pages::from_slice(&bytes));
                        output.data(Part::bytes(pages, 0..length));
                    } else {
                        output.head(&bytes);
                    }
                    output.reply(Cost::of(length as u64));
                    expected.extend(bytes);
                }
                let Message { head, parts, sending } = output.take(&mut memory);
                let mut sent = head.clone();
                parts.iter().for_each(|part| sent.extend_from_slice(part.as_bytes()));
                prop_assert_eq!(&sent, &expected);
                let bytes = expected.len() as u64;
                prop_assert_eq!(sending.end(&mut memory), Cost { requests: pieces.len(), bytes });
                prop_assert!(output.is_empty());
                output.keep(head, parts);
            }
        }
    }
}
