//! Kills at every moment of narrowing, widening and restoring, over threads that lie in memory.

use super::super::*;
use crate::machine::affinity::tasks::Tasks;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::thread::CpuSet;
use std::sync::{Arc, Mutex};
use wattio_governor::{
    Assignment, Machine, MachineError, MachineView, RestorableWriter, Restored, Snapshot,
    SnapshotError, SnapshotStore,
};

const PID: u32 = 100;
const WIDE: &str = "0-3";

/// A process whose threads have masks, and the disk beside it.
#[derive(Default)]
struct World {
    /// By number: start and mask. The main thread is the first.
    threads: BTreeMap<u32, (u64, Cpus)>,
    snapshot: Option<Snapshot>,
    /// How many changes of the world may still happen; `None`: any number.
    left: Option<usize>,
    changes: usize,
    /// Now and then some thread starts another.
    births: Option<Xoshiro256PlusPlus>,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<World>>);

impl World {
    /// Whether the next change still happens, or the daemon was killed before it.
    fn lives(&mut self) -> bool {
        self.changes += 1;
        match &mut self.left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        if let Some(dice) = &mut self.births
            && dice.random_bool(0.02)
        {
            let numbers: Vec<_> = self.threads.keys().copied().collect();
            let parent = numbers[dice.random_range(0..numbers.len())];
            let (number, mask) = (numbers[numbers.len() - 1] + 1, self.threads[&parent].1.clone());
            self.threads.insert(number, (u64::from(number) + 1, mask));
        }
        true
    }
}

impl Tasks for Shared {
    fn threads(&self, _: u32) -> Vec<u32> {
        self.0.lock().unwrap().threads.keys().copied().collect()
    }

    fn start_of(&self, _: u32, thread: u32) -> Option<u64> {
        Some(self.0.lock().unwrap().threads.get(&thread)?.0)
    }

    fn mask_of(&self, thread: u32) -> Result<Option<CpuSet>, AccessError> {
        let world = self.0.lock().unwrap();
        let Some((_, mask)) = world.threads.get(&thread) else { return Ok(None) };
        let mut set = CpuSet::new();
        mask.iter().for_each(|cpu| set.set(cpu as usize));
        Ok(Some(set))
    }

    fn confine(&self, thread: u32, mask: &Cpus) -> Result<bool, AccessError> {
        let mut world = self.0.lock().unwrap();
        if !world.lives() {
            return Err(AccessError::refused("killed"));
        }
        Ok(world.threads.get_mut(&thread).map(|found| found.1 = mask.clone()).is_some())
    }

    fn everything(&self, _: u32) -> Option<Cpus> {
        Some(WIDE.parse().unwrap())
    }

    fn freely(&self) -> Option<Cpus> {
        None
    }
}

impl MachineView for Shared {
    fn read(&mut self, address: &Address) -> Result<String, MachineError> {
        let masks = masks_of(self, &parse_place(address.rest()).unwrap());
        masks.map(|masks| masks.to_string()).map_err(|problem| problem.at(address))
    }

    fn same(&self, _: &Address, one: &str, other: &str) -> bool {
        same(one, other)
    }

    fn marks(&self, _: &Address, original: &str, value: &str) -> BTreeSet<String> {
        marks(original, value)
    }

    fn has_parts(&self, _: &Address) -> bool {
        true
    }

    fn put_back(
        &mut self,
        address: &Address,
        original: &str,
        marks: &BTreeSet<String>,
        found: &str,
    ) -> String {
        back(self, &parse_place(address.rest()).unwrap(), original, marks, found)
    }

    fn outlives_boot(&self, _: &Address) -> bool {
        false
    }

    fn restore_command(&self, address: &Address, value: &str) -> String {
        restore_command(address.rest(), value)
    }
}

impl Machine for Shared {
    fn write(&mut self, address: &Address, value: &str) -> Result<(), MachineError> {
        let id = parse_place(address.rest()).unwrap();
        give(self, &id, value.parse().unwrap()).map_err(|problem| problem.at(address))
    }
}

impl SnapshotStore for Shared {
    fn load(&mut self) -> Result<Option<Snapshot>, SnapshotError> {
        Ok(self.0.lock().unwrap().snapshot.clone())
    }

    fn save(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        self.keep(Some(snapshot.clone()))
    }

    fn clear(&mut self) -> Result<(), SnapshotError> {
        self.keep(None)
    }
}

impl Shared {
    /// `count` threads, every tenth of them pinned by its server.
    fn start(count: u32) -> Self {
        let mask = |number: u32| if number % 10 == 7 { "1" } else { WIDE }.parse().unwrap();
        let thread = |number| (number, (u64::from(number) + 1, mask(number)));
        let threads = (PID..PID + count).map(thread).collect();
        Self(Arc::new(Mutex::new(World { threads, ..World::default() })))
    }

    fn keep(&self, snapshot: Option<Snapshot>) -> Result<(), SnapshotError> {
        let mut world = self.0.lock().unwrap();
        if !world.lives() {
            let (path, error) = ("snapshot".into(), std::io::ErrorKind::Other.into());
            return Err(SnapshotError::System { path, error });
        }
        world.snapshot = snapshot;
        Ok(())
    }

    fn open(&self) -> Result<(RestorableWriter, Restored), SnapshotError> {
        RestorableWriter::open(Box::new(self.clone()), Box::new(self.clone()), "boot")
    }

