//! A daemon that is killed before any of its changes, and what others set before the restore.

use super::Store;
use super::tree::{CPU, Tree};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use wattio_governor::{
    Address, Assignment, RestorableWriter, Restored, Snapshot, SnapshotError, SnapshotStore,
};
use wattio_host::LinuxMachine;

thread_local! {
    /// How many changes may still happen before the kill, and how many did.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    static CHANGES: Cell<usize> = const { Cell::new(0) };
}

/// A change is about to happen, or the daemon is killed.
fn change() {
    CHANGES.set(CHANGES.get() + 1);
    match LEFT.get().checked_sub(1) {
        Some(left) => LEFT.set(left),
        None => resume_unwind(Box::new("killed")),
    }
}

#[derive(Clone, Default)]
struct Mortal(Store);

impl SnapshotStore for Mortal {
    fn load(&mut self) -> Result<Option<Snapshot>, SnapshotError> {
        self.0.load()
    }

    fn save(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        change();
        self.0.save(snapshot)
    }

    fn clear(&mut self) -> Result<(), SnapshotError> {
        change();
        self.0.clear()
    }
}

/// Each place: what stands there first, what is written, what somebody sets.
const PLACES: [(&str, &str, [&str; 2], &str); 8] = [
    ("file:{cpu}/cpufreq/policy0/scaling_min_freq", "1800000", ["1000000", "800000"], "1400000"),
    ("file:{cpu}/cpufreq/policy0/scaling_max_freq", "2600000", ["1000000", "1800000"], "1400000"),
    ("file:{cpu}/cpufreq/policy1/scaling_max_freq", "2401000", ["1000000", "2400000"], "3000000"),
    (
        "file:{cpu}/cpufreq/policy0/energy_performance_preference",
        "balance_performance",
        ["balance_power", "power"],
        "performance",
    ),
    ("file:{cpu}/cpu0/power/energy_perf_bias", "6", ["8", "15"], "0"),
    (
        "file:/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw",
        "150000000",
        ["90000000", "60000000"],
        "75000000",
    ),
    ("file:/sys/block/md0/md/sync_speed_max", "200000", ["100000", "1"], "50000"),
    ("cgroup:/sys/fs/cgroup/a/cpu.weight", "100", ["50", "1"], "300"),
];

fn places() -> Vec<(Address, &'static str, [&'static str; 2], &'static str)> {
    let place = |(at, first, written, theirs): (&str, _, _, _)| {
        let at = at.replace("{cpu}", CPU);
        let (scheme, rest) = at.split_once(':').unwrap();
        (Address::new(scheme, rest), first, written, theirs)
    };
    PLACES.into_iter().map(place).collect()
}

fn open(tree: &Tree, store: &Mortal) -> (RestorableWriter, Restored) {
    let machine = LinuxMachine::new(tree.root(), &[]).unwrap().telling(|_, _| change());
    RestorableWriter::open(Box::new(machine), Box::new(store.clone()), "boot").unwrap()
}

/// Turns all places to one value, to the other, back and down again, until it is killed.
fn run(tree: &Tree, store: &Mortal, killed_after: usize) {
    for (address, first, ..) in places() {
        tree.write(address.rest(), first);
    }
    let (mut writer, _) = open(tree, store);
    LEFT.set(killed_after);
    CHANGES.set(0);
    let life = catch_unwind(AssertUnwindSafe(|| {
        for at in [Some(0), Some(1), None, Some(0)] {
            let assignment = |(address, _, written, _): (Address, _, [&str; 2], _)| match at {
                Some(at) => Assignment::new(address, written[at]),
                None => Assignment::original(address),
            };
            let assignments: Vec<_> = places().into_iter().map(assignment).collect();
            assert_eq!(writer.apply("knob", &assignments).notes, []);
        }
    }));
    assert_eq!(life.is_err(), CHANGES.get() > killed_after);
    std::mem::forget(writer);
    LEFT.set(usize::MAX);
}

/// After a kill, a restore put the first value over a limit of frequency or power, a preference, a
/// weight that somebody had set since.
#[test]
fn after_a_kill_what_was_written_is_put_back_and_what_others_set_is_left() {
    let tree = Tree::new();
    run(&tree, &Mortal::default(), usize::MAX);
    let changes = CHANGES.get();
    assert!(changes > 4 * PLACES.len(), "{changes}");
    let mut left = 0;
    for kill in 0..=changes {
        let store = Mortal::default();
        run(&tree, &store, kill);
        let (_, restored) = open(&tree, &store);
        assert_eq!((restored.foreign, restored.left), (vec![], vec![]));
        for (address, first, ..) in places() {
            assert_eq!(tree.read(address.rest()), first, "{address}, {kill}");
        }

        run(&tree, &store, kill);
        let snapshot = store.clone().load().unwrap();
        let saved = snapshot.map(|snapshot| snapshot.saved).unwrap_or_default();
        places().iter().for_each(|(address, .., theirs)| tree.write(address.rest(), theirs));
        let (_, restored) = open(&tree, &store);
        for (address, first, _, theirs) in places() {
            let saved = saved.iter().find(|saved| saved.address == address);
            // What was just being written to these for the first time may read back as anything.
            let is_rounded =
                address.rest().ends_with("_freq") || address.rest().ends_with("_power_limit_uw");
            let in_doubt = saved.is_some_and(|saved| saved.marks.is_empty());
            assert!(is_rounded || !in_doubt, "{address}");
            let found = if in_doubt { first } else { theirs };
            assert_eq!(tree.read(address.rest()), found, "{address}, {kill}");
            let is_told = restored.foreign.contains(&address);
            assert_eq!(is_told, saved.is_some() && !in_doubt, "{address}, {kill}");
            left += usize::from(is_told);
        }
    }
    assert!(left > changes * PLACES.len() / 2, "{left}");
}
