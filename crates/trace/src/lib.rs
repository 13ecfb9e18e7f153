//! Block traces: readers that stream records with bounded memory.
//!
//! This crate is apart from `sim` so that the simulator itself touches no files.

mod record;

pub use record::{Kind, Record};
