//! Where the last request on each device of a trace ended.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use wattio_trace::Record;
use wattio_units::splitmix64;

/// So many devices are remembered. A trace with more than that, each copy of a scaled trace
/// counted, is forgotten whole from time to time, and each device then begins with a request that
/// counts as random.
const DEVICES_MAX: usize = 1 << 20;

/// The ends of requests, to tell sequential ones from random ones as `wattio trace info` does.
#[derive(Debug, Default)]
pub struct Ends {
    ends: HashMap<u32, u64, BuildHasherDefault<DeviceHasher>>,
}

impl Ends {
    /// Whether a request begins where the last one on its device ended.
    #[inline]
    pub fn follow(&mut self, record: &Record) -> bool {
        let end = record.offset_bytes.saturating_add(u64::from(record.bytes));
        let before = self.ends.insert(record.device, end);
        if before.is_none() && self.ends.len() > DEVICES_MAX {
            self.ends.clear();
            self.ends.insert(record.device, end);
        }
        before == Some(record.offset_bytes)
    }
}

/// Mixes the number of a device: numbers that differ in their upper bits only are common.
#[derive(Debug, Default)]
pub struct DeviceHasher(u64);

impl Hasher for DeviceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = splitmix64(self.0, u64::from(byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, device: u32) {
        self.0 = splitmix64(self.0, u64::from(device));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_trace::Kind;

    #[test]
    fn memory_stays_bounded_however_many_devices_there_are() {
        let mut ends = Ends::default();
        let mut record =
            Record { time_ns: 0, offset_bytes: 0, bytes: 4096, device: 0, kind: Kind::Read };
        for device in 0..DEVICES_MAX as u32 + 10 {
            record.device = device;
            assert!(!ends.follow(&record));
        }
        assert_eq!(ends.ends.len(), 10);
        record.offset_bytes = 4096;
        assert!(ends.follow(&record), "the last ones are known");
    }
}
