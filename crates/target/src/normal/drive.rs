//! A connection's work at the end of a turn: it sends, receives, and ends.

use super::LEAVING_MAX;
use super::connection::{Connection, Ending};
use super::output::{Cost, Message};
use crate::tls::Layer;
use crate::token::Token;
use std::time::Instant;
use wattio_nbd::Errno;
use wattio_pages::Recycler;
use wattio_ring::{Ring, Take};

impl Connection {
    pub(super) fn refuse(&mut self, cookie: u64, (errno, message): (Errno, &str), cost: Cost) {
        let Some(reply) = self.session().map(|session| session.reply(cookie)) else { return };
        self.output.write(|bytes| reply.error(errno, message, bytes));
        self.output.reply(cost);
    }

    /// Sends what there is, as it is or encrypted.
    fn send(&mut self, index: usize, now: Instant, ring: &mut Ring, memory: &mut Recycler) {
        // Where nothing goes on once it is sent, nobody is woken for that.
        let send = if self.is_held_up() { Ring::send } else { Ring::send_quietly };
        let Some(tls) = &mut self.tls else {
            if !self.output.is_empty() {
                let Message { head, parts, sending } = self.output.take(memory);
                self.sending = Some((sending, now));
                send(ring, Token::Send(index).pack(), self.socket, head, parts);
            }
            return;
        };
        if self.output.is_empty() && !tls.has_output() {
            return;
        }
        let Message { head, mut parts, sending } = self.output.take(memory);
        // It fails only after the end was told, when nothing is to follow.
        self.is_broken |= tls.write(&head, &parts).is_err();
        parts.clear();
        self.sending = Some((sending, now));
        let bytes = tls.output(head);
        send(ring, Token::Send(index).pack(), self.socket, bytes, parts);
    }

    /// Whether it receives nothing before what there is has been sent.
    fn is_held_up(&self) -> bool {
        self.ending != Ending::No || self.is_full || self.leaving.is_some()
    }

    /// Whether it goes on once what is being sent has been.
    pub(super) fn is_send_awaited(&self) -> bool {
        let has_more =
            || !self.output.is_empty() || self.tls.as_ref().is_some_and(Layer::has_output);
        self.sending.is_some() && (self.is_held_up() || has_more())
    }

    pub(super) fn drive(
        &mut self,
        index: usize,
        now: Instant,
        ring: &mut Ring,
        memory: &mut Recycler,
    ) {
        let is_silent =
            |one: &Self| one.sending.is_none() && one.asked == 0 && one.output.is_empty();
        if self.ending == Ending::Finish && is_silent(self) && !self.is_tls_closed {
            self.is_tls_closed = true;
            self.tls.as_mut().into_iter().for_each(Layer::close);
        }
        if !self.is_broken && self.sending.is_none() {
            self.send(index, now, ring, memory);
        }
        let is_silent = is_silent(self);
        if self.ending != Ending::Closed
            && (self.is_broken || (self.ending == Ending::Finish && is_silent))
        {
            self.ending = Ending::Closed;
            self.is_broken = true;
            ring.close(self.socket);
        }
        if self.ending == Ending::Finish && self.leaves_by.is_none() {
            self.leaves_by = Some(Instant::now() + LEAVING_MAX);
            let token = Token::Deadline { connection: index, generation: self.generation };
            ring.timeout(token.pack(), LEAVING_MAX);
        }
        let is_ready = !self.is_receiving && !self.is_full && self.leaving.is_none();
        if self.ending == Ending::No && is_ready {
            self.is_receiving = true;
            let token = Token::Receive(index).pack();
            if let Some(tls) = &mut self.tls {
                let memory = tls.lend();
                let range = 0..memory.len();
                ring.receive(token, self.socket, memory, range, Take::Some);
            } else if let Some((pages, range)) = self.payload_to_receive() {
                ring.receive_pages(token, self.socket, pages, range, Take::All);
            } else {
                let (buffer, range) = self.input.lend();
                ring.receive(token, self.socket, buffer, range, Take::Some);
            }
        }
    }
}
