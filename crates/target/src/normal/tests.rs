//! Clients that misbehave.

use super::*;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use wattio_nbd::Export;
use wattio_pages::{BLOCK, Pages};
use wattio_ring::Wait;
use wattio_volume::{Part, Piece};

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
            exports: Exports::new(vec![Export::new("disk", 64 << 20)]).unwrap(),
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

const LARGE_BYTES: usize = 2 << 20;

/// A client that has chosen the disk, and asked for something large: 0 reads, 1 writes.
fn asks(lane: &mut Lane, command: u32) -> UnixStream {
    let mut client = lane.connected();
    let option = [&b"IHAVEOPT"[..], &1_u32.to_be_bytes(), &4_u32.to_be_bytes(), b"disk"];
    let head = [&0x2560_9513_u32.to_be_bytes()[..], &command.to_be_bytes(), &7_u64.to_be_bytes()];
    let span = [&0_u64.to_be_bytes()[..], &(LARGE_BYTES as u32).to_be_bytes()];
    client.write_all(&[&3_u32.to_be_bytes()[..], &option.concat()].concat()).unwrap();
    client.write_all(&[head.concat(), span.concat()].concat()).unwrap();
    client
}

/// A client that has begun a large write, of which half has come.
fn writes_half(lane: &mut Lane) -> UnixStream {
    let mut client = asks(lane, 1);
    sends(lane, &mut client, LARGE_BYTES / 2);
    client
}

/// Sends more of it, as far as it is taken.
fn sends(lane: &mut Lane, client: &mut UnixStream, bytes: usize) {
    let bytes = vec![7; bytes];
    let mut at = 0;
    lane.rest(|| match client.write(&bytes[at..]) {
        Ok(count) => {
            at += count;
            count > 0
        }
        Err(_) => false,
    });
}

/// A lane with room for the large write of one client, of which two have begun one.
fn crowded() -> Option<(Lane, UnixStream, UnixStream)> {
    let mut lane = Lane::new()?;
    lane.normal.room.limit_bytes = 3 << 19;
    let first = writes_half(&mut lane);
    let second = writes_half(&mut lane);
    let is_waiting = |at: usize| lane.normal.connections[at].waits_for_bytes.is_some();
    assert!(!is_waiting(0) && is_waiting(1));
    Some((lane, first, second))
}

/// The second client has waited for long, and the first one has stalled for longer than is allowed.
fn expect_the_first_to_be_turned_away(lane: &mut Lane) {
    let generation = lane.normal.connections[1].generation;
    lane.normal.deadline(1, generation);
    lane.rest(|| false);
    assert_eq!(lane.normal.connections(), 2, "not so soon");
    lane.normal.room.stalled_max = Duration::ZERO;
    lane.normal.deadline(1, generation);
    lane.rest(|| false);
    assert_eq!(lane.normal.connections(), 1);
    assert!(lane.normal.connections[1].payload_since.is_some(), "the other one goes on");
}

/// Half of a large write each of a thousand clients was kept in memory, 32 GiB for a reactor.
#[test]
fn a_large_write_waits_until_there_is_memory_for_it() {
    let Some((mut lane, mut first, _second)) = crowded() else { return };
    sends(&mut lane, &mut first, LARGE_BYTES / 2);
    let (_, asked) = lane.normal.asks.pop().expect("the write has come");
    assert!(lane.normal.connections[1].waits_for_bytes.is_some(), "it is not answered");
    let answer = Answer::Done(Ok(Vec::new()));
    lane.normal.answered(ToNormal { tag: asked.tag, answer });
    lane.rest(|| false);
    assert!(lane.normal.connections[1].waits_for_bytes.is_none());
    assert!(lane.normal.connections[1].payload_since.is_some(), "it goes on");
    drop(first);
    lane.rest(|| false);
    assert_eq!(lane.normal.connections(), 1);
}

#[test]
fn whoever_stalls_with_memory_that_others_wait_for_is_turned_away() {
    let Some((mut lane, _first, _second)) = crowded() else { return };
    expect_the_first_to_be_turned_away(&mut lane);
    assert_eq!(lane.normal.counters().broken_connections, 1);
}

#[test]
fn whoever_reads_no_answer_that_others_wait_for_the_memory_of_is_turned_away() {
    let Some(mut lane) = Lane::new() else { return };
    lane.normal.room.limit_bytes = 3 << 19;
    let first = asks(&mut lane, 0);
    lane.rest(|| false);
    let (_, asked) = lane.normal.asks.pop().expect("the read has come");
    let data = Piece::Data(Part::whole(Pages::zeroed(LARGE_BYTES / BLOCK)));
    lane.normal.answered(ToNormal { tag: asked.tag, answer: Answer::Done(Ok(vec![data])) });
    lane.rest(|| false);
    assert!(lane.normal.connections[0].sending.is_some(), "more than a socket takes");
    let _second = writes_half(&mut lane);
    assert!(lane.normal.connections[1].waits_for_bytes.is_some());
    expect_the_first_to_be_turned_away(&mut lane);
    drop(first);
}

/// What a connection has of the memory goes with it.
#[test]
fn clients_that_leave_free_their_memory() {
    let Some((mut lane, first, second)) = crowded() else { return };
    drop(second);
    drop(first);
    lane.rest(|| false);
    assert_eq!(lane.normal.connections(), 0);
    assert_eq!(lane.normal.room.left_bytes(true), lane.normal.room.limit_bytes);
}
