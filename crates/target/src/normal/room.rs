//! Memory for what connections have under way: writes of which a part has come, requests that volumes
//! have not answered, and answers that are not sent.
//!
//! Each connection may have a little of it at any time. What is beyond that they share, so that a
//! thousand clients that send half of a large write each do not take what the host has. A request
//! for which there is no room waits until there is, and those that came first go first. A client that
//! holds what others wait for, and takes or sends nothing, is turned away in the end.

use super::Normal;
use super::connection::{Connection, Ending};
use crate::token::Token;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use wattio_pages::Recycler;
use wattio_ring::Ring;

/// What each connection may have under way at any time, in bytes.
const OWN_BYTES: u64 = 1 << 20;
/// What all connections of a reactor may have beyond that.
const SHARED_BYTES: u64 = 1 << 30;
/// How long others wait for a client that takes or sends nothing.
const STALLED_MAX: Duration = Duration::from_secs(60);

/// What a connection has of the shared memory that has so many bytes under way.
pub(super) const fn shared_bytes(under_way_bytes: u64) -> u64 {
    under_way_bytes.saturating_sub(OWN_BYTES)
}

/// The shared memory, and who waits for some.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) limit_bytes: u64,
    pub(super) stalled_max: Duration,
    taken_bytes: u64,
    /// Connections by place and generation, the first one first.
    waiting: VecDeque<(usize, u32)>,
    /// Those that are to be looked after once others have stalled for too long.
    untimed: Vec<(usize, u32)>,
}

impl Room {
    pub(super) const fn new() -> Self {
        Self {
            limit_bytes: SHARED_BYTES,
            stalled_max: STALLED_MAX,
            taken_bytes: 0,
            waiting: VecDeque::new(),
            untimed: Vec::new(),
        }
    }

    /// What there is for a connection: nothing while others wait, unless it is one of these.
    pub(super) fn left_bytes(&self, has_waited: bool) -> u64 {
        match self.waiting.is_empty() || has_waited {
            true => self.limit_bytes.saturating_sub(self.taken_bytes),
            false => 0,
        }
    }

    /// A connection has another amount under way.
    pub(super) fn count(&mut self, connection: &mut Connection) {
        let now = shared_bytes(connection.under_way.bytes);
        let before = std::mem::replace(&mut connection.shared_bytes, now);
        self.taken_bytes = self.taken_bytes + now - before;
    }

    /// A connection is gone from here, with what it has.
    pub(super) fn leave(&mut self, connection: &mut Connection) {
        self.taken_bytes -= std::mem::take(&mut connection.shared_bytes);
        (connection.waits_for_bytes, connection.is_queued) = (None, false);
    }

    /// A connection waits; each is in the queue once.
    pub(super) fn wait(&mut self, index: usize, connection: &mut Connection) {
        if !std::mem::replace(&mut connection.is_queued, true) {
            self.waiting.push_back((index, connection.generation));
            self.untimed.push((index, connection.generation));
        }
    }
}

impl Normal {
    /// Goes on with connections that waited, as far as there is room.
    pub(super) fn let_in(&mut self, memory: &mut Recycler) {
        while let Some(&(index, generation)) = self.room.waiting.front() {
            let connection = self.connections.get_mut(index);
            let Some(connection) = connection.filter(|one| one.generation == generation) else {
                self.room.waiting.pop_front();
                continue;
            };
            if connection.waits_for_bytes.is_some_and(|bytes| bytes > self.room.left_bytes(true)) {
                return;
            }
            self.room.waiting.pop_front();
            connection.is_queued = false;
            if connection.waits_for_bytes.is_some() {
                self.advance(index, memory);
                self.list(index);
            }
        }
    }

    /// Sees to it that somebody looks after those that have begun to wait.
    pub(super) fn time_waiting(&mut self, ring: &mut Ring) {
        for (connection, generation) in self.room.untimed.drain(..) {
            ring.timeout(Token::Deadline { connection, generation }.pack(), self.room.stalled_max);
        }
    }

    /// A connection has waited for long: those that hold shared memory and have stalled are turned away.
    pub(super) fn end_stalled(&mut self, waiting: usize) {
        let (now, most) = (Instant::now(), self.room.stalled_max);
        let has_stalled = |one: &Connection| {
            let sending_since = one.sending.as_ref().map(|&(_, since)| since);
            let since = [one.payload_since, sending_since].into_iter().flatten().min();
            one.shared_bytes > 0
                && one.ending != Ending::Closed
                && since.is_some_and(|since| now.saturating_duration_since(since) >= most)
        };
        let stalled = self.connections.iter().filter(|(_, one)| has_stalled(one));
        let stalled: Vec<usize> = stalled.map(|(index, _)| index).collect();
        for index in stalled {
            self.connections[index].is_broken = true;
            self.counters.broken_connections += 1;
            let reason = "others wait for the memory of a request that it does not go on with";
            self.tell_turned_away(reason);
            self.list(index);
        }
        self.room.untimed.push((waiting, self.connections[waiting].generation));
    }
}
