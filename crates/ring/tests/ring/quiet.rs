//! Sends whose success wakes nobody.

use crate::{completion, completions, ring};
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use wattio_pages::{BLOCK, Pages};
use wattio_ring::{Back, Completion, Part, Ring, Take, Wait};

/// A ring on a kernel that has such sends; elsewhere they are like others.
fn quiet_ring(entries: u32) -> Option<Ring> {
    ring(entries).filter(|ring| ring.setup().starts_with("deferred"))
}

/// What is told without waiting.
fn told(ring: &mut Ring) -> Vec<Completion> {
    ring.enter(Wait::Poll).expect("the kernel takes it");
    std::iter::from_fn(|| ring.next_completion()).collect()
}

/// The completion of a send was all that a server woke for, before it waited for the next request: two
/// system calls for each.
#[test]
fn an_answer_and_the_wait_for_the_next_request_are_one_call() {
    const ROUNDS: u64 = 200;
    let Some(mut ring) = quiet_ring(8) else { return };
    let (one, mut two) = UnixStream::pair().unwrap();
    let one = ring.add(one).unwrap();
    let client = std::thread::spawn(move || {
        let mut answer = vec![0; 16 + BLOCK];
        for _ in 0..ROUNDS {
            two.write_all(b"request").unwrap();
            two.read_exact(&mut answer).unwrap();
        }
    });
    let pages = Arc::new(Pages::zeroed(1));
    let before = ring.enters();
    ring.receive(1, one, vec![0; 7], 0..7, Take::All);
    let (mut received, mut sent) = (0, 0);
    loop {
        ring.enter(Wait::Block).unwrap();
        while let Some(Completion { token, result, back, .. }) = ring.next_completion() {
            match (token, result.unwrap(), back) {
                (1, 7, Back::Bytes(bytes)) => {
                    received += 1;
                    ring.send_quietly(2, one, vec![0; 16], vec![Part::whole(pages.clone())]);
                    ring.receive(1, one, bytes, 0..7, Take::All);
                }
                (2, count, _) => {
                    sent += 1;
                    assert_eq!(count, 16 + BLOCK);
                }
                // The client has all and is gone.
                (1, 0, _) => {
                    sent += std::iter::from_fn(|| ring.next_completion()).count() as u64;
                    assert_eq!((received, sent), (ROUNDS, ROUNDS));
                    let calls = ring.enters() - before;
                    assert!(calls <= ROUNDS + ROUNDS / 10, "{calls} calls");
                    return client.join().unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Sends go out until one finds room for a part of it, or for none: it waits, and is told when it is
/// over, once and whole.
#[test]
fn what_finds_no_room_is_sent_and_told_later() {
    let Some(mut ring) = quiet_ring(8) else { return };
    for length in [700, 5_000, 40_000] {
        let (one, mut two) = UnixStream::pair().unwrap();
        set_socket_send_buffer_size(&one, 20_000).unwrap();
        let one = ring.add(one).unwrap();
        let mut expected = Vec::new();
        let waits = (0..100).find(|&at: &u8| {
            let bytes = vec![at; length - 1];
            let pages = Arc::new(Pages::from_slice(&bytes));
            expected.push(at);
            expected.extend(bytes);
            ring.send_quietly(at.into(), one, vec![at], vec![Part::bytes(pages, 0..length - 1)]);
            let told = told(&mut ring);
            assert!(!ring.has_quiet());
            told.is_empty()
        });
        let last = waits.expect("the buffer is full by then");
        // It waits for room like any other send.
        assert!(told(&mut ring).is_empty());
        assert_eq!(ring.in_flight(), 1);
        let reader = std::thread::spawn(move || {
            let mut bytes = vec![0; expected.len()];
            two.read_exact(&mut bytes).unwrap();
            assert!(bytes == expected);
        });
        let end = completion(&mut ring);
        assert_eq!((end.token, end.result.unwrap()), (last.into(), length));
        reader.join().unwrap();
    }
}

#[test]
fn one_that_fails_is_told_at_once() {
    let Some(mut ring) = ring(8) else { return };
    let (one, two) = UnixStream::pair().unwrap();
    let (other, _peer) = UnixStream::pair().unwrap();
    let (one, other) = (ring.add(one).unwrap(), ring.add(other).unwrap());
    drop(two);
    ring.receive(3, other, vec![0; 8], 0..8, Take::Some);
    ring.send_quietly(1, one, b"anybody?".to_vec(), Vec::new());
    let broken = completion(&mut ring);
    assert_eq!(broken.token, 1);
    assert_eq!(broken.result.unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(!ring.has_quiet());
}

/// Those that wait for the kernel to take them are not over yet.
#[test]
fn more_than_the_queue_takes_are_all_told() {
    const PAIRS: u64 = 20;
    let Some(mut ring) = quiet_ring(2) else { return };
    let mut peers = Vec::new();
    for token in 0..PAIRS {
        let (one, two) = UnixStream::pair().unwrap();
        let one = ring.add(one).unwrap();
        ring.send_quietly(token, one, vec![token as u8; 9], Vec::new());
        peers.push(two);
    }
    assert!(ring.next_completion().is_none());
    let mut tokens = Vec::new();
    while ring.has_quiet() {
        tokens.extend(told(&mut ring).into_iter().map(|end| (end.token, end.result.unwrap())));
    }
    let expected: Vec<_> = (0..PAIRS).map(|token| (token, 9)).collect();
    assert_eq!(tokens, expected);
    for (token, peer) in peers.iter_mut().enumerate() {
        let mut bytes = [99; 9];
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [token as u8; 9]);
    }
}

/// A short one ends as it should where the kernel is given only the beginning of it.
#[test]
fn what_takes_several_calls_is_sent_whole() {
    let Some(mut ring) = ring(8) else { return };
    let (one, mut two) = UnixStream::pair().unwrap();
    let one = ring.add(one).unwrap();
    let pages = Arc::new(Pages::from_slice(&[7; 10]));
    let parts = vec![Part::bytes(pages, 0..10); 1500];
    ring.send_quietly(1, one, vec![1], parts);
    assert_eq!(completion(&mut ring).result.unwrap(), 15_001);
    let mut bytes = vec![0; 15_001];
    two.read_exact(&mut bytes).unwrap();
    assert!(bytes[0] == 1 && bytes[1..].iter().all(|&byte| byte == 7));
}

#[test]
fn closing_the_socket_or_the_ring_ends_it() {
    let Some(mut ring) = ring(8) else { return };
    let (one, mut two) = UnixStream::pair().unwrap();
    let handle = ring.add(one).unwrap();
    ring.send_quietly(1, handle, b"last".to_vec(), Vec::new());
    ring.close(handle);
    assert_eq!(completions(&mut ring, 1)[0].token, 1);
    let mut bytes = Vec::new();
    two.read_to_end(&mut bytes).unwrap();
    assert!(bytes.is_empty() || bytes == b"last");
    let (one, mut two) = UnixStream::pair().unwrap();
    let handle = ring.add(one).unwrap();
    ring.send_quietly(2, handle, vec![1; 100], Vec::new());
    drop(ring);
    two.read_to_end(&mut bytes).unwrap();
}
