//! Clients that do anything.

use crate::client::{Client, FLUSH, FUA, TRIM, WRITE, WRITE_ZEROES};
use crate::{SIZE, Target, pattern};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::io::{Read, Write};
use std::net::Shutdown;
use wattio_nbd::Header;
use wattio_volume::Compression;

/// Something that a client does at random.
#[derive(Clone, Debug)]
enum Action {
    Write { offset: usize, length: usize, fua: bool },
    Zero { offset: usize, length: usize, trim: bool },
    Flush,
    Kill,
}

fn action() -> impl Strategy<Value = Action> {
    let place = || (0..300_000_usize, prop_oneof![1..9000_usize, Just(4096), Just(40_000)]);
    prop_oneof![
        6 => (place(), any::<bool>())
            .prop_map(|((offset, length), fua)| Action::Write { offset, length, fua }),
        3 => (place(), any::<bool>())
            .prop_map(|((offset, length), trim)| Action::Zero { offset, length, trim }),
        1 => Just(Action::Flush),
        1 => Just(Action::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever overlapping changes of whatever bytes two clients have under way at once, each one
    /// its own bytes of every block, nothing of either is lost; and nothing durable by a kill.
    #[test]
    fn neighbours_in_a_block_do_not_disturb_each_other(
        rounds in prop::collection::vec(prop::collection::vec(action(), 1..12), 1..6),
        reactors in 1..3_usize,
        compression in prop::sample::select(Compression::ALL.to_vec()),
    ) {
        let target = Target::made(reactors, &["disk"], 1, compression);
        let Some(mut target) = target else { return Ok(()) };
        let mut expected = vec![0_u8; 400_000];
        let mut seed = 0;
        for round in rounds {
            let mut clients = [target.client(), target.client()];
            let mut asked = [0, 0];
            // In one round no byte is changed twice, so that order does not matter.
            let mut taken = vec![false; expected.len()];
            let mut kill = false;
            for (at, action) in round.into_iter().enumerate() {
                let client = &mut clients[at % 2];
                seed += 1;
                match action {
                    Action::Write { offset, length, fua } => {
                        if taken[offset..offset + length].contains(&true) { continue; }
                        taken[offset..offset + length].fill(true);
                        let bytes = pattern(seed, length);
                        expected[offset..offset + length].copy_from_slice(&bytes);
                        let flags = if fua { FUA } else { 0 };
                        client.send(WRITE, flags, offset as u64, length as u32, &bytes).unwrap();
                    }
                    Action::Zero { offset, length, trim } => {
                        if taken[offset..offset + length].contains(&true) { continue; }
                        taken[offset..offset + length].fill(true);
                        let (first, end) = if trim {
                            (offset.next_multiple_of(4096), (offset + length) / 4096 * 4096)
                        } else {
                            (offset, offset + length)
                        };
                        if first < end {
                            expected[first..end].fill(0);
                        }
                        let command = if trim { TRIM } else { WRITE_ZEROES };
                        client.send(command, 0, offset as u64, length as u32, &[]).unwrap();
                    }
                    Action::Flush => { client.send(FLUSH, 0, 0, 0, &[]).unwrap(); }
                    Action::Kill => { kill = true; continue; }
                }
                asked[at % 2] += 1;
            }
            for (client, asked) in clients.iter_mut().zip(asked) {
                for _ in 0..asked {
                    prop_assert_eq!(client.reply().unwrap().1, 0);
                }
            }
            clients[0].flush();
            if kill {
                target.kill_and_restart();
            }
            let read = target.client().read_at(0, expected.len() as u32);
            prop_assert!(read == expected);
        }
    }
}

/// Requests of any kind, most of them near something valid, with payloads that need not fit.
fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![0..70_000_u32, Just(4096), any::<u32>()];
    let offset = prop_oneof![0..SIZE + 10_000, any::<u64>()];
    let payload = prop_oneof![Just(None), (0..70_000_usize).prop_map(Some)];
    (0..10_u16, prop_oneof![Just(0_u16), any::<u16>()], offset, length, payload).prop_map(
        |(command, flags, offset_bytes, length_bytes, payload)| {
            let header = Header { flags, command, cookie: 7, offset_bytes, length_bytes };
            let fits = if command == WRITE { length_bytes.min(1 << 20) as usize } else { 0 };
            let mut bytes = header.encode().to_vec();
            bytes.resize(Header::BYTES + payload.unwrap_or(fits), 0x25);
            bytes
        },
    )
}

/// Whatever clients send, in the handshake or after it: they are answered or turned away, and the
/// others are served.
#[test]
fn no_bytes_stop_the_target() {
    let Some(target) = Target::start(2) else { return };
    let bytes = prop::collection::vec(
        prop_oneof![4 => any_request(), 1 => prop::collection::vec(any::<u8>(), 0..200)],
        1..12,
    );
    let case = (bytes, any::<bool>());
    let run = |(messages, has_session): (Vec<Vec<u8>>, bool)| {
        let client = if has_session {
            Client::connect_structured(&target.socket(), "disk")
        } else {
            Client::greet(&target.socket())
        };
        let mut stream = client.unwrap().stream;
        let mut reader = stream.try_clone().unwrap();
        let drain = std::thread::spawn(move || {
            let mut sink = [0; 65_536];
            while reader.read(&mut sink).is_ok_and(|count| count > 0) {}
        });
        for message in messages {
            // It may have been turned away.
            if stream.write_all(&message).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        // Until the target has answered everything and gone.
        drain.join().unwrap();
        prop_assert_eq!(target.client().read_at(SIZE - 1, 1).len(), 1);
        Ok(())
    };
    TestRunner::new(ProptestConfig::with_cases(200)).run(&case, run).unwrap();
    let status = target.server.as_ref().unwrap().status();
    for reactor in status {
        assert_eq!(reactor.in_flight, 0);
        assert!(reactor.lane.connections > 20, "{reactor:?}");
    }
}
