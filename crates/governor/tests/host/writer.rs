//! Saving, writing, letting go and restoring, place by place.

use crate::support::{cores_of, frequency_of, governor, knobs, machine, open_writer, pace, world};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wattio_governor::{
    Actuator, Address, Assignment, Cpus, GroupSetting, Machine, MachineError, MachineView, Note,
    RestorableWriter, Setting, Snapshot, SnapshotError, SnapshotStore,
};
use wattio_law::{DriveAction, GroupObservation, LatencyObservation, Observation};
use wattio_plant::{SMALL, Server};
use wattio_units::{Hertz, Seconds};

fn narrow(address: &Address, value: &str) -> Vec<Assignment> {
    vec![Assignment::new(address.clone(), value)]
}

fn small_world() -> crate::support::Shared {
    world(&wattio_sim::limits(&Server::from_toml(SMALL).unwrap()))
}

fn value(world: &crate::support::Shared, address: &Address) -> String {
    world.lock().unwrap().places[address].clone()
}

#[test]
fn the_old_value_is_on_disk_before_the_first_write() {
    let world = small_world();
    let (mut writer, _) = open_writer(&world, "boot");
    world.lock().unwrap().disk_full = true;
    let applied = writer.apply("cores", &narrow(&cores_of(0), "3"));
    assert!(applied.failed());
    assert!(world.lock().unwrap().writes.is_empty(), "no snapshot, no write");
    assert_eq!(writer.held(), 0);

    world.lock().unwrap().disk_full = false;
    assert_eq!(writer.apply("cores", &narrow(&cores_of(0), "3")).writes, 1);
    let saved = world.lock().unwrap().snapshot.clone().unwrap().saved;
    assert_eq!((saved[0].address.clone(), saved[0].value.as_str()), (cores_of(0), "8"));
    assert_eq!(writer.apply("cores", &narrow(&cores_of(0), "3")).writes, 0, "it stands there");
}

/// One process that was born while the disk was full kept all the others on few cores until it was
/// freed: nothing of a knob was written, also where the old value was on the disk.
#[test]
fn a_full_disk_keeps_back_no_core() {
    let world = small_world();
    let marked = Address::new("marked", "0");
    world.lock().unwrap().places.insert(marked.clone(), "8".to_owned());
    let (mut writer, _) = open_writer(&world, "boot");
    writer.apply("cores", &[narrow(&cores_of(0), "3"), narrow(&marked, "3")].concat());
    writer.apply("cores", &narrow(&marked, "4"));
    world.lock().unwrap().disk_full = true;
    let new = narrow(&cores_of(1), "2").remove(0);
    let applied = writer.apply("cores", &[Assignment::original(cores_of(0)), new.clone()]);
    assert!(applied.failed());
    assert_eq!((value(&world, &cores_of(0)).as_str(), applied.writes), ("8", 1));
    assert_ne!(value(&world, &cores_of(1)), "2", "no snapshot, no write");
    assert_eq!(writer.held(), 2);

    let turn = |writer: &mut RestorableWriter, mut assignment: Assignment, with: &[Address]| {
        assignment.endangers = with.to_vec();
        let address = assignment.address.clone();
        assert!(writer.apply("cores", &[assignment, new.clone()]).failed());
        value(&world, &address)
    };
    let to = |address: &Address, value: &str| narrow(address, value).remove(0);
    assert_eq!(turn(&mut writer, to(&marked, "3"), &[]), "3", "its mark is on the disk");
    assert_eq!(turn(&mut writer, to(&marked, "5"), &[]), "3", "its mark is not");
    assert_eq!(
        turn(&mut writer, to(&cores_of(0), "4"), &[frequency_of(0)]),
        "8",
        "what it endangers"
    );
    assert_eq!(turn(&mut writer, to(&marked, "8"), &[frequency_of(0)]), "8", "the way back");
    drop(writer);
    assert_ne!(value(&world, &cores_of(1)), "2");
}

