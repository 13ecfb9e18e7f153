use super::*;
use crate::block::{Type, Variable};
use crate::connection::Welcome;
use crate::transport::Placed;
use std::io::Read;
use std::time::Duration;

/// What a wait that has not ended by then never will.
pub(crate) const HANGS: Duration = Duration::from_secs(20);

/// A writer's end.
pub(crate) struct Writer {
    pub(crate) slot: Slot,
    doorbell: Doorbell,
    peer: UnixStream,
}

impl Writer {
    /// Be done with the next entry, which is a whole dump.
    pub(crate) fn settle(&self, number: u64) {
        self.slot.finish(number + 1, number + 1);
        self.slot.settle(Fate::Whole);
        if self.slot.is_asleep() {
            self.doorbell.ring();
        }
    }

    /// Let the rank go that closes.
    pub(crate) fn let_go(mut self) {
        let mut word = [0];
        self.peer.read_exact(&mut word).unwrap();
        assert_eq!(word, [connection::CLOSE]);
        connection::say(&self.peer, &[connection::ENDED]).unwrap();
    }
}

/// A client, and the writer that it has met.
pub(crate) fn met(share: u64) -> (Client, Writer) {
    let address = Address::Abstract(format!("wattio-io-{}", crate::job::random_hex(12).unwrap()));
    let listener = address.listen().unwrap();
    let client =
        std::thread::spawn(move || Client::connect(&address, 0, 7, WhenFull::Block).unwrap());
    let peer = listener.accept().unwrap().0;
    assert_eq!(connection::who(&peer, 7), Some(0));
    let (slot, board) = (Slot::create(0, share).unwrap(), Board::create().unwrap());
    let (own, doorbell) = (Doorbell::new().unwrap(), Doorbell::new().unwrap());
    let given = Welcome {
        slot: (slot.memory().file(), slot.memory().bytes() as u64),
        board: board.memory().file(),
        writer: &own,
        client: &doorbell,
    };
    connection::welcome(&peer, &given).unwrap();
    (client.join().unwrap(), Writer { slot, doorbell, peer })
}

#[test]
fn what_is_done_after_a_look_ends_the_sleep_that_follows() {
    let (mut client, writer) = met(4096);
    let nap = client.nap();
    assert_eq!(client.settled(), Ok(0));
    writer.settle(0);
    assert_eq!(nap.sleep(Some(Instant::now() + HANGS)), Ok(true));
    assert_eq!(client.settled(), Ok(1));
}

/// Ask until there is an answer, asleep between.
fn asked<T>(client: &mut Client, mut ask: impl FnMut(&mut Client) -> Option<T>) -> T {
    loop {
        let nap = client.nap();
        if let Some(found) = ask(client) {
            return found;
        }
        assert_eq!(nap.sleep(Some(Instant::now() + HANGS)), Ok(true));
    }
}

#[test]
fn room_that_is_given_back_while_a_block_asks_for_it_is_found() {
    const DUMPS: u64 = 20_000;
    // Each is a turn of both threads: where others take the cores, as many as there is time for.
    let until = Instant::now() + Duration::from_secs(5);
    let (mut client, writer) = met(4096);
    std::thread::scope(|scope| {
        let client = scope.spawn(move || {
            let all = [Declared::new(Variable::new("u", Type::Int8, &[4096], None).unwrap())];
            for step in (0..DUMPS).take_while(|_| Instant::now() < until) {
                let mut open = Open::default();
                // The one before has all of it, and only that one is in the way.
                let data = asked(&mut client, |one| one.reserve(&mut open, &all, 0, step).unwrap());
                open.placed.push(Placed { variable: 0, data, committed: true });
                let attributes = &Attributes::new();
                let part = Part { declared: &all, step, end: true, attributes };
                asked(&mut client, |one| one.post(&mut open, part).unwrap().then_some(()));
            }
        });
        for number in 0..DUMPS {
            while writer.slot.posted() <= number {
                if client.is_finished() {
                    return;
                }
                std::hint::spin_loop();
            }
            // Earlier and later than the client asks for the next.
            (0..number % 1024).for_each(|_| std::hint::black_box(()));
            writer.settle(number);
        }
    });
}
