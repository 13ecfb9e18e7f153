//! Kills before any change of a daemon's life, and what others set between a kill and the restore.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use wattio_governor::{
    Address, Assignment, Machine, MachineError, MachineView, RestorableWriter, Restored, Snapshot,
    SnapshotError, SnapshotStore,
};

/// What stood at each place first, and what somebody sets there.
const FIRST: &str = "99";
const THEIRS: &str = "7";

/// The places, and the disk beside them.
#[derive(Default)]
struct World {
    places: BTreeMap<Address, String>,
    snapshot: Option<Snapshot>,
    saves: usize,
    /// How many changes may still happen; `None`: any number.
    left: Option<usize>,
    changes: usize,
    disk_full: bool,
    /// Whether no place takes anything, or says anything.
    refuses: bool,
    silent: bool,
}

impl World {
    /// Whether the next change still happens, or the daemon was killed before it.
    fn lives(&mut self) -> bool {
        self.changes += 1;
        match &mut self.left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        true
    }
}

/// A machine whose `altered` places keep only tens below 50: no value that was asked for there is what
/// is read back.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<World>>);

fn places() -> [Address; 2] {
    [Address::new("exact", "a"), Address::new("altered", "b")]
}

impl MachineView for Shared {
    fn read(&mut self, address: &Address) -> Result<String, MachineError> {
        let world = self.0.lock().unwrap();
        if world.silent {
            let (address, message) = (address.clone(), "busy".to_owned());
            return Err(MachineError::Refused { address, message });
        }
        Ok(world.places[address].clone())
    }

    fn same(&self, _: &Address, one: &str, other: &str) -> bool {
        one == other
    }

    fn marks(&self, _: &Address, _: &str, value: &str) -> BTreeSet<String> {
        BTreeSet::from([value.to_owned()])
    }

    fn may_alter(&self, address: &Address) -> bool {
        address.scheme() == "altered"
    }

    fn outlives_boot(&self, _: &Address) -> bool {
        false
    }

    fn restore_command(&self, address: &Address, value: &str) -> String {
        format!("set {address} {value}")
    }
}

impl Machine for Shared {
    fn write(&mut self, address: &Address, value: &str) -> Result<(), MachineError> {
        let alters = self.may_alter(address);
        let mut world = self.0.lock().unwrap();
        if world.refuses || !world.lives() {
            let (address, message) = (address.clone(), "busy".to_owned());
            return Err(MachineError::Refused { address, message });
        }
        let number: u32 = value.parse().unwrap();
        let kept = if alters && number < 50 { number / 10 * 10 } else { number };
        world.places.insert(address.clone(), kept.to_string());
        Ok(())
    }
}

impl SnapshotStore for Shared {
    fn load(&mut self) -> Result<Option<Snapshot>, SnapshotError> {
        Ok(self.0.lock().unwrap().snapshot.clone())
    }

    fn save(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        self.0.lock().unwrap().saves += 1;
        self.keep(Some(snapshot.clone()))
    }

    fn clear(&mut self) -> Result<(), SnapshotError> {
        self.keep(None)
    }
}

impl Shared {
    fn start() -> Self {
        let world = Self::default();
        world.0.lock().unwrap().places = places().map(|place| (place, FIRST.to_owned())).into();
        world
    }

    fn keep(&self, snapshot: Option<Snapshot>) -> Result<(), SnapshotError> {
        let mut world = self.0.lock().unwrap();
        if world.disk_full || !world.lives() {
            let (path, error) = ("snapshot".into(), std::io::ErrorKind::StorageFull.into());
            return Err(SnapshotError::System { path, error });
        }
        world.snapshot = snapshot;
        Ok(())
    }

    fn open(&self) -> (RestorableWriter, Restored) {
        RestorableWriter::open(Box::new(self.clone()), Box::new(self.clone()), "boot").unwrap()
    }

    /// Turns both places, up and down, until it is killed after so many changes.
    fn run(&self, killed_after: Option<usize>) {
        self.0.lock().unwrap().left = killed_after;
        let (mut writer, _) = self.open();
        for value in ["60", "33", "80", "33", "45", "60"] {
            turn(&mut writer, value);
        }
        // A killed process drops nothing.
        std::mem::forget(writer);
        self.0.lock().unwrap().left = None;
    }

    fn value(&self, place: &Address) -> String {
        self.0.lock().unwrap().places[place].clone()
    }
}

fn turn(writer: &mut RestorableWriter, value: &str) -> bool {
    writer.apply("knob", &places().map(|place| Assignment::new(place, value))).failed()
}

