use crate::{ECANCELED, completion, number, ring};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wattio_ring::{Interest, Take, Wait};

const HOUR: Duration = Duration::from_secs(3600);

/// Three threads bring work, one piece at a time, to one that sleeps whenever it finds none. A
/// wake that is lost leaves it asleep for good, and the test with it.
#[test]
fn no_wake_is_lost() {
    let Some(mut ring) = ring(8) else { return };
    const PIECES: u64 = 30_000;
    let work = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let bell = ring.doorbell();
            let work = &work;
            scope.spawn(move || {
                for piece in 0..PIECES {
                    work.fetch_add(1, Ordering::Relaxed);
                    bell.ring();
                    if piece % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut done = 0;
        while done < 3 * PIECES {
            done += work.swap(0, Ordering::Relaxed);
            if done < 3 * PIECES {
                ring.enter_unless(Wait::Block, || work.load(Ordering::Relaxed) > 0).unwrap();
            }
            assert!(ring.next_completion().is_none(), "the bell is the ring's own");
        }
    });
    assert_eq!(ring.in_flight(), 0);
}

/// Ping and pong: each side sleeps until the other rings, so that every ring must wake.
#[test]
fn a_sleeping_thread_is_woken_each_time() {
    let Some(mut ring) = ring(8) else { return };
    const ROUNDS: u64 = 3000;
    let turn = AtomicU64::new(0);
    let (sender, receiver) = std::sync::mpsc::channel();
    let wait_for = |ring: &mut wattio_ring::Ring, number: u64| {
        while turn.load(Ordering::Acquire) < number {
            ring.enter_unless(Wait::Block, || turn.load(Ordering::Acquire) >= number).unwrap();
            while ring.next_completion().is_some() {}
        }
    };
    std::thread::scope(|scope| {
        let here = ring.doorbell();
        let wait_for = &wait_for;
        let turn = &turn;
        scope.spawn(move || {
            let mut ring = crate::ring(8).expect("the second of two");
            sender.send(ring.doorbell()).unwrap();
            for round in 0..ROUNDS {
                wait_for(&mut ring, 2 * round + 1);
                turn.store(2 * round + 2, Ordering::Release);
                here.ring();
            }
        });
        let there = receiver.recv().unwrap();
        for round in 0..ROUNDS {
            turn.store(2 * round + 1, Ordering::Release);
            there.ring();
            wait_for(&mut ring, 2 * round + 2);
        }
    });
}

#[test]
fn timeouts_end_or_are_cancelled() {
    let Some(mut ring) = ring(8) else { return };
    ring.timeout(1, HOUR);
    ring.timeout(2, Duration::from_micros(10));
    let short = completion(&mut ring);
    assert_eq!((short.token, short.result.unwrap()), (2, 0));
    ring.cancel(1);
    let long = completion(&mut ring);
    assert_eq!((long.token, number(&long)), (1, Some(ECANCELED)));
    ring.cancel(1);
    ring.enter(Wait::Poll).unwrap();
    assert!(ring.next_completion().is_none());
}

#[test]
fn a_bounded_wait_ends_without_a_completion() {
    let Some(mut ring) = ring(8) else { return };
    ring.timeout(1, HOUR);
    ring.enter(Wait::Until(Duration::from_micros(10))).unwrap();
    ring.enter(Wait::Poll).unwrap();
    assert!(ring.next_completion().is_none());
    ring.timeout(2, Duration::ZERO);
    ring.enter(Wait::Until(HOUR)).unwrap();
    assert_eq!(ring.next_completion().unwrap().token, 2);
    assert_eq!(ring.in_flight(), 1);
}

#[test]
fn work_that_is_there_is_not_slept_over() {
    let Some(mut ring) = ring(8) else { return };
    ring.timeout(1, HOUR);
    ring.enter_unless(Wait::Block, || true).unwrap();
    assert!(ring.next_completion().is_none());
    assert!(!ring.doorbell().ring(), "awake: nobody needs to ring");
}

/// Completions that the kernel holds back, because they are more than its queue holds or because it
/// finishes them in the thread's own calls only, also come to a thread that never waits.
#[test]
fn who_never_waits_gets_everything() {
    let Some(mut ring) = ring(2) else { return };
    let (mut peer, socket) = UnixStream::pair().unwrap();
    let socket = ring.add(socket).unwrap();
    ring.receive(1, socket, vec![0; 4], 0..4, Take::All);
    for _ in 0..700 {
        ring.poll(2, socket, Interest::Write);
    }
    for _ in 0..50 {
        ring.enter(Wait::Poll).unwrap();
    }
    let mut done = 0;
    for _ in 0..1000 {
        ring.enter(Wait::Poll).unwrap();
        while let Some(ready) = ring.next_completion() {
            assert_eq!(ready.token, 2);
            done += 1;
        }
    }
    assert_eq!((done, ring.in_flight()), (700, 1));
    peer.write_all(&[1; 4]).unwrap();
    for _ in 0..1000 {
        ring.enter(Wait::Poll).unwrap();
    }
    assert_eq!(ring.next_completion().expect("it has come").token, 1);
}
