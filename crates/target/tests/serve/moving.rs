//! Connections and volumes that move between reactors while they are used.

use crate::client::{Client, FLUSH, FUA, READ, WRITE};
use crate::tls::{request, secret_client};
use crate::{MIB, Target, pattern};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Seeded;
use std::sync::atomic::{AtomicUsize, Ordering};
use wattio_target::reactor::Moves;
use wattio_target::server::Handle;

const REACTORS: usize = 3;
const CLIENTS: usize = 4;
/// Each client has so much of the export for itself.
const REGION: u64 = MIB;
const ROUNDS: usize = 150;

/// Moves a random part of what there is, once; how many volumes were moved.
fn shuffle(handle: &Handle, random: &mut Seeded) -> usize {
    let mut moved = 0;
    for loads in handle.loads() {
        let mut moves = Moves::default();
        for load in loads.connections {
            if random.random_bool(0.5) {
                moves.connections.push(load.to(random.random_range(0..REACTORS)));
            }
        }
        for (volume, _) in loads.volumes {
            if random.random_bool(0.5) {
                let to = random.random_range(0..REACTORS);
                moved += usize::from(to != loads.reactor);
                moves.volumes.push((volume, to));
            }
        }
        handle.move_from(loads.reactor, moves);
    }
    moved
}

/// Several requests at once of all sizes, checked against what it wrote itself.
fn use_region(mut client: Client, number: usize) {
    let mut random = Seeded::seed_from_u64(number as u64);
    let from = number as u64 * REGION;
    let mut expected = vec![0_u8; REGION as usize];
    for round in 0..ROUNDS {
        let mut asked = Vec::new();
        let mut at = 0;
        for _ in 0..random.random_range(1..6) {
            let most = [600, 5000, 4096, 200_000][random.random_range(0..4)];
            let length: usize = random.random_range(1..=most).min(expected.len() - at);
            if length == 0 {
                break;
            }
            let offset = from + at as u64;
            if random.random_bool(0.6) {
                let bytes = pattern(random.next_u64(), length);
                expected[at..at + length].copy_from_slice(&bytes);
                let flags = if random.random_bool(0.1) { FUA } else { 0 };
                let cookie = client.send(WRITE, flags, offset, length as u32, &bytes).unwrap();
                asked.push((cookie, None));
            } else {
                let cookie = client.send(READ, 0, offset, length as u32, &[]).unwrap();
                asked.push((cookie, Some(at..at + length)));
            }
            at += length;
        }
        if round % 7 == 0 {
            asked.push((client.send(FLUSH, 0, 0, 0, &[]).unwrap(), None));
        }
        for _ in 0..asked.len() {
            let (cookie, error) = client.reply().unwrap();
            assert_eq!(error, 0);
            let place = asked.iter().position(|&(one, _)| one == cookie).unwrap();
            if let (_, Some(range)) = asked.swap_remove(place) {
                assert!(client.read(range.len()).unwrap() == expected[range], "round {round}");
            }
        }
    }
    client.flush();
    assert!(client.read_at(from, REGION as u32) == expected);
}

/// Counts a client out when it ends, however it does.
struct Working<'a>(&'a AtomicUsize);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whatever moves, wherever to, in whatever state: every request is answered once, with what the
/// client wrote, and the target closes in order afterwards.
#[test]
fn nothing_is_lost_or_mixed_up_by_moves() {
    let Some(mut target) = Target::start(REACTORS) else { return };
    let handle = target.server.as_ref().unwrap().handle();
    let working = AtomicUsize::new(CLIENTS + 1);
    let works = || Working(&working);
    let moved = std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let client = target.client();
            let works = works();
            scope.spawn(move || {
                let _works = works;
                use_region(client, number);
            });
        }
        let mut secret = secret_client(&target);
        let works = works();
        scope.spawn(move || {
            let _works = works;
            let from = CLIENTS as u64 * REGION;
            for round in 0..ROUNDS as u64 {
                let size = [4096, 100, 70_000, 1_000_000][round as usize % 4];
                let bytes = pattern(round, size);
                request(&mut secret, WRITE, from, size as u32, &bytes);
                assert!(request(&mut secret, READ, from, size as u32, &[]) == bytes);
            }
        });
        let mut random = Seeded::seed_from_u64(7);
        let mut moved = 0;
        while working.load(Ordering::Acquire) > 0 {
            moved += shuffle(&handle, &mut random);
        }
        moved
    });
    assert!(moved > 20, "{moved} moves of the volume");
    let status = target.server.as_ref().unwrap().status();
    assert!(status.reactors.iter().all(|reactor| reactor.in_flight == 0), "{status:?}");
    shuffle(&handle, &mut Seeded::seed_from_u64(8));
    target.restart();
    let last = pattern(ROUNDS as u64 - 1, 100);
    assert_eq!(target.client().read_at(CLIENTS as u64 * REGION, 100), last);
}

/// A reactor that is taken away keeps nothing and gets nothing; given back, it is used again.
#[test]
fn what_is_taken_away_is_empty_until_it_is_given_back() {
    let Some(target) = Target::with(2, &["disk", "other"]) else { return };
    let handle = target.server.as_ref().unwrap().handle();
    let mut clients: Vec<Client> = (0..4).map(|_| target.client()).collect();
    handle.set_active(1, false);
    let take_away = || {
        let loads = handle.loads().swap_remove(1);
        let connections = loads.connections.into_iter().map(|load| load.to(0)).collect();
        let volumes = loads.volumes.into_iter().map(|(volume, _)| (volume, 0)).collect();
        handle.move_from(1, Moves { connections, volumes });
    };
    take_away();
    let is_empty = |reactor: usize| {
        let loads = &handle.loads()[reactor];
        loads.connections.is_empty() && loads.volumes.is_empty()
    };
    while !is_empty(1) {
        clients.iter_mut().for_each(Client::flush);
    }
    let mut others: Vec<Client> = (0..4).map(|_| target.client()).collect();
    others.iter_mut().for_each(Client::flush);
    assert!(is_empty(1));
    assert_eq!(handle.loads()[0].connections.len(), 8);
    handle.set_active(1, true);
    let _more: Vec<Client> = (0..4).map(|_| target.client()).collect();
    assert_eq!(handle.loads()[1].connections.len(), 2);
}
