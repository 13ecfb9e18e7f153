//! Any answer of `nvme`: no panic, a state that can be asked for, and no more states than there are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::machine::nvme::{operational, power_management};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(states) = operational(bytes) {
        assert!((1..=32).contains(&states.len()));
    }
    let _ = power_management(&String::from_utf8_lossy(bytes));
});
