//! Any text as the daemon's configuration: no panic, and a message that is not empty.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_host::DaemonConfig;

fuzz_target!(|text: &str| {
    if let Err(error) = DaemonConfig::from_toml(text) {
        assert!(!error.to_string().is_empty());
    }
});
