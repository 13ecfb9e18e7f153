//! Connections and volumes that move between reactors while they are used.

use crate::client::{Client, FLUSH, FUA, READ, WRITE};
use crate::tls::{request, secret_client};
use crate::{MIB, Target, pattern, wait_until};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Seeded;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wattio_target::handle::Handle;
use wattio_target::manager::LiveReactors;
use wattio_target::plant::Layout;
use wattio_target::reactor::{Loads, Moves};
use wattio_target::server::Server;
use wattio_target_config::Idle;

const REACTORS: usize = 3;
const CLIENTS: usize = 4;
/// Each client has so much of the export for itself.
const REGION: u64 = MIB;
const ROUNDS: usize = 150;

/// What each reactor has. One that is busy, or whose core is, does not answer in time and is left out.
fn loads(handle: &Handle) -> Vec<Loads> {
    let mut loads = Vec::new();
    wait_until("all reactors answer at once", || {
        loads = handle.loads();
        loads.len() == handle.reactors()
    });
    loads
}

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
    for (idle, names) in [
        (Idle::Block, &["disk"][..]),
        (Idle::Spin(Duration::from_micros(20)), &["disk", "other"]),
        (Idle::Poll, &["disk", "other"]),
    ] {
        let Some(mut target) = Target::with(REACTORS, names) else { return };
        target.settings.idle = idle;
        target.restart();
        moves_at_random(target, names);
    }
}

fn moves_at_random(mut target: Target, names: &[&str]) {
    let handle = target.server.as_ref().unwrap().handle();
    let working = AtomicUsize::new(CLIENTS + 1);
    let works = || Working(&working);
    let moved = std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let export = names[number % names.len()];
            let client = Client::connect(&target.socket(), export).unwrap();
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
            // Metrics of a volume that two reactors tell of are refused, all of them.
            let status = handle.status();
            let volumes = status.iter().flat_map(|reactor| &reactor.volumes);
            let told: Vec<&str> = volumes.map(|volume| volume.export.as_str()).collect();
            assert!(names.iter().all(|name| told.iter().filter(|one| one == &name).count() < 2));
        }
        moved
    });
    assert!(moved > 20, "{moved} moves of the volume");
    let status = target.server.as_ref().unwrap().status();
    assert!(status.iter().all(|reactor| reactor.in_flight == 0), "{status:?}");
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
        let loads = loads(&handle).swap_remove(1);
        let connections = loads.connections.into_iter().map(|load| load.to(0)).collect();
        let volumes = loads.volumes.into_iter().map(|(volume, _)| (volume, 0)).collect();
        handle.move_from(1, Moves { connections, volumes });
    };
    take_away();
    let is_empty = |reactor: usize| {
        let loads = &loads(&handle)[reactor];
        loads.connections.is_empty() && loads.volumes.is_empty()
    };
    wait_until("all has been taken away", || {
        clients.iter_mut().for_each(Client::flush);
        is_empty(1)
    });
    let mut others: Vec<Client> = (0..4).map(|_| target.client()).collect();
    others.iter_mut().for_each(Client::flush);
    assert!(is_empty(1));
    assert_eq!(loads(&handle)[0].connections.len(), 8);
    handle.set_active(1, true);
    let _more: Vec<Client> = (0..4).map(|_| target.client()).collect();
    assert_eq!(loads(&handle)[1].connections.len(), 2);
}

/// Asks for several writes at once, and for no answer.
fn ask_for_writes(client: &mut Client, round: u64) -> Vec<(u64, u64)> {
    let write = |at: u64| {
        let bytes = pattern(round ^ at, 4096);
        (at, client.send(WRITE, 0, at * 4096, 4096, &bytes).unwrap())
    };
    (0..8).map(write).collect()
}

/// A target that is stopped while everything moves ends in order: what was answered is there.
#[test]
fn a_target_stops_while_everything_moves() {
    let Some(mut target) = Target::with(REACTORS, &["disk", "other"]) else { return };
    let mut random = Seeded::seed_from_u64(9);
    for round in 0..25_u64 {
        let handle = target.server.as_ref().unwrap().handle();
        let mut client = target.client();
        let _others: Vec<Client> = (0..3).map(|_| target.client()).collect();
        client.flush();
        let asked = ask_for_writes(&mut client, round << 8);
        for _ in 0..round % 4 {
            shuffle(&handle, &mut random);
        }
        target.stop();
        // Those that were not answered were not read either, or their connection was closed first.
        let mut answered = Vec::new();
        while let Ok((cookie, error)) = client.reply() {
            assert_eq!(error, 0);
            answered.push(cookie);
        }
        target.server = Some(Server::start(&target.settings).unwrap());
        let mut client = target.client();
        for (at, cookie) in asked {
            if answered.contains(&cookie) {
                assert!(client.read_at(at * 4096, 4096) == pattern(round << 8 ^ at, 4096));
            }
        }
    }
}

/// What was moving when a target ended at once is let go, though there are handles.
#[test]
fn a_target_that_is_killed_while_everything_moves_can_start_again() {
    let Some(mut target) = Target::with(REACTORS, &["disk", "other"]) else { return };
    let mut random = Seeded::seed_from_u64(10);
    let mut handles = Vec::new();
    for round in 0..25_u64 {
        let handle = target.server.as_ref().unwrap().handle();
        let mut client = target.client();
        client.flush();
        ask_for_writes(&mut client, round);
        shuffle(&handle, &mut random);
        handles.push(handle);
        target.kill_and_restart();
    }
}

/// A volume moves on while one of its devices loses all that it has.
#[test]
fn a_mirror_that_moves_lives_through_a_device() {
    let Some(target) = Target::on(REACTORS, &["disk"], 2) else { return };
    let handle = target.server.as_ref().unwrap().handle();
    let mut random = Seeded::seed_from_u64(11);
    let mut client = target.client();
    let bytes = pattern(11, 4 * MIB as usize);
    assert_eq!(client.write_at(0, &bytes, FUA).unwrap(), 0);
    let device = &target.settings.volumes[0].devices[0];
    std::fs::File::options().write(true).open(device).unwrap().set_len(0).unwrap();
    for round in 0..200_u64 {
        shuffle(&handle, &mut random);
        let at = random.random_range(0..3 * MIB as usize);
        assert!(client.read_at(at as u64, 300_000) == bytes[at..at + 300_000], "{round}");
        if round % 10 == 0 {
            assert_eq!(client.write_at(7 * MIB, &pattern(round, 4096), FUA).unwrap(), 0);
        }
    }
}

/// Reactors that have volumes and nothing else were given new connections, which were taken away
/// again only under load; and what volumes were elsewhere at the start stayed there until then.
#[test]
fn reactors_for_volumes_get_no_connections() {
    let Some(target) = Target::with(REACTORS, &["disk", "other"]) else { return };
    let handle = target.server.as_ref().unwrap().handle();
    let layout = Layout::new(REACTORS, 1, 1).unwrap();
    let full = layout.setting(&layout.limits().full_speed());
    // A manager plans once, where all reactors answer it.
    wait_until("the volumes are on their reactor", || {
        let _manager = LiveReactors::new(handle.clone(), 2, full.clone());
        loads(&handle)[2].volumes.len() == 2
    });
    let mut clients: Vec<Client> = (0..6).map(|_| target.client()).collect();
    clients.iter_mut().for_each(Client::flush);
    let connections: Vec<usize> = loads(&handle).iter().map(|one| one.connections.len()).collect();
    assert_eq!(connections, [3, 3, 0]);
}
