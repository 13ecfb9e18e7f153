//! Connections that move to another reactor. Nothing more is received from a connection that
//! leaves; its requests are answered and the answers sent; then it moves, together with received
//! bytes that were not processed yet.

use super::connection::{Connection, Ending, Stage};
use super::{HANDSHAKE_MAX, Normal};
use crate::messages::ToVolume;
use crate::token::Token;
use std::io;
use std::os::fd::OwnedFd;
use wattio_pages::Recycler;
use wattio_ring::Ring;

/// A connection on its way.
#[derive(Debug)]
pub struct Moving {
    connection: Box<Connection>,
    socket: OwnedFd,
}

/// A connection that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaver {
    index: usize,
    generation: u32,
    /// Where it goes.
    pub to: usize,
}

/// What a connection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLoad {
    index: usize,
    generation: u32,
    /// Its number, which it keeps wherever it goes.
    pub id: u64,
    /// The number of its export, once it has chosen one.
    pub export: Option<usize>,
    /// Its requests so far.
    pub requests: u64,
}

impl ConnectionLoad {
    /// Of a connection that there is not.
    #[cfg(test)]
    pub const fn of_test(id: u64, export: usize) -> Self {
        Self { index: 0, generation: 0, id, export: Some(export), requests: 0 }
    }

    /// The order that moves it.
    #[must_use]
    pub const fn to(self, to: usize) -> Leaver {
        Leaver { index: self.index, generation: self.generation, to }
    }
}

impl Normal {
    /// What each connection asks for.
    pub fn loads(&self) -> Vec<ConnectionLoad> {
        let load = |(index, connection): (usize, &Connection)| ConnectionLoad {
            index,
            generation: connection.generation,
            id: connection.id,
            export: connection.session().map(wattio_nbd::Session::export_index),
            requests: connection.requests,
        };
        let open = self.connections.iter().filter(|(_, one)| one.ending == Ending::No);
        open.map(load).collect()
    }

    /// A connection is to leave; one that is gone or about to end does not.
    pub fn leave(&mut self, ring: &mut Ring, Leaver { index, generation, to }: Leaver) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let is_open = connection.generation == generation && connection.ending == Ending::No;
        if is_open && !self.is_stopping && to != usize::from(self.reactor) {
            if connection.leaving.replace(to).is_none() && connection.is_receiving {
                ring.cancel(Token::Receive(index).pack());
            }
            self.list(index);
        }
    }

    /// Connections that could not leave, as what they asked is not answered, stay.
    pub fn stay(&mut self, ring: &mut Ring, memory: &mut Recycler) {
        let leaving = self.connections.iter_mut().filter(|(_, one)| one.leaving.is_some());
        let staying = leaving.map(|(index, connection)| {
            connection.leaving = None;
            index
        });
        for index in staying.collect::<Vec<_>>() {
            // The kernel has the memory of one that still receives; it goes on after that.
            if !self.connections[index].is_receiving {
                self.advance(index, memory);
            }
            self.list(index);
        }
        self.turn(ring, memory);
    }

    /// Lets a connection go that leaves, once nothing of it is under way.
    pub(super) fn detach(&mut self, index: usize, ring: &mut Ring) {
        let connection = &self.connections[index];
        let Some(to) = connection.leaving.filter(|_| connection.is_still()) else { return };
        // Nothing is under way on it: the ring gives it back.
        let Some(socket) = ring.remove(connection.socket) else { return };
        let mut connection = Box::new(self.connections.remove(index));
        self.room.leave(&mut connection);
        self.left.push((to, Moving { connection, socket }));
    }

    /// Takes a connection that comes from another reactor.
    ///
    /// # Errors
    /// When its descriptor cannot be used; then it is closed.
    pub fn arrive(
        &mut self,
        ring: &mut Ring,
        memory: &mut Recycler,
        Moving { mut connection, socket }: Moving,
    ) -> io::Result<()> {
        connection.socket = ring.add(socket)?;
        connection.leaving = None;
        connection.leaves_by = None;
        self.generation = self.generation.wrapping_add(1);
        connection.generation = self.generation;
        if self.is_stopping {
            connection.ending = Ending::Finish;
        }
        let negotiates = matches!(connection.stage, Stage::Handshake(_));
        let left = HANDSHAKE_MAX.saturating_sub(connection.since.elapsed());
        let index = self.connections.insert(*connection);
        if negotiates {
            let token = Token::Deadline { connection: index, generation: self.generation };
            ring.timeout(token.pack(), left);
        }
        self.room.count(&mut self.connections[index]);
        self.advance(index, memory);
        self.list(index);
        Ok(())
    }

    /// What a volume is asked from now on is kept.
    pub fn hold(&mut self, volume: usize) {
        self.routes.hold(volume);
    }

    /// A volume is with this reactor, which is asked what was kept.
    pub fn found(&mut self, volume: usize, reactor: usize) {
        let held = self.routes.found(volume, reactor);
        self.asks.extend(held.into_iter().map(|to: ToVolume| (reactor, to)));
    }
}

impl Connection {
    /// Whether nothing of it is under way.
    fn is_still(&self) -> bool {
        let is_sent = self.sending.is_none() && self.output.is_empty();
        let is_tls_sent = self.tls.as_ref().is_none_or(|tls| !tls.has_output());
        self.ending == Ending::No && !self.is_receiving && self.asked == 0 && is_sent && is_tls_sent
    }
}
