//! Seeded hours of trouble over the simulator: whatever happens, clients get full speed when
//! nobody knows how they fare, and the host ends as it was found.
//!
//! `WATTIO_SEEDS=2000 cargo test -p wattio-governor faults` tries more;
//! `WATTIO_SEED=17 cargo test -p wattio-governor faults` replays one.

use crate::support::{
    Around, Hosted, LatencyFault, PowerFault, Shared, World, action_in, frequency_of, governor,
    open_writer, pace, world,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wattio_control::Settings;
use wattio_governor::{Address, Governor};
use wattio_law::Limits;
use wattio_plant::{SMALL, Server};
use wattio_sim::{Load, Pattern, Phase, Run, RunSettings, Senders};

const SEEDS: u64 = 300;
/// How long a restarted service may be wider than the others.
const TICKS_TO_FIND_MAX: u32 = 40;
const POLICIES: [&str; 3] = ["pacer", "schedutil", "ondemand"];

/// What the mischief did, to hold the governor's doings against.
#[derive(Default)]
struct Record {
    /// Values that somebody else wrote into places that the governor held, and how many writes the
    /// governor had made by then.
    foreign: BTreeMap<Address, (String, usize)>,
    /// What the host held before the governor came, and what restarted services brought.
    found: BTreeMap<Address, String>,
    /// Groups whose service was restarted and is not narrow yet, and for how many ticks.
    restarted: BTreeMap<usize, u32>,
    restarts: u64,
    windows_without_sample: u32,
    ticks: u64,
    latency_faults: u64,
    knob_faults: u64,
}

/// A load that changes every few seconds, now and then to nothing.
fn load(random: &mut Xoshiro256PlusPlus) -> Load {
    let phases = (0..8).map(|_| {
        let busy = random.random_bool(0.8);
        let iops = if busy { random.random_range(50.0..1500.0) } else { 0.0 };
        let read_fraction = random.random_range(0.0..1.0);
        let pattern = Pattern { read_fraction, random_fraction: 0.9, io_bytes: 8192 };
        Phase { span_s: random.random_range(1.0..20.0), iops: Some(iops), pattern }
    });
    Load::Phases { senders: Senders::Open, phases: phases.collect() }
}

/// Something goes wrong in about every tenth window.
fn do_mischief(
    random: &mut Xoshiro256PlusPlus,
    world: &mut World,
    limits: &Limits,
    record: &mut Record,
    now: &mut Duration,
) {
    world.refusing.clear();
    world.forgetting.clear();
    world.cpu_fails = random.random_bool(0.01);
    world.disk_full = random.random_bool(0.02);
    world.power_fault = match random.random_range(0..40) {
        0 => Some(PowerFault::Failed),
        1 => Some(PowerFault::Nothing),
        2 => Some(PowerFault::Absurd(random.random_range(-1e9..1e9))),
        _ => None,
    };
    let places: Vec<_> = world.places.keys().cloned().collect();
    let some_place = places[random.random_range(0..places.len())].clone();
    match random.random_range(0..200) {
        0..=4 => world.latency_fault = Some(LatencyFault::Lost),
        5..=7 => world.latency_fault = Some(LatencyFault::Late(random.random_range(0.0..5.0))),
        8..=10 => world.latency_fault = Some(LatencyFault::Failed),
        11 => world.latency_fault = Some(LatencyFault::Absurd(0.0)),
        12 => world.latency_fault = Some(LatencyFault::Absurd(f64::NAN)),
        13 => *now += Duration::from_secs(random.random_range(1..7200)),
        14 => *now = now.saturating_sub(Duration::from_secs(random.random_range(1..10))),
        15 => {
            record.knob_faults += 1;
            world.refusing.insert(some_place);
        }
        16 => {
            record.knob_faults += 1;
            world.forgetting.insert(some_place);
        }
        17 if random.random_bool(0.2) => {
            let held = world.snapshot.iter().flat_map(|snapshot| &snapshot.saved);
            let held = held.map(|saved| &saved.address).any(|address| *address == some_place);
            let full = world.places[&some_place].clone();
            let theirs = if some_place == pace() { "0.75".to_owned() } else { full + "0" };
            if held {
                let made = world.writes.len();
                record.foreign.insert(some_place.clone(), (theirs.clone(), made));
                world.places.insert(some_place, theirs);
            }
        }
        18..=19 => {
            let group = random.random_range(0..limits.groups.len());
            let old = world.cores_of(group);
            let cores = limits.groups[group].cores_max.to_string();
            record.found.remove(&old);
            record.foreign.remove(&old);
            world.restart(group, &cores);
            record.found.insert(world.cores_of(group), cores);
            record.restarted.insert(group, 0);
            record.restarts += 1;
        }
        _ => {}
    }
    if world.latency_fault.is_some() {
        record.latency_faults += 1;
    }
}

/// What must hold after every tick.
fn look(governor: &Governor, world: &World, limits: &Limits, record: &mut Record, failed: bool) {
    record.ticks += 1;
    let account = governor.driver().account();
    for bound in &account.bounds {
        assert!(bound.windows_over <= bound.windows && bound.windows <= account.windows);
    }
    let in_force = governor.in_force();
    let full = limits.full_speed();
    let Record { foreign, restarted, .. } = record;
    let theirs = |address: &Address| foreign.contains_key(address);
    for (at, group) in limits.groups.iter().enumerate() {
        let set = &action_in(world, limits).groups[at];
        let place = world.cores_of(at);
        if !theirs(&place) {
            assert!((group.cores_min..=group.cores_max).contains(&set.cores), "{set:?}");
            let stuck = world.refusing.contains(&place) || world.forgetting.contains(&place);
            let as_wanted = set.cores == in_force.groups[at].cores;
            if as_wanted {
                restarted.remove(&at);
            }
            let fresh = restarted.get_mut(&at).is_some_and(|ticks| {
                *ticks += 1;
                // Looked for every 5 s, and later where time jumps back by up to 10 s.
                set.cores == group.cores_max && *ticks < TICKS_TO_FIND_MAX
            });
            assert!(stuck || as_wanted || fresh, "{set:?} {in_force:?}");
        }
        if !theirs(&frequency_of(at)) {
            assert!((group.frequency_min..=group.frequency_max).contains(&set.frequency));
        }
    }
    if failed {
        assert_eq!(*in_force, full, "half a setting is none");
    }
}

/// Every place holds its old value, or what somebody else put there.
fn assert_as_found(world: &World, record: &Record) {
    let found = &record.found;
    for (address, value) in &world.places {
        match record.foreign.get(address) {
            // Whoever takes over a place that stands at its old value takes over nothing.
            Some((theirs, _)) => assert!(value == theirs || *value == found[address], "{address}"),
            None => assert_eq!(*value, found[address], "{address}"),
        }
    }
    for (address, (_, made)) in &record.foreign {
        let after: Vec<_> =
            world.writes[*made..].iter().filter(|(place, _)| place == address).collect();
        assert!(after.len() <= 1, "{address} is somebody else's and was written: {after:?}");
    }
}

struct Outcome {
    faults: u64,
    restarts: u64,
    saved: u64,
}

fn hour_of_trouble(seed: u64) -> Outcome {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let server = Server::from_toml(SMALL).unwrap();
    let limits = wattio_sim::limits(&server);
    let policy = POLICIES[(seed % 3) as usize];
    let law = wattio_control::build(policy, &Settings::new(), &limits).unwrap();
    let load = load(&mut random);
    let killed_at = random.random_bool(0.5).then(|| random.random_range(1..120u64));

    let shared = world(&limits);
    let found = shared.lock().unwrap().places.clone();
    let record = Arc::new(Mutex::new(Record { found, ..Record::default() }));
    let (kept, its_limits, mut dice) = (record.clone(), limits.clone(), random.clone());
    let around = move |governor: &mut Governor, world: &Shared, around: Around<'_>| {
        let (mut world, mut record) = (world.lock().unwrap(), kept.lock().unwrap());
        match around {
            Around::Before { now } => {
                do_mischief(&mut dice, &mut world, &its_limits, &mut record, now);
            }
            Around::After { tick } => {
                let silent = tick.stepped.as_ref().is_none_or(|s| s.seen.latency.is_none());
                record.windows_without_sample =
                    if silent { record.windows_without_sample + 1 } else { 0 };
                if record.windows_without_sample > 3 {
                    assert_eq!(*governor.in_force(), its_limits.full_speed(), "nobody knows");
                }
                let failed = tick.events.iter().any(|event| {
                    event.severity == wattio_governor::Severity::Error
                        && event.message.contains("written")
                });
                look(governor, &world, &its_limits, &mut record, failed);
            }
        }
    };
    let hosted = Hosted {
        governor: governor(&shared, law, &limits, Duration::ZERO),
        world: shared.clone(),
        limits: limits.clone(),
        now: Duration::ZERO,
        around,
    };
    let settings = RunSettings { warmup_s: 0.0, duration_s: None, window_s: 1.0, seed };
    let mut run = Run::new(&server, Box::new(hosted), load, settings).unwrap();
    let mut passed = 0;
    while killed_at != Some(passed) && run.advance(1.0).unwrap() < 1.0 {
        passed += 1;
    }

    let calm = |world: &Shared| {
        let mut world = world.lock().unwrap();
        world.refusing.clear();
        world.forgetting.clear();
        world.disk_full = false;
        world.latency_fault = None;
    };
    calm(&shared);
    if killed_at.is_some() {
        // kill -9: nothing runs any more, and a later start finds the snapshot.
        std::mem::forget(run);
        let foreign: Vec<_> = record.lock().unwrap().foreign.keys().cloned().collect();
        let (writer, restored) = open_writer(&shared, "boot");
        assert!(restored.left.is_empty(), "{restored:?}");
        assert_eq!(writer.held(), 0);
        // What was taken over between the last look and the kill cannot be told from ours.
        let mut record = record.lock().unwrap();
        for address in foreign {
            if shared.lock().unwrap().places[&address] == record.found[&address] {
                record.foreign.remove(&address);
            }
        }
    } else {
        drop(run);
    }
    let (world, record) = (shared.lock().unwrap(), record.lock().unwrap());
    assert_as_found(&world, &record);
    assert_eq!(world.snapshot, None, "nothing is left to restore");
    assert!(record.ticks > 0);
    Outcome {
        faults: record.latency_faults + record.knob_faults,
        restarts: record.restarts,
        saved: world.writes.len() as u64,
    }
}

