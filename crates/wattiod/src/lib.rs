//! The parts of the daemon. `main.rs` reads arguments and puts them together.

pub mod control;
pub mod journal;
pub mod ledger;
pub mod shadow;
pub mod status;
