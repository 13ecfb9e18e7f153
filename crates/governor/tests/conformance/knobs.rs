//! What knobs and the machine under them must do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use wattio_governor::{
    Address, Assignment, Knob, Machine, MachineError, RestorableWriter, Setting, Snapshot,
    SnapshotError, SnapshotStore, Target,
};

/// Knobs on a machine, and the two settings between which they are turned.
pub struct Subject<'a> {
    pub machine: &'a dyn Fn() -> Box<dyn Machine>,
    /// In the order of slowing down.
    pub knobs: &'a dyn Fn() -> Vec<Box<dyn Knob>>,
    pub full: Setting,
    pub narrow: Setting,
}

/// A snapshot that outlives the writer that made it.
#[derive(Clone, Default)]
pub struct Store(Arc<Mutex<Option<Snapshot>>>);

impl SnapshotStore for Store {
    fn load(&mut self) -> Result<Option<Snapshot>, SnapshotError> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn save(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        *self.0.lock().unwrap() = Some(snapshot.clone());
        Ok(())
    }

    fn clear(&mut self) -> Result<(), SnapshotError> {
        *self.0.lock().unwrap() = None;
        Ok(())
    }
}

impl Subject<'_> {
    /// Full speed, slow, full speed, restore; then slow and a crash. Every place is as before.
    pub fn conforms(&self) {
        let before = self.values();
        assert!(!before.is_empty(), "the knob turns nothing");
        self.machine_conforms(&before);
        let store = Store::default();
        let (mut writer, _) = self.writer(&store);
        let mut knobs = (self.knobs)();
        turn(&mut writer, &mut knobs, &self.full, &before);
        turn(&mut writer, &mut knobs, &self.narrow, &before);
        self.is_idempotent(&mut writer, &mut knobs);
        turn(&mut writer, &mut knobs, &self.full, &before);
        turn(&mut writer, &mut knobs, &self.narrow, &before);
        let restored = writer.restore().unwrap();
        assert_eq!((restored.left, restored.foreign), (vec![], vec![]));
        self.is_as_before(&before);
        self.survives_a_crash(&before);
    }

    fn survives_a_crash(&self, before: &BTreeMap<Address, String>) {
        let store = Store::default();
        let (mut writer, _) = self.writer(&store);
        turn(&mut writer, &mut (self.knobs)(), &self.narrow, before);
        std::mem::forget(writer);
        let (_, restored) = self.writer(&store);
        assert_eq!((restored.left, restored.foreign), (vec![], vec![]));
        assert!(!restored.restored.is_empty(), "nothing was slow");
        assert_eq!(*store.0.lock().unwrap(), None);
        self.is_as_before(before);
    }

    /// A value is itself, a person can put it back, and what is not there is said to be so.
    fn machine_conforms(&self, before: &BTreeMap<Address, String>) {
        let mut machine = (self.machine)();
        for (address, value) in before {
            assert!(machine.same(address, value, value) && machine.took(address, value, value));
            assert!(!machine.restore_command(address, value).is_empty(), "{address}");
            let nothing = Address::new(address.scheme(), &format!("{}-none", address.rest()));
            for error in [machine.read(&nothing).err(), machine.write(&nothing, value).err()] {
                let message = error.map(|error| error.to_string()).unwrap_or_default();
                assert!(message.contains(nothing.rest()), "{nothing}: {message:?}");
            }
            assert_eq!(machine.read(address).as_ref(), Ok(value), "nothing was written there");
        }
    }

    pub fn writer(&self, store: &Store) -> (RestorableWriter, wattio_governor::Restored) {
        RestorableWriter::open((self.machine)(), Box::new(store.clone()), "boot").unwrap()
    }

    /// The value at every place that the knobs write to or endanger.
    fn values(&self) -> BTreeMap<Address, String> {
        let mut machine = (self.machine)();
        let mut values = BTreeMap::new();
        for mut knob in (self.knobs)() {
            for setting in [&self.narrow, &self.full] {
                for assignment in knob.assignments(setting, &mut *machine).unwrap() {
                    for address in assignment.endangers.iter().chain([&assignment.address]) {
                        values.insert(address.clone(), machine.read(address).unwrap());
                    }
                }
            }
        }
        values
    }

    /// What is so already is not written again, and does no harm when it is.
    fn is_idempotent(&self, writer: &mut RestorableWriter, knobs: &mut [Box<dyn Knob>]) {
        for knob in knobs {
            let assignments = knob.assignments(&self.narrow, writer.look()).unwrap();
            let applied = writer.apply(knob.name(), &assignments);
            assert_eq!((applied.writes, applied.notes), (0, vec![]));
            assert_eq!(writer.inspect(1000), []);
            let mut machine = (self.machine)();
            for Assignment { address, target, .. } in &assignments {
                let Target::Set(value) = target else { continue };
                machine.write(address, value).unwrap();
                let found = machine.read(address).unwrap();
                assert!(machine.same(address, &found, value), "{address}: {found:?}, {value:?}");
            }
        }
    }

    fn is_as_before(&self, before: &BTreeMap<Address, String>) {
        let mut machine = (self.machine)();
        for (address, value) in before {
            let found = machine.read(address).unwrap();
            assert!(machine.same(address, &found, value), "{address}: {found:?}, was {value:?}");
        }
    }

    /// After `vanish` the places are gone, which is no failure of anyone.
    pub fn lets_go(&self, vanish: impl FnOnce()) {
        let store = Store::default();
        let (mut writer, _) = self.writer(&store);
        let mut knobs = (self.knobs)();
        let [knob] = &mut knobs[..] else { panic!("one knob at a time") };
        let assignments = knob.assignments(&self.narrow, writer.look()).unwrap();
        assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
        vanish();
        for Assignment { address, target, .. } in &assignments {
            let Target::Set(value) = target else { continue };
            let gone = MachineError::Gone { address: address.clone() };
            assert_eq!(writer.look().read(address), Err(gone.clone()));
            assert_eq!((self.machine)().write(address, value), Err(gone));
        }
        assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
        assert!(knob.assignments(&self.narrow, writer.look()).is_ok());
        let restored = writer.restore().unwrap();
        assert_eq!((restored.left, restored.foreign), (vec![], vec![]));
        assert_eq!(writer.held(), 0);
    }
}

/// Applies a setting, each knob in its turn; what is read back is what was asked for.
fn turn(
    writer: &mut RestorableWriter,
    knobs: &mut [Box<dyn Knob>],
    setting: &Setting,
    before: &BTreeMap<Address, String>,
) {
    let mut order: Vec<_> = knobs.iter_mut().collect();
    if setting.full_speed {
        order.reverse();
    }
    for knob in order {
        let assignments = knob.assignments(setting, writer.look()).unwrap();
        let applied = writer.apply(knob.name(), &assignments);
        assert_eq!(applied.notes, []);
        for Assignment { address, target, .. } in &assignments {
            let wanted = match target {
                Target::Set(value) => value,
                Target::Original => &before[address],
            };
            let found = writer.look().read(address).unwrap();
            let same = writer.look().same(address, &found, wanted);
            assert!(same, "{address} is {found:?} and not {wanted:?}");
        }
    }
}