#[test]
fn a_kill_before_any_change_leaves_what_restore_puts_back() {
    let whole = Shared::start();
    whole.run(None);
    let changes = whole.0.lock().unwrap().changes;
    assert!(changes > 15, "{changes}");
    for kill in 0..=changes {
        let world = Shared::start();
        world.run(Some(kill));
        // The first restore may be killed too.
        for again in [Some(0), Some(1), Some(2), None] {
            world.0.lock().unwrap().left = again;
            if let Ok((writer, _)) =
                RestorableWriter::open(Box::new(world.clone()), Box::new(world.clone()), "boot")
            {
                std::mem::forget(writer);
            }
        }
        for place in places() {
            assert_eq!(world.value(&place), FIRST, "{place}, killed before change {kill}");
        }
        assert_eq!(world.0.lock().unwrap().snapshot, None, "{kill}");
    }
}

/// Whatever somebody had set since a kill, the restore put the first value over it.
#[test]
fn what_somebody_sets_after_a_kill_is_theirs() {
    let whole = Shared::start();
    whole.run(None);
    let changes = whole.0.lock().unwrap().changes;
    let mut left = 0;
    for kill in 0..=changes {
        let world = Shared::start();
        world.run(Some(kill));
        let held: Vec<_> =
            world.0.lock().unwrap().snapshot.iter().flat_map(|s| s.saved.clone()).collect();
        for saved in &held {
            world.0.lock().unwrap().places.insert(saved.address.clone(), THEIRS.to_owned());
        }
        let (_writer, restored) = world.open();
        assert_eq!(restored.left, []);
        for saved in held {
            // Where nobody knows what the machine made of the last value, it may be ours.
            let in_doubt = saved.marks.is_empty();
            assert!(!in_doubt || saved.address.scheme() == "altered", "{saved:?}");
            let stays = if in_doubt { FIRST } else { THEIRS };
            assert_eq!(world.value(&saved.address), stays, "{}, {kill}", saved.address);
            assert_eq!(restored.foreign.contains(&saved.address), !in_doubt);
            left += usize::from(!in_doubt);
        }
    }
    assert!(left > changes, "{left}");
}

/// What is left in doubt stays so until a value was read back: a place that refuses what a later daemon
/// writes holds the earlier one's, of which an older version saved no marks.
#[test]
fn a_value_that_nobody_knows_is_put_back_however_often_a_daemon_is_killed() {
    for (killed_after, silent) in [(Some(1), false), (None, false), (Some(1), true)] {
        let world = Shared::start();
        let (mut writer, _) = world.open();
        turn(&mut writer, "33");
        std::mem::forget(writer);
        let mut now = world.0.lock().unwrap();
        now.snapshot.iter_mut().flat_map(|s| &mut s.saved).for_each(|saved| saved.marks.clear());
        now.refuses = true;
        drop(now);
        for value in ["80", "60"] {
            world.0.lock().unwrap().silent = silent;
            let (mut writer, restored) = world.open();
            assert_eq!(restored.left.len(), 2, "{restored:?}");
            world.0.lock().unwrap().silent = false;
            world.0.lock().unwrap().left = killed_after;
            assert!(turn(&mut writer, value));
            world.0.lock().unwrap().left = None;
            std::mem::forget(writer);
        }
        world.0.lock().unwrap().refuses = false;
        assert_eq!(world.open().1.foreign, []);
        assert!(places().iter().all(|place| world.value(place) == FIRST));
    }
}

/// A value costs a write to the disk once, where it is exact, and no more than twice otherwise.
#[test]
fn what_was_written_before_costs_the_disk_nothing() {
    let world = Shared::start();
    let (mut writer, _) = world.open();
    for value in ["60", "80", "70"] {
        assert!(!turn(&mut writer, value));
    }
    assert_eq!(world.0.lock().unwrap().saves, 6);
    for value in ["60", "80", "70", "99", "60"] {
        assert!(!turn(&mut writer, value));
    }
    assert_eq!(world.0.lock().unwrap().saves, 6);
    // While the disk is full, what is on it can be written.
    world.0.lock().unwrap().disk_full = true;
    assert!(turn(&mut writer, "65"));
    assert!(!turn(&mut writer, "80"));
    std::mem::forget(writer);
    world.0.lock().unwrap().disk_full = false;
    for place in places() {
        world.0.lock().unwrap().places.insert(place, THEIRS.to_owned());
    }
    assert_eq!(world.open().1.foreign.len(), 2);
}

/// A switch that moves the limits of others made them look like somebody else's after a kill.
#[test]
fn what_a_write_elsewhere_altered_is_put_back_after_a_kill() {
    let [switch, limit] = places();
    for first in [&switch, &limit] {
        let world = Shared::start();
        let (mut writer, _) = world.open();
        let off =
            Assignment { endangers: vec![limit.clone()], ..Assignment::new(switch.clone(), "0") };
        let low = Assignment::new(limit.clone(), "60");
        let order = if *first == switch { [off, low] } else { [low, off] };
        for assignment in order {
            assert_eq!(writer.apply("knob", &[assignment]).notes, []);
        }
        world.0.lock().unwrap().places.insert(limit.clone(), "55".to_owned());
        std::mem::forget(writer);
        assert_eq!(world.open().1.foreign, []);
        assert_eq!((world.value(&switch), world.value(&limit)), (FIRST.into(), FIRST.into()));
    }
}
