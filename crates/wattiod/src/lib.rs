//! The parts of the daemon. `main.rs` reads arguments and puts them together.

pub mod control;
pub mod status;
