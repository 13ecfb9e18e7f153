//! The storage target's configuration file: its keys, their defaults, and what is allowed.
//!
//! Apart from the target itself, so that whoever only checks a file (Python's `wattio`) needs neither its
//! reactors nor its page.

mod address;
mod config;
mod groups;
mod idle;

pub use address::{Address, named_twice};
pub use config::*;
pub use groups::{GroupsError, check_groups};
pub use idle::Idle;