fn hour_or_replay(seed: u64) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| hour_of_trouble(seed))).unwrap_or_else(|_| {
        panic!("replay: WATTIO_SEED={seed} cargo test -p wattio-governor --test host faults")
    })
}

#[test]
fn whatever_happens_the_host_ends_as_it_was_found() {
    let asked = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match asked("WATTIO_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..asked("WATTIO_SEEDS").unwrap_or(SEEDS),
    };
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let start = |first: u64| {
            let own = seeds.clone().skip(first as usize).step_by(workers as usize);
            scope.spawn(move || own.map(hour_or_replay).collect::<Vec<_>>())
        };
        let started: Vec<_> = (0..workers).map(start).collect();
        started.into_iter().flat_map(|worker| worker.join().expect("a seed failed")).collect()
    });
    let sum = |part: fn(&Outcome) -> u64| outcomes.iter().map(part).sum::<u64>();
    let (faults, restarts, writes) =
        (sum(|found| found.faults), sum(|found| found.restarts), sum(|found| found.saved));
    // A run in which nothing goes wrong and nothing is written proves nothing.
    let count = seeds.end - seeds.start;
    let enough = faults > count && restarts > count / 10 && writes > 10 * count;
    assert!(count < 10 || enough, "{faults} {restarts} {writes}");
}