#[test]
fn dropping_restores_and_so_does_the_next_start_after_a_kill() {
    let world = small_world();
    let (mut writer, _) = open_writer(&world, "boot");
    writer.apply("cores", &narrow(&cores_of(0), "3"));
    drop(writer);
    assert_eq!(value(&world, &cores_of(0)), "8");
    assert!(world.lock().unwrap().snapshot.is_none());

    let (mut writer, _) = open_writer(&world, "boot");
    writer.apply("cores", &narrow(&cores_of(0), "3"));
    std::mem::forget(writer);
    let (writer, restored) = open_writer(&world, "boot");
    assert_eq!(restored.restored.len(), 1);
    assert_eq!(value(&world, &cores_of(0)), "8");
    assert_eq!(writer.held(), 0);
}

#[test]
fn what_cannot_be_restored_stays_saved_with_its_first_value() {
    let world = small_world();
    let (mut writer, _) = open_writer(&world, "boot");
    writer.apply("cores", &[narrow(&cores_of(0), "3"), narrow(&cores_of(1), "4")].concat());
    world.lock().unwrap().refusing.insert(cores_of(0));
    let restored = writer.restore().unwrap();
    assert_eq!(restored.restored.len(), 1, "one that fails does not stop the other");
    assert_eq!(restored.left[0].saved.value, "8");
    assert_eq!(restored.left[0].restore_command, "set cores:0 8");
    std::mem::forget(writer);

    // A later start neither loses nor overwrites it, though the place now holds another value.
    let (mut writer, restored) = open_writer(&world, "boot");
    assert_eq!(restored.left.len(), 1);
    writer.apply("cores", &narrow(&cores_of(0), "2"));
    world.lock().unwrap().refusing.clear();
    writer.apply("cores", &narrow(&cores_of(0), "2"));
    drop(writer);
    assert_eq!(value(&world, &cores_of(0)), "8");
}

#[test]
fn another_start_of_the_machine_forgot_what_the_kernel_held() {
    let world = small_world();
    let (mut writer, _) = open_writer(&world, "boot");
    writer.apply("cores", &narrow(&cores_of(0), "3"));
    writer.apply("background", &narrow(&pace(), "0 low"));
    std::mem::forget(writer);
    let (writer, restored) = open_writer(&world, "another boot");
    let addresses: Vec<_> = restored.restored.iter().map(|saved| saved.address.clone()).collect();
    assert_eq!(addresses, [pace()], "only what outlives a boot is put back");
    drop(writer);
    assert_eq!(value(&world, &cores_of(0)), "3");
}

/// In a sandbox that hides the boot id, old values were taken for another boot's and forgotten.
#[test]
fn without_a_boot_id_nothing_is_forgotten() {
    for (before, after) in [("boot", ""), ("", "boot")] {
        let world = small_world();
        let (mut writer, _) = open_writer(&world, before);
        writer.apply("cores", &narrow(&cores_of(0), "3"));
        std::mem::forget(writer);
        drop(open_writer(&world, after));
        assert_eq!(value(&world, &cores_of(0)), "8");
    }
}

#[test]
fn what_somebody_else_changes_is_his() {
    let world = small_world();
    let (mut writer, _) = open_writer(&world, "boot");
    writer.apply("cores", &narrow(&cores_of(0), "3"));
    writer.apply("frequency", &narrow(&frequency_of(0), "800000000"));
    world.lock().unwrap().places.insert(cores_of(0), "5".to_owned());
    let notes: Vec<_> = (0..4).flat_map(|_| writer.inspect(1)).collect();
    assert!(matches!(&notes[..], [Note::Foreign { found, .. }] if found == "5"), "{notes:?}");
    writer.apply("cores", &narrow(&cores_of(0), "2"));
    drop(writer);
    assert_eq!(value(&world, &cores_of(0)), "5", "never fought over, never restored");
    assert_ne!(value(&world, &frequency_of(0)), "800000000", "the others are");
}

