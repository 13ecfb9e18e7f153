//! The parts of the daemon. `main.rs` reads the arguments and puts the parts together.

pub mod alternation;
pub mod application;
pub mod assembly;
pub mod control;
pub mod daemon;
pub mod doctor;
pub mod govern;
pub mod keeper;
pub mod log;
pub mod metrics;
pub mod moment;
pub mod progress;
pub mod proposal;
mod pulse;
mod shown;
pub mod state;
pub mod status;
pub mod status_text;
mod watchdog;
