//! The governor on hosts made of the simulator and of memory.

#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "../conformance/mod.rs"]
mod conformance;
mod conforms;
mod faults;
mod flaps;
mod kills;
mod power;
mod same_actions;
mod shared;
mod support;
mod writer;
