use super::*;
use crate::block::{Type, Variable};
use crate::client::tests::{HANGS, Writer, met};
use crate::peers::Alone;
use crate::slot::WINDOW;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

/// Ranks whose blocks are relayed by a thread of this process: each with its end of the connection, and
/// that of the memory which its writer shares.
fn relayed(count: usize) -> Vec<(Frames, Writer)> {
    relayed_by(count, Alone)
}

/// The same by a rank that receives blocks as it is told here.
fn relayed_by(count: usize, peers: impl Peers + 'static) -> Vec<(Frames, Writer)> {
    let (local, writers): (Vec<Client>, Vec<Writer>) = (0..count).map(|_| met(4096)).unzip();
    let port = Port::open(false).unwrap();
    let connect = |rank: usize| {
        let frames = Frames::new(TcpStream::connect(&port.address).unwrap()).unwrap();
        frames.say(&FromRank::Hello { rank, token: "token".to_owned() }).unwrap();
        frames
    };
    let frames: Vec<Frames> = (0..count).map(connect).collect();
    let relay = Relay::new(port, (0..count).collect(), "token".to_owned(), local);
    std::thread::spawn(move || relay.admit().unwrap().run(&peers));
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

/// A rank's blocks arrive when another one has been told of its dump.
struct AfterNews(Mutex<Receiver<()>>);

impl Peers for AfterNews {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn machine(&self) -> usize {
        0
    }

    fn broadcast(&self, _: &mut [u8], _: usize) -> Result<()> {
        Ok(())
    }

    fn gather(&self, _: &[u8], _: &mut [u8]) -> Result<()> {
        Ok(())
    }

    fn meet(&self) -> Result<()> {
        Ok(())
    }

    fn send(&self, _: &[u8], _: usize) -> Result<()> {
        Ok(())
    }

    fn receive(&self, _: &mut [u8], _: usize) -> Result<()> {
        let told = self.0.lock().unwrap().recv_timeout(HANGS);
        told.map_err(|_| Error::Host("the other rank was not told".to_owned()))
    }

    fn abort(&self) -> Box<dyn Fn() + Send> {
        Box::new(|| {})
    }
}

/// A rank that waited for its dump was told of it when the others had handed over their next ones: on a slow
/// machine, 15 s later.
#[test]
fn a_rank_is_told_of_its_dumps_before_the_blocks_of_others_are_received() {
    let (tell, told) = channel();
    let mut ranks = relayed_by(2, AfterNews(Mutex::new(told)));
    post(&ranks[1].0, 1);
    until(|| ranks[1].1.slot.posted() == 1);
    // Without a ring, so that both are found at once.
    ranks[1].1.slot.settle(Fate::Whole);
    let variable = Variable::new("u", Type::Int8, &[16], None).unwrap();
    let blocks = vec![Declared::new(variable).encoded.clone()];
    let mut attributes = Vec::new();
    block::put_attributes(&mut attributes, &Vec::new());
    ranks[0].0.say(&FromRank::Post { step: 0, end: true, blocks, attributes }).unwrap();
    hear(&mut ranks[1].0, 1);
    tell.send(()).unwrap();
    until(|| ranks[0].1.slot.posted() == 1);
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