    /// Narrows, widens, narrows more and restores, until it is killed after so many changes.
    fn run(&self, killed_after: Option<usize>) {
        self.0.lock().unwrap().left = killed_after;
        let Ok((mut writer, _)) = self.open() else { return };
        let own: Masks = self.clone().read(&place()).unwrap().parse().unwrap();
        for active in ["0-1", WIDE, "0", WIDE, "2"] {
            let active: Cpus = active.parse().unwrap();
            let inside = |own: &Cpus| {
                let inside = own.and(&active);
                if inside.is_empty() { active.clone() } else { inside }
            };
            writer.apply("cpu.affinity", &[Assignment::new(place(), own.map(inside).to_string())]);
        }
        let _ = writer.restore();
        // A killed process drops nothing.
        std::mem::forget(writer);
    }

    fn changes(&self) -> usize {
        self.0.lock().unwrap().changes
    }

    /// Restores as often as restoring is killed, and once more.
    fn restore(&self, kills: &[usize]) {
        for &kill in kills {
            self.0.lock().unwrap().left = Some(kill);
            // A writer that failed to open is dropped, which restores; none of that takes effect.
            if let Ok((writer, _)) = self.open() {
                std::mem::forget(writer);
            }
        }
        self.0.lock().unwrap().left = None;
        let (writer, restored) = self.open().unwrap();
        assert_eq!((restored.left, restored.foreign), (vec![], vec![]));
        assert_eq!(writer.held(), 0);
    }

    /// Every thread runs where it did; a thread started meanwhile has what its parent may have had.
    fn is_as_before(&self, count: u32, told: &str) {
        let world = self.0.lock().unwrap();
        assert_eq!(world.snapshot, None, "{told}");
        for (&number, (_, mask)) in &world.threads {
            let pinned = number % 10 == 7;
            let born = number >= PID + count;
            let mask = mask.to_string();
            let right = mask == WIDE && (born || !pinned) || mask == "1" && (born || pinned);
            assert!(right, "{told}: thread {number} runs on {mask}");
        }
    }
}

fn place() -> Address {
    address(&ProcessId { pid: PID, thread: None, start: u64::from(PID) + 1 })
}

/// 64 and 500 threads. A daemon that was killed while it put affinity back left threads confined: a
/// thread that the old value does not name may have any mask within the process's, so narrow ones
/// were taken for the server's own. `restore` said "nothing to restore", removed the snapshot, and
/// the next start took the narrow masks for the old ones.
#[test]
fn a_kill_before_any_change_leaves_what_restore_puts_back() {
    kill_before_changes(64, 1);
    kill_before_changes(500, 149);
}

/// `WATTIO_EVERY=1`: before every single change, which takes minutes.
#[test]
#[ignore = "long: make test-system"]
fn a_kill_before_any_change_of_500_threads_leaves_what_restore_puts_back() {
    let every = std::env::var("WATTIO_EVERY").ok().and_then(|text| text.parse().ok());
    kill_before_changes(500, every.unwrap_or(17));
}

/// Kills before every so many-th change of a daemon's life.
fn kill_before_changes(count: u32, every: usize) {
    let whole = Shared::start(count);
    whole.run(None);
    whole.is_as_before(count, "without a kill");
    let changes = whole.changes();
    assert!(changes > 6 * count as usize, "five settings and a restore are {changes} changes");
    for kill in (0..changes).step_by(every) {
        let world = Shared::start(count);
        world.run(Some(kill));
        world.restore(&[]);
        world.is_as_before(count, &format!("{count} threads, killed before change {kill}"));
    }
}

#[test]
fn restores_may_be_killed_too_and_threads_be_born_meanwhile() {
    const COUNT: u32 = 64;
    for seed in 0..120 {
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let world = Shared::start(COUNT);
        world.0.lock().unwrap().births = Some(Xoshiro256PlusPlus::seed_from_u64(seed));
        world.run(Some(dice.random_range(0..450)));
        let kills: Vec<usize> =
            (0..dice.random_range(0..4)).map(|_| dice.random_range(0..90)).collect();
        world.restore(&kills);
        world.is_as_before(COUNT, &format!("seed {seed}"));
    }
}

/// Somebody who moves one thread, also the main one, was taken for the owner of all.
#[test]
fn one_thread_that_somebody_moved_keeps_the_others_of_no_restore() {
    for moved in [PID, PID + 3, PID + 7] {
        for killed in [false, true] {
            let world = Shared::start(64);
            let (mut writer, _) = world.open().unwrap();
            writer.apply("cpu.affinity", &[Assignment::new(place(), "0")]);
            let theirs: Cpus = "3".parse().unwrap();
            world.0.lock().unwrap().threads.get_mut(&moved).unwrap().1 = theirs.clone();
            if killed {
                std::mem::forget(writer);
                drop(world.open().unwrap());
            } else {
                assert_eq!(writer.inspect(1).len(), 1, "an operator hears of it");
                drop(writer);
            }
            let mut world_now = world.0.lock().unwrap();
            let thread = world_now.threads.get_mut(&moved).unwrap();
            assert_eq!(thread.1, theirs, "{moved}, killed: {killed}");
            thread.1 = if moved == PID + 7 { "1" } else { WIDE }.parse().unwrap();
            drop(world_now);
            world.is_as_before(64, &format!("{moved}, killed: {killed}"));
        }
    }
}
