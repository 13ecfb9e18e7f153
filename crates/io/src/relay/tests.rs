use super::*;
use crate::client::tests::{HANGS, Writer, met};
use crate::peers::Alone;
use crate::slot::WINDOW;
use std::net::TcpStream;

/// Ranks whose blocks are relayed by a thread of this process: each with its end of the connection, and
/// that of the memory which its writer shares.
fn relayed(count: usize) -> Vec<(Frames, Writer)> {
    let (local, writers): (Vec<Client>, Vec<Writer>) = (0..count).map(|_| met(4096)).unzip();
    let port = Port::open(false).unwrap();
    let connect = |rank: usize| {
        let frames = Frames::new(TcpStream::connect(&port.address).unwrap()).unwrap();
        frames.say(&FromRank::Hello { rank, token: "token".to_owned() }).unwrap();
        frames
    };
    let frames: Vec<Frames> = (0..count).map(connect).collect();
    let relay = Relay::new(port, (0..count).collect(), "token".to_owned(), local);
    std::thread::spawn(move || relay.admit().unwrap().run(&Alone));
    frames.into_iter().zip(writers).collect()
}

/// Hand over so many steps without a block.
fn post(rank: &Frames, steps: u64) {
    for step in 0..steps {
        let mut attributes = Vec::new();
        block::put_attributes(&mut attributes, &Vec::new());
        rank.say(&FromRank::Post { step, end: true, blocks: Vec::new(), attributes }).unwrap();
    }
}

fn until(mut condition: impl FnMut() -> bool) {
    let late = Instant::now() + HANGS;
    while !condition() {
        assert!(Instant::now() < late);
        std::thread::yield_now();
    }
}

/// Wait until so many dumps have been told of.
fn hear(rank: &mut Frames, dumps: usize) {
    let mut told = 0;
    until(|| {
        told += usize::from(matches!(rank.hear(), Ok(Some(ToRank::Settled(..)))));
        told == dumps
    });
}

#[test]
fn a_rank_that_was_far_ahead_is_told_of_its_last_dump() {
    let (mut rank, writer) = relayed(1).remove(0);
    post(&rank, 80);
    until(|| writer.slot.posted() == WINDOW);
    for number in 0..79 {
        until(|| writer.slot.posted() > number);
        writer.settle(number);
    }
    hear(&mut rank, 79);
    // The relay sleeps, or is about to.
    writer.settle(79);
    hear(&mut rank, 1);
}

#[test]
fn a_rank_that_is_far_ahead_keeps_no_other_one_back() {
    let ranks = relayed(2);
    post(&ranks[0].0, 80);
    until(|| ranks[0].1.slot.posted() == WINDOW);
    post(&ranks[1].0, 1);
    until(|| ranks[1].1.slot.posted() == 1);
}

/// Each of them held the ranks up for ten seconds, and six of them ended the job.
#[test]
fn who_connects_and_says_nothing_or_a_wrong_thing_keeps_no_rank_back() {
    let port = Port::open(false).unwrap();
    let connect = || Frames::new(TcpStream::connect(&port.address).unwrap()).unwrap();
    let hello = |token: &str| FromRank::Hello { rank: 0, token: token.to_owned() };
    let silent: Vec<Frames> = (0..3).map(|_| connect()).collect();
    let wrong = connect();
    wrong.say(&hello("another")).unwrap();
    let mut rank = connect();
    rank.say(&hello("token")).unwrap();
    let relay = Relay::new(port, vec![0], "token".to_owned(), vec![met(4096).0]);
    let admits = std::thread::spawn(move || relay.admit().map(|senders| senders.0.len()));
    until(|| matches!(rank.hear(), Ok(Some(ToRank::Welcome { .. }))));
    assert_eq!(admits.join().unwrap(), Ok(1));
    drop((silent, wrong));
}

#[test]
fn nobody_is_waited_for_after_a_wait_that_a_signal_has_ended() {
    let port = Port::open(false).unwrap();
    let accepted = std::thread::spawn(move || port.accept().unwrap().is_some());
    until(|| accepted.is_finished());
    assert!(!accepted.join().unwrap());
}

#[test]
fn failures_of_one_turn_are_told_each_by_its_own_step() {
    let slot = Slot::create(0, 64).unwrap();
    let (mut told, steps) = (Reported::default(), [3, 5, 8, 13]);
    slot.fail(3, "the disk is full");
    slot.settle(Fate::Failed);
    slot.settle(Fate::Dropped);
    slot.fail(8, "somebody has removed it");
    slot.settle(Fate::Failed);
    let failed = |step, text: &str| ToRank::Settled(false, Some((step, text.to_owned())));
    assert_eq!(
        told.fates(&slot, &steps),
        [failed(3, UNKNOWN), ToRank::Settled(true, None), failed(8, "somebody has removed it")]
    );
    slot.fail(13, "the disk is full");
    slot.settle(Fate::Failed);
    assert_eq!(told.fates(&slot, &steps), [failed(13, "the disk is full")]);
    assert_eq!(told.fates(&slot, &steps), []);
}
