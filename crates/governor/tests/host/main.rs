//! The governor on hosts made of the simulator and of memory.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod faults;
mod hands;
mod same_actions;
mod support;
