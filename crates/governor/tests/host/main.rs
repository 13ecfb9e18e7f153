//! The governor on hosts made of the simulator and of memory.

mod faults;
mod hands;
mod same_actions;
mod support;