/// The set of a restarted service was taken for somebody else's change and let go of; after a kill
/// it got the old service's cores.
#[test]
fn a_restarted_service_is_a_new_place() {
    let world = small_world();
    let (mut writer, _) = open_writer(&world, "boot");
    writer.apply("cores", &narrow(&cores_of(0), "3"));
    world.lock().unwrap().restart(0, "6");
    let new = world.lock().unwrap().cores_of(0);
    assert_eq!(writer.inspect(5), [], "nobody changed anything");
    assert_eq!(writer.held(), 0, "nothing is left to restore");

    let applied = writer.apply("cores", &narrow(&new, "3"));
    assert_eq!((applied.writes, applied.notes), (1, vec![]));
    let saved = world.lock().unwrap().snapshot.clone().unwrap().saved;
    assert_eq!(saved.len(), 1, "{saved:?}");
    assert_eq!((&saved[0].address, saved[0].value.as_str()), (&new, "6"), "saved anew");
    drop(writer);
    assert_eq!(value(&world, &new), "6");

    let (mut writer, _) = open_writer(&world, "boot");
    writer.apply("cores", &narrow(&new, "3"));
    std::mem::forget(writer);
    world.lock().unwrap().restart(0, "7");
    let newer = world.lock().unwrap().cores_of(0);
    let (writer, restored) = open_writer(&world, "boot");
    assert_eq!((restored.restored, restored.left), (vec![], vec![]));
    assert_eq!((writer.held(), value(&world, &newer).as_str()), (0, "7"));
    assert!(world.lock().unwrap().snapshot.is_none());
}

#[test]
fn a_value_that_is_not_read_back_is_a_failure() {
    let world = small_world();
    let (mut writer, _) = open_writer(&world, "boot");
    world.lock().unwrap().forgetting.insert(cores_of(0));
    let applied = writer.apply("cores", &narrow(&cores_of(0), "3"));
    let said = format!("{:?}", applied.notes);
    assert!(applied.failed() && said.contains("was read back"), "{said}");
    assert!(writer.inspect(5).is_empty(), "and not somebody else's doing");
}

/// A command that pauses, and hangs when it is asked whether it did, was taken for paused by
/// somebody else, and never resumed.
#[test]
fn a_write_that_cannot_be_read_back_is_still_ours_to_undo() {
    let world = small_world();
    let (mut writer, _) = open_writer(&world, "boot");
    world.lock().unwrap().unreadable.insert(cores_of(0));
    assert!(writer.apply("cores", &narrow(&cores_of(0), "3")).failed());
    world.lock().unwrap().unreadable.clear();
    assert_eq!(value(&world, &cores_of(0)), "3");
    assert_eq!(writer.inspect(5), [], "not somebody else's doing");
    let back = writer.apply("cores", &[Assignment::original(cores_of(0))]);
    assert_eq!((back.writes, back.notes), (1, vec![]));
    assert_eq!(value(&world, &cores_of(0)), "8");
}

