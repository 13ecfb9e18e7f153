//! The storage target's configuration file: its keys, their defaults, and what is allowed.
//!
//! Apart from the target itself, so that whoever only checks a file (Python's `wattio`) needs neither its
//! reactors nor its page.

mod address;
mod config;
mod groups;
mod idle;
mod written;

pub use address::{Address, named_twice};
pub use config::{
    Config, DEVICE_DEPTH, DEVICE_DEPTH_MAX, EXPORTS_MAX, ExportConfig, FrequencyConfig, Memory,
    Period, PolicyConfig, PowerConfig, REACTORS_MAX, SOCKET, SafetyConfig, Scrub, ServiceConfig,
    TlsConfig,
};
pub use groups::{GroupsError, check_groups};
pub use idle::Idle;
