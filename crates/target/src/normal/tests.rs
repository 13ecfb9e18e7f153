//! Clients that misbehave.

use super::*;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use wattio_nbd::Export;
use wattio_ring::Wait;

/// More turns than anything here takes.
const TURNS_MAX: usize = 100_000;

struct Lane {
    normal: Normal,
    ring: Ring,
    memory: Recycler,
}

impl Lane {
    /// None where there is no io_uring.
    fn new() -> Option<Self> {
        let ring = Ring::new(64).ok()?;
        let offer = Offer {
            exports: Exports::new(vec![Export::new("disk", 1 << 20)]).unwrap(),
            reactors: Arc::new([0]),
            tls: None,
            is_tls_required: false,
        };
        let published = Arc::new(Published::new(Instant::now()));
        Some(Self {
            normal: Normal::new(0, offer, published),
            ring,
            memory: Recycler::new(1 << 20),
        })
    }

    /// A client that is connected, and does not wait when it writes.
    fn connected(&mut self) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        self.normal.connect(&mut self.ring, Accepted { socket: ours.into(), is_tcp: false });
        theirs
    }

    fn turn(&mut self) {
        self.normal.turn(&mut self.ring, &mut self.memory);
        self.ring.enter(Wait::Poll).unwrap();
        while let Some(completion) = self.ring.next_completion() {
            match Token::unpack(completion.token) {
                Some(Token::Receive(at)) => self.normal.received(at, completion, &mut self.memory),
                Some(Token::Send(at)) => self.normal.sent(at, completion, &mut self.memory),
                _ => {}
            }
        }
    }

    /// Turns until nothing has come of the last thousand.
    fn rest(&mut self, mut goes_on: impl FnMut() -> bool) {
        let mut still = 0;
        for _ in 0..TURNS_MAX {
            self.turn();
            still = if goes_on() { 0 } else { still + 1 };
            if still > 1000 {
                return;
            }
        }
        panic!("it goes on for ever");
    }
}

/// Asks for the list of exports, for as long as anything is taken.
fn asks_and_never_reads(lane: &mut Lane, mut client: UnixStream) -> UnixStream {
    client.write_all(&3_u32.to_be_bytes()).unwrap();
    let list: Vec<u8> = [&b"IHAVEOPT"[..], &3_u32.to_be_bytes(), &0_u32.to_be_bytes()].concat();
    let asked: Vec<u8> = list.repeat(100);
    let mut at = 0;
    lane.rest(|| match client.write(&asked[at..]) {
        Ok(count) => {
            at = (at + count) % asked.len();
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    });
    client
}

#[test]
fn one_that_reads_nothing_is_closed_when_its_time_is_over() {
    let Some(mut lane) = Lane::new() else { return };
    let client = lane.connected();
    let client = asks_and_never_reads(&mut lane, client);
    assert_eq!(lane.normal.connections(), 1);
    lane.normal.deadline(0, 1);
    lane.rest(|| false);
    assert_eq!(lane.normal.connections(), 0);
    drop(client);
}

#[test]
fn one_that_leaves_and_reads_nothing_is_closed_when_its_time_is_over() {
    let Some(mut lane) = Lane::new() else { return };
    let client = lane.connected();
    let client = asks_and_never_reads(&mut lane, client);
    lane.normal.stop();
    lane.rest(|| false);
    // Not before.
    lane.normal.deadline(0, 1);
    lane.rest(|| false);
    assert_eq!(lane.normal.connections(), 1);
    lane.normal.connections[0].leaves_by = Some(Instant::now());
    lane.normal.deadline(0, 1);
    lane.rest(|| false);
    assert_eq!(lane.normal.connections(), 0);
    drop(client);
}