/// Taking core 1 off empties `0-1` to `0`, as the kernel does to sets of processors, and bringing
/// it back does not fill it again.
#[test]
fn side_effects_are_put_back_once_the_cause_is_gone() {
    let world = small_world();
    let (online, set) = (Address::new("cpu", "1"), Address::new("set", "others"));
    {
        let mut world = world.lock().unwrap();
        world.places.insert(online.clone(), "1".to_owned());
        world.places.insert(set.clone(), "0-1".to_owned());
    }
    let assignment = |value: &str| {
        let mut assignment = Assignment::new(online.clone(), value);
        assignment.endangers = vec![set.clone()];
        vec![assignment]
    };
    let (mut writer, _): (RestorableWriter, _) = open_writer(&world, "boot");
    writer.apply("cpu.online", &assignment("0"));
    assert_eq!(writer.held(), 2, "the endangered place is saved too");
    world.lock().unwrap().places.insert(set.clone(), "0".to_owned());
    assert!(writer.inspect(5).is_empty(), "our own side effect is not somebody else");
    writer.apply("cpu.online", &assignment("1"));
    assert_eq!(value(&world, &set), "0-1");
    let saved = world.lock().unwrap().snapshot.clone().unwrap().saved;
    assert_eq!(saved.len(), 1, "nothing endangers it now: {saved:?}");

    writer.apply("cpu.online", &assignment("0"));
    world.lock().unwrap().places.insert(set.clone(), "0".to_owned());
    writer.restore().unwrap();
    assert_eq!((value(&world, &online).as_str(), value(&world, &set).as_str()), ("1", "0-1"));

    // What somebody else sets there later was taken for the side effect of the first time.
    for end in ["full speed", "stop", "kill"] {
        world.lock().unwrap().places.insert(set.clone(), "0-1".to_owned());
        writer.apply("cpu.online", &assignment("0"));
        world.lock().unwrap().places.insert(set.clone(), "0".to_owned());
        writer.apply("cpu.online", &assignment("1"));
        world.lock().unwrap().places.insert(set.clone(), "0".to_owned());
        match end {
            "full speed" => {
                writer.apply("cpu.online", &assignment("0"));
                writer.apply("cpu.online", &assignment("1"));
            }
            "stop" => {}
            _ => {
                std::mem::forget(writer);
                writer = open_writer(&world, "boot").0;
            }
        }
        assert_eq!(value(&world, &set), "0", "{end}");
        writer.restore().unwrap();
        assert_eq!(value(&world, &set), "0", "{end}");
    }
}

/// One core returns while another leaves, and both change a set: it was endangered all the time.
#[test]
fn what_is_endangered_by_two_writes_is_held_until_both_are_undone() {
    let world = small_world();
    let cores = ["1", "2"].map(|cpu| Address::new("cpu", cpu));
    let set = Address::new("set", "others");
    {
        let mut world = world.lock().unwrap();
        world.places.extend(cores.iter().map(|core| (core.clone(), "1".to_owned())));
        world.places.insert(set.clone(), "0-2".to_owned());
    }
    let turn = |writer: &mut RestorableWriter, values: [&str; 2]| {
        let assignment = |(core, value): (&Address, &str)| Assignment {
            endangers: vec![set.clone()],
            ..Assignment::new(core.clone(), value)
        };
        let assignments: Vec<_> = cores.iter().zip(values).map(assignment).collect();
        assert_eq!(writer.apply("cpu.online", &assignments).notes, []);
    };
    let (mut writer, _) = open_writer(&world, "boot");
    turn(&mut writer, ["0", "1"]);
    world.lock().unwrap().places.insert(set.clone(), "0,2".to_owned());
    turn(&mut writer, ["1", "0"]);
    world.lock().unwrap().places.insert(set.clone(), "0-1".to_owned());
    std::mem::forget(writer);
    drop(open_writer(&world, "boot"));
    assert_eq!(value(&world, &set), "0-2");
}

/// As long as a core is off, what the kernel cannot have made of a place is somebody else's.
#[test]
fn what_somebody_else_sets_at_an_endangered_place_is_his() {
    let world = small_world();
    let (online, told) = (Address::new("cpu", "1"), Address::new("told", "others"));
    let assignment = |value: &str| {
        let mut assignment = Assignment::new(online.clone(), value);
        assignment.endangers = vec![told.clone()];
        vec![assignment]
    };
    for end in ["full speed", "again", "stop"] {
        {
            let mut world = world.lock().unwrap();
            world.places.insert(online.clone(), "1".to_owned());
            world.places.insert(told.clone(), "0-1".to_owned());
        }
        let (mut writer, _) = open_writer(&world, "boot");
        writer.apply("cpu.online", &assignment("0"));
        world.lock().unwrap().places.insert(told.clone(), "theirs".to_owned());
        match end {
            "full speed" => {
                drop(writer.apply("cpu.online", &[Assignment::original(online.clone())]))
            }
            "again" => {
                writer.apply("cpu.online", &assignment("0"));
                let saved = world.lock().unwrap().snapshot.clone().unwrap().saved;
                assert_eq!(saved.last().map(|saved| saved.value.as_str()), Some("theirs"));
            }
            _ => assert_eq!(writer.restore().unwrap().foreign.first(), Some(&told)),
        }
        drop(writer);
        assert_eq!(value(&world, &told), "theirs", "{end}");
    }
}

