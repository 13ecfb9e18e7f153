//! The metrics of the daemon, and the dashboard that asks for them.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod dashboard;
mod metrics;
mod status;
