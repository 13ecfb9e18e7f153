//! The descriptors that a ring owns.

use slab::Slab;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The next handle of this process.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Names a descriptor of one ring: never a later one of the same number, nor one of another ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    index: usize,
    generation: u64,
}

#[derive(Debug)]
struct Slot {
    descriptor: OwnedFd,
    generation: u64,
    /// Operations that are queued or under way.
    flights: usize,
    closing: bool,
}

/// Descriptors by handle; one that is closed stays open for as long as operations use it, since
/// what is only queued names it by number.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    slots: Slab<Slot>,
}

impl Handles {
    pub fn add(&mut self, descriptor: OwnedFd) -> Handle {
        let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
        let index = self.slots.insert(Slot { descriptor, generation, flights: 0, closing: false });
        Handle { index, generation }
    }

    fn slot(&mut self, handle: Handle) -> Option<&mut Slot> {
        self.slots.get_mut(handle.index).filter(|slot| slot.generation == handle.generation)
    }

    /// Counts an operation in; `None` if the handle was closed.
    pub fn begin(&mut self, handle: Handle) -> Option<RawFd> {
        let slot = self.slot(handle).filter(|slot| !slot.closing)?;
        slot.flights += 1;
        Some(slot.descriptor.as_raw_fd())
    }

    /// Counts an operation out.
    pub fn end(&mut self, handle: Handle) {
        let Some(slot) = self.slot(handle) else { return };
        slot.flights -= 1;
        if slot.closing && slot.flights == 0 {
            self.slots.remove(handle.index);
        }
    }

    /// Gives a descriptor back; `None` if an operation uses it, or it was closed.
    pub fn remove(&mut self, handle: Handle) -> Option<OwnedFd> {
        let slot = self.slot(handle)?;
        (slot.flights == 0).then(|| self.slots.remove(handle.index).descriptor)
    }

    /// Closes at once, or when the last operation has ended.
    pub fn close(&mut self, handle: Handle) {
        let Some(slot) = self.slot(handle) else { return };
        slot.closing = true;
        if slot.flights == 0 {
            self.slots.remove(handle.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn descriptor() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn what_is_closed_stays_while_it_is_used_and_is_never_named_again() {
        let mut handles = Handles::default();
        let first = handles.add(descriptor());
        assert!(handles.begin(first).is_some());
        handles.close(first);
        assert_eq!((handles.begin(first), handles.slots.len()), (None, 1));
        handles.end(first);
        assert_eq!(handles.slots.len(), 0);
        let second = handles.add(descriptor());
        assert_eq!((second.index, handles.begin(first)), (first.index, None));
        handles.close(first);
        assert!(handles.begin(second).is_some());
        assert!(handles.remove(second).is_none(), "it is used");
        handles.end(second);
        assert!(handles.remove(second).is_some());
        assert!(handles.remove(second).is_none() && handles.begin(second).is_none());
        let second = handles.add(descriptor());
        let mut others = Handles::default();
        others.add(descriptor());
        assert_eq!(others.begin(second), None);
    }
}