/// The host that is stuck below full speed was taken for one at full speed, and what it did for the
/// baseline of every later bound.
#[test]
fn while_a_knob_is_stuck_no_window_counts() {
    let limits = wattio_sim::limits(&Server::from_toml(SMALL).unwrap());
    let world = world(&limits);
    let half = [("cores_share".to_owned(), wattio_control::Value::Number(0.5))];
    let law = wattio_control::build("fixed", &half.into_iter().collect(), &limits).unwrap();
    let mut governor = governor(&world, law, &limits, Duration::ZERO);
    let latency = LatencyObservation {
        requests: 100,
        latency_us_mean: Some(200.0),
        ..LatencyObservation::quiet(Seconds(0.0))
    };
    let idle = GroupObservation {
        cores: 0,
        frequency: Hertz(1e9),
        utilisation_clients: 0.1,
        utilisation_background: 0.0,
        queued: None,
        waited_for_drives: false,
    };
    let groups = vec![idle; limits.groups.len()];
    let latency = Some(latency);
    let seen = Observation { latency, groups, background: vec![], power: None, alarm: false };
    world.lock().unwrap().observation = Some(seen);
    let mut step = |window: u64, stuck: bool, paused: bool| {
        if stuck {
            world.lock().unwrap().refusing.insert(cores_of(0));
        } else {
            world.lock().unwrap().refusing.clear();
        }
        if paused {
            governor.pause()
        } else {
            governor.resume()
        }
        let tick = governor.tick(Duration::from_millis(500 * window));
        tick.stepped.and_then(|step| step.forced)
    };
    assert_eq!(step(1, false, false), None);
    assert_eq!(value(&world, &cores_of(0)), "4");
    assert_eq!(step(2, true, true).as_deref(), Some("paused"));
    let stuck = step(3, true, false);
    assert_eq!(stuck.as_deref(), Some("a knob cannot be brought back to full speed"));
    assert!(step(4, false, false).is_some(), "it was stuck until now");
    assert_eq!(value(&world, &cores_of(0)), "8");
    assert_eq!(step(5, false, false), None);
    assert_eq!(value(&world, &cores_of(0)), "4");
    assert!(world.lock().unwrap().shares_time, "no tick waits long");
    drop(governor);
    assert!(!world.lock().unwrap().shares_time, "a restore waits for each as long as it may take");
    let at_end = world.lock().unwrap().places_at_end[&cores_of(0)].clone();
    assert_eq!(at_end, "8", "restored before a source may wait for its thread");
}

/// Cores came back once all disks had spun up, one after another.
#[test]
fn no_core_waits_for_a_drive() {
    let world = small_world();
    let writer = open_writer(&world, "boot").0;
    let mut actuator = Actuator { knobs: knobs(&world), writer };
    let group = |active: &str, hertz| {
        let active: Cpus = active.parse().unwrap();
        vec![GroupSetting { active, frequency: Hertz(hertz) }; 2]
    };
    let idle = Setting {
        groups: group("0", 1e9),
        drives: DriveAction::Asleep,
        background: vec![],
        background_share: 1.0,
        full_speed: false,
        at_full: Cpus::default(),
        held_back: vec![],
    };
    let full = Setting {
        groups: group("0-7", 3e9),
        drives: DriveAction::Own,
        full_speed: true,
        ..idle.clone()
    };
    let busy = Setting { drives: DriveAction::Own, ..idle.clone() };
    for stops in [false, true] {
        // Drives are the last to be saved, and were put back first.
        for setting in [&busy, &idle] {
            assert_eq!(actuator.turn(setting, false, false).notes, []);
        }
        world.lock().unwrap().writes.clear();
        if stops {
            assert_eq!(actuator.writer.restore().unwrap().left, []);
        } else {
            assert_eq!(actuator.turn(&full, true, false).notes, []);
        }
        let writes = std::mem::take(&mut world.lock().unwrap().writes);
        let order: Vec<_> = writes.iter().map(|(address, _)| address.scheme()).collect();
        let (last, before) = order.split_last().unwrap();
        assert_eq!((*last, before.contains(&"cores")), ("drives", true), "{order:?}");
        assert!(!before.contains(&"drives"), "{order:?}");
    }
}

