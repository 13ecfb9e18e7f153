//! Implements the governor's traits for Linux: sources of latency and utilisation, knobs, and power
//! meters. Every path is below a [`Root`], so that tests can pass in a folder.

mod kept_files;
mod root;
mod stopwatch;

pub mod clock;
pub mod config;
pub mod facts;
pub mod groups;
pub mod guards;
pub mod knobs;
pub mod ledger;
pub mod lock;
pub mod machine;
pub mod overhead;
pub mod power;
pub mod price;
pub mod processes;
pub mod programs;
pub mod shadow;
pub mod sources;
pub mod takeover;
pub mod topology;
pub mod trust;
pub mod verdict;

pub use config::DaemonConfig;
pub use machine::LinuxMachine;
pub use root::Root;
pub use stopwatch::{Stopwatch, stopwatch};
pub use topology::Topology;
