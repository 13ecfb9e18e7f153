//! The places of a world, and the disk that keeps the snapshot.

use super::world::{Shared, lock};
use std::collections::BTreeSet;
use wattio_governor::{
    Address, Machine, MachineError, MachineView, Snapshot, SnapshotError, SnapshotStore,
};

struct FakeMachine(Shared);

impl MachineView for FakeMachine {
    fn read(&mut self, address: &Address) -> Result<String, MachineError> {
        let world = lock(&self.0);
        let gone = || MachineError::Gone { address: address.clone() };
        if world.unreadable.contains(address) && world.writes.iter().any(|w| w.0 == *address) {
            let message = "timed out".to_owned();
            return Err(MachineError::Refused { address: address.clone(), message });
        }
        world.places.get(address).cloned().ok_or_else(gone)
    }

    fn same(&self, _: &Address, one: &str, other: &str) -> bool {
        one == other
    }

    fn is_side_effect(&self, address: &Address, _: &str, _: &str) -> bool {
        address.scheme() != "told"
    }

    fn marks(&self, address: &Address, _: &str, value: &str) -> BTreeSet<String> {
        let is_marked = address.scheme() == "marked";
        is_marked.then(|| value.to_owned()).into_iter().collect()
    }

    fn is_slow(&self, address: &Address) -> bool {
        address.scheme() == "drives"
    }

    fn outlives_boot(&self, address: &Address) -> bool {
        address.scheme() == "background"
    }

    fn restore_command(&self, address: &Address, value: &str) -> String {
        format!("set {address} {value}")
    }
}

impl Machine for FakeMachine {
    fn write(&mut self, address: &Address, value: &str) -> Result<(), MachineError> {
        let mut world = lock(&self.0);
        if world.refusing.contains(address) {
            let message = "device or resource busy".to_owned();
            return Err(MachineError::Refused { address: address.clone(), message });
        }
        if !world.places.contains_key(address) {
            return Err(MachineError::Gone { address: address.clone() });
        }
        world.writes.push((address.clone(), value.to_owned()));
        if !world.forgetting.contains(address) {
            world.places.insert(address.clone(), value.to_owned());
        }
        Ok(())
    }

    fn share_time(&mut self, shared: bool) {
        lock(&self.0).shares_time = shared;
    }
}

struct FakeStore(Shared);

impl SnapshotStore for FakeStore {
    fn load(&mut self) -> Result<Option<Snapshot>, SnapshotError> {
        Ok(lock(&self.0).snapshot.clone())
    }

    fn save(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        let mut world = lock(&self.0);
        if world.disk_full {
            let (path, error) = ("snapshot".into(), std::io::ErrorKind::StorageFull.into());
            return Err(SnapshotError::System { path, error });
        }
        world.snapshot = Some(snapshot.clone());
        Ok(())
    }

    fn clear(&mut self) -> Result<(), SnapshotError> {
        lock(&self.0).snapshot = None;
        Ok(())
    }
}

/// The places of a world.
pub fn machine(world: &Shared) -> Box<dyn Machine> {
    Box::new(FakeMachine(world.clone()))
}

/// Where the snapshot of a world is kept.
pub fn store(world: &Shared) -> Box<dyn SnapshotStore> {
    Box::new(FakeStore(world.clone()))
}