/// A drive that takes nothing is told with what else could not be put back, and keeps nobody waiting.
#[test]
fn what_is_left_is_told_of_slow_places_and_of_others() {
    let world = small_world();
    let drives = crate::support::drives();
    let (mut writer, _) = open_writer(&world, "boot");
    writer.apply("cores", &[narrow(&cores_of(0), "3"), narrow(&cores_of(1), "3")].concat());
    writer.apply("drives", &narrow(&drives, "asleep"));
    world.lock().unwrap().refusing.extend([cores_of(0), drives.clone()]);
    let restored = writer.restore().unwrap();
    let left: Vec<_> = restored.left.iter().map(|left| left.saved.address.clone()).collect();
    assert_eq!((left, restored.restored.len()), (vec![cores_of(0), drives], 1));
}

/// Keeps what a disk would, and counts what was written to it.
#[derive(Clone, Default)]
struct CountingStore(Arc<Mutex<(usize, usize)>>);

impl SnapshotStore for CountingStore {
    fn load(&mut self) -> Result<Option<Snapshot>, SnapshotError> {
        Ok(None)
    }

    fn save(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        let mut counts = self.0.lock().unwrap();
        let bytes = serde_json::to_vec_pretty(snapshot).unwrap().len();
        *counts = (counts.0 + bytes, snapshot.saved.len());
        Ok(())
    }

    fn clear(&mut self) -> Result<(), SnapshotError> {
        Ok(())
    }
}

/// Each place that was ever written to was held until the end, and each new one had all of them
/// written to the disk again: a hundred processes that are replaced at each refresh were 88,000
/// places after two hours, and 7.7 GB.
#[test]
fn places_of_processes_that_ended_are_let_go() {
    const PROCESSES: u32 = 100;
    const REFRESHES: u32 = 2 * 3600 / 5;
    let world = small_world();
    let store = CountingStore::default();
    let (mut writer, _) =
        RestorableWriter::open(machine(&world), Box::new(store.clone()), "boot").unwrap();
    let place = |number: u32| Address::new("affinity", &format!("{number}@{number}"));
    for refresh in 0..REFRESHES {
        let (first, next) = (refresh * PROCESSES, (refresh + 1) * PROCESSES);
        let mut all = world.lock().unwrap();
        let ended = first.saturating_sub(PROCESSES)..first;
        ended.for_each(|number| drop(all.places.remove(&place(number))));
        (first..next).for_each(|number| drop(all.places.insert(place(number), "0-3".to_owned())));
        all.writes.clear();
        drop(all);
        let wanted: Vec<_> = (first..next).map(|n| Assignment::new(place(n), "0")).collect();
        assert_eq!(writer.apply("cpu.affinity", &wanted).writes, PROCESSES);
        // A window every half second.
        (0..10).for_each(|_| assert_eq!(writer.inspect(4), []));
        assert!(writer.held() <= 3 * PROCESSES as usize, "{refresh}: {}", writer.held());
    }
    let (bytes, kept) = *store.0.lock().unwrap();
    assert!(kept <= 3 * PROCESSES as usize, "{kept}");
    let one_each = REFRESHES as usize * PROCESSES as usize * 100;
    assert!(bytes < 4 * one_each, "{bytes} bytes for {one_each} of places");
    let restored = writer.restore().unwrap();
    assert_eq!(restored.restored.len(), PROCESSES as usize);
}

