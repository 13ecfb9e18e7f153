//! The parts of the daemon. `main.rs` reads arguments and puts them together.

pub mod assembly;
pub mod clock;
pub mod compared;
pub mod control;
pub mod daemon;
pub mod doctor;
pub mod govern;
mod inbox;
pub mod journal;
pub mod ledger;
pub mod log;
pub mod machine;
pub mod overhead;
pub mod progress;
pub mod service;
pub mod shadow;
pub mod state;
pub mod status;
pub mod status_text;