/// What a write endangered was held for good, however long its process was gone.
#[test]
fn endangered_places_that_are_gone_are_let_go() {
    let world = small_world();
    let pinned = Address::new("affinity", "7@7");
    world.lock().unwrap().places.insert(pinned.clone(), "1".to_owned());
    let (mut writer, _) = open_writer(&world, "boot");
    let mut wanted = narrow(&cores_of(0), "3");
    wanted[0].endangers.push(pinned.clone());
    writer.apply("cores", &wanted);
    assert_eq!(writer.held(), 2);
    world.lock().unwrap().places.remove(&pinned);
    assert_eq!(writer.inspect(2), []);
    assert_eq!(writer.held(), 1);
}

/// A machine that takes what is written only when it is waited for.
#[derive(Clone, Default)]
struct SlowMachine(Arc<Mutex<Slow>>);

#[derive(Default)]
struct Slow {
    there: BTreeMap<Address, String>,
    coming: BTreeMap<Address, String>,
    /// Waits for something that was to come.
    waits: u32,
    /// How often what settles was given its time.
    shares: u32,
    /// Whether waiting is of no use.
    stuck: bool,
}

impl MachineView for SlowMachine {
    fn read(&mut self, address: &Address) -> Result<String, MachineError> {
        Ok(self.0.lock().unwrap().there.get(address).cloned().unwrap_or_else(|| "fast".to_owned()))
    }
    fn same(&self, _: &Address, one: &str, other: &str) -> bool {
        one == other
    }
    fn outlives_boot(&self, _: &Address) -> bool {
        false
    }
    fn restore_command(&self, address: &Address, value: &str) -> String {
        format!("set {address} {value}")
    }
}

impl Machine for SlowMachine {
    fn write(&mut self, address: &Address, value: &str) -> Result<(), MachineError> {
        self.0.lock().unwrap().coming.insert(address.clone(), value.to_owned());
        Ok(())
    }
    fn settle(&mut self, _: &Address, _: &str) {
        let mut slow = self.0.lock().unwrap();
        slow.waits += u32::from(!slow.coming.is_empty());
        if !slow.stuck {
            let coming = std::mem::take(&mut slow.coming);
            slow.there.extend(coming);
        }
    }
    fn share_time(&mut self, _: bool) {
        self.0.lock().unwrap().shares += 1;
    }
}

/// A knob with many places waited for each in its turn; what is late was called somebody else's.
#[test]
fn what_settles_settles_at_the_same_time() {
    let machine = SlowMachine::default();
    let store = Box::new(CountingStore::default());
    let (mut writer, _) = RestorableWriter::open(Box::new(machine.clone()), store, "boot").unwrap();
    let place = |number: u32| Address::new("frequency", &number.to_string());
    let all = |value: &str| (0..64).map(|n| Assignment::new(place(n), value)).collect::<Vec<_>>();
    assert_eq!(writer.apply("cpu.frequency", &all("slow")).notes, []);
    assert_eq!(machine.0.lock().unwrap().there.len(), 64);
    // Each is read back; only the first one was waited for to any effect.
    machine.0.lock().unwrap().stuck = true;
    assert!(writer.apply("cpu.frequency", &all("slower")).failed());
    let mut late = machine.0.lock().unwrap();
    let coming = std::mem::take(&mut late.coming);
    late.there.extend(coming);
    late.stuck = false;
    drop(late);
    assert_eq!(writer.inspect(64), [], "what comes late is ours all the same");
    machine.0.lock().unwrap().waits = 0;
    assert_eq!(writer.restore().unwrap().left, []);
    let machine = machine.0.lock().unwrap();
    assert!(machine.there.values().all(|value| value == "fast"));
    // Once for what others may have changed, once for what is put back.
    assert_eq!((machine.waits, machine.shares), (1, 2), "a restore waited for each in its turn");
}
